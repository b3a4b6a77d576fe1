"""The exceptions of deltaplane, one class for each reaction of the caller.

Classes inherit from Python's built-in exceptions where one fits; the concurrency classes have the
names of `delta.exceptions`. The Rust core (by name) and every Python module raise them.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

__all__ = [
    "NOT_COMMITTED",
    "CommitFailedError",
    "ConcurrentAppendException",
    "ConcurrentDeleteDeleteException",
    "ConcurrentDeleteReadException",
    "ConcurrentTransactionException",
    "ConcurrentWriteException",
    "ConflictingCommit",
    "ConstraintViolationError",
    "CorruptFileError",
    "CorruptLogError",
    "DeltaConcurrentModificationException",
    "DeltaError",
    "DeltaProtocolError",
    "FileMissingError",
    "InternalError",
    "InvalidArgumentError",
    "InvalidTypeError",
    "MetadataChangedException",
    "ProtocolChangedException",
    "QueryCancelledError",
    "SchemaMismatchError",
    "SqlSyntaxError",
    "StoreDeniedError",
    "StoreUnavailableError",
    "TableAlreadyExistsError",
    "TableNotFoundError",
    "UnsupportedExpressionError",
    "UnsupportedFeatureError",
    "VersionNotFoundError",
]


class DeltaError(Exception):
    """Base of all exceptions that deltaplane raises deliberately.

    Attributes: `kind` (a stable name of the error's kind), and where known `table` (location
    without credentials), `version` (the attempted version) and `path` (the affected file).

    >>> e = CorruptLogError("bad JSON", table="/t", version=3)
    >>> e.kind, e.table, e.version, e.path
    ('CorruptLog', '/t', 3, None)
    """

    default_kind: ClassVar[str] = "Internal"
    # Where rows broke a rule: how many rows of the checked batch break it.
    violating_rows: int | None = None

    def __init__(
        self,
        message: str = "",
        *,
        kind: str | None = None,
        table: str | None = None,
        version: int | None = None,
        path: str | None = None,
    ) -> None:
        super().__init__(message)
        self.kind: str = kind or self.default_kind
        self.table = table
        self.version = version
        self.path = path


class TableNotFoundError(DeltaError, FileNotFoundError):
    """No Delta table at the location: check the path or create the table."""

    default_kind = "TableNotFound"


class VersionNotFoundError(DeltaError, LookupError):
    """The table exists, but this version was never written or was removed by log clean-up."""

    default_kind = "VersionNotFound"


class TableAlreadyExistsError(DeltaError, FileExistsError):
    """A table exists at the location and the mode was to fail."""

    default_kind = "TableAlreadyExists"


class DeltaProtocolError(DeltaError):
    """deltalake's class for a log or rows that break the rules of the protocol or the table;
    subclasses distinguish the rules."""


class CorruptLogError(DeltaProtocolError):
    """The log has a state that no correct writer produces."""

    default_kind = "CorruptLog"


class FileMissingError(DeltaError, FileNotFoundError):
    """A file that the log names is missing: deleted by VACUUM, or by hand."""

    default_kind = "FileMissing"


class CorruptFileError(DeltaError):
    """A data file or checkpoint can't be decoded."""

    default_kind = "CorruptFile"


class UnsupportedFeatureError(DeltaError, NotImplementedError):
    """The table needs a protocol version or table feature that this build doesn't have."""

    default_kind = "UnsupportedFeature"


class InvalidArgumentError(DeltaError, ValueError):
    """The call has invalid arguments."""

    default_kind = "InvalidArgument"


class InvalidTypeError(InvalidArgumentError, TypeError):
    """An argument has a type that the function doesn't accept; the message names the argument.

    >>> isinstance(InvalidTypeError("columns is a list of str"), (ValueError, TypeError))
    True
    """


class SqlSyntaxError(InvalidArgumentError):
    """The text isn't a statement: `line` and `column` (both from 1) are the position, and the
    message names what was expected.

    >>> e = SqlSyntaxError("line 1, column 8: expected FROM, found `FORM`", line=1, column=8)
    >>> e.kind, e.column
    ('SqlSyntax', 8)
    """

    default_kind = "SqlSyntax"

    def __init__(self, message: str = "", *, line: int | None = None, column: int | None = None, **about: Any) -> None:
        super().__init__(message, **about)
        self.line = line
        self.column = column


