//! A local table's directory: which file a key is, what a failed call means, what a file's metadata says.
//! Opens and writes nothing. Called by `local` and `local_objects`.

use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use deltaplane_error::{Error, Kind, Result};

use crate::backend::LOG_DIR;
use crate::error;

/// The table's directory.
#[derive(Clone, Debug)]
pub(super) struct Root(Arc<Path>);

impl Root {
    /// The directory at this path, which needn't exist.
    pub(super) fn new(path: &str) -> Self {
        Root(Arc::from(Path::new(path)))
    }

    /// The directory.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Whether a file is one of the log's, whose names readers find by listing; others a commit or a checkpoint tells.
    pub(super) fn is_of_log(&self, file: &Path) -> bool {
        file.strip_prefix(&self.0).is_ok_and(|key| key.starts_with(LOG_DIR))
    }

    /// A key's file. Parts are literal file names; `..` would leave the table.
    pub(super) fn file(&self, key: &str) -> Result<PathBuf> {
        let path = self.dir(key)?;
        if path == *self.0 {
            return Err(Error::invalid_argument("an empty path names no file of the table"));
        }
        Ok(path)
    }

    /// A key's directory; the empty key is the table's own.
    pub(super) fn dir(&self, key: &str) -> Result<PathBuf> {
        if key.contains('\0') || key.split('/').any(|part| part == "..") {
            return Err(Error::invalid_argument(
                "a path inside a table must not hold '..' or a NUL character",
            ));
        }
        let parts = key.split('/').filter(|p| !p.is_empty() && *p != ".");
        let mut path = self.0.to_path_buf();
        path.extend(parts);
        Ok(path)
    }

    /// A failed call on a file or directory below the root.
    pub(super) fn err(&self, e: &io::Error, what: &str) -> Error {
        let below_a_file = e.kind() == ErrorKind::NotADirectory;
        if below_a_file && self.0.metadata().is_ok_and(|m| !m.is_dir()) {
            return Error::invalid_argument(format!(
                "{what} failed: the table's location is a file; give the table's directory"
            ));
        }
        error::from_io(e, what)
    }

    /// Like [`Root::err`] where a path that runs through a file just means "no such object".
    pub(super) fn read_err(&self, e: &io::Error, what: &str) -> Error {
        let error = self.err(e, what);
        let below_a_file = e.kind() == ErrorKind::NotADirectory;
        if below_a_file && self.0.metadata().is_ok_and(|m| m.is_dir()) {
            return error.with_kind(Kind::ObjectNotFound);
        }
        error
    }
}

/// Milliseconds since 1970, negative before.
pub(super) fn modified_ms(meta: &Metadata) -> i64 {
    let ms = |d: std::time::Duration| i64::try_from(d.as_millis()).unwrap_or(i64::MAX);
    match meta.modified().map(|t| t.duration_since(UNIX_EPOCH)) {
        Ok(Ok(after)) => ms(after),
        Ok(Err(before)) => -ms(before.duration()),
        Err(_) => 0,
    }
}

/// Size, time in nanoseconds and, where there is one, the file's number: a rewritten file differs.
pub(super) fn etag(meta: &Metadata) -> String {
    let nanos = meta
        .modified()
        .ok()
        .and_then(|t| t.duration_since(UNIX_EPOCH).ok())
        .map_or(0, |d| d.as_nanos());
    #[cfg(unix)]
    let number = std::os::unix::fs::MetadataExt::ino(meta);
    #[cfg(not(unix))]
    let number = 0;
    format!("{number:x}-{nanos:x}-{:x}", meta.len())
}
