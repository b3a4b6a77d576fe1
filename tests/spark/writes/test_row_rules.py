"""Constraints, invariants, generated columns and defaults in Spark's writes (P101, P103, P105,
P107)."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deltaplane import DeltaTable, exceptions
from deltaplane import spark as dp
from deltaplane.schema import Field, Schema, StructType
from sparks import is_at_least, needs_sources
from unchecked_tables import constrained

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

INVARIANT = {"delta.invariants": json.dumps({"expression": {"expression": "even % 2 = 0"}})}
FIELDS = [
    Field("at", "timestamp"),
    Field("day", "date", metadata={"delta.generationExpression": "CAST(at AS DATE)"}),
    Field("twice", "long", metadata={"delta.generationExpression": "CAST(n * 2 AS BIGINT)"}),
    Field("n", "integer"),
    Field("name", "string", metadata={"CURRENT_DEFAULT": "'none' || '!'"}),
    Field("even", "short", metadata={"CURRENT_DEFAULT": "4", **INVARIANT}),
    Field("s", StructType([Field("x", "long", nullable=False), Field("y", "long")])),
]
Save = Callable[["DataFrame", str], Any]


def save_frame(df: DataFrame, path: str) -> None:
    dp.write(df, path)


def save_source(df: DataFrame, path: str) -> None:
    df.write.format("deltaplane").mode("append").save(path)


# Each way of writing, and the exception class of its refusals.
WAYS = [
    pytest.param(save_frame, exceptions.ConstraintViolationError),
    pytest.param(save_source, Exception, marks=needs_sources),
]


@pytest.fixture
def table(path: str) -> str:
    rules = {"delta.constraints.small": "N < 100 OR name LIKE 'big (%)'"}
    DeltaTable.create(path, Schema(FIELDS), configuration=rules, partition_by="day")
    return path


def rows(path: str) -> list[dict[str, Any]]:
    return sorted(DeltaTable(path).scan().to_arrow().to_pylist(), key=lambda r: str(r["n"]))


def files(path: str) -> int:
    return sum(1 for _ in Path(path).rglob("*.parquet"))


@pytest.mark.parametrize(("save", "error"), WAYS)
def test_values_are_computed_and_given_ones_kept(spark: SparkSession, table: str, save: Save, error: type) -> None:
    # P105, P107: an explicit null isn't a missing column
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    late = "TIMESTAMP '2024-02-29 23:30:00'"
    save(spark.sql(f"SELECT {late} AS at, 1 AS n, named_struct('Y', 1L, 'X', 2L) AS s"), table)
    save(spark.sql("SELECT 2Y AS n, CAST(NULL AS STRING) AS NAME, 4L AS Twice, 8S AS even, "
                   "named_struct('x', 3L, 'y', NULL) AS s"), table)  # fmt: skip
    utc = dt.datetime(2024, 2, 29, 23, 30, tzinfo=dt.timezone.utc)
    assert rows(table) == [
        {"at": utc, "day": utc.date(), "twice": 2, "n": 1, "name": "none!", "even": 4, "s": {"x": 2, "y": 1}},
        {"at": None, "day": None, "twice": 4, "n": 2, "name": None, "even": 8, "s": {"x": 3, "y": None}},
    ]
    assert sorted(p.name for p in Path(table).glob("day=*")) == ["day=2024-02-29", "day=__HIVE_DEFAULT_PARTITION__"]


BROKEN = [
    ("SELECT 100 AS n", r"CHECK constraint small .* violated by row with values:\s+- n : 100\s+- name : none!"),
    ("SELECT CAST(NULL AS INT) AS n, 'x' AS name", r"small.*- n : null"),
    ("SELECT 1 AS n, 3L AS twice", r"Generated column twice .* - twice : 3\s+- n : 1"),
    ("SELECT 1 AS n, CAST(NULL AS BIGINT) AS twice", r"Generated column twice"),
    ("SELECT 1 AS n, 3S AS even", r"even \(even % 2 = 0\) violated by row with values:\s+- even : 3"),
    ("SELECT 1 AS n, CAST(NULL AS SHORT) AS even", r"- even : null"),
    ("SELECT 1 AS n, named_struct('x', CAST(NULL AS BIGINT), 'y', 1L) AS s", r"NOT_NULL.*s\.x"),
]


@pytest.mark.parametrize(
    ("save", "error", "cases"),
    [pytest.param(*way.values, cases, marks=way.marks) for way, cases in zip(WAYS, (BROKEN, BROKEN[:1]), strict=True)],
)
def test_rows_that_break_a_rule_stop_the_write(
    spark: SparkSession, table: str, save: Save, error: type[Exception], cases: list[tuple[str, str]]
) -> None:
    # P101, P102, P103, P105
    for query, message in cases:
        frame = spark.sql(query if " AS s" in query else f"{query}, named_struct('x', 1L, 'y', 2L) AS s")
        with pytest.raises(error, match=f"(?s)Violat.*{message}" if save is save_source else f"(?s){message}"):
            save(frame, table)
    assert DeltaTable(table).version() == 0
    assert files(table) == 0


def test_the_time_zone_is_the_sessions(spark: SparkSession, path: str, in_new_york: None) -> None:
    DeltaTable.create(path, Schema(FIELDS[:2]))
    frame = spark.sql("SELECT TIMESTAMP '2024-01-01 02:00:00Z' AS at")
    save_frame(frame, path)
    assert DeltaTable(path).scan().to_arrow()["day"].to_pylist() == [dt.date(2023, 12, 31)]
    if not is_at_least("4.0"):
        return
    # The embedded engine, of the data source, doesn't support time zones with rules.
    with pytest.raises(Exception, match=r"UnsupportedExpressionError.*America/New_York"):
        save_source(frame, path)
    assert DeltaTable(path).version() == 1


def test_expressions_of_others_are_spark_s_to_judge(spark: SparkSession, path: str) -> None:
    constrained(path, Field("n", "integer"), c="gone > 0")
    with pytest.raises(exceptions.InvalidArgumentError, match="gone"):
        save_frame(spark.sql("SELECT 1 AS n"), path)
    # The embedded engine lacks the function `soundex`, so Spark must evaluate the constraint.
    constrained(path + "2", Field("n", "string"), c="soundex(n) > ''")
    save_frame(spark.sql("SELECT 'x' AS n"), path + "2")
    if not is_at_least("4.0"):
        return
    with pytest.raises(Exception, match=r"UnsupportedExpressionError.*soundex"):
        save_source(spark.sql("SELECT 'x' AS n"), path + "2")
    with pytest.raises(exceptions.InvalidArgumentError, match="`c` can't be declared"):
        dp.write(spark.sql("SELECT 1 AS n"), path + "3", configuration={"delta.constraints.c": "gone > 0"})
