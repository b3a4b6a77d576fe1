//! Parses a table's location: text → scheme, authority and path, and back. Owns spelling
//! only: it opens nothing, and a location never holds a credential.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::{Component, Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use deltaplane_error::{Error, Result};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// The kind of store behind a location.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scheme {
    /// A directory of this machine's file system.
    Local,
    /// This process's memory: for tests and trials, gone when the process ends.
    Memory,
    /// Amazon S3 or a store that speaks its protocol.
    S3,
    /// Azure Blob Storage or Data Lake Storage.
    Azure,
    /// Google Cloud Storage.
    Gcs,
    /// A Hadoop file system, by its NameNode or a name service.
    Hdfs,
    /// A store of another crate or of Python, registered under its own scheme.
    Plugin,
    /// A store of the tests.
    #[cfg(test)]
    Dummy,
}

/// Every scheme name, with its store and the canonical name for display.
const NAMES: &[(&str, Scheme, &str)] = &[
    ("file", Scheme::Local, "file"),
    ("memory", Scheme::Memory, "memory"),
    ("s3", Scheme::S3, "s3"),
    ("s3a", Scheme::S3, "s3"),
    ("az", Scheme::Azure, "az"),
    ("azure", Scheme::Azure, "az"),
    ("abfs", Scheme::Azure, "abfss"),
    ("abfss", Scheme::Azure, "abfss"),
    ("gs", Scheme::Gcs, "gs"),
    ("gcs", Scheme::Gcs, "gs"),
    ("hdfs", Scheme::Hdfs, "hdfs"),
    #[cfg(test)]
    ("dummy", Scheme::Dummy, "dummy"),
];

/// The kinds of stores that are built in.
#[cfg(test)]
pub(crate) fn built_in() -> impl Iterator<Item = Scheme> {
    NAMES.iter().map(|(_, scheme, _)| *scheme)
}

/// The registered schemes.
static ADMITTED: RwLock<BTreeSet<String>> = RwLock::new(BTreeSet::new());

/// Registers a scheme; `InvalidArgument` if the text can't be one or is one of the built-in names.
pub(crate) fn admit(name: &str) -> Result<String> {
    let lower = name.to_ascii_lowercase();
    if !is_scheme(&lower) || NAMES.iter().any(|(known, _, _)| *known == lower) {
        return Err(Error::invalid_argument(format!(
            "{name:?} can't be the scheme of another store: it is built in, or isn't made of letters, digits, +, - and ."
        )));
    }
    let mut admitted = ADMITTED.write().unwrap_or_else(PoisonError::into_inner);
    admitted.insert(lower.clone());
    Ok(lower)
}

fn is_admitted(name: &str) -> bool {
    ADMITTED.read().unwrap_or_else(PoisonError::into_inner).contains(name)
}

/// Characters that other programs' URI parsers (Java's among them) accept unescaped in a path.
const URI: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/')
    .remove(b'=')
    .remove(b':')
    .remove(b'@')
    .remove(b'+')
    .remove(b',')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b';');

/// A table's parsed location. Equal locations have equal text.
#[derive(Clone)]
pub struct Location {
    scheme: Scheme,
    /// `s3://bucket`, `abfss://container@account.dfs.core.windows.net`; empty for local and memory.
    base: String,
    /// Local: absolute. Others: no slash at either end.
    path: String,
    shown: String,
    /// Whether it was written as `s3a://`, Hadoop's spelling of the same place.
    s3a: bool,
}

impl Location {
    /// Parses a path or URI.
    ///
    /// A plain path is taken literally (`~`, `%20`, `#` mean themselves) and made absolute against
    /// the working directory. In an object store the path is the key, literally too, as Hadoop, the
    /// services' own tools and their SDKs read it. Only the path of a `file:` URI is
    /// percent-decoded. Errors: `InvalidArgument` for an unknown scheme, for credentials or a query
    /// inside the location, for `..` in an object store.
    pub fn parse(text: &str) -> Result<Location> {
        Self::from_text(text, true)
    }