class SchemaMismatchError(DeltaError, ValueError):
    """The data's columns don't fit the table's."""

    default_kind = "SchemaMismatch"


class ConstraintViolationError(DeltaProtocolError, ValueError):
    """A row breaks a constraint, invariant or NOT NULL of the table."""

    default_kind = "ConstraintViolation"


class UnsupportedExpressionError(DeltaError, NotImplementedError):
    """The embedded engine can't evaluate an expression with Spark's result."""

    default_kind = "UnsupportedExpression"


class ConflictingCommit(NamedTuple):
    """The winning commit of another writer, from its `commitInfo`; missing facts are None.

    `timestamp_ms` is in milliseconds since 1970 (UTC), by that writer's clock.
    """

    version: int
    operation: str | None = None
    engine_info: str | None = None
    user_name: str | None = None
    timestamp_ms: int | None = None


class CommitFailedError(DeltaError):
    """deltalake's name for a commit that conflicts with other writers' commits; subclasses
    distinguish the conflicts."""


class DeltaConcurrentModificationException(CommitFailedError):
    """A transaction lost against another writer; subclasses distinguish the conflicts. Nothing was
    committed: run the transaction again.

    `conflicting_commit` is the winning commit; None if there is no single one.

    >>> other = ConflictingCommit(7, "MERGE", user_name="ann")
    >>> e = ConcurrentAppendException("another writer added files", conflicting_commit=other)
    >>> e.conflicting_commit.version, e.conflicting_commit.operation
    (7, 'MERGE')
    """

    default_kind = "ConcurrentWrite"

    def __init__(self, message: str = "", *, conflicting_commit: ConflictingCommit | None = None, **about: Any) -> None:
        super().__init__(message, **about)
        self.conflicting_commit = conflicting_commit


class ConcurrentWriteException(DeltaConcurrentModificationException):
    """Other writers won all attempts of a bounded number."""

    default_kind = "ConcurrentWrite"


class ConcurrentAppendException(DeltaConcurrentModificationException):
    """Another writer added files that this transaction's reads should have seen."""

    default_kind = "ConcurrentAppend"


class ConcurrentDeleteReadException(DeltaConcurrentModificationException):
    """Another writer removed files that this transaction read."""

    default_kind = "ConcurrentDeleteRead"


class ConcurrentDeleteDeleteException(DeltaConcurrentModificationException):
    """Another writer removed files that this transaction removes too."""

    default_kind = "ConcurrentDeleteDelete"


class MetadataChangedException(DeltaConcurrentModificationException):
    """Another writer changed the table's metadata."""

    default_kind = "MetadataChanged"


class ProtocolChangedException(DeltaConcurrentModificationException):
    """Another writer changed the table's protocol."""

    default_kind = "ProtocolChanged"


class ConcurrentTransactionException(DeltaConcurrentModificationException):
    """Another writer with the same application id committed first."""

    default_kind = "ConcurrentTransaction"


class StoreUnavailableError(DeltaError, ConnectionError):
    """The store didn't answer in time, or had a temporary failure: try again later."""

    default_kind = "StoreUnavailable"


class StoreDeniedError(DeltaError, PermissionError):
    """The store refused access: wrong or missing credentials or rights."""

    default_kind = "StoreDenied"


class QueryCancelledError(DeltaError):
    """Another thread cancelled the query (`QueryResult.cancel`)."""

    default_kind = "QueryCancelled"


class InternalError(DeltaError, RuntimeError):
    """A bug of deltaplane: please report it with the message."""

    default_kind = "Internal"


# Errors after which a commit certainly didn't happen, so its files can be deleted. After any other
# error the commit may have happened: the files stay for VACUUM.
NOT_COMMITTED = (
    ConstraintViolationError,
    DeltaConcurrentModificationException,
    InvalidArgumentError,
    SchemaMismatchError,
    TableAlreadyExistsError,
)
