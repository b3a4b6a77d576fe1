"""`spark.read` and `spark.readStream` of a session that knows Delta tables by their familiar names.

Called by `deltaplane.spark_names`, for sessions that are enabled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrameReader
from pyspark.sql.streaming.readwriter import DataStreamReader

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.spark._errors import told_as_spark
from deltaplane.spark._familiar import Options, number, versioned_path
from deltaplane.spark._moments import moment
from deltaplane.spark._names import located
from deltaplane.spark._read import newest_frame, read, read_changes
from deltaplane.spark._stream_options import STREAM_OPTIONS, flag
from deltaplane.spark._stream_read import read_stream

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Reader", "StreamReader"]

_FEED = {
    "readchangefeed": None,
    "startingversion": "starting_version",
    "endingversion": "ending_version",
    "startingtimestamp": "starting_timestamp",
    "endingtimestamp": "ending_timestamp",
}
_READ_OPTIONS = frozenset(["path", "versionasof", "timestampasof", "readchangedata", *_FEED])
# What `readChangeFeed` was called first.
_OLD_FEED = "readchangedata"


@told_as_spark
class _Loading(Options):
    """What both readers do before they read."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark)  # type: ignore[call-arg]
        self._session, self._format, self._given = spark, None, {}

    def load(self, path: Any = None, format: str | None = None, schema: Any = None, **options: Any) -> DataFrame:
        self._take(options, format=format, schema=schema)
        if self._is_ours():
            return self._loaded(path)
        frame: DataFrame = super().load(path)  # type: ignore[misc]
        return frame

    def _loaded(self, path: Any) -> DataFrame:
        """The rows of a table of ours."""
        raise NotImplementedError


@told_as_spark
class Reader(_Loading, DataFrameReader):
    """`spark.read`."""

    def _loaded(self, path: Any) -> DataFrame:
        own, store = self._split(_READ_OPTIONS)
        return self._read(*versioned_path(self._path(path, own), store))

    def schema(self, schema: Any) -> Any:
        if self._is_ours():
            raise InvalidArgumentError("a Delta table knows its columns: leave schema() out, and select() some of them")
        return super().schema(schema)

    def table(self, tableName: str) -> DataFrame:
        location = located(self._session, tableName)
        if location is None:
            return super().table(tableName)
        return self._read(*versioned_path(location, self._split(_READ_OPTIONS)[1]))

    def _read(self, location: str, version: int | None, timestamp: str | None) -> DataFrame:
        own, store = self._split(_READ_OPTIONS)
        if version is not None or timestamp is not None:
            if own.keys() & {"versionasof", "timestampasof"}:
                raise InvalidArgumentError(f"a version stands behind {location} and in an option: give it once")
        elif "versionasof" in own:
            version = number(own, "versionAsOf")
        timestamp = own.get("timestampasof", timestamp)
        if flag(own, "readchangefeed", own.get(_OLD_FEED, "false")):
            return read_changes(self._session, location, options=store, **_bounds(own))
        if version is None and timestamp is None:
            return newest_frame(self._session, location, store)
        at = None if timestamp is None else moment(self._session, timestamp)
        return read(self._session, location, version, at, store)


@told_as_spark
class StreamReader(_Loading, DataStreamReader):
    """`spark.readStream`."""

    def _loaded(self, path: Any) -> DataFrame:
        own, store = self._split(frozenset({"path", _OLD_FEED, *STREAM_OPTIONS}))
        location = self._path(path, own)
        own.pop("path", None)
        if (old := own.pop(_OLD_FEED, None)) is not None:
            own.setdefault("readchangefeed", old)
        return read_stream(self._session, location, store, **own)

    def table(self, tableName: str) -> DataFrame:
        location = located(self._session, tableName)
        return super().table(tableName) if location is None else self.format("delta").load(location)


def _bounds(own: Mapping[str, str]) -> dict[str, Any]:
    """Where a change feed begins and ends."""
    names = {"startingversion": "startingVersion", "endingversion": "endingVersion"}
    return {
        argument: number(own, names[name]) if name in names else own[name]
        for name, argument in _FEED.items()
        if argument is not None and name in own
    }
