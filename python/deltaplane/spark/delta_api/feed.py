"""The change data feed under delta-spark's interfaces: a reader's options, and `table_changes`.

Bounds and columns of the feed follow delta-spark; `read_changes` reads the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from deltaplane import _native
from deltaplane.exceptions import InvalidArgumentError, SchemaMismatchError
from deltaplane.io.storage_options import version_arguments
from deltaplane.spark.datasource.stream_columns import told_steps
from deltaplane.spark.datasource.time_travel import reaches_beyond
from deltaplane.spark.jvm.internals import is_on
from deltaplane.spark.jvm.location import absolute_location, split_options
from deltaplane.spark.jvm.schema import quoted, shown
from deltaplane.spark.scan.read import read_changes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Bound", "check_fed", "feed"]

# A version, a timestamp, or None.
Bound = int | datetime | None
_FED = "delta.enableChangeDataFeed"
# delta-spark's setting that allows changes of renamed and dropped columns under the columns of one
# version.
_UNSAFE = "spark.databricks.delta.changeDataFeed.unsafeBatchReadOnIncompatibleSchemaChanges.enabled"


class _Range(NamedTuple):
    """The first and the last version between two bounds; None for a bound before or after all
    versions."""

    first: int | None
    last: int | None


def feed(
    spark: SparkSession, location: str, store: Mapping[str, str] | None, starting: Bound, ending: Bound
) -> DataFrame:
    """The rows that changed between two bounds. Empty if a bound is beyond the newest version and
    the session allows that.

    Raises:
        InvalidArgumentError, VersionNotFoundError, SchemaMismatchError: as in `read_changes`.
    """
    snapshot = _native.Snapshot.open(absolute_location(location), split_options(store)[0])
    beyond = reaches_beyond(spark)
    versions = _versions(snapshot, starting, ending)
    first, last = versions
    if first is None or first > snapshot.version:
        nothing = starting is not None and beyond
    else:
        # Two timestamps without a commit between them.
        nothing = isinstance(starting, datetime) and isinstance(ending, datetime) and starting <= ending
        nothing = nothing and last == first - 1
    if first is not None and last is not None and first > last and not nothing:
        raise InvalidArgumentError(f"the range ends with version {last}, before its start {first}", table=snapshot.uri)
    if nothing:
        return spark.createDataFrame([], _columns(snapshot))
    if beyond and last is not None:
        ending = last
    if first is not None and first <= snapshot.version and not is_on(spark, _UNSAFE):
        _refuse_renamed(snapshot, first, snapshot.version if last is None else min(last, snapshot.version))
    frame = read_changes(
        spark,
        location,
        starting if isinstance(starting, int) else None,
        ending if isinstance(ending, int) else None,
        starting if isinstance(starting, datetime) else None,
        ending if isinstance(ending, datetime) else None,
        store,
    )
    return frame if ending is None else _under_newest(frame, snapshot)


def _refuse_renamed(snapshot: _native.Snapshot, first: int, last: int) -> None:
    """Refuses, as delta-spark does, a range of changes across renamed or dropped columns.

    Raises:
        SchemaMismatchError: columns of a table with column mapping were renamed or dropped between
            the two versions.
    """
    if snapshot.column_mapping == "none" or first == last:
        return
    end = snapshot if last == snapshot.version else snapshot.at(last)
    if end.column_mapping == "none":
        return
    begins = snapshot.at(first)
    steps = _native.Tail.column_steps(begins.tracked_columns, end.tracked_columns)
    if not (steps.renamed or steps.dropped):
        return
    # delta-spark compares with the table before the first commit of the range, and ignores a
    # version without column mapping.
    began = begins.column_mapping != "none" and first > 0
    what = f"version {first}, with which they begin," if began else f"since version {first} the table"
    raise SchemaMismatchError(
        f"the changes between versions {first} and {last} can't be shown under the columns of version {last}: {what} has other "
        f"names for columns, or columns that are gone since ({told_steps(steps)}); read up to the version before that and from it "
        f"on one after the other, or set {_UNSAFE} to true",
        table=snapshot.uri,
        version=last,
    )


def check_fed(location: str, store: Mapping[str, str] | None) -> None:
    """Refuses a feed that would begin with a version without recorded changes.

    Raises:
        InvalidArgumentError: the table's change data feed is disabled.
    """
    snapshot = _native.Snapshot.open(absolute_location(location), split_options(store)[0])
    configuration = snapshot.info.configuration
    if configuration.get(_FED, "false").lower() != "true":
        raise InvalidArgumentError(
            f"the change data feed was off ({_FED}) in version {snapshot.version}: switch it on, and begin with the version that does",
            table=snapshot.uri,
        )


def _versions(snapshot: _native.Snapshot, starting: Bound, ending: Bound) -> _Range:
    first = starting if not isinstance(starting, datetime) else None
    if isinstance(starting, datetime):
        after = snapshot.versions_between(version_arguments(starting)[1], None)
        first = None if after is None else after[0]
    if isinstance(ending, datetime):
        before = snapshot.versions_between(None, version_arguments(ending)[1])
        return _Range(first, None if before is None else before[1])
    return _Range(first, ending if ending is not None else None if first is None else max(first, snapshot.version))


def _columns(snapshot: _native.Snapshot) -> StructType:
    return StructType.fromJson(shown(snapshot.change_schema().to_value()))


def _under_newest(frame: DataFrame, snapshot: _native.Snapshot) -> DataFrame:
    """The rows under the newest version's columns, as in delta-spark for tables without column
    mapping; unchanged if the newest version differs by more than added columns."""
    if snapshot.column_mapping != "none":
        return frame
    newest, has = _columns(snapshot), {field.name: field.dataType for field in frame.schema.fields}
    names = {field.name for field in newest.fields}
    if has.keys() == names or any(name not in names or newest[name].dataType != has[name] for name in has):
        return frame
    return frame.select(
        *(
            F.col(quoted(field.name)) if field.name in has else F.lit(None).cast(field.dataType).alias(field.name)
            for field in newest.fields
        )
    )
