//! Files that a table's log names outside the table: refused unless the options allow their place.
//! A log is other people's text, and what it names is read with the credentials of whoever opens the table.
//! Called by `Store::resolve`; knows locations and options, opens nothing.

use std::path::Path;

use deltaplane_error::{Error, Result};

use crate::location::{Location, Scheme};
use crate::options::Options;

/// The option: locations, separated by commas, below which a log may name files.
pub(crate) const ALLOW_EXTERNAL_FILES: &str = "allow_external_files";

/// Whether the options allow a file outside the table; the refusal says how to allow it.
pub(crate) fn check(options: &Options, file: &Location) -> Result<()> {
    for place in options.get(ALLOW_EXTERNAL_FILES).unwrap_or_default().split(',') {
        let place = place.trim();
        if !place.is_empty() && Location::parse(place)?.relative(file).is_some() {
            return Ok(());
        }
    }
    let place = file.split_last()?.0;
    Err(Error::invalid_argument(format!(
        "the log names a file outside the table: {file}. A shallow clone does so, and so does a log that was made to have other people's files read. If you trust whoever writes the table, allow the place by the storage option {ALLOW_EXTERNAL_FILES}={place} (locations, separated by commas)"
    )))
}

/// The key of a local file that lies in the table although its path doesn't begin as the table's does: one of the two
/// goes through a link.
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
        check(&options, &Location::parse(file).unwrap())
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
        let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        std::fs::create_dir_all(at("table/p=1")).unwrap();
        std::os::unix::fs::symlink(at("table"), at("link")).unwrap();
        let located = |name: &str| Location::parse(&at(name)).unwrap();
        for (table, file) in [("table", "link/p=1/f"), ("link", "table/p=1/f")] {
            assert_eq!(through_link(&located(table), &located(file)).as_deref(), Some("p=1/f"));
        }
        assert_eq!(through_link(&located("table/p=1"), &located("link/f")), None);
        assert_eq!(through_link(&located("table"), &located("gone/f")), None);
    }
}
