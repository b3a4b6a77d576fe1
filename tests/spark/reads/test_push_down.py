"""Filters that Spark pushes into Parquet files: bounds, page indexes or dictionaries of any
writer's files lose no row with any user setting, and row groups are still skipped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from api.writes import test_float_bounds as bounds
from deltaplane import convert_to_deltalake, sql, write_deltalake
from deltaplane import spark as dp
from interop import datasets
from interop.test_skipping import LITERALS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SWITCHES = [
    "spark.sql.parquet.filterPushdown",
    "spark.sql.parquet.enableVectorizedReader",
    "parquet.filter.stats.enabled",
    "parquet.filter.dictionary.enabled",
    "parquet.filter.columnindex.enabled",
    "parquet.filter.bloom.enabled",
]


memory = bounds.memory


def counts_by(frame: DataFrame, conditions: list[str], by: str) -> dict[tuple[str, Any], int]:
    """The number of rows that match each condition, each planned as its own scan, for each value of
    a column."""
    frame.createOrReplaceTempView("counted")
    texts = [f"SELECT {i} AS i, {by} AS of FROM counted WHERE {c}" for i, c in enumerate(conditions)]
    rows = frame.sparkSession.sql(f"SELECT i, of, count(*) AS n FROM ({' UNION ALL '.join(texts)}) GROUP BY i, of")
    return {(conditions[row.i], row.of): row.n for row in rows.collect()}


def counts(frame: DataFrame, conditions: list[str]) -> dict[str, int]:
    counts_by_pair = counts_by(frame, conditions, "1")
    return {condition: counts_by_pair.get((condition, 1), 0) for condition in conditions}


def counts_of_all(frame: DataFrame, conditions: list[str]) -> dict[str, int]:
    """The same numbers from one pass over all rows, which can't skip any."""
    counted = [f"count_if({c}) AS n{i}" for i, c in enumerate(conditions)]
    return dict(zip(conditions, frame.selectExpr(*counted).collect()[0], strict=True))


# --- writers: each appends these rows ---


def _frame(spark: SparkSession, path: str, rows: pa.Table) -> Any:
    file = f"{path} {rows['w'][0]}.parquet"
    pq.write_table(rows, file)
    return spark.read.parquet(file).repartition(1)


def _pyarrow(spark: SparkSession, path: str, rows: pa.Table) -> None:
    bounds.write_files(rows, Path(path))
    convert_to_deltalake(path, partition_by=pa.schema([("c", pa.int64())]), partition_strategy="hive")


def _deltalake(spark: SparkSession, path: str, rows: pa.Table) -> None:
    deltalake.write_deltalake(path, rows, mode="append")


def _ours(spark: SparkSession, path: str, rows: pa.Table) -> None:
    write_deltalake(path, rows, mode="append")


def _spark_files(spark: SparkSession, path: str, rows: pa.Table) -> None:
    dp.write(_frame(spark, path, rows), path)


def _our_files(spark: SparkSession, path: str, rows: pa.Table) -> None:
    dp.write(_frame(spark, path, rows), path, target_file_size=1 << 30)


def _values(spark: SparkSession, path: str, rows: pa.Table) -> None:
    def text(value: float | None, kind: str) -> str:
        return f"CAST(NULL AS {kind})" if value is None else f"{kind}('{value}')"

    def row(k: int, x: float | None, c: int, w: int) -> str:
        double, single = text(x, "double"), text(x, "float")
        return f"({k}, {double}, {single}, named_struct('x', {double}, 'f', {single}), {w}, {c})"

    few = (rows[name].to_pylist() for name in ("k", "x", "c", "w"))
    values = ", ".join(row(*values) for values in zip(*few, strict=True) if values[2] < len(bounds.CHUNKS) - 1)
    sql(f"INSERT INTO delta.`{path}` (k, x, f, s, w, c) VALUES {values}", spark)


def _merge(spark: SparkSession, path: str, rows: pa.Table) -> None:
    _ours(spark, path, rows.set_column(1, "x", pa.array([1.0] * rows.num_rows)))
    _frame(spark, path, rows).createOrReplaceTempView("merged")
    on = f"t.w = {rows['w'][0]} AND t.w = s.w AND t.c = s.c AND t.k = s.k"
    sql(f"MERGE INTO delta.`{path}` t USING merged s ON {on} WHEN MATCHED THEN UPDATE SET x = s.x", spark)


WRITERS: list[Callable[[SparkSession, str, pa.Table], None]] = [
    _pyarrow, _deltalake, _ours, _spark_files, _our_files, _values, _merge,
]  # fmt: skip


