"""Structured Streaming, natively and through the data source `deltaplane`: rows arrive once, and
refusals."""

from __future__ import annotations

import ast
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deltaplane import DeltaTable, exceptions
from deltaplane import spark as dp
from following import BY_DATA_SOURCE, READS, needs_data_source
from sparks import is_at_least, needs_stream_sinks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SECONDS = 120
# A streaming frame of a table.
Reads = Callable[..., "DataFrame"]


@pytest.fixture(params=READS)
def source(spark: SparkSession, request: pytest.FixtureRequest) -> Reads:
    """Both ways to follow a table."""
    if request.param == "native":
        return lambda path, **options: dp.read_stream(spark, path, **options)
    return lambda path, **options: spark.readStream.format("deltaplane").options(**options).load(path)


@pytest.fixture
def native(spark: SparkSession) -> Reads:
    return lambda path, **options: dp.read_stream(spark, path, **options)


def portable_sink(df: DataFrame, path: str, output_mode: str = "append", **options: Any) -> None:
    """Writes all present rows."""
    writer = df.writeStream.format("deltaplane").outputMode(output_mode).options(**options)
    finish(writer.option("checkpointLocation", f"{path}-query").trigger(availableNow=True).start(path))


def native_sink(df: DataFrame, path: str, output_mode: Any = "append", **arguments: Any) -> None:
    """Writes all present rows natively."""
    finish(dp.write_stream(df, path, f"{path}-query", output_mode, trigger={"availableNow": True}, **arguments))


def finish(query: Any) -> None:
    if not query.awaitTermination(SECONDS):
        query.stop()
        pytest.fail(f"the query did not end in {SECONDS} s")


def ids(path: str) -> Counter[int]:
    return Counter(DeltaTable(path).to_pyarrow_table(columns=["id"])["id"].to_pylist())


def appends(spark: SparkSession, path: str, count: int, first: int = 0) -> None:
    for n in range(first, first + count):
        dp.write(spark.range(n * 10, n * 10 + 10, numPartitions=2).selectExpr("id", "id % 3 AS p"), path)


def forget_last_commit(path: str) -> None:
    """Restores the state of a query that was killed between writing its last batch and recording
    it."""
    commits = Path(f"{path}-query/commits")
    newest = max((file for file in commits.iterdir() if file.name.isdigit()), key=lambda file: int(file.name))
    newest.unlink()
    newest.with_name(f".{newest.name}.crc").unlink()


def seen(df: DataFrame, name: str = "seen") -> list[list[int]]:
    """The ids of each non-empty micro-batch."""
    batches: list[list[int]] = []

    def note(batch: DataFrame, _: int) -> None:
        batches.append(sorted(row.id for row in batch.select("id").collect()))

    finish(df.writeStream.foreachBatch(note).trigger(availableNow=True).start())
    return [batch for batch in batches if batch]


@pytest.mark.parametrize("write", [pytest.param(portable_sink, marks=needs_stream_sinks), native_sink])
def test_a_table_comes_through_once_over_restarts(
    spark: SparkSession, source: Reads, path: str, write: Callable[..., None]
) -> None:
    # P076
    out = path + " out"
    appends(spark, path, 2)
    options = {"partitionBy": "p"} if write is portable_sink else {"partition_by": "p"}
    write(source(path, maxFilesPerTrigger=3), out, **options)
    assert ids(out) == Counter(range(20))
    (app,) = DeltaTable(out)._snapshot.transactions()
    assert app == json.loads(Path(f"{out}-query/metadata").read_text())["id"]
    assert DeltaTable(out).metadata().partition_columns == ["p"]
    version = DeltaTable(out).version()
    forget_last_commit(out)
    write(source(path, maxFilesPerTrigger=3), out)
    assert DeltaTable(out).version() == version, "the batch that was there is skipped"
    appends(spark, path, 1, first=2)
    write(source(path, maxFilesPerTrigger=3), out)
    assert ids(out) == Counter(range(30))
    version = DeltaTable(out).version()
    write(source(path, maxFilesPerTrigger=3), out)
    assert DeltaTable(out).version() == version, "nothing new leaves no version"


