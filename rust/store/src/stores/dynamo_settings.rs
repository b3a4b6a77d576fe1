//! The options of the DynamoDB lock table, under delta-rs's names, and the client that they
//! configure. Knows names, defaults and the environment.

use std::str::FromStr;
use std::sync::Arc;

use deltaplane_error::{Error, Kind, Result};
use object_store::aws::{AwsCredential, AwsCredentialProvider};
use object_store::client::HttpConnector;
use object_store::{ClientOptions, StaticCredentialProvider};

use super::dynamo_http::Http;
use super::dynamo_items::Items;
use super::http::Connector;
use super::settings::{Settings, check_endpoint, check_value};
use crate::error;
use crate::location::Location;
use crate::options::Options;
use crate::retry;

/// The default name of the lock table in delta-spark and delta-rs.
const DEFAULT_TABLE: &str = "delta_log";

/// An option of the lock table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Provider,
    Table,
    PathScheme,
    BillingMode,
    MaxElapsed,
    Endpoint,
    Region,
    AccessId,
    Secret,
    Token,
}

const KEYS: &[(&str, Key)] = &[
    ("aws_s3_locking_provider", Key::Provider),
    ("delta_dynamo_table_name", Key::Table),
    ("delta_dynamo_path_scheme", Key::PathScheme),
    ("delta_dynamo_billing_mode", Key::BillingMode),
    ("delta_dynamo_max_elapsed_request_time", Key::MaxElapsed),
    ("aws_endpoint_url_dynamodb", Key::Endpoint),
    ("aws_region_dynamodb", Key::Region),
    ("aws_access_key_id_dynamodb", Key::AccessId),
    ("aws_secret_access_key_dynamodb", Key::Secret),
    ("aws_session_token_dynamodb", Key::Token),
];

impl FromStr for Key {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let pair = KEYS.iter().find(|(name, _)| *name == text);
        pair.map(|(_, key)| *key).ok_or(())
    }
}

/// Settings of the S3 store that its lock table uses.
pub(super) struct Of<'a> {
    pub(super) location: &'a Location,
    pub(super) options: &'a Options,
    pub(super) credentials: &'a AwsCredentialProvider,
    pub(super) anonymous: bool,
    pub(super) region: Option<&'a str>,
    pub(super) endpoint: Option<&'a str>,
    pub(super) allow_http: bool,
    pub(super) client: ClientOptions,
    pub(super) connector: Connector,
}

/// The settings of a lock table, if one is asked for.
pub(super) fn wanted(options: &Options, environment: &[(String, String)]) -> Result<Option<Settings<Key>>> {
    let mut settings: Settings<Key> = Settings::new(options, environment, "")?;
    settings.as_a_group(&[Key::AccessId, Key::Secret, Key::Token]);
    match settings.get(Key::Provider).unwrap_or_default() {
        "" | "none" => Ok(None),
        "dynamodb" => Ok(Some(settings)),
        _ => Err(Error::invalid_argument(
            "the option aws_s3_locking_provider is neither dynamodb nor none; there is no other lock for commits",
        )),
    }
}

/// The items of the table at this location.
pub(super) fn items(settings: Settings<Key>, parent: Of<'_>) -> Result<Items> {
    let table = settings
        .get(Key::Table)
        .filter(|name| !name.is_empty())
        .unwrap_or(DEFAULT_TABLE)
        .to_owned();
    let scheme = path_scheme(&settings, parent.location)?;
    let region = settings
        .get(Key::Region)
        .or(parent.region)
        .unwrap_or("us-east-1")
        .to_owned();
    let endpoint = match settings.get(Key::Endpoint).or(parent.endpoint) {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None if region.starts_with("cn-") => format!("https://dynamodb.{region}.amazonaws.com.cn"),
        None => format!("https://dynamodb.{region}.amazonaws.com"),
    };
    check_value("aws_endpoint_url_dynamodb", &endpoint)?;
    check_endpoint(Some(&endpoint), parent.allow_http)?;
    let mut retry = retry::config(parent.options)?;
    if let Some(seconds) = settings.get(Key::MaxElapsed) {
        retry.retry_timeout = retry::duration(
            "delta_dynamo_max_elapsed_request_time",
            Some(seconds),
            retry.retry_timeout,
        )?;
    }
    let client = parent.connector.connect(&parent.client);
    let http = Http {
        client: client.map_err(|e| error::from_build(&e, &settings.redactor))?,
        endpoint: format!("{endpoint}/"),
        region,
        credentials: credentials(&settings, &parent)?,
        retry,
        redactor: settings.redactor,
    };
    let path = parent
        .location
        .base()
        .split_once("://")
        .map_or("", |(_, bucket)| bucket);
    let path = format!("{path}/{}", parent.location.path());
    Ok(Items::new(http, table, scheme, path.trim_end_matches('/')))
}

/// The scheme in the table's items: those of `s3://b/t` and `s3a://b/t` differ. Must be stated
/// where the location is written as `s3a://`, since either could be meant.
fn path_scheme(settings: &Settings<Key>, location: &Location) -> Result<&'static str> {
    match settings.get(Key::PathScheme) {
        Some("s3") => Ok("s3"),
        Some("s3a") => Ok("s3a"),
        Some(_) => Err(Error::invalid_argument(
            "the option delta_dynamo_path_scheme is neither s3 nor s3a",
        )),
        None if location.is_s3a() => Err(Error::invalid_argument(
            "with a lock table the scheme of the location is part of its key: set the option delta_dynamo_path_scheme to s3a if the table's other writers, such as delta-spark, name it s3a://, or to s3",
        )),
        None => Ok("s3"),
    }
}

fn credentials(settings: &Settings<Key>, table: &Of<'_>) -> Result<AwsCredentialProvider> {
    if let (Some(id), Some(secret)) = (settings.get(Key::AccessId), settings.get(Key::Secret)) {
        return Ok(Arc::new(StaticCredentialProvider::new(AwsCredential {
            key_id: id.to_owned(),
            secret_key: secret.to_owned(),
            token: settings.get(Key::Token).map(str::to_owned),
        })));
    }
    if table.anonymous {
        return Err(Error::new(
            Kind::StoreDenied,
            "DynamoDB takes no anonymous requests: set aws_access_key_id_dynamodb and aws_secret_access_key_dynamodb",
        ));
    }
    Ok(Arc::clone(table.credentials))
}

/// The option names, for suggestions and checks.
pub(super) fn knows(key: &str) -> bool {
    Key::from_str(key).is_ok()
}
