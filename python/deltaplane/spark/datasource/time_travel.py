"""Which version a moment means on Spark. As in delta-spark, one after the newest commit means none
and is refused; names without Spark open the newest version then, as delta-rs does.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from deltaplane import _native
from deltaplane.exceptions import VersionNotFoundError
from deltaplane.io.storage_options import VersionLike, version_arguments
from deltaplane.spark.errors.spark_errors import as_sparks
from deltaplane.spark.jvm.internals import is_on
from deltaplane.spark.jvm.location import version_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["asked_version", "reaches_beyond", "refuse_after_newest", "version_at"]

# The session's setting in delta-spark: ranges of changes may begin and end after the newest commit.
_OUT_OF_RANGE = "spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled"

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def asked_version(
    location: str, options: Mapping[str, str] | None, version: int | None, timestamp: VersionLike | None
) -> int | None:
    """The version that two arguments ask for, of which at most one is given; None for the newest.

    Raises:
        InvalidArgumentError: both are given, or one isn't what its name says.
        TableNotFoundError, VersionNotFoundError: as `version_at`.
    """
    number, _ = version_of(version, timestamp)
    return number if timestamp is None else version_at(location, options, timestamp)


def version_at(location: str, options: Mapping[str, str] | None, moment: VersionLike, doing: str = "") -> int:
    """The newest version at a moment. `doing`: the statement or the `Class.method` that asks, which
    names the error's condition.

    Raises:
        TableNotFoundError: no table is there.
        VersionNotFoundError: no version is as old, or the moment is after the newest commit.
    """
    _, moment_ms = version_arguments(moment)
    then = _native.Snapshot.open(location, options, None, moment_ms)
    refuse_after_newest(then, moment, doing)
    return then.version


def refuse_after_newest(table: _native.Snapshot, moment: VersionLike, doing: str = "") -> None:
    """Raises where a moment is after the table's newest commit, whose time a log that lost that
    commit doesn't tell.

    Raises:
        VersionNotFoundError: it is.
    """
    _, moment_ms = version_arguments(moment)
    newest = table.update()
    committed_ms = newest.timestamp_ms
    if moment_ms is None or committed_ms is None or moment_ms <= committed_ms:
        return
    raise as_sparks(
        VersionNotFoundError(
            f"{_shown(moment_ms)} is after the newest commit: version {newest.version} was committed at "
            f"{_shown(committed_ms)}; leave the time out, or ask for version {newest.version}",
            table=newest.uri,
        ),
        doing,
    )


def reaches_beyond(spark: SparkSession) -> bool:
    """Whether the session's ranges of changes may begin and end after the newest commit."""
    return is_on(spark, _OUT_OF_RANGE)


def _shown(ms: int) -> str:
    try:
        return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        # A log may claim times that no calendar has.
        return f"{ms}ms"