    /// Like [`Location::parse`] for text of which nothing is percent-encoded.
    ///
    /// # Errors
    /// As [`Location::parse`].
    pub fn from_decoded(text: &str) -> Result<Location> {
        Self::from_text(text, false)
    }

    fn from_text(text: &str, encoded: bool) -> Result<Location> {
        if text.is_empty() || text.contains('\0') {
            return Err(Error::invalid_argument(
                "a table location is empty or holds a NUL character; give a path or a URI such as s3://bucket/path",
            ));
        }
        let Some((name, rest)) = split_scheme(text) else {
            return Self::local(text);
        };
        let lower = name.to_ascii_lowercase();
        let built_in = NAMES.iter().find(|(n, _, _)| *n == lower);
        let built_in = built_in.map(|(_, scheme, shown)| (*scheme, *shown));
        let plugin = || is_admitted(&lower).then_some((Scheme::Plugin, lower.as_str()));
        let Some((scheme, shown)) = built_in.or_else(plugin) else {
            let known: Vec<_> = NAMES.iter().map(|(n, _, _)| format!("{n}://")).collect();
            return Err(Error::invalid_argument(format!(
                "there is no store for locations that begin with {name}://; use a plain path, one of {}, or register a store for it in this process",
                known.join(" ")
            )));
        };
        let s3a = lower == "s3a";
        match scheme {
            Scheme::Local if encoded => Self::local(&decode(file_path(rest)?)?),
            Scheme::Local => Self::local(file_path(rest)?),
            Scheme::Memory => Self::below(Scheme::Memory, String::new(), rest),
            scheme => {
                // The text of a query may be a secret, such as a token of Azure.
                if encoded && rest.split_once('?').is_some_and(|(_, query)| query.contains('=')) {
                    return Err(Error::invalid_argument(format!(
                        "a {name}:// location takes no query; give tokens and settings as storage options. A key with a question mark and \
                         an equals sign after it can't be a table's location"
                    )));
                }
                let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
                let base = authority_base(scheme, shown, authority)?;
                let location = Self::below(scheme, base, path)?;
                Ok(Location { s3a, ..location })
            }
        }
    }

    fn local(path: &str) -> Result<Location> {
        let path = absolute(Path::new(path))?;
        let path = path
            .to_str()
            .ok_or_else(|| {
                Error::invalid_argument(format!(
                    "the working directory {} has no UTF-8 name; give an absolute path",
                    path.display()
                ))
            })?
            .to_owned();
        Ok(Location {
            scheme: Scheme::Local,
            base: String::new(),
            shown: path.clone(),
            path,
            s3a: false,
        })
    }

