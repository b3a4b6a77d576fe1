"""DELETE, UPDATE and MERGE on Spark: the rows, changes, ids and metrics of a model and of the
embedded engine."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F

import deltaplane
from api.rows.row_model import CONDITIONS, FEED, IDS, TABLES, UPDATES, VECTORS
from api.rows.test_merge import Merged, merges
from deltaplane import DeltaTable, write_deltalake
from deltaplane.commands.dry_run import DryRun
from deltaplane.commands.rewriting import Rewriting
from deltaplane.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConstraintViolationError,
    InvalidArgumentError,
    SchemaMismatchError,
)
from deltaplane.schema import Field, Schema
from deltaplane.spark import DeltaTable as SparkTable
from interop.verifier import verify
from sparks import TASK_ERROR

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VECTORS_OR_NOT = pytest.mark.parametrize("properties", [{}, VECTORS], ids=["copied", "marked"])


def foretold(dry_run: DryRun, commit: list[dict[str, Any]]) -> None:
    """Compares a commit with the embedded engine's dry run of the same command, except for the new
    files."""
    info = next(action["commitInfo"] for action in commit if "commitInfo" in action)
    adds = {action["add"]["path"] for action in commit if "add" in action}
    removes = {action["remove"]["path"]: action["remove"]["size"] for action in commit if "remove" in action}
    assert info["operation"] == dry_run.operation
    assert dict(dry_run.rows) == {name: int(n) for name, n in info["operationMetrics"].items() if "Rows" in name}
    assert dry_run.files_marked == len(adds & removes.keys())
    assert dry_run.bytes_removed == sum(size for path, size in removes.items() if path not in adds)


def camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.title, others))


class OnSpark:
    """The embedded table's interface over Spark's commands; dry runs use the embedded engine."""

    def __init__(self, table: DeltaTable, spark: SparkSession) -> None:
        self._table, self._spark = table, spark

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    @property
    def on_spark(self) -> SparkTable:
        return SparkTable.forPath(self._spark, self._table.location)

    def delete(self, predicate: str | None, dry_run: bool = False) -> Any:
        if dry_run:
            return self._table.delete(predicate, dry_run=True)
        return self.done(lambda: self.on_spark.delete(predicate), ["num_deleted_rows"])

    def update(self, updates: Any, constants: Any, predicate: str | None, dry_run: bool = False) -> Any:
        if dry_run:
            return self._table.update(updates, constants, predicate, dry_run=True)
        literals = {name: str(value) for name, value in constants.items()}
        return self.done(lambda: self.on_spark.update(predicate, {**updates, **literals}), ["num_updated_rows"])

    def merge(self, source: pa.Table, on: str, **aliases: str) -> Merger:
        return Merger(self, source, on)

    def done(self, run: Callable[[], object], names: list[str]) -> dict[str, int]:
        """Runs a command; returns its metrics from the history, zeros if nothing was committed."""
        before = self._table.version()
        run()
        self._table.update_incremental()
        said = self._table.history(1)[0]["operationMetrics"] if self._table.version() > before else {}
        return {name: int(said.get(camel(name), 0)) for name in names}


class Merger:
    """A merge under the embedded builder's names."""

    def __init__(self, table: OnSpark, source: pa.Table, on: str) -> None:
        self._table = table
        self._embedded = table._table.merge(source, on, source_alias="s", target_alias="t")
        frame = table._spark.createDataFrame(source)
        self._builder = table.on_spark.alias("t").merge(frame.alias("s"), on)
        self._names = source.column_names

    def __getattr__(self, name: str) -> Any:
        def add(*arguments: Any, except_cols: list[str] | None = None) -> Merger:
            getattr(self._embedded, name)(*arguments, **({} if except_cols is None else {"except_cols": except_cols}))
            method, predicate, assigned = camel(name), arguments[-1], list(arguments[:-1])
            if except_cols is not None:
                left = {column.lower() for column in except_cols}
                assigned = [{column: f"s.{column}" for column in self._names if column not in left}]
                method = method.removesuffix("All")
            self._builder = getattr(self._builder, method)(predicate, *assigned)
            return self

        return add

    def execute(self, dry_run: bool = False) -> Any:
        if dry_run:
            return self._embedded.execute(dry_run=True)
        shown: list[Any] = []
        names = [f"num_target_rows_{what}" for what in ("updated", "deleted", "inserted")]
        done = self._table.done(lambda: shown.extend(self._builder.execute().collect()), names)
        assert list(shown[0]) == [sum(done.values()), *done.values()]
        return done


