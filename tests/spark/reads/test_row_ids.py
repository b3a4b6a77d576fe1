"""`_metadata` on Spark: row ids and commit versions of tables with row tracking, fields of files,
over every kind of scan.

Expected values are delta-spark's results of the same statements (delta-spark 4.4 on Spark 4.2),
and, for rows changed by random commands, a model: a row keeps its id for life, and its commit
version is that of its last change.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import functions as F

from deltaplane import DeltaTable, write_deltalake
from deltaplane import spark as dp
from deltaplane.spark.scan.read import live_frame
from sparks import needs_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

FILE_FIELDS = [
    "file_path",
    "file_name",
    "file_size",
    "file_block_start",
    "file_block_length",
    "file_modification_time",
    "row_index",
]
TRACKED_FIELDS = [*FILE_FIELDS, "row_id", "base_row_id", "default_row_commit_version", "row_commit_version"]
TRACKED = {"delta.enableRowTracking": "true"}
# Column mapping and deletion vectors: each combination reads files differently.
KINDS = [(mapping, vectors) for mapping in ("none", "name", "id") for vectors in (False, True)]


def properties(mapping: str, vectors: bool) -> dict[str, str]:
    return {
        **TRACKED,
        "delta.columnMapping.mode": mapping,
        "delta.enableDeletionVectors": str(vectors).lower(),
    }


def shown(configuration: dict[str, str]) -> str:
    return ", ".join(f"'{key}' = '{value}'" for key, value in configuration.items())


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()))


def test_ids_and_versions_are_delta_sparks(enabled: SparkSession, name: str) -> None:
    """P140 to P143: delta-spark's ids after each of these commands."""
    sql = enabled.sql
    asked = f"SELECT id, p, _metadata.row_id, _metadata.row_commit_version FROM {name} ORDER BY id"
    sql(
        f"CREATE TABLE {name} (id BIGINT, p STRING) USING delta PARTITIONED BY (p) "
        f"TBLPROPERTIES ({shown({**TRACKED, 'delta.enableDeletionVectors': 'true'})})"
    )
    sql(f"INSERT INTO {name} SELECT id, CAST(id % 2 AS STRING) FROM range(0, 6, 1, 1)")
    sql(f"INSERT INTO {name} SELECT id, 'z' FROM range(10, 13, 1, 1)")
    assert rows(sql(asked)) == [
        (0, "0", 0, 1), (1, "1", 3, 1), (2, "0", 1, 1), (3, "1", 4, 1), (4, "0", 2, 1), (5, "1", 5, 1),
        (10, "z", 6, 2), (11, "z", 7, 2), (12, "z", 8, 2),
    ]  # fmt: skip
    sql(f"UPDATE {name} SET id = id + 100 WHERE id IN (2, 11)")
    sql(f"DELETE FROM {name} WHERE id = 4")
    assert rows(sql(f"SELECT id, _metadata.base_row_id, _metadata.default_row_commit_version FROM {name}")) == [
        (0, 0, 1), (1, 3, 1), (3, 3, 1), (5, 3, 1), (10, 6, 2), (12, 6, 2), (102, 10, 3), (111, 9, 3),
    ]  # fmt: skip
    sql(
        f"MERGE INTO {name} t USING (SELECT 1 AS k UNION ALL SELECT 99) s ON t.id = s.k WHEN MATCHED THEN UPDATE SET id = 201 "
        "WHEN NOT MATCHED THEN INSERT (id, p) VALUES (s.k, 'n')"
    )
    after = [
        (0, "0", 0, 1), (3, "1", 4, 1), (5, "1", 5, 1), (10, "z", 6, 2), (12, "z", 8, 2), (99, "n", 12, 5),
        (102, "0", 1, 3), (111, "z", 7, 3), (201, "1", 3, 5),
    ]  # fmt: skip
    assert rows(sql(asked)) == after
    sql(f"OPTIMIZE {name}")
    assert rows(sql(asked)) == after
    assert rows(sql(f"SELECT id FROM {name} WHERE _metadata.row_id = 2")) == []
    assert rows(sql(f"SELECT id, _metadata.row_id FROM {name} VERSION AS OF 2")) == [
        (0, 0), (1, 3), (2, 1), (3, 4), (4, 2), (5, 5), (10, 6), (11, 7), (12, 8),
    ]  # fmt: skip
    joined = f"SELECT a.id, b.id FROM {name} a JOIN {name} VERSION AS OF 2 b ON a._metadata.row_id = b._metadata.row_id"
    assert rows(sql(joined)) == [(0, 0), (3, 3), (5, 5), (10, 10), (12, 12), (102, 2), (111, 11), (201, 1)]
    assert rows(sql(f"SELECT count(*), max(_metadata.row_id) FROM {name}")) == [(9, 12)]
    path = enabled.sql(f"DESCRIBE DETAIL {name}").collect()[0].location
    for frame in (enabled.table(name), enabled.read.format("delta").load(path), dp.read(enabled, path)):
        assert rows(frame.select("id", "p", "_metadata.row_id", "_metadata.row_commit_version")) == after
    embedded = DeltaTable(path).scan(["id", "p", "_row_id", "_row_commit_version"]).to_arrow()
    assert sorted(zip(*embedded.to_pydict().values(), strict=True)) == after


