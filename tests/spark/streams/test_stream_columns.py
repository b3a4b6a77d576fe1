"""`schemaTrackingLocation`: a stream reads each row under the columns of its time, and continues
after changed columns with consent."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, exceptions, write_deltalake
from deltaplane import spark as dp
from following import READS
from sparks import needs_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SECONDS = 120
MOVED_ON, NO_LEAVE = (
    "DELTA_STREAMING_METADATA_EVOLUTION",
    "DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION",
)
Rows = list[dict[str, Any]]


@dataclass
class Query:
    """A query over all present rows, run repeatedly, and the rows of its last run."""

    reads: Callable[..., DataFrame]
    path: str
    rows: Rows = field(default_factory=list)

    def __call__(self, **options: Any) -> Rows:
        self.rows = []

        def note(batch: DataFrame, _: int) -> None:
            self.rows.extend(row.asDict() for row in batch.collect())

        frame = self.reads(schemaTrackingLocation=f"{self.path}-log", **options)
        writer = frame.writeStream.foreachBatch(note).option("checkpointLocation", f"{self.path}-query")
        assert writer.trigger(availableNow=True).start().awaitTermination(SECONDS)
        return self.rows


@pytest.fixture(params=READS)
def run(spark: SparkSession, path: str, request: pytest.FixtureRequest) -> Query:
    if request.param == "native":
        return Query(lambda **options: dp.read_stream(spark, path, **options), path)
    dp.register(spark)
    return Query(lambda **options: spark.readStream.format("deltaplane").options(**options).load(path), path)


def mapped(path: str, **columns: pa.DataType) -> None:
    schema = pa.schema(list(columns.items()))
    properties = {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}
    write_deltalake(path, schema.empty_table(), configuration=properties)


def append(path: str, **row: int) -> None:
    schema = pa.schema(DeltaTable(path).schema().to_arrow())
    write_deltalake(path, pa.Table.from_pylist([row], schema=schema), mode="append")


@needs_spark("4.0", "doesn't read files of narrower types, which is refused")
def test_rows_come_under_the_columns_of_their_time(path: str, run: Query) -> None:
    # P110, P153
    mapped(path, id=pa.int64(), a=pa.int32())
    append(path, id=1, a=10)
    assert run() == [{"id": 1, "a": 10}]

    append(path, id=2, a=20)
    DeltaTable(path).alter.rename_column("a", "b")
    append(path, id=3, b=30)
    with pytest.raises(Exception, match=MOVED_ON):
        run()
    assert run.rows == [{"id": 2, "a": 20}]
    with pytest.raises(Exception, match=rf"{NO_LEAVE}[\s\S]*allowSourceColumnRename: a"):
        run()
    with pytest.raises(Exception, match=NO_LEAVE):
        run(allowSourceColumnRename=4, allowSourceColumnDrop="always")
    assert run(allowSourceColumnRename=3) == [{"id": 3, "b": 30}]

    # Two changes without rows between them count as one.
    DeltaTable(path).alter.change_column_type("b", "long")
    DeltaTable(path).alter.drop_columns(["id"])
    append(path, b=1 << 40)
    leave = {"allowSourceColumnTypeChange": "always", "allowSourceColumnDrop": "always"}
    with pytest.raises(Exception, match=MOVED_ON):
        run(allowSourceColumnRename=3)
    with pytest.raises(Exception, match=rf"{NO_LEAVE}[\s\S]*allowSourceColumnDrop: id; allowSourceColumnTypeChange: b"):
        run()
    assert run(**leave) == [{"b": 1 << 40}]
    assert run(**leave) == []

    entries = sorted(Path(f"{path}-log").glob("_schema_log_*/*"))
    assert [entry.name for entry in entries] == ["0", "1", "2"]
    said = [json.loads(entry.read_text().removeprefix("v1\n")) for entry in entries]
    assert [entry["deltaCommitVersion"] for entry in said] == [1, 3, 6]


def test_a_start_in_the_past_has_the_columns_of_then(path: str, run: Query) -> None:
    mapped(path, id=pa.int64(), a=pa.int32())
    append(path, id=1, a=10)
    table = DeltaTable(path)
    table.alter.drop_columns(["a"])
    append(path, id=2)
    # Added columns need no consent.
    extended = pa.table({"id": pa.array([3], pa.int64()), "c": pa.array([5], pa.int32())})
    write_deltalake(path, extended, mode="append", schema_mode="merge")
    for _ in range(2):
        with pytest.raises(Exception, match=MOVED_ON):
            run(startingVersion=0)
    assert run.rows == [{"id": 1, "a": 10}]
    with pytest.raises(Exception, match=MOVED_ON):
        run(startingVersion=0, allowSourceColumnDrop="always")
    assert run.rows == [{"id": 2}]
    assert run(startingVersion=0) == [{"id": 3, "c": 5}]


def test_two_queries_need_two_logs(spark: SparkSession, path: str) -> None:
    mapped(path, id=pa.int64())
    append(path, id=1)

    def start(checkpoint: str, **options: str) -> None:
        frame = dp.read_stream(spark, path, schemaTrackingLocation=f"{path}-log", **options)
        writer = frame.writeStream.format("noop").option("checkpointLocation", f"{path}-{checkpoint}")
        writer.trigger(availableNow=True).start().awaitTermination(SECONDS)

    start("first")
    with pytest.raises(Exception, match="belongs to another query"):
        start("second")
    start("second", streamingSourceTrackingId="second")
    entry = next(Path(f"{path}-log").glob("_schema_log_*_second/0"))
    entry.write_text("v2\n{}")
    with pytest.raises(exceptions.CorruptLogError, match="no entry of a stream's schema log"):
        start("second", streamingSourceTrackingId="second")


def test_wrong_options(spark: SparkSession, path: str) -> None:
    mapped(path, id=pa.int64())
    for options, match in [
        ({"allowSourceColumnDrop": "always"}, "goes with schemaTrackingLocation"),
        ({"streamingSourceTrackingId": "x"}, "goes with schemaTrackingLocation"),
        ({"schemaTrackingLocation": path, "allowSourceColumnRename": "true"}, "always, or the version"),
    ]:
        with pytest.raises(exceptions.InvalidArgumentError, match=match):
            dp.read_stream(spark, path, **options)


@pytest.mark.parametrize("reads", READS)
def test_without_a_log_renamed_columns_end_a_query(
    spark: SparkSession, path: str, reads: str, conf: dict[str, str]
) -> None:
    mapped(path, id=pa.int64(), a=pa.int64())
    write_deltalake(path, pa.table({"id": [1], "a": [2]}), mode="append")
    if reads != "native":
        dp.register(spark)

    def run(checkpoint: str, **options: Any) -> None:
        frame = (
            dp.read_stream(spark, path, **options)
            if reads == "native"
            else spark.readStream.format("deltaplane").options(**options).load(path)
        )
        writer = frame.writeStream.format("noop").option("checkpointLocation", f"{path} {checkpoint}")
        assert writer.trigger(availableNow=True).start().awaitTermination(SECONDS)

    run("query")
    DeltaTable(path).alter.rename_column("a", "b")
    # Also without new rows since.
    with pytest.raises(Exception, match=r"were renamed or dropped .*\(renamed: a\)"):
        run("query")
    with pytest.raises(Exception, match=r"were renamed or dropped .*\(renamed: a\)"):
        run("from the first", startingVersion=0)
    # Rows that begin with the renaming have only the new names.
    run("from the renaming", startingVersion=2)
    run("again")
    if reads == "native":
        conf["spark.databricks.delta.streaming.unsafeReadOnIncompatibleColumnMappingSchemaChanges.enabled"] = "true"
        run("query")
