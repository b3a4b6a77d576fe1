//! The storage options that say which catalog has a table, and with which token: read from the
//! options of a call, else from the environment. No message and no `Debug` shows a token.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use deltaplane_error::{Error, Result};
use deltaplane_store::Location;

use crate::catalog::REPORT_DELAY;
use crate::client::Token;
use crate::error::{CatalogError, ErrorType};
use crate::secret::Secret;

/// The catalog's URL: `https://…`, `http://…`, `sqlite:///path` or `postgresql://…`.
const CATALOG: &str = "catalog";
/// The token itself.
const TOKEN: &str = "catalog_token";
/// A file with the token, read again when the server refuses the last one.
const TOKEN_FILE: &str = "catalog_token_file";
/// The name of the application's function that returns the token.
const TOKEN_PROVIDER: &str = "catalog_token_provider";
/// Where an embedded catalog puts managed tables, unless their catalog or schema says it.
const STORAGE_ROOT: &str = "catalog_storage_root";
/// Seconds after a version was published until its catalog is notified of it at the latest; 0 for
/// before the commit returns.
const PUBLICATION_REPORT: &str = "catalog_publication_report";
/// The longest time until a report.
const LONGEST_REPORT: Duration = Duration::from_secs(24 * 3600);
/// All options of catalogs. The stores of tables don't get them.
const OPTIONS: [&str; 6] = [
    CATALOG,
    TOKEN,
    TOKEN_FILE,
    TOKEN_PROVIDER,
    STORAGE_ROOT,
    PUBLICATION_REPORT,
];

/// Pairs of variables: a server's URL, and the token for that server and no other.
const VARIABLES: [(&str, &str); 2] = [
    ("UNITY_CATALOG_URI", "UNITY_CATALOG_TOKEN"),
    ("DATABRICKS_HOST", "DATABRICKS_TOKEN"),
];
/// The variable that names a file with the token of `UNITY_CATALOG_URI`.
const TOKEN_FILE_VARIABLE: &str = "UNITY_CATALOG_TOKEN_FILE";

/// Calls the application's function of a name for a token.
pub type TokenProvider = Box<dyn Fn(&str) -> Result<String> + Send + Sync>;

static PROVIDER: OnceLock<TokenProvider> = OnceLock::new();

/// Sets who calls the functions that the option `catalog_token_provider` names; the first one
/// stays.
pub fn set_token_provider(provider: TokenProvider) {
    if PROVIDER.set(provider).is_err() {
        tracing::debug!("the process has a source of catalogs' tokens already; it is kept");
    }
}