def test_fields_of_the_column_are_delta_sparks(enabled: SparkSession, name: str) -> None:
    enabled.sql(f"CREATE TABLE {name} (id BIGINT) USING delta TBLPROPERTIES ({shown(TRACKED)})")
    field = enabled.table(name).select("_metadata").schema["_metadata"]
    assert [(f.name, f.nullable) for f in field.dataType] == [(nullable, False) for nullable in TRACKED_FIELDS]  # type: ignore[attr-defined]
    assert not field.nullable
    assert enabled.table(name).columns == ["id"]
    assert enabled.table(name).select("_metadata.*").columns == TRACKED_FIELDS


def test_without_row_tracking_spark_names_the_fields_that_there_are(enabled: SparkSession, name: str) -> None:
    """delta-spark's condition, also if the feature is only supported, and after it was disabled."""
    sql = enabled.sql
    sql(f"CREATE TABLE {name} (id BIGINT) USING delta TBLPROPERTIES ('delta.feature.rowTracking' = 'supported')")
    sql(f"INSERT INTO {name} VALUES (1)")
    for field in ("row_id", "row_commit_version", "base_row_id"):
        with pytest.raises(AnalysisException, match=rf"\[FIELD_NOT_FOUND\] No such struct field `{field}`"):
            sql(f"SELECT _metadata.{field} FROM {name}")
    sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({shown(TRACKED)})")
    assert [row[0] for row in sql(f"SELECT _metadata.row_id FROM {name}").collect()] == [0]
    sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.enableRowTracking' = 'false')")
    with pytest.raises(AnalysisException, match="FIELD_NOT_FOUND"):
        sql(f"SELECT id FROM {name} WHERE _metadata.row_id = 1")


@pytest.fixture(params=KINDS, ids=lambda kind: f"{kind[0]}{' vectors' if kind[1] else ''}")
def changed(spark: SparkSession, path: str, request: pytest.FixtureRequest) -> str:
    """Six rows, two of them rewritten, with columns named like fields of `_metadata`."""
    made = spark.range(0, 6, 1, 1).selectExpr(
        "id", "cast(id % 2 AS string) AS p", "named_struct('a', cast(id AS int), 'b', 1) AS s", "1L AS file_size",
        "999L AS row_id", "888L AS base_row_id",
    )  # fmt: skip
    dp.write(made, path, partition_by="p", configuration=properties(*request.param))
    DeltaTable(path).update(updates={"id": "id + 100"}, predicate="id IN (2, 3)")
    return path