    /// A location in an object store, from its base and a path with any extra slashes.
    pub(crate) fn below(scheme: Scheme, base: String, path: &str) -> Result<Location> {
        let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty() && *p != ".").collect();
        if parts.contains(&"..") {
            return Err(Error::invalid_argument(
                "a location in an object store has a '..' in its path; give the path without it",
            ));
        }
        let path = parts.join("/");
        let shown = match (scheme, path.is_empty()) {
            (Scheme::Memory, _) => format!("memory://{path}"),
            (_, true) => base.clone(),
            (_, false) => format!("{base}/{path}"),
        };
        Ok(Location {
            scheme,
            base,
            path,
            shown,
            s3a: false,
        })
    }

    /// The kind of store.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The canonical text: no credentials, no trailing slash; a local path is absolute.
    /// Parsing it gives this location again.
    pub fn as_str(&self) -> &str {
        &self.shown
    }

    /// The location as a text that parses to it and begins with a scheme: `file:///…`,
    /// percent-encoded, or `s3://bucket/key`, literal.
    pub fn uri_text(&self) -> String {
        match self.scheme {
            Scheme::Local => self.to_uri(),
            _ => self.shown.clone(),
        }
    }

    /// The percent-encoded URI, for programs that decode it, Java's `URI` among them. Not a text
    /// for [`Location::parse`].
    pub fn to_uri(&self) -> String {
        let path = utf8_percent_encode(&self.path, URI);
        match self.scheme {
            Scheme::Local => format!("file://{path}"),
            Scheme::Memory => format!("memory://{path}"),
            _ if self.path.is_empty() => self.base.clone(),
            _ => format!("{}/{path}", self.base),
        }
    }

    /// Decoded path: absolute for local, relative to bucket or container for the others.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Scheme and authority of an object store's location.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// The name after `://`: bucket, or `container@host`.
    pub(crate) fn authority(&self) -> &str {
        self.base.split_once("://").map_or("", |(_, a)| a)
    }

    /// Whether it was written as `s3a://`: the same place, but another key in a lock table.
    pub fn is_s3a(&self) -> bool {
        self.s3a
    }

    /// `other`'s path relative to this location, if it is below it.
    pub(crate) fn relative<'a>(&self, other: &'a Location) -> Option<&'a str> {
        if self.scheme != other.scheme || self.base != other.base {
            return None;
        }
        let rest = other.path.strip_prefix(self.path.as_str())?;
        let rest = match self.path.as_str() {
            "" | "/" => rest,
            _ => rest.strip_prefix('/')?,
        };
        (!rest.is_empty()).then_some(rest)
    }

    /// The directory that holds this location, and the last part of its path.
    pub(crate) fn split_last(&self) -> Result<(Location, &str)> {
        let (parent, name) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        if name.is_empty() {
            return Err(Error::invalid_argument(format!(
                "{self} is a whole store, not a file in one"
            )));
        }
        let parent = match self.scheme {
            Scheme::Local => Self::local(if parent.is_empty() { "/" } else { parent })?,
            scheme => Self::below(scheme, self.base.clone(), parent)?,
        };
        Ok((parent, name))
    }
}

/// Whether text is a URI rather than a path with a colon in it.
pub(crate) fn has_scheme(text: &str) -> bool {
    split_scheme(text).is_some()
}

/// `name://rest` or Hadoop's `file:/rest`.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    if let Some(rest) = text.strip_prefix("file:/") {
        let rest = rest.strip_prefix('/').unwrap_or_else(|| text.get(5..).unwrap_or(rest));
        return Some(("file", rest));
    }
    let (name, rest) = text.split_once("://")?;
    is_scheme(name).then_some((name, rest))
}

fn is_scheme(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic())
        && chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

/// The absolute path of a file URI, which may name this machine but no other.
fn file_path(rest: &str) -> Result<&str> {
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    if path.starts_with('/') {
        return Ok(path);
    }
    Err(Error::invalid_argument(
        "a file:// location names another machine or a relative path; write file:///absolute/path or a plain path",
    ))
}

fn decode(text: &str) -> Result<String> {
    let text = percent_decode_str(text).decode_utf8().map_err(|_| {
        Error::invalid_argument("the percent-escapes of a location don't decode to UTF-8; encode the path as UTF-8")
    })?;
    if text.contains('\0') {
        return Err(Error::invalid_argument("a location holds a NUL character"));
    }
    Ok(text.into_owned())
}

/// Checks the authority; errors don't repeat it where it may hold a credential.
fn authority_base(scheme: Scheme, name: &str, authority: &str) -> Result<String> {
    if authority.is_empty() {
        return Err(Error::invalid_argument(format!(
            "a {name}:// location names no bucket, container or server; write {name}://name/path"
        )));
    }
    let credential = match (scheme, authority.split_once('@')) {
        (Scheme::Azure, Some((container, host))) => container.contains(':') || host.contains('@'),
        // For these schemes the authority is a server, which may have a port.
        (Scheme::Hdfs | Scheme::Plugin, user) => user.is_some(),
        (_, user) => user.is_some() || authority.contains(':'),
    };
    if credential {
        return Err(Error::invalid_argument(format!(
            "a {name}:// location holds a user name, password or port; give credentials and the endpoint as storage options"
        )));
    }
    // Without an account's host Azure's two spellings mean the same container.
    let name = if scheme == Scheme::Azure && !authority.contains('@') {
        "az"
    } else {
        name
    };
    Ok(format!("{name}://{authority}"))
}