/// Where a catalog is, and how requests to it are authorized. Equal settings share a connection.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CatalogSettings {
    /// The URL, with an absolute path for SQLite.
    url: String,
    token: TokenSource,
    storage_root: Option<String>,
    report_delay: Duration,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum TokenSource {
    Absent,
    Fixed(String),
    Variable(&'static str),
    File(PathBuf),
    Provider(String),
}

/// What a URL leads to.
pub(super) enum Kind {
    Server,
    Database,
}

impl CatalogSettings {
    /// Takes the options of catalogs out of the options of a call. A missing URL or token is looked
    /// up in the environment.
    ///
    /// # Errors
    /// `InvalidArgument` without a catalog, and for options that contradict each other.
    pub fn take(options: &mut HashMap<String, String>) -> Result<Self> {
        let mut taken: HashMap<&str, String> = HashMap::new();
        options.retain(|key, value| match option_of(key) {
            Some(option) => {
                taken.insert(option, std::mem::take(value));
                false
            }
            None => true,
        });
        let url = taken.remove(CATALOG).filter(|url| !url.trim().is_empty());
        let url = url
            .map(|url| url.trim().to_owned())
            .or_else(|| VARIABLES.iter().find_map(|(uri, _)| variable(uri)).map(with_scheme));
        let Some(url) = url else {
            return Err(Error::invalid_argument(
                "a table's name begins with uc:// and no catalog is given: add the storage option catalog, such as https://host, sqlite:///lake.db or postgresql://host/database, or set UNITY_CATALOG_URI",
            ));
        };
        let sources: Vec<&str> = [TOKEN, TOKEN_FILE, TOKEN_PROVIDER]
            .into_iter()
            .filter(|option| taken.contains_key(option))
            .collect();
        if sources.len() > 1 {
            return Err(Error::invalid_argument(format!(
                "the options {} each give the catalog's token: give one of them",
                sources.join(" and ")
            )));
        }
        let settings = CatalogSettings {
            token: match () {
                () if taken.contains_key(TOKEN) => TokenSource::Fixed(taken.remove(TOKEN).unwrap_or_default()),
                () if taken.contains_key(TOKEN_FILE) => {
                    TokenSource::File(PathBuf::from(taken.remove(TOKEN_FILE).unwrap_or_default()))
                }
                () if taken.contains_key(TOKEN_PROVIDER) => {
                    TokenSource::Provider(taken.remove(TOKEN_PROVIDER).unwrap_or_default())
                }
                () => of_environment(&url),
            },
            storage_root: taken.remove(STORAGE_ROOT),
            report_delay: taken
                .remove(PUBLICATION_REPORT)
                .map_or(Ok(REPORT_DELAY), |text| seconds(&text))?,
            url: absolute(&url)?,
        };
        let has_token = !matches!(settings.token, TokenSource::Absent | TokenSource::Variable(_));
        match settings.kind()? {
            Kind::Database if has_token => Err(Error::invalid_argument(
                "a catalog in a database takes no token: who can open the database owns the catalog",
            )),
            _ => Ok(settings),
        }
    }

    /// How long after a version was published the catalog is notified of it at the latest.
    pub(super) fn report_delay(&self) -> Duration {
        self.report_delay
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn kind(&self) -> Result<Kind> {
        let scheme = self.url.split("://").next().unwrap_or_default();
        match scheme.to_ascii_lowercase().as_str() {
            "http" | "https" => Ok(Kind::Server),
            "sqlite" | "postgresql" | "postgres" => Ok(Kind::Database),
            // The URL may hold a password: the message doesn't repeat it.
            _ => Err(Error::invalid_argument(
                "a catalog is https://host, http://host:port, sqlite:///path or postgresql://host/database",
            )),
        }
    }

    /// The catalog as messages name it: a URL without user, password and parameters.
    pub(super) fn shown(&self) -> String {
        let (scheme, rest) = self.url.split_once("://").unwrap_or_default();
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let (authority, path) = match rest.find('/') {
            Some(slash) => rest.split_at(slash),
            None => (rest, ""),
        };
        let host = authority.rsplit('@').next().unwrap_or_default();
        format!("the catalog {scheme}://{host}{path}")
    }

    /// Where an embedded catalog puts managed tables.
    pub(super) fn storage_root(&self) -> Result<Option<String>> {
        if let Some(root) = &self.storage_root {
            return Ok(Some(Location::parse(root)?.uri_text()));
        }
        match self.url.strip_prefix("sqlite:///") {
            Some(path) => Ok(Some(Location::parse(&format!("{path}.tables"))?.uri_text())),
            None => Ok(None),
        }
    }

    pub(super) fn token(&self) -> Token {
        let provided = |read: Box<dyn Fn() -> Result<String, CatalogError> + Send + Sync>| {
            Token::Provided(Arc::new(move || match read()?.trim() {
                "" => Err(denied("the catalog's token is empty".to_owned())),
                token => Ok(Secret::new(token)),
            }))
        };
        match self.token.clone() {
            TokenSource::Absent => Token::Absent,
            TokenSource::Fixed(token) => Token::Fixed(Secret::new(token.trim())),
            TokenSource::Variable(name) => provided(Box::new(move || {
                variable(name).ok_or_else(|| denied(format!("the variable {name} has no token any more")))
            })),
            TokenSource::File(path) => provided(Box::new(move || {
                std::fs::read_to_string(&path)
                    .map_err(|e| denied(format!("the file of the catalog's token can't be read ({})", e.kind())))
            })),
            TokenSource::Provider(name) => provided(Box::new(move || match PROVIDER.get() {
                Some(call) => call(&name).map_err(|e| denied(e.message().to_owned())),
                None => Err(denied(
                    "nobody in this process calls a catalog_token_provider".to_owned(),
                )),
            })),
        }
    }
}

impl std::fmt::Debug for CatalogSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown())
    }
}

/// Takes the options of catalogs out.
pub(super) fn remove(options: &mut HashMap<String, String>) {
    options.retain(|key, _| option_of(key).is_none());
}

fn option_of(key: &str) -> Option<&'static str> {
    OPTIONS.iter().copied().find(|option| key.eq_ignore_ascii_case(option))
}

/// The time until a report.
fn seconds(text: &str) -> Result<Duration> {
    let seconds = text.trim().parse::<f64>().ok();
    let delay = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    match delay.filter(|delay| *delay <= LONGEST_REPORT) {
        Some(delay) => Ok(delay),
        None => Err(Error::invalid_argument(format!(
            "the option {PUBLICATION_REPORT} is a number of seconds from 0 to {}, such as 0.5, not {text:?}",
            LONGEST_REPORT.as_secs()
        ))),
    }
}

fn denied(message: String) -> CatalogError {
    CatalogError::new(ErrorType::NotAuthorized, message)
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.trim().is_empty())
}