def test_ids_go_with_everything_that_queries_do(spark: SparkSession, changed: str) -> None:
    table = dp.read(spark, changed)
    ids = {0: 0, 4: 2, 102: 1, 1: 3, 103: 4, 5: 5}
    assert rows(table.select("id", "s.a", "_metadata.row_id", "row_id")) == sorted(
        (key, key % 100, row_id, 999) for key, row_id in ids.items()
    )
    versions = dict(rows(table.select("id", "_metadata.row_commit_version")))
    assert versions == {key: int(key > 100) for key in ids}
    # Filters: on the id alone, on partitions and nested fields with it, on fields of `_metadata`
    # named like columns.
    for row_id in range(7):
        keys = [row.id for row in table.where(f"_metadata.row_id = {row_id}").collect()]
        assert keys == [key for key, other in ids.items() if other == row_id]
    assert rows(table.where("_metadata.row_id > 0 AND p = '0'").select("id")) == [(4,), (102,)]
    assert rows(table.where("_metadata.row_id = 1 AND s.a > 1").select("id")) == [(102,)]
    assert table.where("_metadata.file_size > 100").count() == 6
    assert table.where("_metadata.base_row_id < 100 AND _metadata.row_id IS NOT NULL").count() == 6
    # Joins on ids that were selected.
    by_id = {row_id: key for key, row_id in ids.items()}
    picked = table.select("id", "_metadata.row_id")
    renamed = picked.alias("l").join(picked.alias("r"), F.expr("l.row_id = r.row_id + 1")).select("l.id", "r.id")
    assert rows(renamed) == sorted((by_id[n + 1], by_id[n]) for n in range(5))
    # Order, groups, and the column selected twice.
    ordered = table.orderBy(F.col("_metadata.row_id").desc()).select("id").collect()
    assert [row.id for row in ordered] == [5, 103, 1, 4, 102, 0]
    assert table.groupBy("_metadata.row_id").count().where("count > 1").count() == 0
    assert rows(table.select("id", "_metadata").select("id", "_metadata.row_id")) == sorted(ids.items())
    assert rows(table.select("id", "_metadata.row_index").select("id", "_metadata.row_id")) == sorted(ids.items())
    # The column is hidden unless a query names it.
    assert table.union(table).columns == table.columns == ["id", "p", "s", "file_size", "row_id", "base_row_id"]
    assert table.select("id").distinct().count() == 6


@needs_spark("4.1", "fails with a ClassCastException for a join whose condition names `_metadata`")
def test_ids_go_with_joins_of_a_table_with_itself(spark: SparkSession, changed: str) -> None:
    """Spark renames one side's columns."""
    table = dp.read(spark, changed)
    ids = {0: 0, 4: 2, 102: 1, 1: 3, 103: 4, 5: 5}
    left, right = table.alias("l"), table.alias("r")
    next_one = F.expr("l._metadata.row_id = r._metadata.row_id + 1")
    by_id = {row_id: key for key, row_id in ids.items()}
    assert rows(left.join(right, next_one).select("l.id", "r.id")) == sorted((by_id[n + 1], by_id[n]) for n in range(5))
    filtered = left.join(right.where("r.id < 3"), next_one).select("l.id", "r.id")
    assert rows(filtered) == [(102, 0), (103, 1)]


def test_fields_of_files_are_those_of_the_log(spark: SparkSession, changed: str) -> None:
    table = dp.read(spark, changed)
    files = {
        (row.file_name, row.file_size, row.file_block_start)
        for row in table.select("_metadata.*").collect()
        if row.file_path.endswith(row.file_name)
    }
    actions = pa.table(DeltaTable(changed).get_add_actions(flatten=True)).to_pylist()
    assert files == {(add["path"].rpartition("/")[2], add["size_bytes"], 0) for add in actions}
    places = rows(table.select("id", "_metadata.row_index"))
    embedded = DeltaTable(changed).scan(["id", "_row"]).to_arrow()
    assert places == sorted(zip(*embedded.to_pydict().values(), strict=True))


def test_no_filter_on_ids_reaches_parquet(spark: SparkSession, changed: str) -> None:
    """Files store ids of rewritten rows only, so their bounds don't cover the others."""
    frame = dp.read(spark, changed).where("_metadata.row_id = 2 AND _metadata.row_id IS NOT NULL").select("id")
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "PushedFilters: []" in plan
    assert "row-id-col" in plan
    assert [row.id for row in frame.collect()] == [4]


