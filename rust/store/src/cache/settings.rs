//! The cache's settings in storage options and environment: directory, size, content. Reads no
//! file. An option overrides its variable; an empty `cache_dir` means no cache.

use std::path::PathBuf;

use deltaplane_error::{Error, Result};

use crate::options::{Options, bytes, flag};

/// The option names of this file; each has an environment variable, in capitals with the prefix
/// `DELTAPLANE_`.
pub(crate) const KEYS: &[&str] = &[DIR, BYTES, DATA, CHECKPOINTS];
const DIR: &str = "cache_dir";
const BYTES: &str = "cache_bytes";
const DATA: &str = "cache_data";
const CHECKPOINTS: &str = "cache_checkpoints";

/// Enough for the logs of most tables, and a small part of a disk.
const DEFAULT_BYTES: u64 = 1 << 30;
/// A smaller cache would evict what is being read.
const LEAST_BYTES: u64 = 4 << 20;

/// The settings of a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) dir: PathBuf,
    /// The bound on bytes on the disk.
    pub(super) bytes: u64,
    /// Whether data files are cached as well.
    pub(super) data: bool,
    /// Whether copies of checkpoints are cached.
    pub(super) checkpoints: bool,
}

/// The directory of the cache that the environment asks for, if any: the variable
/// `DELTAPLANE_CACHE_DIR`, made absolute.
pub fn cache_dir() -> Option<PathBuf> {
    dir(&std::env::var(variable(DIR)).ok()?)
}

/// The settings from these options and these variables.
pub(super) fn of(options: &Options, environment: &dyn Fn(&str) -> Option<String>) -> Result<Option<Settings>> {
    let setting = |key: &str| match options.get(key) {
        Some(value) => Some((key.to_owned(), value.to_owned())),
        None => environment(&variable(key)).map(|value| (variable(key), value)),
    };
    let bytes = setting(BYTES).map_or(Ok(DEFAULT_BYTES), |(name, value)| size(&name, &value))?;
    let is_on = |key| setting(key).map_or(Ok(false), |(name, value)| flag(&name, &value));
    let (data, checkpoints) = (is_on(DATA)?, is_on(CHECKPOINTS)?);
    let dir = setting(DIR).and_then(|(_, value)| dir(&value));
    Ok(dir.map(|dir| Settings {
        dir,
        bytes,
        data,
        checkpoints,
    }))
}

/// The same options with the cache switched off.
pub(crate) fn switched_off(options: &Options) -> Options {
    let pairs = options.iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
    Options::new(pairs.chain([(DIR.to_owned(), String::new())]))
}

fn variable(key: &str) -> String {
    format!("DELTAPLANE_{}", key.to_ascii_uppercase())
}

fn dir(text: &str) -> Option<PathBuf> {
    // Without a working directory a relative path has no meaning: the process runs without a cache.
    std::path::absolute(Some(text).filter(|t| !t.is_empty())?).ok()
}

/// Parses the size of a cache.
fn size(name: &str, text: &str) -> Result<u64> {
    match bytes(name, text)? {
        bytes if bytes >= LEAST_BYTES => Ok(bytes),
        _ => Err(Error::invalid_argument(format!(
            "{name} is {text}, and a cache takes at least {LEAST_BYTES} bytes: give more, or leave {DIR} out"
        ))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn asked(options: &[(&str, &str)], environment: &[(&str, &str)]) -> Result<Option<Settings>> {
        let options = Options::new(options.iter().map(|(k, v)| (k.to_string(), v.to_string())));
        let found = |name: &str| environment.iter().find(|(k, _)| *k == name).map(|(_, v)| v.to_string());
        of(&options, &found)
    }

    #[test]
    fn nothing_is_cached_unless_a_directory_is_named() {
        assert_eq!(asked(&[], &[]).unwrap(), None);
        assert_eq!(
            asked(&[("cache_bytes", "1GiB"), ("cache_data", "true")], &[]).unwrap(),
            None
        );
        let environment = [("DELTAPLANE_CACHE_DIR", "/c")];
        assert_eq!(asked(&[("cache_dir", "")], &environment).unwrap(), None);
        let off = switched_off(&Options::new([("CACHE_DIR".to_owned(), "/d".to_owned())]));
        assert_eq!(
            of(&off, &|name| name.ends_with("DIR").then(|| "/c".to_owned())).unwrap(),
            None
        );
        let found = asked(&[], &environment).unwrap().unwrap();
        let expected = Settings {
            dir: "/c".into(),
            bytes: DEFAULT_BYTES,
            data: false,
            checkpoints: false,
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn options_beat_variables() {
        let environment = [
            ("DELTAPLANE_CACHE_DIR", "/c"),
            ("DELTAPLANE_CACHE_BYTES", "nonsense"),
            ("DELTAPLANE_CACHE_DATA", "on"),
            ("DELTAPLANE_CACHE_CHECKPOINTS", "true"),
        ];
        let found = asked(&[("cache_dir", "/d"), ("cache_bytes", "5 MB")], &environment)
            .unwrap()
            .unwrap();
        let expected = Settings {
            dir: "/d".into(),
            bytes: 5_000_000,
            data: true,
            checkpoints: true,
        };
        assert_eq!(found, expected);
        assert!(found.dir.is_absolute());
        assert!(asked(&[("cache_dir", "c")], &[]).unwrap().unwrap().dir.is_absolute());
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for (key, value) in [
            ("cache_bytes", "much"),
            ("cache_bytes", "-1"),
            ("cache_bytes", "1"),
            ("cache_bytes", "99999999999TiB"),
            ("cache_data", "maybe"),
            ("cache_checkpoints", "maybe"),
        ] {
            let e = asked(&[(key, value)], &[]).unwrap_err();
            assert!(e.to_string().contains(key), "{e}");
            let variable = format!("DELTAPLANE_{}", key.to_ascii_uppercase());
            let e = asked(&[], &[(&variable, value)]).unwrap_err();
            assert!(e.to_string().contains(&variable), "{e}");
        }
    }
}