/// Databricks' variable may have the host alone.
fn with_scheme(url: String) -> String {
    match url.contains("://") {
        true => url,
        false => format!("https://{url}"),
    }
}

/// A token of the environment goes to the server that the environment names, and to no other.
fn of_environment(url: &str) -> TokenSource {
    let origin = |text: &str| {
        let parsed = url::Url::parse(&with_scheme(text.trim().to_owned())).ok()?;
        parsed.host_str().map(|_| parsed.origin())
    };
    let same = |uri: &str| variable(uri).is_some_and(|own| origin(&own).is_some() && origin(&own) == origin(url));
    for (uri, token) in VARIABLES {
        if same(uri) && variable(token).is_some() {
            return TokenSource::Variable(token);
        }
    }
    match variable(TOKEN_FILE_VARIABLE) {
        Some(path) if same("UNITY_CATALOG_URI") => TokenSource::File(PathBuf::from(path)),
        _ => TokenSource::Absent,
    }
}

/// A relative path of SQLite, made absolute: the process may change its directory later.
fn absolute(url: &str) -> Result<String> {
    let Some(path) = url.strip_prefix("sqlite:///") else {
        return Ok(url.to_owned());
    };
    if path.is_empty() {
        return Err(Error::invalid_argument(
            "a catalog in SQLite is sqlite:///path, with the path of its file",
        ));
    }
    let path = std::path::absolute(path)
        .map_err(|e| Error::invalid_argument(format!("the path of the catalog's file can't be resolved: {e}")))?;
    match path.to_str() {
        Some(path) => Ok(format!("sqlite:///{path}")),
        None => Err(Error::invalid_argument("the path of the catalog's file isn't UTF-8")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn taken(pairs: &[(&str, &str)]) -> Result<(CatalogSettings, HashMap<String, String>)> {
        let mut options: HashMap<_, _> = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        CatalogSettings::take(&mut options).map(|settings| (settings, options))
    }

    #[test]
    fn options_of_the_catalog_are_taken_and_others_left() {
        let (settings, rest) = taken(&[
            ("Catalog", "https://u:p@host/x?key=1"),
            ("catalog_token", "hush"),
            ("aws_region", "eu-north-1"),
        ])
        .unwrap();
        assert_eq!(rest.into_keys().collect::<Vec<_>>(), ["aws_region"]);
        assert_eq!(format!("{settings:?}"), "the catalog https://host/x");
        assert!(matches!(settings.token(), Token::Fixed(_)));
    }

    #[test]
    fn the_time_until_a_report_is_in_seconds() {
        let delay = |pairs: &[(&str, &str)]| taken(pairs).unwrap().0.report_delay();
        assert_eq!(delay(&[("catalog", "https://host")]), Duration::from_secs(1));
        let options = [("catalog", "https://host"), ("catalog_publication_report", "0.25")];
        assert_eq!(delay(&options), Duration::from_millis(250));
        let options = [("catalog", "https://host"), ("catalog_publication_report", "0")];
        assert!(delay(&options).is_zero());
    }

    #[test]
    fn wrong_options_are_refused_without_their_values() {
        for pairs in [
            &[("catalog", "ftp://hush@host")][..],
            &[("catalog", "sqlite:///")],
            &[("catalog", "sqlite:///lake.db"), ("catalog_token", "hush")],
            &[("catalog", "sqlite:///lake.db"), ("catalog_publication_report", "-1")],
            &[("catalog", "sqlite:///lake.db"), ("catalog_publication_report", "soon")],
            &[("catalog", "sqlite:///lake.db"), ("catalog_publication_report", "inf")],
            &[
                ("catalog", "https://host"),
                ("catalog_token", "hush"),
                ("catalog_token_file", "f"),
            ],
        ] {
            let error = taken(pairs).err().unwrap();
            assert!(!error.message().contains("hush"), "{error}");
        }
    }

    #[test]
    fn a_database_beside_names_the_folder_of_its_tables() {
        let (settings, _) = taken(&[("catalog", "sqlite:///lake.db")]).unwrap();
        assert!(settings.url().starts_with("sqlite:////"), "{settings:?}");
        let root = settings.storage_root().unwrap().unwrap();
        assert!(root.ends_with("/lake.db.tables"), "{root}");
        let (settings, _) = taken(&[("catalog", "sqlite:///lake.db"), ("catalog_storage_root", "s3://b/t")]).unwrap();
        assert_eq!(settings.storage_root().unwrap().unwrap(), "s3://b/t");
        let (settings, _) = taken(&[("catalog", "postgresql://u:hush@host/db")]).unwrap();
        assert_eq!(settings.storage_root().unwrap(), None);
        assert_eq!(settings.shown(), "the catalog postgresql://host/db");
    }
}