def test_only_what_is_asked_for_is_read(spark: SparkSession, changed: str) -> None:
    table = dp.read(spark, changed)

    def read(frame: DataFrame) -> str:
        return frame._jdf.queryExecution().executedPlan().toString().partition("ReadSchema: ")[2]

    assert "row-" not in read(table.select("id"))
    assert "row-commit-version" not in read(table.select("_metadata.row_id"))
    assert "row-id-col" not in read(table.select("id", "_metadata.file_name"))


@needs_spark("4.0", "has no DataFrame.metadataColumn")
def test_a_column_called_metadata_is_what_the_name_means(spark: SparkSession, path: str) -> None:
    """As in delta-spark, where `metadataColumn` finds the hidden one."""
    made = spark.sql("SELECT named_struct('row_id', 7) AS _metadata, 1L AS id")
    dp.write(made, path, configuration=TRACKED)
    table = dp.read(spark, path)
    assert rows(table.select("_metadata.row_id", table.metadataColumn("_metadata")["row_id"])) == [(7, 0)]


def test_the_column_can_be_stored(spark: SparkSession, path: str) -> None:
    """Its metadata, by which Spark recognises it, isn't copied to another table's schema."""
    dp.write(spark.range(3), path, configuration={**TRACKED, "delta.enableDeletionVectors": "true"})
    dp.write(dp.read(spark, path).select("id", "_metadata"), path + " copy")
    copy = dp.read(spark, path + " copy")
    assert copy.schema["_metadata"].metadata == {}
    assert rows(copy.select("_metadata.row_id")) == [(0,), (1,), (2,)]


def test_views_that_follow_the_table_show_ids_of_the_newest_version(spark: SparkSession, path: str) -> None:
    dp.write(spark.range(2), path, configuration=TRACKED)
    live = live_frame(spark, path).select("id", "_metadata.row_id", "_metadata.row_commit_version")
    live.createOrReplaceTempView("ids_of_rows")
    dp.write(spark.range(2, 4), path, mode="append")
    assert rows(spark.table("ids_of_rows")) == [(0, 0, 0), (1, 1, 0), (2, 2, 1), (3, 3, 1)]


def test_a_file_without_ids_is_an_error_and_no_wrong_id(spark: SparkSession, path: str) -> None:
    dp.write(spark.range(2), path, configuration=TRACKED)
    commit = Path(path) / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        action.get("add", {}).pop("baseRowId", None)
    commit.write_text("".join(json.dumps(action) + "\n" for action in actions))
    for side in Path(path).glob("_delta_log/*.crc"):
        side.unlink()
    table = dp.read(spark, path)
    assert table.count() == 2
    with pytest.raises(Exception, match="the log has no row tracking for the file of a row"):
        table.select("_metadata.row_id").collect()


