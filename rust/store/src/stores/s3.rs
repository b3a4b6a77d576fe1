//! Tables on Amazon S3 and stores that speak its protocol, with conditional puts for commits.
//! Owns S3's options, credentials and defaults; how bytes move is `objects`.

use std::str::FromStr;
use std::sync::Arc;

use deltaplane_error::{Error, Result};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey as Key, AwsCredential};
use object_store::{ClientConfigKey as Client, ClientOptions};
use url::{Host, Url};

use super::Spec;
use super::dynamo::Dynamo;
use super::dynamo_settings;
use super::objects::Objects;
use super::settings::{self, Settings, check_endpoint};
use crate::backend::Backend;
use crate::error;
use crate::location::{Location, Scheme};
use crate::options::Options;
use crate::retry;

pub(super) const SPEC: Spec = Spec {
    scheme: Scheme::S3,
    knows: |key| Key::from_str(key).is_ok() || dynamo_settings::knows(key),
    names: &[
        "aws_access_key_id",
        "aws_secret_access_key",
        "aws_session_token",
        "aws_region",
        "aws_endpoint_url",
        "aws_allow_http",
        "aws_skip_signature",
        "aws_virtual_hosted_style_request",
        "aws_conditional_put",
        "aws_web_identity_token_file",
        "aws_role_arn",
        "aws_s3_locking_provider",
        "delta_dynamo_table_name",
        "delta_dynamo_path_scheme",
        "aws_endpoint_url_dynamodb",
        "access_key_id",
        "secret_access_key",
        "session_token",
        "region",
        "endpoint_url",
        "allow_http",
        "skip_signature",
        "conditional_put",
        "timeout",
        "connect_timeout",
        "proxy_url",
    ],
    open: |location, options| open(location, options, &settings::environment()),
};

/// Every setting that selects the credential.
const CREDENTIALS: &[Key] = &[
    Key::AccessKeyId,
    Key::SecretAccessKey,
    Key::Token,
    Key::WebIdentityTokenFile,
    Key::ContainerCredentialsRelativeUri,
    Key::ContainerCredentialsFullUri,
    Key::ContainerAuthorizationTokenFile,
    Key::SkipSignature,
];

fn open(location: &Location, options: &Options, environment: &[(String, String)]) -> Result<Arc<dyn Backend>> {
    let settings = settings(options, environment)?;
    settings::install_crypto();
    let mut builder = AmazonS3Builder::new();
    for (key, value) in settings.pairs() {
        builder = builder.with_config(key, value);
    }
    if settings.is_on(Key::VirtualHostedStyleRequest, "aws_virtual_hosted_style_request")? {
        for key in [Key::Endpoint, Key::S3Endpoint] {
            if let Some(endpoint) = settings.get(key) {
                builder = builder.with_config(key, virtual_host(endpoint, location.authority())?);
            }
        }
    }
    let provided = settings.provided::<AwsCredential>("");
    if let Some(provided) = &provided {
        builder = builder.with_credentials(Arc::clone(provided) as _);
    }
    let express = settings.is_on(Key::S3Express, "aws_s3_express")?;
    // S3 Express signs with session credentials that it requests itself.
    let renew = || settings.connector(provided.clone().filter(|_| !express));
    let store = builder
        .with_bucket_name(location.authority())
        .with_retry(retry::config(options)?)
        .with_http_connector(renew())
        .build()
        .map_err(|e| error::from_build(&e, &settings.redactor))?;
    let lock = dynamo_settings::wanted(options, environment)?;
    let lock = lock
        .map(|lock| {
            let table = dynamo_settings::Of {
                location,
                options,
                credentials: store.credentials(),
                anonymous: settings.is_on(Key::SkipSignature, "aws_skip_signature")?,
                region: settings.get(Key::Region).or(settings.get(Key::DefaultRegion)),
                endpoint: settings.get(Key::Endpoint),
                allow_http: settings.is_on(Key::Client(Client::AllowHttp), "allow_http")?,
                client: client_options(&settings),
                connector: renew(),
            };
            dynamo_settings::items(lock, table)
        })
        .transpose()?;
    let conditional = settings.get(Key::ConditionalPut) != Some("disabled");
    let objects = Objects::new(Arc::new(store), location, settings.redactor)?;
    let objects = if express { objects.unordered() } else { objects };
    Ok(match lock {
        None => Arc::new(objects),
        Some(items) => Arc::new(Dynamo {
            objects,
            items,
            conditional,
        }),
    })
}

