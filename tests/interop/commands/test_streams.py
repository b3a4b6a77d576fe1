"""Streams and change feeds that end with an error: deltaplane has delta-spark's condition, in the
exception and for listeners."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from interop.delta_spark import DeltaSpark, DeltaSparkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SECONDS = 120
FED = "'delta.enableChangeDataFeed' = 'true'"
MAPPED = "'delta.columnMapping.mode' = 'name'"
UNSAFE_STREAM = "spark.databricks.delta.streaming.unsafeReadOnIncompatibleColumnMappingSchemaChanges.enabled"
UNSAFE_FEED = "spark.databricks.delta.changeDataFeed.unsafeBatchReadOnIncompatibleSchemaChanges.enabled"
LATE = "spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled"
RENAMED = ["ALTER TABLE {t} RENAME COLUMN v TO w"]
DROPPED = ["ALTER TABLE {t} DROP COLUMN v"]


@dataclass(frozen=True)
class Case:
    """A table with two rows in version 1, optionally read by a first run, then changed and read by
    a second one."""

    then: Sequence[str] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    runs_before: bool = False
    properties: str = MAPPED
    settings: Mapping[str, str] = field(default_factory=dict)


STREAMS = {
    "version to come": Case(options={"startingVersion": "9"}),
    "moment to come": Case(options={"startingTimestamp": "2200-01-01"}),
    "moment to come, with leave": Case(options={"startingTimestamp": "2200-01-01"}, settings={LATE: "true"}),
    "no moment": Case(options={"startingTimestamp": "soon"}),
    "both": Case(options={"startingVersion": "0", "startingTimestamp": "2001-01-01"}),
    "no files": Case(options={"maxFilesPerTrigger": "0"}),
    "no size": Case(options={"maxBytesPerTrigger": "much"}),
    "no flag": Case(options={"ignoreDeletes": "maybe"}),
    "no old flag": Case(options={"ignoreFileDeletion": "maybe"}),
    "no version": Case(options={"startingVersion": "-1"}),
    "no pattern": Case(options={"excludeRegex": "("}),
    "leave without a log": Case(options={"allowSourceColumnRename": "always", "streamingSourceTrackingId": "a"}),
    "update": Case(["UPDATE {t} SET v = 'z' WHERE id = 1"], {"startingVersion": "0"}),
    "update, as it was once called": Case(
        ["UPDATE {t} SET v = 'z' WHERE id < 9"], {"startingVersion": "0", "ignoreFileDeletion": "true"}
    ),
    "delete": Case(["DELETE FROM {t}"], {"startingVersion": "0"}),
    "renamed between runs": Case(RENAMED, runs_before=True),
    "dropped between runs": Case(DROPPED, runs_before=True),
    "renamed before": Case(RENAMED, {"startingVersion": "0"}),
    "renamed before, with leave": Case(RENAMED, {"startingVersion": "0"}, settings={UNSAFE_STREAM: "true"}),
    "behind the renaming": Case(RENAMED, {"startingVersion": "2"}),
    "the feed, renamed": Case(
        RENAMED, {"readChangeFeed": "true", "startingVersion": "0"}, properties=f"{FED}, {MAPPED}"
    ),
    "another table": Case(
        ["DROP TABLE {t}", "CREATE TABLE {t} (id int, v string) USING delta", "INSERT INTO {t} VALUES (5, 'e')"],
        runs_before=True,
    ),
}

FEEDS = {
    "renamed": Case(RENAMED, {"startingVersion": "1"}),
    "dropped": Case(DROPPED, {"startingVersion": "1"}),
    "renamed, with leave": Case(RENAMED, {"startingVersion": "1"}, settings={UNSAFE_FEED: "true"}),
    "before it": Case(RENAMED, {"startingVersion": "0", "endingVersion": "1"}),
    "mapped on the way": Case(
        [f"ALTER TABLE {{t}} SET TBLPROPERTIES ({MAPPED})", *RENAMED], {"startingVersion": "1"}, properties=FED
    ),
    "both": Case(options={"startingVersion": "1", "startingTimestamp": "2200-01-01"}),
}


@pytest.fixture
def enabled(spark: SparkSession) -> Iterator[SparkSession]:
    from deltaplane import spark as dp

    dp.enable(spark)
    yield spark
    dp.disable(spark)


def condition(run: Callable[[], Any]) -> str:
    """The condition in an error's text, or the number of rows."""
    from pyspark.errors import PySparkException

    try:
        return str(run())
    except (PySparkException, DeltaSparkError) as e:
        named = getattr(e, "getCondition", lambda: None)()
        if named is not None and named != "STREAM_FAILED":
            return str(named)
        match = re.search(r"\[((?:DELTA|DIFFERENT)_[A-Z_.]+)\]", str(e))
        return match[1] if match else f"no condition: {e}"


def prepared(delta_spark: DeltaSpark, case: Case, path: Path, first: Callable[[Path], Any]) -> None:
    table = f"delta.`{path}`"
    delta_spark.execute(f"CREATE TABLE {table} (id int, v string) USING delta TBLPROPERTIES ({case.properties})")
    delta_spark.execute(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    if case.runs_before:
        first(path)
    for statement in case.then:
        if statement.startswith("DROP TABLE"):
            shutil.rmtree(path)
        else:
            delta_spark.execute(statement.format(t=table))


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_ends_the_same(delta_spark: DeltaSpark, enabled: SparkSession, tmp_path: Path, name: str) -> None:
    case = STREAMS[name]

    def ours(path: Path) -> int:
        frame = enabled.readStream.format("delta").options(**case.options).load(str(path))
        writer = frame.writeStream.format("noop").option("checkpointLocation", f"{path}-query")
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(SECONDS)
        return sum(progress["numInputRows"] for progress in query.recentProgress)

    def theirs(path: Path) -> int:
        return delta_spark.stream(str(path), case.options, f"{path}-query")

    prepared(delta_spark, case, tmp_path / "ours", ours)
    prepared(delta_spark, case, tmp_path / "theirs", theirs)
    with delta_spark.settings(case.settings):
        expected = condition(lambda: theirs(tmp_path / "theirs"))
    for key, value in case.settings.items():
        enabled.conf.set(key, value)
    try:
        actual = condition(lambda: ours(tmp_path / "ours"))
    finally:
        for key in case.settings:
            enabled.conf.unset(key)
    assert actual == expected


@pytest.mark.parametrize("name", FEEDS)
def test_a_feed_is_refused_the_same(delta_spark: DeltaSpark, enabled: SparkSession, tmp_path: Path, name: str) -> None:
    case = FEEDS[name]
    if case.properties == MAPPED:
        case = replace(case, properties=f"{FED}, {MAPPED}")
    path = tmp_path / "t"
    prepared(delta_spark, case, path, lambda _: None)
    with delta_spark.settings(case.settings):
        expected = condition(lambda: delta_spark.changes(str(path), case.options))
    for key, value in case.settings.items():
        enabled.conf.set(key, value)
    try:
        reader = enabled.read.format("delta").option("readChangeFeed", "true").options(**case.options)
        actual = condition(lambda: reader.load(str(path)).count())
    finally:
        for key in case.settings:
            enabled.conf.unset(key)
    assert actual == expected
