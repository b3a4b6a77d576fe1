"""The same statements by Spark without a jar and by delta-spark yield the same rows, changes and
metrics; each reads the other's table. Defines the statements that `test_merge` lacks."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from deltaplane import DeltaTable, write_deltalake
from deltaplane import sql as deltaplane_sql
from deltaplane.exceptions import DeltaError
from deltaplane.spark import DeltaTable as SparkTable
from interop.commands.test_merge import CASES, TABLES, source, target
from interop.delta_spark import DeltaSpark, DeltaSparkError
from interop.same import assert_same
from interop.verifier import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "k, n, d, p, s"
STATEMENTS: list[tuple[Callable[[SparkTable], None], str]] = [
    (lambda t: t.delete("k % 7 = 3 OR p IS NULL"), "DELETE FROM {} WHERE k % 7 = 3 OR p IS NULL"),
    (lambda t: t.delete("p = 'a'"), "DELETE FROM {} WHERE p = 'a'"),
    (
        lambda t: t.update("length(p) = 1 AND n > 3", {"n": "n + 100", "s.x": "n", "p": "upper(p)"}),
        "UPDATE {} SET n = n + 100, s.x = n, p = upper(p) WHERE length(p) = 1 AND n > 3",
    ),
    (lambda t: t.update(set={"d": "n"}), "UPDATE {} SET d = n"),
]


def same(delta_spark: DeltaSpark, ours: str, theirs: str) -> None:
    """Whether two tables have the same rows and the same metrics of their last version."""
    expected = delta_spark.read(theirs)
    assert_same(DeltaTable(ours).to_pyarrow_table(), expected)
    assert_same(delta_spark.read(ours), expected)
    verify(ours)
    version = DeltaTable(ours).version()
    assert version == DeltaTable(theirs).version()
    feed = f"SELECT {COLUMNS}, _change_type FROM table_changes_by_path('{{}}', {version}, {version})"
    assert_same(delta_spark.sql(feed.format(ours)), delta_spark.sql(feed.format(theirs)))
    said = [
        dict(delta_spark.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1").to_pylist()[0]["operationMetrics"])
        for path in (ours, theirs)
    ]
    names = {name for name in said[0] if name.startswith("num") and "Rows" in name and "Copied" not in name}
    both = (names & said[1].keys()) - {"numOutputRows"}
    assert both
    assert {name: said[0][name] for name in both} == {name: said[1][name] for name in both}


@pytest.mark.parametrize("properties", TABLES.values(), ids=TABLES)
def test_statements_leave_what_delta_sparks_do(
    spark: SparkSession, delta_spark: DeltaSpark, tmp_table: Callable[[], str], properties: dict[str, str]
) -> None:
    # P122, P130, P131, P142
    ours, theirs = tmp_table(), tmp_table()
    write_deltalake(ours, target(), partition_by=["p"], configuration=properties)
    shutil.copytree(ours, theirs)
    for run, sql in STATEMENTS:
        run(SparkTable.forPath(spark, ours))
        delta_spark.execute(sql.format(f"delta.`{theirs}`"))
        same(delta_spark, ours, theirs)


@pytest.mark.parametrize("case", ["null keys", "clauses in order", "what the source lacks"])
def test_merges_leave_what_delta_sparks_do(
    spark: SparkSession, delta_spark: DeltaSpark, tmp_table: Callable[[], str], case: str
) -> None:
    # P122, P130, P131, P142
    on, clauses = CASES[case]
    source_path, ours, theirs = tmp_table(), tmp_table(), tmp_table()
    write_deltalake(source_path, source())
    write_deltalake(ours, target(), partition_by=["p"], configuration=TABLES["all"])
    shutil.copytree(ours, theirs)
    rows = SparkTable.forPath(spark, source_path).alias("s").toDF()
    builder = SparkTable.forPath(spark, ours).alias("t").merge(rows, on)
    for clause in clauses:
        kind = {"matched": "whenMatched", "insert": "whenNotMatched", "left": "whenNotMatchedBySource"}[clause.kind]
        action = "Insert" if clause.kind == "insert" else "Delete" if clause.values == "delete" else "Update"
        values = [] if clause.values in (None, "delete") else [clause.values]
        every = "All" if clause.values is None else ""
        builder = getattr(builder, f"{kind}{action}{every}")(clause.condition, *values)
    builder.execute()
    whens = "\n".join(clause.sql for clause in clauses)
    delta_spark.sql(f"MERGE INTO delta.`{theirs}` t USING delta.`{source_path}` s ON {on}\n{whens}")
    same(delta_spark, ours, theirs)


# Storing values in columns: delta-spark's rules for when a statement casts, and fails for values
# out of range.
CASTS = [
    *(("int", "' 12 '"), ("int", "'x'"), ("int", "5000000000L"), ("int", "true"), ("int", "date'2024-01-31'")),
    *(("string", "array(1)"), ("array<int>", "array('1', '2')"), ("struct<a: int>", "named_struct('a', '5')")),
]


@pytest.mark.parametrize(("type_name", "value"), CASTS)
def test_values_are_cast_as_delta_spark_casts_them(
    spark: SparkSession, delta_spark: DeltaSpark, tmp_table: Callable[[], str], type_name: str, value: str
) -> None:
    statements = (
        "UPDATE {} SET c = {} WHERE id = 1",
        "INSERT INTO {} SELECT 2L AS id, {} AS c FROM range(1)",
        "MERGE INTO {} t USING (SELECT 3L AS id, {} AS c) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
    )
    ours, theirs = (f"delta.`{tmp_table()}`" for _ in range(2))
    deltaplane_sql(f"CREATE TABLE {ours} (id BIGINT, c {type_name}) USING delta")
    delta_spark.execute(f"CREATE TABLE {theirs} (id BIGINT, c {type_name}) USING delta")
    for statement in ("INSERT INTO {} VALUES (1, {})", *statements):
        done = []
        for run, table in ((lambda text: deltaplane_sql(text, spark), ours), (delta_spark.execute, theirs)):
            try:
                run(statement.format(table, "NULL" if "VALUES" in statement else value))
                done.append(True)
            except (DeltaError, PySparkException, DeltaSparkError):
                done.append(False)
        assert done[0] == done[1], statement
    assert_same(delta_spark.sql(f"SELECT * FROM {ours}"), delta_spark.sql(f"SELECT * FROM {theirs}"))


def test_history_and_details_have_delta_sparks_columns(
    spark: SparkSession, delta_spark: DeltaSpark, tmp_table: Callable[[], str]
) -> None:
    path = tmp_table()
    write_deltalake(path, pa.table({"x": [1]}))
    table = SparkTable.forPath(spark, path)
    theirs = delta_spark.sql(f"DESCRIBE HISTORY delta.`{path}`")
    assert table.history().columns == theirs.schema.names
    theirs = delta_spark.sql(f"DESCRIBE DETAIL delta.`{path}`")
    # delta-spark's additional columns aren't the table's.
    assert [name for name in theirs.schema.names if name in table.detail().columns] == table.detail().columns
