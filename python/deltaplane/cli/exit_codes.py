"""Exit codes of the command line, one for each reaction of a caller, and what to do next."""

from __future__ import annotations

from enum import IntEnum

from deltaplane.exceptions import (
    CommitFailedError,
    CorruptFileError,
    CorruptLogError,
    DeltaError,
    FileMissingError,
    InternalError,
    InvalidArgumentError,
    QueryCancelledError,
    StoreDeniedError,
    StoreUnavailableError,
    TableNotFoundError,
    UnsupportedExpressionError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)

__all__ = ["ExitCode", "exit_code", "next_step"]


class ExitCode(IntEnum):
    """What a command's exit code means."""

    FINE = 0
    FINDINGS = 1
    USAGE = 2
    NOT_FOUND = 3
    DENIED = 4
    UNAVAILABLE = 5
    CONFLICT = 6
    CORRUPT = 7
    REFUSED = 8
    INTERNAL = 9
    INTERRUPTED = 130


# The first class that an error is an instance of decides; the base class is the last one. The text
# says what to do next, in the words of the command line.
_CODES: tuple[tuple[type[Exception], ExitCode, str], ...] = (
    (TableNotFoundError, ExitCode.NOT_FOUND, "check the location; `deltaplane convert` makes a table of Parquet files"),
    (VersionNotFoundError, ExitCode.NOT_FOUND, "`deltaplane history` lists the versions that can be read"),
    (
        FileMissingError,
        ExitCode.CORRUPT,
        "`deltaplane check` lists all files that are gone, `deltaplane repair` drops them",
    ),
    (
        CorruptLogError,
        ExitCode.CORRUPT,
        "`deltaplane check` says what is damaged; restore that file of the log from a backup",
    ),
    (
        CorruptFileError,
        ExitCode.CORRUPT,
        "`deltaplane check --deep` lists all damaged files; restore them from a backup",
    ),
    (
        StoreDeniedError,
        ExitCode.DENIED,
        "give credentials as --option KEY=VALUE, or ask for the rights on this location",
    ),
    (StoreUnavailableError, ExitCode.UNAVAILABLE, "run the command again when the store answers"),
    (CommitFailedError, ExitCode.CONFLICT, "run the command again, on the table's newest version"),
    (QueryCancelledError, ExitCode.INTERRUPTED, "run the command again"),
    (InternalError, ExitCode.INTERNAL, "report it with this message as an issue of deltaplane"),
    (
        UnsupportedFeatureError,
        ExitCode.REFUSED,
        "`deltaplane compat` says what the table needs of its readers and writers",
    ),
    (UnsupportedExpressionError, ExitCode.USAGE, "write the named expression in another way, or run it on Spark"),
    (InvalidArgumentError, ExitCode.USAGE, "change the named argument; --help explains each"),
    (DeltaError, ExitCode.REFUSED, "change the data or the table as the message says"),
    (ImportError, ExitCode.REFUSED, "install the named package"),
    (TypeError, ExitCode.USAGE, "change the named argument; --help explains each"),
)


def exit_code(error: BaseException) -> ExitCode:
    """The exit code for an error.

    >>> exit_code(TableNotFoundError("no table")).name, exit_code(InvalidArgumentError("x")).value
    ('NOT_FOUND', 2)
    """
    return _rule(error)[1]


def next_step(error: BaseException) -> str:
    """What a caller of the command line does next after an error."""
    return _rule(error)[2]


def _rule(error: BaseException) -> tuple[type[Exception], ExitCode, str]:
    rules = (rule for rule in _CODES if isinstance(error, rule[0]))
    return next(rules, (Exception, ExitCode.INTERNAL, "report it with this message as an issue of deltaplane"))