def test_a_first_batch_that_failed_begins_where_it_began(spark: SparkSession, source: Reads, path: str) -> None:
    appends(spark, path, 1)
    rows: list[int] = []

    def run(function: Callable[[DataFrame, int], None]) -> None:
        writer = source(path).writeStream.foreachBatch(function).option("checkpointLocation", path + " query")
        finish(writer.trigger(availableNow=True).start())

    def fail(batch: DataFrame, number: int) -> None:
        raise RuntimeError("no disk")

    with pytest.raises(Exception, match="no disk"):
        run(fail)
    # The newest version has changed by now.
    appends(spark, path, 1, first=1)
    run(lambda batch, _: rows.extend(row.id for row in batch.collect()))
    assert sorted(rows) == list(range(20))


def test_what_comes_before_the_first_batch_is_not_missed(spark: SparkSession, source: Reads, path: str) -> None:
    appends(spark, path, 1)
    rows: list[int] = []
    writer = source(path, startingVersion="latest").writeStream
    query = writer.foreachBatch(lambda batch, _: rows.extend(row.id for row in batch.collect())).start()
    try:
        query.processAllAvailable()
        for n in (1, 2):
            appends(spark, path, 1, first=n)
        query.processAllAvailable()
    finally:
        query.stop()
    assert sorted(rows) == list(range(10, 30))


def test_micro_batches_keep_their_bounds_and_order(spark: SparkSession, source: Reads, path: str) -> None:
    appends(spark, path, 3)
    first, two, three = (list(range(10 * n, 10 * n + 10)) for n in range(3))
    assert seen(source(path, maxFilesPerTrigger=2)) == [first, two, three]
    assert seen(source(path)) == [first + two + three]
    assert seen(source(path, maxBytesPerTrigger="1b", startingVersion=2)) == [three[:5], three[5:]]
    assert seen(source(path, startingVersion="latest")) == []
    later = DeltaTable(path).history()[1]["timestamp"]
    from datetime import datetime, timezone

    moment = datetime.fromtimestamp(later / 1000, timezone.utc).isoformat()
    assert seen(source(path, startingTimestamp=moment, maxFilesPerTrigger=2)) == [two, three]
    assert seen(source(path, excludeRegex=r"\.parquet$")) == []


def test_progress_tells_what_spark_s_delta_source_tells(spark: SparkSession, source: Reads, path: str) -> None:
    appends(spark, path, 2)
    writer = source(path, maxFilesPerTrigger=3).writeStream.foreachBatch(lambda batch, _: batch.count())
    query = writer.option("checkpointLocation", f"{path}-query").trigger(availableNow=True).start()
    finish(query)
    offsets = []
    for progress in query.recentProgress:
        end = progress["sources"][0]["endOffset"]
        # PySpark 4.1 converts it to Python's text, other versions to JSON's or not at all.
        read = ast.literal_eval if str(end).startswith("{'") else json.loads
        offset = read(end) if isinstance(end, str) else end
        offsets.append([offset[key] for key in ("sourceVersion", "reservoirVersion", "index", "isStartingVersion")])
        assert offset["reservoirId"] == str(DeltaTable(path).metadata().id)
    # After three of the newest version's four files, and behind that version.
    assert offsets[:2] == [[1, 1, 2, True], [1, 2, -1, False]]


def test_the_native_source_is_sparks_own_scan(spark: SparkSession, native: Reads, path: str) -> None:
    dp.write(spark.range(10).selectExpr("id", "id % 2 AS p"), path, partition_by="p")
    stream = native(path).where("p = 1 AND id > 3").writeStream.format("noop").trigger(availableNow=True).start()
    finish(stream)
    plan = stream._jsq.explainInternal(False)
    assert "FileScan parquet" in plan
    assert "PartitionFilters: [isnotnull(p#" in plan
    assert "GreaterThan(id,3)]" in plan


def test_deletion_vectors_and_renamed_columns(spark: SparkSession, source: Reads, path: str) -> None:
    # P042, P110
    mapped = {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"}
    dp.write(spark.range(6).selectExpr("id", "id * 2 AS n"), path, configuration=mapped)
    DeltaTable(path).delete("id = 2")
    DeltaTable(path).alter.rename_column("n", "twice")
    dp.write(spark.range(6, 8).selectExpr("id", "id * 2 AS twice"), path)
    rows = []
    frame = source(path).where("twice > 2")
    assert frame.columns == ["id", "twice"]
    query = frame.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect())).trigger(availableNow=True)
    finish(query.start())
    assert sorted(tuple(row) for row in rows) == [(n, 2 * n) for n in (3, 4, 5, 6, 7)]


