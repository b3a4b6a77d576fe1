"""Scripts (BEGIN … END) with statements that Spark's parser doesn't know, with `table_changes`, and
with handlers: the rows are those that delta-spark 4.4 gives for the same scripts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from deltaplane import DeltaTable
from sparks import needs_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CAUGHT = "BEGIN DECLARE EXIT HANDLER FOR {state} BEGIN SELECT 'caught'; END; {statement}; END"


@pytest.fixture
def table(enabled: SparkSession, path: str) -> Iterator[str]:
    """The name of a table with the row 1 and a change feed."""
    name = "of_scripts"
    enabled.sql(
        f"CREATE TABLE {name} (id INT) USING delta LOCATION '{path}' "
        "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    )
    enabled.sql(f"INSERT INTO {name} VALUES (1)")
    yield name
    enabled.sql(f"DROP TABLE {name}")


def rows(spark: SparkSession, script: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in spark.sql(script).collect())


@needs_spark("4.1", "has no SQL scripts without a setting, and no handlers in them")
def test_a_script_executes_texts_that_spark_does_not_parse(enabled: SparkSession, table: str, path: str) -> None:
    enabled.sql(f"INSERT INTO {table} VALUES (2)")
    enabled.sql(f"BEGIN EXECUTE IMMEDIATE 'OPTIMIZE {table}'; END")
    assert DeltaTable(path).history(1)[0]["operation"] == "OPTIMIZE"
    script = (
        f"BEGIN DECLARE q STRING DEFAULT 'OPTIMIZE {table}'; INSERT INTO {table} VALUES (3); EXECUTE IMMEDIATE q; "
        f"SELECT * FROM {table}; END"
    )
    assert rows(enabled, script) == [(1,), (2,), (3,)]
    assert [commit["operation"] for commit in DeltaTable(path).history(2)] == ["OPTIMIZE", "WRITE"]
    assert rows(enabled, f"BEGIN EXECUTE IMMEDIATE 'VACUUM {table} DRY RUN'; END") == []


@needs_spark("4.1", "has no SQL scripts without a setting, and no handlers in them")
def test_changes_are_those_when_the_statement_runs(enabled: SparkSession, table: str) -> None:
    count = f"SELECT count(*) FROM table_changes('{table}', 0)"
    assert rows(enabled, f"BEGIN INSERT INTO {table} VALUES (2); {count}; END") == [(2,)]
    script = f"BEGIN DECLARE v INT DEFAULT 2; SELECT c.id, _change_type FROM table_changes('{table}', v) AS c; END"
    assert rows(enabled, script) == [(2, "insert")]
    assert rows(enabled, f'EXECUTE IMMEDIATE "{count}"') == [(2,)]


@needs_spark("4.1", "has no SQL scripts without a setting, and no handlers in them")
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM table_changes('{t}', 50)",
        "SELECT * FROM table_changes('no_such_table', 0)",
        "EXECUTE IMMEDIATE \"SELECT * FROM table_changes('{t}', 60)\"",
        "EXECUTE IMMEDIATE 'OPTIMIZE no_such_table'",
        "EXECUTE IMMEDIATE 'INSERT INTO {t} VALUES (1, 2)'",
        "UPDATE {t} SET id = raise_error('x')",
        "INSERT INTO {t} SELECT CAST(1 / 0 AS INT)",
        "DELETE FROM {t} WHERE no_such_column = 1",
    ],
)
def test_a_handler_takes_what_fails(enabled: SparkSession, table: str, path: str, statement: str) -> None:
    script = CAUGHT.format(state="SQLEXCEPTION", statement=statement.format(t=table))
    assert rows(enabled, script) == [("caught",)]
    assert DeltaTable(path).version() == 1


@needs_spark("4.1", "has no SQL scripts without a setting, and no handlers in them")
def test_handlers_are_found_by_state_and_by_condition(enabled: SparkSession, table: str) -> None:
    after = f"SELECT * FROM table_changes('{table}', 50)"
    assert rows(enabled, CAUGHT.format(state="SQLSTATE '22003'", statement=after)) == [("caught",)]
    zero = f"INSERT INTO {table} SELECT CAST(1 / 0 AS INT)"
    assert rows(enabled, CAUGHT.format(state="DIVIDE_BY_ZERO", statement=zero)) == [("caught",)]
    # Another handler doesn't take it, and the error comes out as Spark's.
    with pytest.raises(PySparkException) as raised:
        enabled.sql(CAUGHT.format(state="CAST_OVERFLOW", statement=f"UPDATE {table} SET id = raise_error('x')"))
    assert raised.value.getCondition() == "USER_RAISED_EXCEPTION"