/// Absolute and normalised: no `.`, no `..`, no doubled or trailing slash. Reads the file system
/// only to resolve `..`, because the parent of a link's target isn't the directory of the link.
fn absolute(path: &Path) -> Result<PathBuf> {
    let full = std::path::absolute(path).map_err(|e| {
        Error::invalid_argument(format!(
            "the working directory can't be read ({e}), so a relative path means nothing; give an absolute one"
        ))
    })?;
    let mut out = PathBuf::new();
    for part in full.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out = std::fs::canonicalize(&out).unwrap_or(out);
                out.pop();
            }
            part => out.push(part),
        }
    }
    Ok(out)
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Location({})", self.shown)
    }
}

impl PartialEq for Location {
    fn eq(&self, other: &Self) -> bool {
        self.scheme == other.scheme && self.shown == other.shown
    }
}

impl Eq for Location {}

impl Hash for Location {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.shown.hash(state);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Names with characters that URIs escape.
    const ODD: &[&str] = &[
        "a%20b",
        "a b",
        "a+b",
        "a#b",
        "a?b",
        "a%2Fb",
        "a%25b",
        "a%b",
        "é",
        "a&b=c",
        "a[b]{c}^`|",
        "a:b",
        "a~b'c\"d",
        "a*b",
        "a@b",
        "a,b;c",
        "a!b$c(d)",
        "a%FFb",
    ];

    fn shown(text: &str) -> String {
        Location::parse(text).unwrap().to_string()
    }

    #[test]
    fn plain_paths_are_literal_and_absolute() {
        assert_eq!(shown("/a/b/"), "/a/b");
        assert_eq!(shown("/a//b/./c"), "/a/b/c");
        assert_eq!(shown("/"), "/");
        assert_eq!(shown("/a b%20#?=é\\x"), "/a b%20#?=é\\x");
        let cwd = std::env::current_dir().unwrap();
        assert_eq!(shown("t"), cwd.join("t").to_str().unwrap());
        assert_eq!(shown("~/t"), cwd.join("~/t").to_str().unwrap());
        assert_eq!(shown("/no-such-dir/../t"), "/t");
    }

    #[test]
    fn file_uris_are_decoded() {
        for text in ["file:///a/b%20c/", "file:/a/b%20c", "file://localhost/a/b c"] {
            assert_eq!(shown(text), "/a/b c", "{text}");
        }
        assert_eq!(Location::from_decoded("file:///a/b%20c").unwrap().as_str(), "/a/b%20c");
    }

    #[test]
    fn object_store_spellings_meet() {
        assert_eq!(shown("s3a://b/x/y/"), "s3://b/x/y");
        assert_eq!(shown("S3://b"), "s3://b");
        assert_eq!(shown("s3://b//x"), "s3://b/x");
        assert_eq!(shown("gcs://b/x"), "gs://b/x");
        assert_eq!(shown("abfs://c/x"), "az://c/x");
        assert_eq!(
            shown("abfs://c@acc.dfs.core.windows.net/x"),
            "abfss://c@acc.dfs.core.windows.net/x"
        );
        assert_eq!(shown("hdfs://name-node:8020//x/"), "hdfs://name-node:8020/x");
        assert_eq!(shown("memory:///x/y"), "memory://x/y");
    }