def test_commits_that_are_no_appends(spark: SparkSession, source: Reads, path: str) -> None:
    # P028
    dp.write(spark.range(4).selectExpr("id", "id % 2 AS p"), path, partition_by="p")
    DeltaTable(path).delete("p = 1")
    dp.write(spark.range(10, 12).selectExpr("id", "id % 2 AS p"), path)
    DeltaTable(path).update({"id": "id + 100"}, predicate="id = 10")
    with pytest.raises(Exception, match="deletes rows"):
        seen(source(path, startingVersion=0, maxFilesPerTrigger=1))
    with pytest.raises(Exception, match="changes or replaces rows"):
        seen(source(path, startingVersion=0, ignoreDeletes="true"))
    assert seen(source(path, startingVersion=0, skipChangeCommits="true")) == [[0, 1, 2, 3, 10, 11]]
    assert seen(source(path, startingVersion=2, ignoreChanges="true")) == [[10, 11, 110]]


@needs_data_source
def test_the_change_feed_of_a_stream(spark: SparkSession, source: Reads, path: str) -> None:
    # P131
    dp.write(spark.range(3), path, configuration={"delta.enableChangeDataFeed": "true"})
    DeltaTable(path).delete("id = 1")
    rows: list[Any] = []
    frame = source(path, readChangeFeed="true", startingVersion=0)
    query = frame.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect())).trigger(availableNow=True)
    finish(query.start())
    assert Counter((row._change_type, row._commit_version, row.id) for row in rows) == Counter(
        [("insert", 0, 0), ("insert", 0, 1), ("insert", 0, 2), ("delete", 1, 1)]
    )


def test_columns_that_change_end_a_query_which_goes_on_anew(spark: SparkSession, source: Reads, path: str) -> None:
    out = path + " out"
    appends(spark, path, 1)
    stream = source(path)
    dp.write(spark.range(10, 12).selectExpr("id", "id AS p", "'x' AS new"), path, schema_mode="merge")
    with pytest.raises(Exception, match=r"`new` is gone|columns changed since"):
        native_sink(stream, out)
    native_sink(source(path), out, merge_schema=True)
    assert ids(out) == Counter(range(12))
    assert DeltaTable(out).to_pyarrow_table(columns=["new"])["new"].null_count == 10


def test_a_table_that_goes_away_under_a_query(spark: SparkSession, source: Reads, path: str) -> None:
    appends(spark, path, 1)
    query = source(path).writeStream.foreachBatch(lambda batch, _: None).start()
    query.processAllAvailable()
    shutil.rmtree(path)
    os.makedirs(path)
    with pytest.raises(Exception, match="deleted or created again"):
        query.awaitTermination(SECONDS)


@needs_stream_sinks
def test_a_complete_result_replaces_all_rows(spark: SparkSession, native: Reads, path: str) -> None:
    for write in (native_sink, portable_sink):
        out, here = f"{path} {write.__name__}", f"{path} from {write.__name__}"
        for first in (0, 1):
            appends(spark, here, 1, first)
            write(native(here).groupBy("p").count().selectExpr("p AS id", "count AS n"), out, "complete")
        rows = DeltaTable(out).to_pyarrow_table().to_pylist()
        assert sum(row["n"] for row in rows) == 20
        assert len(rows) == 3


@needs_stream_sinks
def test_the_history_tells_of_batches(spark: SparkSession, native: Reads, path: str) -> None:
    """As in delta-spark: the query and its batch, without the writer's mode."""
    appends(spark, path, 1)
    for sink, to in ((native_sink, f"{path} native"), (portable_sink, f"{path} portable")):
        for batch in range(2):
            sink(native(path), to)
            said = DeltaTable(to).history(1)[0]
            query = json.loads((Path(f"{to}-query") / "metadata").read_text())["id"]
            assert said["operation"] == "STREAMING UPDATE"
            assert said["operationParameters"] == {"outputMode": "Append", "queryId": query, "epochId": str(batch)}
            assert said["operationMetrics"].keys() >= {"numAddedFiles", "numRemovedFiles", "numOutputRows"}
            assert (said["isBlindAppend"], said["operationMetrics"]["numOutputRows"]) == (True, "10")
            appends(spark, path, 1)
        shutil.rmtree(path)
        appends(spark, path, 1)


