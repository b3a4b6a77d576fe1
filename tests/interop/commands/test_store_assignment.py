"""Casts of values that UPDATE and MERGE store, by each setting that decides them, in Spark without
a jar and in delta-spark: the same rows, and the same conditions of refusals."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from deltaplane import DeltaTable
from deltaplane import spark as dp
from interop.delta_spark import DeltaSpark, DeltaSparkError
from interop.same import assert_same

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ANSI = "spark.sql.ansi.enabled"
POLICY = "spark.sql.storeAssignmentPolicy"
FOLLOWS_ANSI = "spark.databricks.delta.updateAndMergeCastingFollowsAnsiEnabledFlag"

# Columns, their types, and values of other types, each of which fits in some settings only.
VALUES: dict[str, tuple[str, str]] = {
    "big": ("int", "3000000000L"),
    "word": ("int", "'abc'"),
    "day": ("int", "DATE'2020-01-02'"),
    "amount": ("decimal(5,2)", "CAST(12345678.90 AS DECIMAL(10,2))"),
    "fits": ("bigint", "5"),
    "pair": ("struct<a: int>", "named_struct('a', 3000000000L)"),
}
# The flag, ANSI, and the policy, which matters only without the flag.
SETTINGS = [
    ("true", "true", "LEGACY"),
    ("true", "false", "ANSI"),
    ("false", "true", "LEGACY"),
    ("false", "false", "ANSI"),
    ("false", "false", "STRICT"),
]


@pytest.fixture(autouse=True)
def enabled(spark: SparkSession) -> Iterator[None]:
    dp.enable(spark)
    yield
    dp.disable(spark)


def _condition(text: str) -> str:
    """The condition in an error's text. Errors of tasks have that of the outer job before it."""
    named = [name for name in re.findall(r"\[([A-Z][A-Z_0-9.]*)\]", text) if not name.startswith("TASK_WRITE_FAILED")]
    return named[0] if named else text


def ours(spark: SparkSession, statement: str) -> str | None:
    """Runs a statement; returns None, or the condition of its refusal."""
    try:
        spark.sql(statement).collect()
    except (PySparkException, Py4JJavaError) as e:
        condition = getattr(e, "getCondition", lambda: None)()
        return str(condition) if condition else _condition(str(e))
    return None


def theirs(delta_spark: DeltaSpark, statement: str) -> str | None:
    """As `ours` by delta-spark."""
    try:
        delta_spark.execute(statement)
    except DeltaSparkError as e:
        return _condition(str(e))
    return None


def _statements() -> list[str]:
    """An UPDATE, a MERGE that updates and one that inserts for each value, each in a row or a
    column of its own, so that one look at the rows shows every result."""
    statements = []
    for number, (column, (_, value)) in enumerate(VALUES.items(), 3):
        source = f"(SELECT 2 AS id, {value} AS v) s"
        statements += [
            f"UPDATE {{t}} SET {column} = {value} WHERE id = 1",
            f"MERGE INTO {{t}} t USING {source} ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.{column} = s.v",
            f"MERGE INTO {{t}} t USING {source} ON false WHEN NOT MATCHED THEN INSERT (id, {column}) VALUES ({number}, s.v)",
        ]
    return statements


@pytest.mark.parametrize(("follows", "ansi", "policy"), SETTINGS)
def test_update_and_merge_cast_as_delta_spark(
    spark: SparkSession,
    delta_spark: DeltaSpark,
    tmp_table: Callable[[], str],
    follows: str,
    ansi: str,
    policy: str,
) -> None:
    mine, other = tmp_table(), tmp_table()
    columns = ", ".join(f"{name} {data_type}" for name, (data_type, _) in VALUES.items())
    for statement in (f"CREATE TABLE {{t}} (id int, {columns}) USING delta", "INSERT INTO {t} (id) VALUES (1), (2)"):
        spark.sql(statement.replace("{t}", f"delta.`{mine}`"))
        delta_spark.execute(statement.replace("{t}", f"delta.`{other}`"))
    settings = {FOLLOWS_ANSI: follows, ANSI: ansi, POLICY: policy}
    differs, refused = {}, 0
    with delta_spark.settings(settings):
        for key, value in settings.items():
            spark.conf.set(key, value)
        try:
            for statement in _statements():
                actual = ours(spark, statement.replace("{t}", f"delta.`{mine}`"))
                expected = theirs(delta_spark, statement.replace("{t}", f"delta.`{other}`"))
                refused += expected is not None
                if actual != expected:
                    differs[statement] = f"{actual} instead of {expected}"
        finally:
            for key in settings:
                spark.conf.unset(key)
    assert differs == {}, differs
    assert refused < len(_statements())
    assert_same(DeltaTable(mine).to_pyarrow_table(), DeltaTable(other).to_pyarrow_table())