def test_every_row_of_every_writer_is_found(spark: SparkSession, memory: DuckDBPyConnection, tmp_path: Path) -> None:
    # P168, Q4
    for switch in SWITCHES:
        assert spark.conf.get(switch, "true") == "true"
    path, rows = str(tmp_path / "t"), bounds.all_rows()
    for w, write in enumerate(WRITERS):
        write(spark, path, rows.add_column(4, "w", pa.repeat(pa.scalar(w, pa.int64()), rows.num_rows)))
    asked = [c.format("x", "double") for c in bounds.CONDITIONS] + [
        c.format("s.f", "float") for c in bounds.CONDITIONS[::3]
    ]

    def assert_found(conditions: list[str]) -> None:
        counts_by_pair = counts_by(dp.read(spark, path), conditions, "w")
        for condition in conditions:
            for w, write in enumerate(WRITERS):
                all_of_them = f"(SELECT * FROM held WHERE c < {len(bounds.CHUNKS) - (write is _values)})"
                right = bounds.expected(memory, condition, all_of_them)
                assert counts_by_pair.get((condition, w), 0) == right, (condition, write.__name__)

    assert_found(asked)
    sql(f"OPTIMIZE delta.`{path}`", spark)
    assert_found(asked[::2])


def test_filters_on_other_types_find_every_row(spark: SparkSession, tmp_path: Path) -> None:
    rows = datasets.primitives()
    ours, theirs = str(tmp_path / "ours"), tmp_path / "theirs"
    write_deltalake(ours, rows)
    theirs.mkdir()
    pq.write_table(rows, theirs / "a.parquet", write_page_index=True)
    convert_to_deltalake(str(theirs))
    asked = [
        f"{column} {op} {literal}"
        for column, literals in LITERALS.items()
        for op, literal in zip(("=", "<>", "<=", ">=", "<", ">"), literals * 6, strict=False)
    ]
    asked += [f"text like '{prefix}%'" for prefix in ("a", datasets.LONG, "\U0010ffff")]
    asked += [f"{column} in ({', '.join(literals)})" for column, literals in LITERALS.items()]
    for path in (ours, str(theirs)):
        frame = dp.read(spark, path)
        assert counts(frame, asked) == counts_of_all(frame, asked)


def test_row_groups_are_skipped(spark: SparkSession, tmp_path: Path) -> None:
    """By columns of other types beside a float, and by a float if NaN can't match, in files with
    suitable bounds."""
    path = tmp_path / "t"
    path.mkdir()
    numbers = list(range(10_000))
    rows = pa.table({"k": numbers, "x": pa.array([n / 2 for n in numbers], pa.float64())})
    pq.write_table(rows, path / "a.parquet", row_group_size=1_000)
    convert_to_deltalake(str(path))
    frame = dp.read(spark, str(path))
    for condition, most in [
        ("k = 1", 1_000),
        ("x > 4.0D AND k < 1500", 2_000),
        ("(x > 4.0D OR k > 1) AND k < 500", 1_000),
        ("x < 400.0D", 1_000),
        ("x = 4.0D", 1_000),
        ("x IN (4.0D, 5.0D)", 1_000),
        ("x > 4.0D", 10_000),
        ("x <> 4.0D", 10_000),
    ]:
        assert decoded(frame.where(condition)) <= most, condition


def decoded(frame: DataFrame) -> int:
    """The number of rows that Spark's scan passes to the filters above it."""
    execution = frame._jdf.queryExecution()
    execution.toRdd().count()
    leaves = execution.executedPlan().collectLeaves()
    metrics = [leaves.apply(i).metrics().get("numOutputRows") for i in range(leaves.size())]
    return sum(int(metric.get().value()) for metric in metrics if metric.isDefined())


def test_a_reader_that_filters_rows_finds_every_row(
    spark: SparkSession, memory: DuckDBPyConnection, conf: dict[str, str], tmp_path: Path
) -> None:
    """Users may enable filtering in Spark's row reader, too."""
    conf["spark.sql.parquet.enableVectorizedReader"] = "false"
    conf["spark.sql.parquet.recordLevelFilter.enabled"] = "true"
    path = str(tmp_path / "t")
    bounds.THEIRS["CONVERT"](path, bounds.all_rows())
    asked = [condition.format("x", "double") for condition in bounds.CONDITIONS]
    assert counts(dp.read(spark, path), asked) == {c: bounds.expected(memory, c) for c in asked}
