//! A local table's directory: the path of a key, the error for a failed call, the content of a
//! file's metadata. Opens and writes nothing.

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
    /// The directory at this path, which may be missing.
    pub(super) fn new(path: &str) -> Self {
        Root(Arc::from(Path::new(path)))
    }

    /// The path.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Whether a file is in the log, whose names readers find by listing; names of other files come
    /// from a commit or a checkpoint.
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

    /// The error for a failed call on a file or directory below the root.
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

/// Metadata of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct About {
    pub is_file: bool,
    pub size_bytes: u64,
    /// When it was last written, in nanoseconds since 1970, negative before.
    pub modified_ns: i128,
    /// The file's number, where files have one.
    pub number: u64,
}

impl About {
    /// From the system's metadata.
    pub(super) fn of(meta: &Metadata) -> Self {
        let ns = |d: std::time::Duration| i128::try_from(d.as_nanos()).unwrap_or(i128::MAX);
        let modified_ns = match meta.modified().map(|t| t.duration_since(UNIX_EPOCH)) {
            Ok(Ok(after)) => ns(after),
            Ok(Err(before)) => -ns(before.duration()),
            Err(_) => 0,
        };
        About {
            is_file: meta.is_file(),
            size_bytes: meta.len(),
            modified_ns,
            #[cfg(unix)]
            number: std::os::unix::fs::MetadataExt::ino(meta),
            #[cfg(not(unix))]
            number: 0,
        }
    }

    /// Milliseconds since 1970, negative before.
    pub(super) fn modified_ms(&self) -> i64 {
        i64::try_from(self.modified_ns / 1_000_000).unwrap_or(i64::MAX)
    }

    /// Number, time and size: a rewritten file differs.
    pub(super) fn etag(&self) -> String {
        let modified_ns = u64::try_from(self.modified_ns.max(0)).unwrap_or(u64::MAX);
        format!("{:x}-{modified_ns:x}-{:x}", self.number, self.size_bytes)
    }
}