def test_an_upsert_of_each_batch_happens_once(spark: SparkSession, native: Reads, path: str) -> None:
    # P076
    from deltaplane import CommitProperties, Transaction

    totals = path + " totals"
    dp.write(spark.range(0).selectExpr("id", "id AS n"), totals)
    calls: list[int] = []

    def upsert(batch: DataFrame, txn: tuple[str, int]) -> None:
        calls.append(txn[1])
        once = CommitProperties(app_transactions=[Transaction(*txn)])
        merge = DeltaTable(totals).merge(
            batch.toArrow(), "t.id = s.id", source_alias="s", target_alias="t", commit_properties=once
        )
        merge.when_matched_update({"n": "t.n + s.n"}).when_not_matched_insert_all().execute()

    def run() -> None:
        groups = native(path, maxFilesPerTrigger=2).selectExpr("p AS id", "1L AS n").groupBy("id").sum("n")
        frame = groups.toDF("id", "n").where("id < 3")
        finish(dp.foreach_batch(frame, upsert, f"{totals}-query", trigger={"availableNow": True}))

    appends(spark, path, 1)
    run()
    forget_last_commit(totals)
    run()
    assert calls == [0, 0]
    counts = {row["id"]: row["n"] for row in DeltaTable(totals).to_pyarrow_table().to_pylist()}
    assert counts == {0: 4, 1: 3, 2: 3}


def test_a_start_to_come_is_waited_for(spark: SparkSession, source: Reads, path: str) -> None:
    appends(spark, path, 1)
    newest = DeltaTable(path).version()
    frame = source(path, startingVersion=newest + 2, waitForStart=True)
    writer = frame.writeStream.format("noop").option("checkpointLocation", f"{path}-query")
    for came in (0, 0, 1):
        query = writer.trigger(availableNow=True).start()
        finish(query)
        assert sum(progress["numInputRows"] > 0 for progress in query.recentProgress) == came
        appends(spark, path, 1)


def test_wrong_calls(spark: SparkSession, path: str) -> None:
    appends(spark, path, 1)
    for options, match in [
        ({"startingVersion": "x"}, "number or latest"),
        ({"startingVersion": 0, "startingTimestamp": "2024-01-01"}, "not both"),
        ({"maxFilesPerTrigger": 0}, "from 1 on"),
        ({"maxBytesPerTrigger": "many"}, "such as 64m"),
        ({"ignoreDeletes": "maybe"}, "true or false"),
        ({"readChangeFeed": True, "ignoreDeletes": True}, "as they are"),
    ]:
        with pytest.raises(exceptions.DeltaError, match=match):
            dp.read_stream(spark, path, **options)
    with pytest.raises(exceptions.InvalidArgumentError, match="no option 'fast'"):
        dp.read_stream(spark, path, fast=True)
    if is_at_least("4.0"):
        late = spark.readStream.format("deltaplane").option("startingVersion", 7).load(path)
        refusal = "there is no version to start with yet" if BY_DATA_SOURCE else "needs PySpark 4.2"
        with pytest.raises(Exception, match=refusal):
            seen(late)
    with pytest.raises(exceptions.InvalidArgumentError, match="isn't streaming"):
        dp.write_stream(spark.range(1), path, path + "-query")
    with pytest.raises(exceptions.InvalidArgumentError, match="foreach_batch"):
        dp.write_stream(dp.read_stream(spark, path), path, path + "-query", "update")  # type: ignore[arg-type]
    if not is_at_least("4.0"):
        return
    memory = dp.read_stream(spark, path).writeStream.format("deltaplane").trigger(availableNow=True)
    with pytest.raises(Exception, match=r"checkpointLocation|txnVersion"):
        finish(
            memory.option("txnAppId", "a").option("txnVersion", 1).option("checkpointLocation", path + "-q").start(path)
        )
