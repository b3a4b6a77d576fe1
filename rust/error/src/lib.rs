//! The one error type of deltaplane: a kind says what the caller can do next, a message says
//! what was attempted, on which table, version or file, what was found and what to do.
//! A leaf crate, because `store` and `protocol` both raise errors and must not know each other.

use std::fmt;

/// Shorthand for results of this project.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a failed call means for its caller. Kinds are few and named by the next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// No Delta table at the location: check the path or create the table.
    TableNotFound,
    /// The table exists, this version of it can't be rebuilt (never written, or cleaned up).
    VersionNotFound,
    /// A table is at the location already and the mode was to fail.
    TableAlreadyExists,
    /// The log can't be what a correct writer left: gap, bad JSON, missing protocol.
    CorruptLog,
    /// A file that the log names is missing: vacuumed, or deleted by hand.
    FileMissing,
    /// A data file, deletion vector or checkpoint can't be decoded.
    CorruptFile,
    /// The table needs a protocol version or table feature that this build doesn't have.
    UnsupportedFeature,
    /// The call itself is wrong.
    InvalidArgument,
    /// The data's columns don't fit the table's.
    SchemaMismatch,
    /// A row breaks a constraint, invariant or NOT NULL of the table.
    ConstraintViolation,
    /// An expression can't be evaluated with Spark's meaning by the embedded engine.
    UnsupportedExpression,
    /// Another writer added files that this transaction's reads should have seen.
    ConcurrentAppend,
    /// Another writer removed files that this transaction read.
    ConcurrentDeleteRead,
    /// Another writer removed files that this transaction removes too.
    ConcurrentDeleteDelete,
    /// Another writer changed the table's metadata.
    MetadataChanged,
    /// Another writer changed the table's protocol.
    ProtocolChanged,
    /// Another writer with the same application id committed first.
    ConcurrentTransaction,
    /// Other writers won every one of the bounded number of attempts.
    ConcurrentWrite,
    /// The store doesn't hold this object.
    ObjectNotFound,
    /// The store holds this object already (the loser's answer of put-if-absent).
    ObjectExists,
    /// The store didn't answer in time, or answered with a passing failure: try again later.
    StoreUnavailable,
    /// The store refused: wrong or missing credentials or rights.
    StoreDenied,
    /// A bug of deltaplane: please report it with the message.
    Internal,
}

impl Kind {
    /// Whether this kind says that a transaction lost against another writer.
    pub fn is_conflict(self) -> bool {
        matches!(
            self,
            Kind::ConcurrentAppend
                | Kind::ConcurrentDeleteRead
                | Kind::ConcurrentDeleteDelete
                | Kind::MetadataChanged
                | Kind::ProtocolChanged
                | Kind::ConcurrentTransaction
                | Kind::ConcurrentWrite
        )
    }

    /// Whether a commit that raised this kind certainly didn't happen, so that its new files may be
    /// deleted. After any other kind it may have happened. Python's `NOT_COMMITTED` has the same
    /// kinds.
    pub fn rules_out_commit(self) -> bool {
        self.is_conflict()
            || matches!(
                self,
                Kind::ConstraintViolation | Kind::InvalidArgument | Kind::SchemaMismatch | Kind::TableAlreadyExists
            )
    }
}

/// A commit that won against a transaction, as it describes itself: others may leave any of it out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OtherCommit {
    /// Its version.
    pub version: u64,
    /// `WRITE`, `MERGE`, …
    pub operation: Option<String>,
    /// The program that wrote it.
    pub engine_info: Option<String>,
    /// The user who ran it.
    pub user_name: Option<String>,
    /// When, in ms since 1970 (UTC), by the writer's clock.
    pub timestamp_ms: Option<i64>,
}

/// An error with its kind, message and, where known, the table, version and file it is about.
pub struct Error(Box<Inner>);

