"""Handlers of SQL scripts: Spark finds them by an error's condition and SQL state, which every
deltaplane error has."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

import pytest

from deltaplane import exceptions
from deltaplane.exceptions import DeltaError
from deltaplane.spark.errors.refusals import refusal
from sparks import needs_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ERRORS = [
    kind
    for name in exceptions.__all__
    if inspect.isclass(kind := getattr(exceptions, name)) and issubclass(kind, DeltaError)
]
# delta-spark's scripts handle all of these except the last, which it can't bind
# (UNBOUND_SQL_PARAMETER).
HANDLED = """
INSERT INTO {t} VALUES (NULL, 'x')
UPDATE {t} SET nope = 1
DELETE FROM delta.`/nowhere/at/all`
ALTER TABLE {t} ADD COLUMNS (v STRING)
ALTER TABLE {t} ADD CONSTRAINT big CHECK (id > 5)
SELECT * FROM {t} VERSION AS OF 99
MERGE INTO {t} t USING (SELECT 1 AS id UNION ALL SELECT 1) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 'q'
EXECUTE IMMEDIATE 'UPDATE {t} SET nope = 1'
EXECUTE IMMEDIATE 'INSERT INTO {t} VALUES (?, ?)' USING 7, 'q'
"""


@pytest.mark.parametrize("kind", ERRORS)
def test_an_error_has_a_condition_and_a_state(kind: type[DeltaError]) -> None:
    _, _, _, condition, state, *_ = refusal(kind("what no list of conditions has words for")).split("\0")
    assert re.fullmatch("[A-Z][A-Z_.0-9]+", condition), kind
    assert re.fullmatch("[0-9A-Z]{5}", state), kind


@needs_spark("4.1", "has no SQL scripts without a setting, and no handlers in them")
def test_a_handler_of_sqlexception_takes_each_error(enabled: SparkSession, path: str) -> None:
    table = f"delta.`{path}`"
    enabled.sql(f"CREATE TABLE {table} (id INT NOT NULL, v STRING) USING delta")
    enabled.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    for statement in HANDLED.strip().splitlines():
        handler = "DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN SELECT 'handled' AS said; END"
        script = f"BEGIN {handler}; {statement.format(t=table)}; SELECT 'through' AS said; END"
        assert [row.said for row in enabled.sql(script).collect()] == ["handled"], statement
    assert sorted(row.id for row in enabled.sql(f"SELECT * FROM {table}").collect()) == [1, 2]


@needs_spark("4.1", "has no SQL scripts without a setting, and no handlers in them")
def test_a_handler_is_found_by_the_sql_state(enabled: SparkSession, path: str) -> None:
    table = f"delta.`{path}`"
    enabled.sql(f"CREATE TABLE {table} (id INT NOT NULL) USING delta")
    script = (
        "BEGIN DECLARE EXIT HANDLER FOR SQLSTATE '0A000' BEGIN SELECT 'unsupported' AS said; END; "
        f"EXECUTE IMMEDIATE 'INSERT INTO {table} VALUES (?)' USING 7; END"
    )
    assert [row.said for row in enabled.sql(script).collect()] == ["unsupported"]