class OnSparkModel(Merged):
    """The model, with its commands on Spark."""

    foretold = staticmethod(foretold)

    def __init__(self, path: str, properties: dict[str, str], partitioned: bool, spark: SparkSession) -> None:
        super().__init__(path, properties, partitioned)
        self._embedded = self.table
        self.append([{"a": i % 4, "s": "ab"[i % 2], "f": float(i), "p": "xy"[i % 2]} for i in range(6)])
        self.append([{"a": 5 - i, "s": "bb", "f": 0.5, "p": "xyx"[i]} for i in range(3)])
        self.table = OnSpark(self.table, spark)  # type: ignore[assignment]


deletes = st.tuples(st.just("delete"), st.sampled_from(CONDITIONS))
updates = st.tuples(st.just("update"), st.tuples(st.sampled_from(UPDATES), st.sampled_from(CONDITIONS)))
merging = st.tuples(st.just("merge"), merges)
# The conditions of the other plans allow no rows without a key, which merges insert.
plans = st.lists(deletes | updates, min_size=2, max_size=2) | st.lists(merging, min_size=2, max_size=2)
# Shrinking a failing example takes minutes here.
QUICK = settings(
    max_examples=2,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.mark.parametrize("partitioned", [False, True], ids=["plain", "partitioned"])
@pytest.mark.parametrize("properties", TABLES, ids=lambda p: "+".join(k.removeprefix("delta.") for k in p) or "none")
@QUICK
@given(steps=plans)
def test_commands_do_what_a_model_and_the_embedded_engine_do(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    properties: dict[str, str],
    partitioned: bool,
    steps: list[Any],
) -> None:
    # P122, P130, P131, P142
    model = OnSparkModel(str(tmp_path_factory.mktemp("dml") / "t äb"), properties, partitioned, spark)
    for name, argument in steps:
        getattr(model, name)(argument)
        model.check()
    model.check_changes()
    verify(model.table.location)


# --- what each command promises -----------------------------------------------------------------------------------------


def made(spark: SparkSession, path: str, data: pa.Table, **more: Any) -> SparkTable:
    write_deltalake(path, data, **more)
    return SparkTable.forPath(spark, path)


def rows(path: str, by: str = "id") -> list[dict[str, Any]]:
    return DeltaTable(path).to_pyarrow_table().sort_by(by).to_pylist()


TWO = pa.table({"id": [1, 2], "n": [10, 20]})


def test_conditions_and_values_take_all_of_sparks_functions(spark: SparkSession, path: str) -> None:
    table = made(spark, path, pa.table({"id": [1, 2, 3], "s": ["ab", "cd", "ef"]}))
    table.update(F.levenshtein("s", F.lit("ab")) == 0, {"s": F.reverse("s")})
    table.alias("t").update("soundex(t.s) = soundex('cd')", {"s": "transform(array(t.s), x -> x || '!')[0]"})
    table.delete(F.expr("aggregate(sequence(1L, id), 0L, (a, b) -> a + b) = 6"))
    assert rows(path) == [{"id": 1, "s": "ba"}, {"id": 2, "s": "cd!"}]


def test_what_differs_each_time_is_refused_in_conditions_and_in_values_of_update(
    spark: SparkSession, path: str
) -> None:
    table = made(spark, path, TWO)
    source = spark.createDataFrame([(1, 5)], "id long, n long")
    with pytest.raises(AnalysisException, match="NON_DETERMINISTIC"):
        table.alias("t").merge(source.alias("s"), "t.id = s.id AND rand() > 0.5").whenMatchedDelete().execute()
    merges = [
        table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedDelete("rand() > 0.5"),
        table.alias("t").merge(source.alias("s"), "t.id = s.id").whenNotMatchedInsertAll("rand() > 0.5"),
    ]
    commands: list[Callable[[], object]] = [
        lambda: table.delete("rand() > 0.5"),
        # As in delta-spark: INVALID_NON_DETERMINISTIC_EXPRESSIONS.
        lambda: table.update(None, {"n": "cast(rand() * 0 as long)"}),
        *(m.execute for m in merges),
    ]
    for run in commands:
        with pytest.raises(InvalidArgumentError, match="NON_DETERMINISTIC"):
            run()
    assert DeltaTable(path).version() == 0


def test_a_source_is_evaluated_once(spark: SparkSession, path: str) -> None:
    table = made(spark, path, pa.table({"id": list(range(8)), "n": [0] * 8}))
    source = spark.range(16).selectExpr("id", "rand() AS r", "cast(0 as long) AS n").where("r < 0.5")
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdate(set={"n": "t.n + 1"})
    (done,) = merge.whenNotMatchedInsert(values={"id": "s.id", "n": "s.n"}).execute().collect()
    metrics = DeltaTable(path).history(1)[0]["operationMetrics"]
    assert done.num_updated_rows + done.num_inserted_rows == int(metrics["numSourceRows"])
    assert sum(row["n"] for row in rows(path)) == done.num_updated_rows
    assert len({row["id"] for row in rows(path)}) == 8 + done.num_inserted_rows


@VECTORS_OR_NOT
@pytest.mark.usefixtures("ansi")
def test_a_failing_task_leaves_the_table_as_it_was(spark: SparkSession, path: str, properties: dict[str, str]) -> None:
    table = made(spark, path, TWO, configuration=properties)
    before = rows(path)
    source = spark.createDataFrame([(2, 0), (3, 7)], "id long, n long")
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.id")
    merge = merge.whenMatchedUpdate(set={"n": "10 div s.n"}).whenNotMatchedInsertAll()
    with pytest.raises(TASK_ERROR, match="DIVIDE_BY_ZERO"):
        merge.execute()
    with pytest.raises(TASK_ERROR, match="DIVIDE_BY_ZERO"):
        table.update("id = 2", {"n": "n div (id - 2)"})
    with pytest.raises(TASK_ERROR, match="DIVIDE_BY_ZERO"):
        table.delete("n div (id - 2) > 0")
    assert (DeltaTable(path).version(), rows(path)) == (0, before)
    # Files of other tasks are deleted when the command fails.
    assert len(list(Path(path).glob("*.parquet"))) == 1
    assert not list(Path(path).glob("deletion_vector_*"))


@VECTORS_OR_NOT
def test_rules_of_the_table_apply(spark: SparkSession, path: str, properties: dict[str, str]) -> None:
    # P101, P105, P107, P108
    identity = {"delta.identity.start": 10, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": False}
    columns = [
        Field("id", "long"),
        Field("n", "long", nullable=False),
        Field("twice", "long", metadata={"delta.generationExpression": "n * 2"}),
        Field("d", "string", metadata={"CURRENT_DEFAULT": "'none'"}),
        Field("i", "long", metadata=identity),
    ]
    more = {"delta.feature.allowColumnDefaults": "supported", "delta.constraints.small": "n < 100"}
    DeltaTable.create(path, Schema(columns), configuration={**properties, **more})
    write_deltalake(path, TWO, mode="append")
    table = SparkTable.forPath(spark, path).alias("t")
    source = spark.createDataFrame([(2, 30), (3, 40), (4, 50)], "id long, n long").alias("s")
    merge = table.merge(source, "t.id = s.id").whenMatchedUpdate(set={"n": "s.n", "d": "DEFAULT"})
    merge = merge.whenNotMatchedInsert("s.id = 3", {"id": "s.id", "n": "s.n"})
    merge.whenNotMatchedInsert(values={"id": "s.id", "n": "s.n + 1"}).execute()
    rows_read = rows(path)
    assert [(r["n"], r["twice"], r["d"]) for r in rows_read] == [
        *((10, 20, "none"), (30, 60, "none"), (40, 80, "none"), (51, 102, "none"))
    ]
    assert [r["i"] for r in rows_read[:2]] == [10, 11]
    assert len({r["i"] for r in rows_read}) == 4
    with pytest.raises(ConstraintViolationError, match="small"):
        table.update(None, {"n": "n + 60"})
    with pytest.raises(ConstraintViolationError, match="n"):
        table.update("id = 1", {"n": "null"})
    with pytest.raises(SchemaMismatchError, match="IDENTITY"):
        table.merge(source, "t.id = s.id").whenNotMatchedInsert(values={"id": "s.id", "n": "1", "i": "7"}).execute()
    with pytest.raises(InvalidArgumentError, match="identity"):
        table.update(None, {"i": "7"})
    with pytest.raises(SchemaMismatchError, match="doesn't fit"):
        table.update(None, {"n": "date'2024-01-01'"})
    with pytest.raises(PySparkException, match="CAST_INVALID_INPUT"):
        table.update(None, {"n": "'seven'"})
    assert rows(path) == rows_read


def test_fields_of_structs_are_assigned_by_path(spark: SparkSession, path: str) -> None:
    struct_type = pa.struct([("x", pa.int32()), ("y", pa.string())])
    data = pa.table({"id": pa.array([1, 2], pa.int64()), "s": pa.array([{"x": 1, "y": "a"}, None], struct_type)})
    table = made(spark, path, data)
    table.update(None, {"S.X": "id + 1L"})
    assert [row["s"] for row in rows(path)] == [{"x": 2, "y": "a"}, {"x": 3, "y": None}]
    with pytest.raises(SchemaMismatchError, match="empty"):
        table.update(None, {"s": "named_struct('x', 1)"})
    with pytest.raises(SchemaMismatchError, match=r"`z`.*lost"):
        table.update(None, {"s": "named_struct('x', 1, 'y', 'b', 'z', 2)"})


@pytest.mark.parametrize(
    ("source_schema", "says"),
    [
        ("id bigint", "no column `s`"),
        ("id bigint, s array<struct<x: int>>", "`s.element` has no field `y`"),
        ("id bigint, s array<struct<x: int, y: string, z: int>>", "`s.element` has a field `z`"),
    ],
)
def test_nothing_of_a_source_is_lost_without_a_word(
    spark: SparkSession, path: str, source_schema: str, says: str
) -> None:
    # As refused by delta-spark 4.4; with other rows than these nothing would be changed.
    list_type = pa.list_(pa.struct([("x", pa.int32()), ("y", pa.string())]))
    before = [{"id": 1, "s": [{"x": 1, "y": "a"}]}]
    table = made(spark, path, pa.Table.from_pylist(before, pa.schema([("id", pa.int64()), ("s", list_type)]))).alias(
        "t"
    )
    merge = table.merge(spark.createDataFrame([], source_schema).alias("s"), "t.id = s.id")
    clauses = [merge.whenMatchedUpdateAll(), merge.whenNotMatchedInsertAll()]
    if "s array" in source_schema:
        clauses += [merge.whenMatchedUpdate(set={"s": "s.s"}), merge.whenNotMatchedInsert(values={"s": "s.s"})]
    for clause in clauses:
        with pytest.raises((SchemaMismatchError, InvalidArgumentError), match=says):
            clause.execute()
        clause.withSchemaEvolution().execute()
    assert [row["id"] for row in rows(path)] == [1]


def test_schema_evolution_adds_columns(spark: SparkSession, path: str) -> None:
    table = made(spark, path, TWO, configuration=VECTORS).alias("t")
    source = spark.createDataFrame([(2, 5, "b"), (3, 6, "c")], "id long, n long, more string").alias("s")
    merge = table.merge(source, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    merge.execute()
    assert DeltaTable(path).schema().to_arrow().names == ["id", "n"]
    merge.withSchemaEvolution().execute()
    assert [tuple(row.values()) for row in rows(path)] == [(1, 10, None), (2, 5, "b"), (3, 6, "c")]


def test_schema_evolution_adds_columns_without_rows_for_them(spark: SparkSession, path: str) -> None:
    # As in delta-spark: the merge finds no row to insert, and the column is there afterwards.
    table = made(spark, path, TWO).alias("t")
    source = spark.createDataFrame([(2, "b")], "id long, more string").alias("s")
    merge = (
        table.merge(source, "t.id = s.id")
        .withSchemaEvolution()
        .whenNotMatchedInsert(values={"id": "s.id", "more": "s.more"})
    )
    merge.execute()
    assert [tuple(row.values()) for row in rows(path)] == [(1, 10, None), (2, 20, None)]


class Between:
    """Lets another writer commit between a command's finding of rows and its write."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
        commit = Rewriting.commit

        def late(job: Rewriting, metrics: Any) -> Any:
            monkeypatch.setattr(Rewriting, "commit", commit)
            act()
            return commit(job, metrics)

        monkeypatch.setattr(Rewriting, "commit", late)


def test_other_rows_of_a_file_may_be_marked_meanwhile(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # P122: the loser marks its rows on top of the winner's vector
    write_deltalake(path, pa.table({"id": list(range(6)), "n": [0] * 6}), configuration={**VECTORS, **FEED, **IDS})
    table = SparkTable.forPath(spark, path)
    Between(monkeypatch, lambda: DeltaTable(path).delete("id = 5"))
    table.update("id < 2", {"n": "7"})
    assert [(row["id"], row["n"]) for row in rows(path)] == [(0, 7), (1, 7), (2, 0), (3, 0), (4, 0)]
    Between(monkeypatch, lambda: DeltaTable(path).delete("id = 3"))
    with pytest.raises(ConcurrentDeleteDeleteException):
        table.delete("id in (2, 3)")
    assert [row["id"] for row in rows(path)] == [0, 1, 2, 4]
    verify(path)


def test_new_rows_that_the_command_would_have_read_are_a_conflict(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(spark, path, TWO, configuration=VECTORS).alias("t")
    source = spark.createDataFrame([(2, 0), (3, 7)], "id long, n long").alias("s")
    merge = table.merge(source, "t.id = s.id").whenMatchedDelete().whenNotMatchedInsertAll()
    Between(monkeypatch, lambda: write_deltalake(path, pa.table({"id": [3], "n": [1]}), mode="append"))
    with pytest.raises(ConcurrentAppendException):
        merge.execute()
    # Keys outside of the source don't conflict.
    Between(monkeypatch, lambda: write_deltalake(path, pa.table({"id": [900], "n": [1]}), mode="append"))
    merge.execute()
    assert [row["id"] for row in rows(path)] == [1, 900]


@VECTORS_OR_NOT
def test_a_dry_run_writes_nothing_and_foretells_the_commit(
    spark: SparkSession, path: str, properties: dict[str, str]
) -> None:
    table = made(spark, path, pa.table({"id": list(range(8)), "n": [0] * 8}), configuration=properties)
    write_deltalake(path, pa.table({"id": [100], "n": [1]}), mode="append")
    source = spark.createDataFrame([(3, 9), (200, 9)], "id long, n long").alias("s")
    merge = table.alias("t").merge(source, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    commands: list[Callable[..., Any]] = [
        lambda **how: table.delete("id = 1 AND length(string(n)) = 1", **how),
        lambda **how: table.update("id = 2", {"n": "n + 1"}, **how),
        lambda **how: merge.execute(**how),
        lambda **how: table.delete("id >= 100", **how),
    ]
    for version, command in enumerate(commands, 2):
        before = sorted(Path(path).rglob("*"))
        result = command(dry_run=True)
        assert result.changed
        assert result.version == version - 1
        assert result.files_read >= 1
        assert sorted(Path(path).rglob("*")) == before
        command()
        text = (Path(path) / "_delta_log" / f"{version:020}.json").read_text()
        foretold(result, [json.loads(line) for line in text.splitlines()])
    nothing = table.delete("id = 12345", dry_run=True)
    assert nothing is not None
    assert not nothing.changed
    with pytest.raises(SchemaMismatchError):
        table.update(set={"n": "array(1)"}, dry_run=True)


def test_only_files_that_can_match_are_read(spark: SparkSession, path: str) -> None:
    for first in range(0, 40, 10):
        write_deltalake(path, pa.table({"id": list(range(first, first + 10)), "n": [0] * 10}), mode="append")
    for file in DeltaTable(path).files("id >= 20"):
        (Path(path) / file).unlink()
    source = spark.createDataFrame([(3, 1), (12, 1)], "id long, n long").alias("s")
    table = SparkTable.forPath(spark, path).alias("t")
    table.merge(source, "t.id = s.id").whenMatchedUpdateAll().execute()
    table.delete("id = 5")
    table.update("id < 2 AND length(string(n)) = 1", {"n": "8"})
    metrics = [DeltaTable(path).history(n)[-1]["operationMetrics"] for n in (1, 2, 3)]
    assert [int(m.get("numRemovedFiles", m.get("numTargetFilesRemoved", 0))) for m in metrics] == [1, 1, 2]


def test_whole_partitions_go_without_a_job(spark: SparkSession, path: str) -> None:
    data = pa.table({"id": [1, 2, 3], "p": ["a", "a", "b"]})
    table = made(spark, path, data, partition_by=["p"])
    for file in DeltaTable(path).files("p = 'a'"):
        (Path(path) / file).unlink()
    table.delete("p = 'a'")
    assert rows(path) == [{"id": 3, "p": "b"}]


def test_instants_mean_the_sessions_time_zone(spark: SparkSession, path: str, in_new_york: None) -> None:
    noon = datetime.datetime(2024, 1, 31, 12, tzinfo=datetime.timezone.utc)
    table = made(spark, path, pa.table({"id": [1, 2], "at": [noon, noon + datetime.timedelta(hours=5)]}))
    # Noon in New York is 17:00 UTC.
    table.delete("at >= '2024-01-31 12:00:00'")
    assert [row["id"] for row in rows(path)] == [1]
    table.update("at < '2024-01-31 08:00:00'", {"at": "timestamp'2024-06-30 12:00:00'"})
    assert rows(path)[0]["at"].hour == 16


def test_an_alias_comes_before_a_column_of_its_name(spark: SparkSession, path: str) -> None:
    for number, field in ((1, 5), (9, 1)):
        structs = pa.array([{"id": field}], pa.struct([("id", pa.int64())]))
        write_deltalake(path, pa.table({"id": pa.array([number], pa.int64()), "t": structs}), mode="append")
    SparkTable.forPath(spark, path).alias("t").delete("t.id = 1")
    assert [row["id"] for row in rows(path)] == [9]


@VECTORS_OR_NOT
def test_rows_move_between_partitions(spark: SparkSession, path: str, properties: dict[str, str]) -> None:
    data = pa.table({"id": [1, 2, 3], "p": ["a", "a", "b"]})
    table = made(spark, path, data, partition_by=["p"], configuration=properties).alias("t")
    source = spark.createDataFrame([(2, "c"), (4, "d")], "id long, p string").alias("s")
    merge = table.merge(source, "t.id = s.id").whenMatchedUpdate(set={"p": "s.p"})
    # The new row has no partition value of its own.
    merge.whenNotMatchedInsert(values={"id": "s.id"}).execute()
    table.update("p = 'b'", {"p": "'a'"})
    assert [tuple(row.values()) for row in rows(path)] == [(1, "a"), (2, "c"), (3, "a"), (4, None)]
    verify(path)


def test_names_that_ask_for_care(spark: SparkSession, path: str) -> None:
    odd = {"delta.columnMapping.mode": "name"}
    data = pa.table({"a.b": [1, 2], "c `d`": ["x", "y"], "é": [1.5, None]})
    table = made(spark, path, data, configuration=odd).alias("t t")
    source = spark.createDataFrame(data.slice(1, 1))
    merge = table.merge(source.alias("s"), "`t t`.`a.b` = s.`a.b`")
    merge.whenMatchedUpdate(set={"`c ``d```": "concat(`t t`.`c ``d```, s.`c ``d```)", "é": "2"}).execute()
    assert [tuple(row.values()) for row in rows(path, "a.b")] == [(1, "x", 1.5), (2, "yy", 2.0)]


def test_clauses_and_updates_without_values(spark: SparkSession, path: str) -> None:
    """As in delta-spark: a row stays unchanged, or gets the table's own values; a clause without
    effect isn't a clause."""
    properties = "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    deltaplane.sql(f"CREATE TABLE delta.`{path}` (id BIGINT, a STRING DEFAULT 'none') {properties}")
    write_deltalake(path, pa.table({"id": [1, 2], "a": ["x", "y"]}), mode="append")
    table = SparkTable.forPath(spark, path)
    source = spark.sql("SELECT 2L AS id UNION ALL SELECT 3L")
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.id")
    with pytest.raises(InvalidArgumentError, match="at least one clause"):
        merge.whenMatchedUpdate(set={}).whenNotMatchedBySourceUpdate(set={}).execute()
    with_updates = merge.whenMatchedUpdate("t.a = 'y'", {}).whenMatchedDelete()
    (done,) = with_updates.whenNotMatchedInsert(values={}).execute().collect()
    assert tuple(done) == (2, 1, 0, 1)
    expected = [(1, "x"), (2, "y"), (None, "none")]
    assert sorted(map(tuple, table.toDF().collect()), key=repr) == expected
    table.update("id = 1", {})
    assert (table.history(1).collect()[0].operation, table.toDF().count()) == ("UPDATE", 3)
    assert sorted(map(tuple, table.toDF().collect()), key=repr) == expected


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("a = array(1)", "DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION"),
        ("d = 5", "DATATYPE_MISMATCH.CAST_WITH_FUNC_SUGGESTION"),
        ("s = named_struct('q', 1)", "DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION"),
        ("s.x = array(1)", "DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION"),
    ],
)
def test_new_values_are_checked_where_no_row_is_updated(
    enabled: SparkSession, path: str, value: str, says: str
) -> None:
    table = f"delta.`{path}`"
    enabled.sql(
        f"CREATE TABLE {table} (a INT, d DATE, s STRUCT<x: INT>) USING delta TBLPROPERTIES ('delta.enableRowTracking' = 'true')"
    )
    # As in delta-spark: an empty table, and one without a matching row, refuse what a full table
    # refuses.
    for _ in range(2):
        with pytest.raises(PySparkException) as refused:
            enabled.sql(f"UPDATE {table} SET {value} WHERE a = 1")
        assert says in str(refused.value)
        enabled.sql(f"INSERT INTO {table} VALUES (2, DATE '2020-01-01', named_struct('x', 1))")
    enabled.sql(f"UPDATE {table} SET a = true, d = NULL, s.x = a / 0 WHERE a = 1")