class Model:
    """Rows by their key: value, id and version of the last change."""

    def __init__(self, spark: SparkSession, path: str, seed: int) -> None:
        self.spark, self.path, self.random = spark, path, random.Random(seed)
        self.rows: dict[int, tuple[int, int, int]] = {}
        self.next = 0

    def check(self) -> None:
        """Compares with the results of Spark and of the embedded engine; takes over the ids of new
        rows."""
        version = DeltaTable(self.path).version()
        shown = ["k", "v", "_metadata.row_id", "_metadata.row_commit_version"]
        rows = {row[0]: tuple(row[1:]) for row in dp.read(self.spark, self.path).select(*shown).collect()}
        for key, (value, row_id, _) in list(self.rows.items()):
            if row_id < 0:
                self.rows[key] = value, rows[key][1], version
        assert rows == self.rows
        ids = [row_id for _, row_id, _ in self.rows.values()]
        assert len(set(ids)) == len(ids)
        embedded = DeltaTable(self.path).scan(["k", "v", "_row_id", "_row_commit_version"]).to_arrow().to_pydict()
        assert {key: rest for key, *rest in zip(*embedded.values(), strict=True)} == {
            key: list(row) for key, row in self.rows.items()
        }

    def insert(self) -> None:
        keys = list(range(self.next, self.next + self.random.randint(1, 6)))
        self.next += len(keys)
        values = [self.random.randrange(4) for _ in keys]
        if self.random.random() < 0.5:
            write_deltalake(self.path, pa.table({"k": keys, "v": values}), mode="append")
        else:
            frame = self.spark.createDataFrame(list(zip(keys, values, strict=True)), "k long, v long")
            dp.write(frame.coalesce(1), self.path, mode="append")
        for key, value in zip(keys, values, strict=True):
            self.rows[key] = value, -1, -1

    def update(self) -> None:
        which, to = self.random.randrange(4), self.random.randrange(10, 14)
        if self.random.random() < 0.5:
            DeltaTable(self.path).update(updates={"v": str(to)}, predicate=f"v = {which}")
        else:
            self.on_spark().update(f"v = {which}", {"v": str(to)})
        self._changed({key: to for key, (value, _, _) in self.rows.items() if value == which})

    def delete(self) -> None:
        which = self.random.choice(list(self.rows)) if self.rows else 0
        if self.random.random() < 0.5:
            DeltaTable(self.path).delete(f"k = {which}")
        else:
            self.on_spark().delete(f"k = {which}")
        self.rows.pop(which, None)

    def merge(self) -> None:
        known = self.random.sample(sorted(self.rows), min(2, len(self.rows)))
        source = pa.table({"k": [*known, self.next], "v": [20, 21, 22][: len(known) + 1]})
        clauses = DeltaTable(self.path).merge(source, "t.k = s.k", source_alias="s", target_alias="t")
        clauses.when_matched_update({"v": "s.v"}).when_not_matched_insert_all().execute()
        self._changed(dict(zip(source["k"].to_pylist(), source["v"].to_pylist(), strict=True)))
        self.next += 1

    def optimize(self) -> None:
        if self.random.random() < 0.5:
            DeltaTable(self.path).optimize.compact()
        else:
            self.on_spark().optimize().executeCompaction()

    def on_spark(self) -> dp.DeltaTable:
        return dp.DeltaTable.forPath(self.spark, self.path)

    def _changed(self, values: dict[int, int]) -> None:
        version = DeltaTable(self.path).version()
        for key, value in values.items():
            _, row_id, _ = self.rows.get(key, (0, -1, -1))
            self.rows[key] = value, row_id, version


@pytest.mark.parametrize(("mapping", "vectors"), [("none", True), ("name", False), ("id", True)])
def test_random_commands_keep_ids(spark: SparkSession, path: str, mapping: str, vectors: bool) -> None:
    """A row has one id for life, ids are unique, and its version is that of the last commit that
    changed it, for all engines that run the commands and all readers."""
    write_deltalake(
        path, pa.table({"k": pa.array([], pa.int64()), "v": pa.array([], pa.int64())}),
        configuration=properties(mapping, vectors),
    )  # fmt: skip
    model = Model(spark, path, seed=len(mapping) + vectors)
    commands = [model.insert, model.insert, model.update, model.delete, model.merge, model.optimize]
    for command in [model.insert, *model.random.choices(commands, k=11), model.optimize]:
        command()
        model.check()


# --- streams ------------------------------------------------------------------------------------------------------------

SECONDS = 120


def streamed(frame: DataFrame, path: str) -> list[tuple[Any, ...]]:
    """New rows since the last call with this path."""
    collected: list[tuple[Any, ...]] = []
    writer = frame.writeStream.foreachBatch(lambda batch, _: collected.extend(rows(batch)))
    query = writer.option("checkpointLocation", f"{path}-query").trigger(availableNow=True).start()
    assert query.awaitTermination(SECONDS)
    assert query.exception() is None
    return sorted(collected)