    #[test]
    fn keys_of_object_stores_are_literal() {
        for base in [
            "s3://b",
            "s3a://b",
            "az://c",
            "abfss://c@acc.dfs.core.windows.net",
            "gs://b",
            "hdfs://n:8020",
        ] {
            for name in ODD {
                let location = Location::parse(&format!("{base}/{name}/t")).unwrap();
                assert_eq!(location.path(), format!("{name}/t"), "{base}");
                assert_eq!(Location::parse(location.as_str()).unwrap(), location, "{base}");
                assert_eq!(Location::parse(&location.uri_text()).unwrap(), location, "{base}");
                let decoded = decode(&location.to_uri()).unwrap();
                assert_eq!(decoded, location.as_str(), "{base}");
            }
        }
        assert_eq!(Location::parse("memory://a%20b").unwrap().path(), "a%20b");
    }

    #[test]
    fn a_path_in_a_log_is_the_decoded_uri() {
        for name in ODD {
            let written = Location::parse(&format!("s3a://b/{name}/f")).unwrap();
            let logged = decode(&written.to_uri()).unwrap();
            assert_eq!(Location::from_decoded(&logged).unwrap(), written, "{name}");
            let local = Location::parse(&format!("/b/{name}/f")).unwrap();
            assert_eq!(Location::parse(&local.to_uri()).unwrap(), local, "{name}");
            assert_eq!(
                Location::from_decoded(&format!("file:/b/{name}/f")).unwrap(),
                local,
                "{name}"
            );
        }
    }

    #[test]
    fn schemes_from_elsewhere_are_admitted_by_name() {
        assert!(Location::parse("corp-log://b:1/x").is_err());
        assert_eq!(admit("Corp-Log").unwrap(), "corp-log");
        assert_eq!(shown("CORP-LOG://b:1/x/"), "corp-log://b:1/x");
        for taken in ["s3", "HDFS", "", "a b", "1a", "a:b"] {
            assert!(admit(taken).is_err(), "{taken}");
        }
    }

    #[test]
    fn text_and_uri_parse_back() {
        for text in [
            "/a b%20#?=é\\x'",
            "s3://b/a b%2520%23%3F=é",
            "memory://m/a%25",
            "gs://b",
            "/",
        ] {
            let location = Location::parse(text).unwrap();
            assert_eq!(Location::parse(location.as_str()).unwrap(), location, "{text}");
            assert_eq!(Location::parse(&location.uri_text()).unwrap(), location, "{text}");
        }
        assert_eq!(Location::parse("/a b%").unwrap().to_uri(), "file:///a%20b%25");
    }

    #[test]
    fn wrong_locations_are_refused_without_their_secrets() {
        for text in [
            "",
            "a\0b",
            "hdfs://hunter2hunter2@n/x",
            "viewfs://n/x",
            "s3://",
            "s3:///x",
            "file://host/x",
            "s3://b/../x",
            "s3://user:hunter2hunter2@b/x",
            "az://c/x?sig=hunter2hunter2",
            "abfss://c:hunter2hunter2@acc/x",
            "file:///%FF",
        ] {
            let e = Location::parse(text).unwrap_err();
            assert_eq!(e.kind(), deltaplane_error::Kind::InvalidArgument, "{text}");
            assert!(!format!("{e}{e:?}").contains("hunter2"), "{e}");
        }
    }

    #[test]
    fn relative_and_parent() {
        let location = |t: &str| Location::parse(t).unwrap();
        assert_eq!(location("/t").relative(&location("/t/a/b")), Some("a/b"));
        assert_eq!(location("/t").relative(&location("/tt/a")), None);
        assert_eq!(location("/").relative(&location("/a")), Some("a"));
        assert_eq!(location("s3://b").relative(&location("s3://b/a")), Some("a"));
        assert_eq!(location("s3://b").relative(&location("s3://c/a")), None);
        let file = location("s3://b/a/f");
        let (parent, name) = file.split_last().unwrap();
        assert_eq!((parent.as_str(), name), ("s3://b/a", "f"));
        assert_eq!(location("/f").split_last().unwrap().0.as_str(), "/");
    }
}
