//! The position of a reader that follows a table, as text, and the limits of one batch.

use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::Add;
use serde::{Deserialize, Serialize};

/// The sort key of a file in a snapshot: older files come first, as in Spark's Delta source.
pub(crate) type Place = (i64, String);

/// A follower's position. Its text is JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TailOffset {
    /// The table's id: an offset is invalid for another table at the same location.
    pub table_id: String,
    /// The next version to read.
    pub version: u64,
    /// Number of its files that have been read.
    pub index: u64,
    /// Whether all rows of the version are read, not only the added ones.
    pub is_starting_version: bool,
    /// For such a version, the last file that was read: its modification time in ms, and its path
    /// as logged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Place>,
}

impl TailOffset {
    /// From its text.
    ///
    /// # Errors
    /// `InvalidArgument` for invalid text.
    pub fn parse(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|e| {
            Error::invalid_argument(format!(
                "this is no offset of a table: {e}; pass one as it was given, or a version to begin with"
            ))
        })
    }

    /// Its text.
    pub fn to_text(&self) -> String {
        serde_json::json!(self).to_string()
    }

    /// Whether nothing of its version has been read.
    pub fn is_between_versions(&self) -> bool {
        !self.is_starting_version && self.index == 0
    }

    /// An offset in the last version of which rows were read.
    pub fn last_read(&self) -> Self {
        TailOffset {
            version: self.version.saturating_sub(u64::from(self.is_between_versions())),
            ..self.clone()
        }
    }

    /// After a version.
    pub(crate) fn behind(&self, version: u64) -> Self {
        TailOffset {
            table_id: self.table_id.clone(),
            version: version.saturating_add(1),
            index: 0,
            is_starting_version: false,
            after: None,
        }
    }

    /// After this many more files of its snapshot, of which `last` is the last.
    pub(crate) fn behind_files(&self, count: u64, last: Place) -> Self {
        TailOffset {
            index: self.index.saturating_add(count),
            after: Some(last),
            ..self.clone()
        }
    }

    /// The first version whose commit is read from here on.
    pub(crate) fn first_commit(&self) -> u64 {
        self.version.saturating_add(u64::from(self.is_starting_version))
    }

    /// The end of the versions whose commits are read before this offset, completely or in part.
    pub(crate) fn commits_end(&self) -> u64 {
        let partly = !self.is_starting_version && self.index > 0;
        self.version.saturating_add(u64::from(partly))
    }
}

/// The position of a file among those of its snapshot.
pub(crate) fn place(add: &Add) -> Place {
    (add.modification_time, add.path.clone())
}

/// The limits of a batch; at least one file or version is always taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TailLimits {
    /// Files.
    pub files: Option<u64>,
    /// Bytes of files; the file that reaches the limit is the last.
    pub bytes: Option<u64>,
    /// Versions, including the starting one.
    pub versions: Option<u64>,
}

/// The content of the batch so far.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    files: u64,
    bytes: u64,
    versions: u64,
}

impl Taken {
    pub(crate) fn file(&mut self, size_bytes: i64) {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(size_bytes.unsigned_abs());
    }

    pub(crate) fn version(&mut self) {
        self.versions += 1;
    }

    /// Whether no further file fits.
    pub(crate) fn fills(&self, limits: TailLimits) -> bool {
        limits.files.is_some_and(|most| self.files >= most.max(1))
            || limits.bytes.is_some_and(|most| self.files > 0 && self.bytes >= most)
    }

    /// Whether no further version may start.
    pub(crate) fn ends(&self, limits: TailLimits) -> bool {
        self.fills(limits) || limits.versions.is_some_and(|most| self.versions >= most.max(1))
    }
}