@pytest.mark.parametrize("vectors", [False, True])
def test_streams_show_what_a_batch_shows(spark: SparkSession, path: str, vectors: bool) -> None:
    """delta-spark's streams have no `_metadata`; Spark's own file streams have."""
    dp.write(spark.range(0, 4, 1, 1), path, configuration=properties("name", vectors))
    DeltaTable(path).delete("id = 1")
    shown = ["id", "_metadata.file_name", "_metadata.row_index", "_metadata.row_id", "_metadata.row_commit_version"]
    frame = dp.read_stream(spark, path)
    assert frame.columns == ["id"]
    assert frame.select("_metadata.*").columns == dp.read(spark, path).select("_metadata.*").columns == TRACKED_FIELDS
    asked = frame.select(*shown).where("_metadata.row_id <> 3")
    first = streamed(asked, path)
    assert first == rows(dp.read(spark, path).select(*shown).where("_metadata.row_id <> 3"))
    assert [(row[0], *row[2:]) for row in first] == [(0, 0, 0, 0), (2, 1 + vectors, 2, 0)]
    dp.write(spark.range(4, 6, 1, 1), path, mode="append")
    # A rewritten file allocates ids, though its rows keep theirs.
    next_id = 4 if vectors else 7
    came = [(row[0], *row[2:]) for row in streamed(asked, path)]
    assert came == [(4, 0, next_id, 2), (5, 1, next_id + 1, 2)]


def test_a_stream_with_and_without_the_column_is_one_query(spark: SparkSession, path: str) -> None:
    dp.write(spark.range(0, 3, 1, 1), path, configuration=TRACKED)
    frame = dp.read_stream(spark, path)
    both = frame.selectExpr("id", "-1L AS other").union(frame.selectExpr("id", "_metadata.row_id"))
    assert streamed(both, path) == sorted([(n, -1) for n in range(3)] + [(n, n) for n in range(3)])
    dp.write(spark.range(3, 4), path, mode="append")
    assert streamed(both, path) == [(3, -1), (3, 3)]


def test_streams_of_tables_by_name_and_without_row_tracking(enabled: SparkSession, name: str, path: str) -> None:
    enabled.sql(f"CREATE TABLE {name} (id BIGINT) USING delta")
    enabled.sql(f"INSERT INTO {name} VALUES (7)")
    frame = enabled.readStream.table(name)
    assert frame.select("_metadata.*").columns == FILE_FIELDS
    expected = rows(enabled.table(name).select("id", "_metadata.file_name"))
    assert streamed(frame.select("id", "_metadata.file_name"), path) == expected
    with pytest.raises(AnalysisException, match="FIELD_NOT_FOUND"):
        frame.select("_metadata.row_id")


def test_a_stream_keeps_the_fields_that_it_was_defined_with(spark: SparkSession, path: str) -> None:
    """Also if row tracking is enabled between the definition and the start of the query."""
    dp.write(spark.range(0, 2, 1, 1), path)
    frame = dp.read_stream(spark, path).select("id", "_metadata.row_index", "_metadata")
    DeltaTable(path).alter.set_table_properties(TRACKED)
    dp.write(spark.range(2, 3), path, mode="append")
    assert [row[:2] for row in streamed(frame.select("id", "row_index", "_metadata.file_name"), path)] == [
        (0, 0), (1, 1), (2, 0),
    ]  # fmt: skip


def test_rows_from_before_row_tracking_have_no_made_up_ids(spark: SparkSession, path: str) -> None:
    """A stream with the columns of a version without row tracking, and one that begins with a file
    without ids."""
    dp.write(spark.range(0, 2, 1, 1), path)
    DeltaTable(path).alter.set_table_properties(TRACKED)
    options: dict[str, Any] = {"startingVersion": 0, "ignoreChanges": True}
    options_of_stream = {**options, "schemaTrackingLocation": f"{path}-query/columns"}
    with pytest.raises(StreamingQueryException, match="DELTA_STREAMING_METADATA_EVOLUTION"):
        streamed(dp.read_stream(spark, path, **options_of_stream).select("id", "_metadata.row_id"), path)
    with pytest.raises(AnalysisException, match="FIELD_NOT_FOUND"):
        dp.read_stream(spark, path, **options_of_stream).select("_metadata.row_id")
    fresh = dp.read_stream(spark, path, **options)
    with pytest.raises(StreamingQueryException, match="the log has no row tracking for the file of a row"):
        streamed(fresh.select("id", "_metadata.row_id"), path + " other")
    assert streamed(fresh.select("id", "_metadata.row_index"), path + " third") == [(0, 0), (1, 1)]
