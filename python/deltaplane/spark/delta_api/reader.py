"""`spark.read` and `spark.readStream` of a session with Delta tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrameReader
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from deltaplane.exceptions import InvalidArgumentError, TableNotFoundError
from deltaplane.spark.datasource.delta_options import Options, number, versioned_path
from deltaplane.spark.datasource.partition_paths import partition_path
from deltaplane.spark.datasource.stream_options import STREAM_OPTIONS, flag, refuse_options_of_batches
from deltaplane.spark.datasource.time_travel import reaches_beyond
from deltaplane.spark.delta_api.feed import Bound, check_fed, feed
from deltaplane.spark.errors.spark_errors import with_spark_errors
from deltaplane.spark.jvm.moments import moment
from deltaplane.spark.jvm.names import OWN_FORMAT, located, path_of, qualified_name
from deltaplane.spark.jvm.schema import quoted
from deltaplane.spark.scan.read import named_as, newest_frame, read
from deltaplane.spark.stream.read import read_stream

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Reader", "StreamReader"]

_FEED = "readchangefeed startingversion endingversion startingtimestamp endingtimestamp".split()
_VERSIONS = ("versionasof", "timestampasof")
# The condition on rows that the format `deltaplane` takes without `enable`, too.
_CONDITION = "predicate"
_READ_OPTIONS = frozenset(["path", "readchangedata", _CONDITION, *_VERSIONS, *_FEED])
# Options for a stream's handling of commits that aren't appends.
_PASSED_OVER = ("ignoredeletes", "ignorechanges", "ignorefiledeletion", "skipchangecommits")
# The former name of `readChangeFeed`.
_OLD_FEED = "readchangedata"
_SCHEMA_LOGS = {"schematrackinglocation", "schemalocation"}
# Options that require a schema log.
_OF_SCHEMA_LOGS = {
    "allowsourcecolumnrename",
    "allowsourcecolumndrop",
    "allowsourcecolumntypechange",
    "streamingsourcetrackingid",
}


@with_spark_errors
class _Loading(Options):
    """The common part of both readers."""

    _has_schema = False

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark)  # type: ignore[call-arg]
        self._session, self._format, self._options = spark, None, {}

    def load(self, path: Any = None, format: str | None = None, schema: Any = None, **options: Any) -> DataFrame:
        self._take(options, format=format, schema=schema)
        if self._is_ours():
            self._check_schema()
            return self._loaded(path)
        frame: DataFrame = super().load(path)  # type: ignore[misc]
        return frame

    def schema(self, schema: Any) -> Any:
        self._has_schema = True
        self._check_schema()
        return super().schema(schema)  # type: ignore[misc]

    def _check_schema(self) -> None:
        """Refuses a schema from the caller, whether set before or after the format."""
        if self._has_schema and self._is_ours():
            raise InvalidArgumentError("a Delta table knows its columns: leave schema() out, and select() some of them")

    def _split(self, own: frozenset[str]) -> tuple[dict[str, str], dict[str, str] | None]:
        """As in delta-spark, a reader ignores options with names of table properties."""
        mine, store = super()._split(own)
        return mine, {
            key: value for key, value in (store or {}).items() if not key.lower().startswith("delta.")
        } or None

    def _loaded(self, path: Any) -> DataFrame:
        """Loads the rows of a Delta table."""
        raise NotImplementedError


@with_spark_errors
class Reader(_Loading, DataFrameReader):
    """`spark.read` for Delta tables."""

    def _loaded(self, path: Any) -> DataFrame:
        own, store = self._split(_READ_OPTIONS)
        location, version, timestamp = versioned_path(self._path(path, own), store)
        partition: Mapping[str, str | None] = {}
        try:
            frame = self._read(location, version, timestamp)
        except TableNotFoundError:
            # As in delta-spark, the directory of a partition shows the partition's rows.
            if (inside := partition_path(location, store)) is None:
                raise
            location, partition = inside
            frame = self._read(location, version, timestamp)
        for name, value in partition.items():
            column = frame[quoted(name)]
            same = column == F.lit(value).cast(frame.schema[name].dataType)
            frame = frame.where(column.isNull() if value is None else same)
        condition = own.get(_CONDITION) if self._format == OWN_FORMAT else None
        return frame if condition is None else frame.where(condition)

    def table(self, tableName: str) -> DataFrame:
        location = located(self._session, tableName)
        if location is None:
            return super().table(tableName)
        if self._has_schema:
            # As in Spark, for tables in every format.
            raise InvalidArgumentError(
                f"the table {tableName} knows its columns, so a schema isn't supported with table(): leave schema() out, and "
                "select() some of them"
            )
        frame = self._read(*versioned_path(location, self._split(_READ_OPTIONS)[1]), named=True)
        return frame if path_of(tableName) is not None else named_as(frame, qualified_name(self._session, tableName))

    def _read(self, location: str, version: int | None, timestamp: str | None, *, named: bool = False) -> DataFrame:
        own, store = self._split(_READ_OPTIONS)
        if version is not None or timestamp is not None:
            if own.keys() & {*_VERSIONS}:
                raise InvalidArgumentError(f"a version stands behind {location} and in an option: give it once")
        elif "versionasof" in own:
            version = number(own, "versionAsOf")
        timestamp = own.get("timestampasof", timestamp)
        if flag(own, "readchangefeed", own.get(_OLD_FEED, "false")):
            if version is not None or timestamp is not None:
                raise InvalidArgumentError(
                    f"a change feed has no version of its own: give {location} startingVersion and endingVersion"
                )
            bounds = (_bound(self._session, own, which, named=named) for which in ("starting", "ending"))
            return feed(self._session, location, store, *bounds)
        if version is None and timestamp is None:
            return newest_frame(self._session, location, store)
        instant = None if timestamp is None else moment(self._session, timestamp)
        return read(self._session, location, version, instant, store)


@with_spark_errors
class StreamReader(_Loading, DataStreamReader):
    """`spark.readStream` for Delta tables."""

    def _loaded(self, path: Any) -> DataFrame:
        own, store = self._split(frozenset({"path", _OLD_FEED, *STREAM_OPTIONS}))
        location = self._path(path, own)
        own.pop("path", None)
        # delta-spark refuses these versions, and ignores the end of a feed.
        names = (*_VERSIONS, _CONDITION) if self._format == OWN_FORMAT else _VERSIONS
        refuse_options_of_batches(self._options, names, location)
        if (old := own.pop(_OLD_FEED, None)) is not None:
            own.setdefault("readchangefeed", old)
        if not own.keys() & _SCHEMA_LOGS:
            # The options have no effect there, and delta-spark accepts them.
            own = {key: value for key, value in own.items() if key not in _OF_SCHEMA_LOGS}
        if flag(own, "readchangefeed"):
            # A feed includes the commits that these options skip, and delta-spark accepts the
            # options.
            own = {key: value for key, value in own.items() if key not in _PASSED_OVER}
            if "startingversion" not in own and "startingtimestamp" not in own:
                check_fed(location, store)
        if "startingtimestamp" in own:
            own["startingtimestamp"] = moment(self._session, own["startingtimestamp"]).isoformat()
        if reaches_beyond(self._session):
            own.setdefault("waitforstart", "true")
        return read_stream(self._session, location, store, **own)

    def table(self, tableName: str) -> DataFrame:
        location = located(self._session, tableName)
        return super().table(tableName) if location is None else self.format("delta").load(location)


def _bound(spark: SparkSession, own: Mapping[str, str], which: str, *, named: bool) -> Bound:
    """The start (`starting`) or end (`ending`) of a change feed; `named`: the table was requested
    by name.

    Raises:
        InvalidArgumentError: an invalid bound, or both a version and a timestamp for a named table,
            which delta-spark refuses.
    """
    version, timestamp = f"{which}version", f"{which}timestamp"
    # As in delta-spark, the version takes precedence if a path is read with both.
    if version in own and timestamp in own and named:
        raise InvalidArgumentError(f"give {which}Version or {which}Timestamp, not both")
    if version in own:
        return number(own, f"{which}Version")
    return moment(spark, own[timestamp]) if timestamp in own else None
