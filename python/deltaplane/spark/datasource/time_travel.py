"""Resolves a timestamp to a version on Spark. As in delta-spark, a timestamp after the newest
commit is refused; without Spark it means the newest version, as in delta-rs.
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

# delta-spark's setting that allows ranges of changes to begin and end after the newest commit.
_OUT_OF_RANGE = "spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled"

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def asked_version(
    location: str, options: Mapping[str, str] | None, version: int | None, timestamp: VersionLike | None
) -> int | None:
    """The version that one of two arguments requests; None for the newest.

    Raises:
        InvalidArgumentError: both arguments are set, or one is invalid.
        TableNotFoundError, VersionNotFoundError: as in `version_at`.
    """
    number, _ = version_of(version, timestamp)
    return number if timestamp is None else version_at(location, options, timestamp)


def version_at(location: str, options: Mapping[str, str] | None, moment: VersionLike, doing: str = "") -> int:
    """The newest version at a timestamp. `doing`: the calling statement or `Class.method`, which
    determines the error's condition.

    Raises:
        TableNotFoundError: the location contains no table.
        VersionNotFoundError: the timestamp is before the first available version or after the
            newest commit.
    """
    _, moment_ms = version_arguments(moment)
    then = _native.Snapshot.open(location, options, None, moment_ms)
    refuse_after_newest(then, moment, doing)
    return then.version


def refuse_after_newest(table: _native.Snapshot, moment: VersionLike, doing: str = "") -> None:
    """Refuses a timestamp after the table's newest commit; accepts it if the log lacks that
    commit's time.

    Raises:
        VersionNotFoundError: the timestamp is after the newest commit.
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
        # A log may contain times that no calendar can represent.
        return f"{ms}ms"