/// The endpoint whose host names the bucket, as virtual-hosted requests need it: an endpoint that
/// doesn't begin with the bucket's name yet gets it.
fn virtual_host(endpoint: &str, bucket: &str) -> Result<String> {
    let refused = |why: &str| {
        Error::invalid_argument(format!(
            "the option aws_virtual_hosted_style_request is true, but {why}: leave it out, so that the bucket's name is put into the path"
        ))
    };
    let mut url = Url::parse(endpoint).map_err(|_| refused("aws_endpoint_url isn't a URL"))?;
    let host = match url.host() {
        Some(Host::Domain(host)) => host.to_owned(),
        _ => {
            return Err(refused(
                "aws_endpoint_url is an IP address, which can't be preceded by a bucket's name",
            ));
        }
    };
    let names_bucket = host
        .strip_prefix(bucket)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    if !names_bucket {
        url.set_host(Some(&format!("{bucket}.{host}")))
            .map_err(|_| refused("the bucket's name can't be a part of a host's name"))?;
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// The HTTP client's own settings: time-outs, proxy, plain http.
fn client_options(settings: &Settings<Key>) -> ClientOptions {
    let set = |client: ClientOptions, (key, value): (Key, &str)| match key {
        Key::Client(key) => client.with_config(key, value),
        _ => client,
    };
    settings.pairs().fold(ClientOptions::new(), set)
}

fn settings(options: &Options, environment: &[(String, String)]) -> Result<Settings<Key>> {
    let mut settings: Settings<Key> = Settings::new(options, environment, "AWS_")?;
    settings.check_values()?;
    settings.as_a_group(CREDENTIALS);
    settings.ask_the_provider(CREDENTIALS)?;
    // The builder prefers the S3-only endpoint, so the environment's would beat the options'.
    settings.as_a_group(&[Key::Endpoint, Key::S3Endpoint]);
    settings.as_a_group(&[Key::Region, Key::DefaultRegion]);
    settings.default(Key::Client(Client::ConnectTimeout), settings::CONNECT_TIMEOUT);
    settings.default(Key::Client(Client::Timeout), settings::REQUEST_TIMEOUT);
    let anonymous = settings.is_on(Key::SkipSignature, "aws_skip_signature")?;
    let credentials = anonymous
        || settings.has(Key::AccessKeyId)
        || settings.has(Key::SecretAccessKey)
        || settings.all(&[Key::WebIdentityTokenFile, Key::RoleArn])
        || settings.has(Key::ContainerCredentialsRelativeUri)
        || settings.all(&[Key::ContainerCredentialsFullUri, Key::ContainerAuthorizationTokenFile]);
    settings.require_credentials(
        credentials,
        "aws_access_key_id and aws_secret_access_key, or aws_web_identity_token_file and aws_role_arn, or for a public bucket aws_skip_signature=true (or a profile of the shared files, by AWS_PROFILE)",
    )?;
    let endpoint = settings.get(Key::S3Endpoint).or(settings.get(Key::Endpoint));
    let allow_http = settings.is_on(Key::Client(Client::AllowHttp), "allow_http")?;
    check_endpoint(endpoint, allow_http)?;
    Ok(settings)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use deltaplane_error::Kind;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
    }

    fn merged(options: &[(&str, &str)], environment: &[(&str, &str)]) -> Result<Settings<Key>> {
        settings(&Options::new(pairs(options)), &pairs(environment))
    }

    fn opened(options: &[(&str, &str)]) -> Option<Error> {
        let location = Location::parse("s3://bucket/t").unwrap();
        open(&location, &Options::new(pairs(options)), &[]).err()
    }

    #[test]
    fn no_credentials_fail_at_once_and_say_what_to_set() {
        let e = opened(&[("region", "eu-west-1")]).unwrap();
        assert_eq!(e.kind(), Kind::StoreDenied);
        for name in ["aws_access_key_id", "aws_skip_signature", "allow_instance_metadata"] {
            assert!(e.to_string().contains(name), "{e}");
        }
        assert!(opened(&[("aws_role_arn", "arn:x")]).is_some());
        for option in ["allow_instance_metadata", "skip_signature", "AWS_SKIP_SIGNATURE"] {
            assert!(opened(&[(option, "true")]).is_none(), "{option}");
        }
        assert!(opened(&[("access_key_id", "abcd"), ("secret_access_key", "efgh")]).is_none());
    }

    #[test]
    fn half_credentials_and_bad_values_are_refused_without_showing_them() {
        for options in [
            &[("aws_secret_access_key", "hunter2hunter2")][..],
            &[("aws_access_key_id", "hunter2hunter2")],
            &[("skip_signature", "true"), ("timeout", "hunter2hunter2")],
            &[("skip_signature", "maybe")],
            &[("skip_signature", "true"), ("endpoint", "http://x")],
            &[("skip_signature", "true"), ("max_retries", "-1")],
        ] {
            let e = opened(options).unwrap();
            assert_eq!(e.kind(), Kind::InvalidArgument, "{options:?} {e}");
            let secret = options.iter().any(|(k, _)| k.contains("access_key"));
            assert!(!(secret && format!("{e} {e:?}").contains("hunter2")), "{e}");
        }
    }

    #[test]
    fn virtual_hosted_requests_go_to_the_buckets_own_host() {
        for (endpoint, expected) in [
            ("https://s3.example.com", "https://bucket.s3.example.com"),
            ("http://localhost:9000/", "http://bucket.localhost:9000"),
            ("https://bucket.s3.example.com", "https://bucket.s3.example.com"),
            ("https://bucket", "https://bucket"),
            ("https://buckets.example.com/p", "https://bucket.buckets.example.com/p"),
        ] {
            assert_eq!(virtual_host(endpoint, "bucket").unwrap(), expected, "{endpoint}");
        }
        for endpoint in ["http://127.0.0.1:9000", "http://[::1]:9000"] {
            let virtual_hosted = [
                ("skip_signature", "true"),
                ("allow_http", "true"),
                ("aws_virtual_hosted_style_request", "true"),
                ("endpoint_url", endpoint),
            ];
            let e = opened(&virtual_hosted).unwrap();
            assert_eq!(e.kind(), Kind::InvalidArgument);
            assert!(e.message().contains("into the path"), "{e}");
        }
    }

    #[test]
    fn options_beat_the_environment_as_groups() {
        let s = merged(
            &[
                ("aws_access_key_id", "mine"),
                ("aws_secret_access_key", "mine too"),
                ("endpoint_url", "https://mine"),
                ("region", "here"),
            ],
            &[
                ("AWS_ACCESS_KEY_ID", "theirs"),
                ("AWS_SESSION_TOKEN", "theirs"),
                ("AWS_ENDPOINT_URL_S3", "https://theirs"),
                ("AWS_DEFAULT_REGION", "there"),
                ("AWS_REQUEST_PAYER", "true"),
                ("aws_skip_signature", "true"),
            ],
        )
        .unwrap();
        assert_eq!(s.get(Key::AccessKeyId), Some("mine"));
        assert_eq!(s.get(Key::Token), None);
        assert_eq!(s.get(Key::S3Endpoint), None);
        assert_eq!(s.get(Key::Endpoint), Some("https://mine"));
        assert_eq!(s.get(Key::DefaultRegion), None);
        assert_eq!(s.get(Key::RequestPayer), Some("true"));
        assert_eq!(s.pairs().filter(|(k, _)| *k == Key::AccessKeyId).count(), 1);
    }

    #[test]
    fn the_environment_alone_is_enough() {
        let s = merged(
            &[],
            &[
                ("AWS_ACCESS_KEY_ID", "id"),
                ("AWS_SECRET_ACCESS_KEY", "environment-secret"),
            ],
        )
        .unwrap();
        assert_eq!(s.get(Key::AccessKeyId), Some("id"));
        assert_eq!(s.redactor.scrub("environment-secret"), "[redacted]");
        assert_eq!(s.get(Key::Client(Client::ConnectTimeout)), Some("5s"));
    }
}