struct Inner {
    kind: Kind,
    message: String,
    table: Option<String>,
    version: Option<u64>,
    path: Option<String>,
    other_commit: Option<OtherCommit>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of this kind; `message` says what happened and what to do next.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Error(Box::new(Inner {
            kind,
            message: message.into(),
            table: None,
            version: None,
            path: None,
            other_commit: None,
            source: None,
        }))
    }

    /// Adds the table's location (already free of credentials) unless one is set.
    #[must_use]
    pub fn with_table(mut self, table: impl Into<String>) -> Self {
        self.0.table.get_or_insert(table.into());
        self
    }

    /// Adds the version that was attempted unless one is set.
    #[must_use]
    pub fn with_version(mut self, version: u64) -> Self {
        self.0.version.get_or_insert(version);
        self
    }

    /// Adds the file the error is about unless one is set.
    #[must_use]
    pub fn with_path(mut self, path: impl Into<String>) -> Self {
        self.0.path.get_or_insert(path.into());
        self
    }

    /// Adds the commit that won the race.
    #[must_use]
    pub fn with_other_commit(mut self, commit: OtherCommit) -> Self {
        self.0.other_commit = Some(commit);
        self
    }

    /// Keeps the error that caused this one.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// The same error under another kind: for callers who know better what a failure means.
    #[must_use]
    pub fn with_kind(mut self, kind: Kind) -> Self {
        self.0.kind = kind;
        self
    }

    /// The error's kind: what the caller can do next.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The message without table, version and file.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The table's location, if known.
    pub fn table(&self) -> Option<&str> {
        self.0.table.as_deref()
    }

    /// The table version the error is about, if known.
    pub fn version(&self) -> Option<u64> {
        self.0.version
    }

    /// The file the error is about, if known.
    pub fn path(&self) -> Option<&str> {
        self.0.path.as_deref()
    }

    /// For a conflict: the commit that won the race.
    pub fn other_commit(&self) -> Option<&OtherCommit> {
        self.0.other_commit.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.message)?;
        let mut sep = " [";
        let mut part = |f: &mut fmt::Formatter<'_>, name: &str, value: &dyn fmt::Display| {
            let r = write!(f, "{sep}{name} {value}");
            sep = ", ";
            r
        };
        if let Some(t) = &self.0.table {
            part(f, "table", t)?;
        }
        if let Some(v) = &self.0.version {
            part(f, "version", v)?;
        }
        if let Some(p) = &self.0.path {
            part(f, "file", p)?;
        }
        if sep == ", " {
            f.write_str("]")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)?;
        if let Some(s) = &self.0.source {
            write!(f, " (caused by {s})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|s| s as _)
    }
}

macro_rules! constructors {
    ($($name:ident $kind:ident),* $(,)?) => {
        impl Error {
            $(
                #[doc = concat!("An error of kind [`Kind::", stringify!($kind), "`].")]
                pub fn $name(message: impl Into<String>) -> Self {
                    Error::new(Kind::$kind, message)
                }
            )*
        }
    };
}

constructors! {
    table_not_found TableNotFound,
    version_not_found VersionNotFound,
    corrupt_log CorruptLog,
    corrupt_file CorruptFile,
    file_missing FileMissing,
    unsupported_feature UnsupportedFeature,
    invalid_argument InvalidArgument,
    schema_mismatch SchemaMismatch,
    constraint_violation ConstraintViolation,
    unsupported_expression UnsupportedExpression,
    internal Internal,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_names_what_is_known() {
        let e = Error::corrupt_log("bad JSON").with_table("/t").with_version(3);
        assert_eq!(e.to_string(), "bad JSON [table /t, version 3]");
        assert_eq!(Error::internal("x").to_string(), "x");
    }

    #[test]
    fn first_context_wins() {
        let e = Error::corrupt_log("x").with_path("inner").with_path("outer");
        assert_eq!(e.path(), Some("inner"));
    }
}
