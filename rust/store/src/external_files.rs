//! Files that a log names outside its table: refused unless the options allow their location, or
//! this process created the table as a clone. A log may come from anybody, and is read with the
//! credentials of the user who opens the table. Opens nothing.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{LazyLock, Mutex, PoisonError};

use deltaplane_error::{Error, Result};

use crate::location::{Location, Scheme};
use crate::options::Options;

/// The option: locations, separated by commas, below which a log may name files.
pub(crate) const ALLOW_EXTERNAL_FILES: &str = "allow_external_files";

/// The shallow clones that this process created, with their sources. A log can't extend this list,
/// and other processes don't have it.
static CLONES: LazyLock<Mutex<HashMap<String, HashMap<String, Location>>>> = LazyLock::new(Mutex::default);

/// Lets a table's log name files below its source, and those that the source itself, opened with
/// these options, may name.
pub(crate) fn trust(table: &Location, source: &Location, options: &Options) -> Result<()> {
    let own = std::iter::once(Ok(source.clone()));
    let sources: Vec<Location> = own.chain(allowed(options)).collect::<Result<_>>()?;
    let mut clones = CLONES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut trusted = clones.get(source.as_str()).cloned().unwrap_or_default();
    trusted.extend(sources.into_iter().map(|l| (l.as_str().to_owned(), l)));
    clones.entry(table.as_str().to_owned()).or_default().extend(trusted);
    Ok(())
}

fn is_trusted(table: &Location, file: &Location) -> bool {
    let clones = CLONES.lock().unwrap_or_else(PoisonError::into_inner);
    let sources = clones.get(table.as_str());
    sources.is_some_and(|sources| sources.values().any(|source| source.relative(file).is_some()))
}

/// The locations that the options allow.
fn allowed(options: &Options) -> impl Iterator<Item = Result<Location>> {
    let places = options.get(ALLOW_EXTERNAL_FILES).unwrap_or_default().split(',');
    let places = places.map(str::trim).filter(|place| !place.is_empty());
    places.map(Location::parse)
}

/// Refuses a file outside the table that isn't allowed; the error says how to allow it.
pub(crate) fn check(table: &Location, options: &Options, file: &Location) -> Result<()> {
    if is_trusted(table, file) {
        return Ok(());
    }
    for place in allowed(options) {
        if place?.relative(file).is_some() {
            return Ok(());
        }
    }
    let place = file.split_last()?.0;
    Err(Error::invalid_argument(format!(
        "the log names a file outside the table: {file}. A shallow clone does so, and so does a log that was made to have other people's files read. If you trust whoever writes the table, allow the place by the storage option {ALLOW_EXTERNAL_FILES}={place} (locations, separated by commas)"
    )))
}

/// The key of a local file that is in the table although its path begins differently, because one
/// of the two paths contains a link.
pub(crate) fn through_link(table: &Location, file: &Location) -> Option<String> {
    if table.scheme() != Scheme::Local || file.scheme() != Scheme::Local {
        return None;
    }
    let root = std::fs::canonicalize(table.path()).ok()?;
    let file = Path::new(file.path());
    let directory = std::fs::canonicalize(file.parent()?).ok()?;
    let inside = directory.strip_prefix(root).ok()?.join(file.file_name()?);
    inside.to_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use deltaplane_error::Kind;

    use super::*;

    fn checked(allowed: &str, file: &str) -> Result<()> {
        let options = Options::new([(ALLOW_EXTERNAL_FILES.to_owned(), allowed.to_owned())]);
        check(
            &Location::parse("/table").unwrap(),
            &options,
            &Location::parse(file).unwrap(),
        )
    }

    #[test]
    fn a_clone_of_this_process_may_name_its_sources_files() {
        let location = |path: &str| Location::parse(path).unwrap();
        let options = Options::default();
        let may = |table: &str, file: &str| check(&location(table), &options, &location(file)).is_ok();
        trust(&location("/trusting/clone"), &location("/trusted/source"), &options).unwrap();
        trust(&location("/trusting/again"), &location("/trusting/clone"), &options).unwrap();
        let allowed = Options::new([(ALLOW_EXTERNAL_FILES.to_owned(), "/trusted/elsewhere".to_owned())]);
        trust(&location("/trusting/third"), &location("/trusting/again"), &allowed).unwrap();
        assert!(may("/trusting/third", "/trusted/source/f") && may("/trusting/third", "/trusted/elsewhere/f"));
        assert!(may("/trusting/clone", "/trusted/source/p=1/f"));
        assert!(may("/trusting/again", "/trusted/source/f") && may("/trusting/again", "/trusting/clone/f"));
        assert!(!may("/trusting/clone", "/trusted/other/f") && !may("/trusting/other", "/trusted/source/f"));
        assert!(!may("/trusted/source", "/trusting/clone/f"));
    }

    #[test]
    fn only_what_lies_below_an_allowed_place_is_allowed() {
        for (allowed, file) in [
            ("/source", "/source/a/b.parquet"),
            ("file:///source/", "/source/b.parquet"),
            ("s3://bucket, /source", "/source/b.parquet"),
            ("s3a://bucket/deep", "s3://bucket/deep/b.parquet"),
            ("s3://bucket", "s3://bucket/b.parquet"),
            ("/", "/any/where"),
        ] {
            checked(allowed, file).unwrap();
        }
        for (allowed, file) in [
            ("", "/source/b.parquet"),
            (" , ", "/source/b.parquet"),
            ("/source", "/sources/b.parquet"),
            ("/source", "/etc/passwd"),
            ("/source/b.parquet", "/source/b.parquet"),
            ("s3://bucket/deep", "s3://bucket/deeper/b.parquet"),
            ("s3://bucket", "s3://other/b.parquet"),
            ("true", "/etc/passwd"),
        ] {
            let e = checked(allowed, file).unwrap_err();
            assert_eq!(e.kind(), Kind::InvalidArgument, "{allowed} {file}");
            assert!(e.message().contains(ALLOW_EXTERNAL_FILES), "{e}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_the_table_is_the_table() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        std::fs::create_dir_all(path("table/p=1")).unwrap();
        std::os::unix::fs::symlink(path("table"), path("link")).unwrap();
        let located = |name: &str| Location::parse(&path(name)).unwrap();
        for (table, file) in [("table", "link/p=1/f"), ("link", "table/p=1/f")] {
            assert_eq!(through_link(&located(table), &located(file)).as_deref(), Some("p=1/f"));
        }
        assert_eq!(through_link(&located("table/p=1"), &located("link/f")), None);
        assert_eq!(through_link(&located("table"), &located("gone/f")), None);
    }
}
