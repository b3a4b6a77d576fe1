//! The cache's settings in storage options and environment: directory, size, content. Reads no
//! file. An option overrides its variable; an empty `cache_dir` means no cache.

use std::path::PathBuf;

use deltaplane_error::{Error, Result};

use crate::options::{Options, bytes, flag};

/// The option names of this file; each has an environment variable, in capitals with the prefix
/// `DELTAPLANE_`.
pub(crate) const KEYS: &[&str] = &[DIR, BYTES, DATA, CHECKPOINTS, MEMORY];
const DIR: &str = "cache_dir";
const BYTES: &str = "cache_bytes";
const DATA: &str = "cache_data";
const CHECKPOINTS: &str = "cache_checkpoints";
const MEMORY: &str = "cache_memory_bytes";

/// Enough for the logs of most tables, and a small part of a disk.
const DEFAULT_BYTES: u64 = 1 << 30;
/// A smaller cache would evict what is being read.
const LEAST_BYTES: u64 = 4 << 20;

/// The log files of some hundred tables between their checkpoints.
const DEFAULT_MEMORY_BYTES: u64 = 64 << 20;

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
    let setting = |key: &str| setting(options, environment, key);
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

/// The bound of the cache in memory, in bytes: 64 MiB unless the setting `cache_memory_bytes` says
/// otherwise; 0 means no such cache.
///
/// `InvalidArgument` for text that is no number of bytes.
pub(super) fn memory_bytes(options: &Options, environment: &dyn Fn(&str) -> Option<String>) -> Result<u64> {
    let bound = setting(options, environment, MEMORY);
    bound.map_or(Ok(DEFAULT_MEMORY_BYTES), |(name, value)| bytes(&name, &value))
}

/// The same options with both caches switched off.
pub(crate) fn switched_off(options: &Options) -> Options {
    let pairs = options.iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
    let off = [(DIR.to_owned(), String::new()), (MEMORY.to_owned(), "0".to_owned())];
    Options::new(pairs.chain(off))
}

/// The name and the text of a setting: of the option, else of the variable.
fn setting(options: &Options, environment: &dyn Fn(&str) -> Option<String>, key: &str) -> Option<(String, String)> {
    match options.get(key) {
        Some(value) => Some((key.to_owned(), value.to_owned())),
        None => environment(&variable(key)).map(|value| (variable(key), value)),
    }
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
        let variables = |name: &str| environment.iter().find(|(k, _)| *k == name).map(|(_, v)| v.to_string());
        of(&options, &variables)
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
        let settings = asked(&[], &environment).unwrap().unwrap();
        let expected = Settings {
            dir: "/c".into(),
            bytes: DEFAULT_BYTES,
            data: false,
            checkpoints: false,
        };
        assert_eq!(settings, expected);
    }

    #[test]
    fn options_beat_variables() {
        let environment = [
            ("DELTAPLANE_CACHE_DIR", "/c"),
            ("DELTAPLANE_CACHE_BYTES", "nonsense"),
            ("DELTAPLANE_CACHE_DATA", "on"),
            ("DELTAPLANE_CACHE_CHECKPOINTS", "true"),
        ];
        let settings = asked(&[("cache_dir", "/d"), ("cache_bytes", "5 MB")], &environment)
            .unwrap()
            .unwrap();
        let expected = Settings {
            dir: "/d".into(),
            bytes: 5_000_000,
            data: true,
            checkpoints: true,
        };
        assert_eq!(settings, expected);
        assert!(settings.dir.is_absolute());
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

    #[test]
    fn memory_is_used_unless_it_is_set_to_zero() {
        let bound = |options: &Options, variable: Option<&str>| {
            memory_bytes(options, &|name| {
                variable
                    .filter(|_| name == "DELTAPLANE_CACHE_MEMORY_BYTES")
                    .map(str::to_owned)
            })
        };
        let none = Options::new([]);
        assert_eq!(bound(&none, None).unwrap(), 64 << 20);
        assert_eq!(bound(&none, Some("0")).unwrap(), 0);
        let option = Options::new([("cache_memory_bytes".to_owned(), "1 MiB".to_owned())]);
        assert_eq!(bound(&option, Some("0")).unwrap(), 1 << 20);
        assert_eq!(bound(&switched_off(&option), None).unwrap(), 0);
        assert!(
            bound(&none, Some("much"))
                .unwrap_err()
                .to_string()
                .contains("DELTAPLANE_CACHE_MEMORY_BYTES")
        );
    }
}
