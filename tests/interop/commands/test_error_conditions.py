"""Failing statements: deltaplane has delta-spark's error condition and SQL state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from deltaplane import DeltaError
from interop.delta_spark import DeltaSpark, DeltaSparkError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# The tables, made by delta-spark: `t` (id int NOT NULL, v string, with a CHECK constraint), `p`
# (partitioned by v), `a` (append-only), `c` (clustered by id), `f` (with a change feed), `n` (with
# a column of the feed's name); `s` is a view with two rows of one id, `nowhere` is no table,
# `folder` one without a log, `files` one with a file.
STATEMENTS = """
SELECT * FROM {nowhere}
SELECT * FROM {folder}
INSERT INTO {folder} VALUES (1)
UPDATE {folder} SET id = 1
MERGE INTO {folder} t USING s ON t.id = s.id WHEN MATCHED THEN DELETE
OPTIMIZE {folder}
DESCRIBE HISTORY {folder}
DELETE FROM {nowhere}
OPTIMIZE {nowhere}
VACUUM {nowhere}
DESCRIBE DETAIL {nowhere}
DESCRIBE HISTORY {nowhere}
ALTER TABLE {nowhere} SET TBLPROPERTIES ('delta.appendOnly' = 'true')
CREATE TABLE {t} (id int) USING delta
CREATE TABLE taken (id bigint, v string) USING delta PARTITIONED BY (v) LOCATION '{p_at}'
CREATE TABLE taken (id int, v string, w int) USING delta PARTITIONED BY (v) LOCATION '{p_at}'
CREATE TABLE taken (id int, v string) USING delta LOCATION '{p_at}'
CREATE TABLE taken (id int, v string) USING delta CLUSTER BY (v) LOCATION '{p_at}'
CREATE TABLE taken (id int, v string) USING delta CLUSTER BY (v) LOCATION '{c_at}'
CREATE TABLE taken (id int, v string) USING delta PARTITIONED BY (v) TBLPROPERTIES ('a' = 'b') LOCATION '{p_at}'
CREATE TABLE taken (id int, v string) USING delta TBLPROPERTIES ('delta.appendOnly' = 'false') LOCATION '{a_at}'
CREATE TABLE taken (ID int, V string) USING delta PARTITIONED BY (V) LOCATION '{p_at}'
CREATE TABLE IF NOT EXISTS taken (id bigint, v string) USING delta PARTITIONED BY (v) LOCATION '{p_at}'
CREATE OR REPLACE TABLE taken (id bigint, v string) USING delta PARTITIONED BY (v) LOCATION '{p_at}'
CREATE TABLE taken USING delta LOCATION '{p_at}' AS SELECT 1 AS id
CREATE TABLE taken (id int) USING delta LOCATION '{files_at}'
CREATE TABLE IF NOT EXISTS taken USING delta LOCATION '{files_at}' AS SELECT 1 AS id
REPLACE TABLE taken (id int, v string) USING delta LOCATION '{p_at}'
CREATE TABLE {nowhere} (id int, ID int) USING delta
CREATE TABLE {nowhere} (id int, m map<int, int>) USING delta CLUSTER BY (m)
SELECT * FROM {t} VERSION AS OF 70
SELECT * FROM {t} TIMESTAMP AS OF '2001-01-01'
SELECT * FROM {t} TIMESTAMP AS OF '2200-01-01'
CREATE TABLE {nowhere} SHALLOW CLONE {t} TIMESTAMP AS OF '2200-01-01'
RESTORE TABLE {t} TO VERSION AS OF 70
RESTORE TABLE {t} TO TIMESTAMP AS OF '2001-01-01'
RESTORE TABLE {t} TO TIMESTAMP AS OF '2200-01-01'
SELECT nope FROM {t}
INSERT INTO {t} VALUES (1)
INSERT INTO {t} VALUES (1, 'a', 3)
INSERT INTO {t} SELECT 1, 'a', 3
INSERT INTO {t} (id, v) VALUES (1)
INSERT INTO {t} (id, v) VALUES (1, 'a', 3)
INSERT INTO {t} (id, nope) VALUES (1, 'a')
INSERT INTO {t} VALUES ('x', 'a')
INSERT INTO {t} VALUES (NULL, 'a')
INSERT INTO {t} VALUES (-1, 'a')
UPDATE {t} SET nope = 1
UPDATE {t} SET id = 3, id = 4
UPDATE {t} SET id = -1
DELETE FROM {t} WHERE nope = 1
DELETE FROM {a}
UPDATE {a} SET v = 'x'
MERGE INTO {t} t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *
MERGE INTO {t} t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET nope = 1
MERGE INTO {t} t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 'x', v = 'y'
MERGE INTO {t} t USING s ON t.id = s.id WHEN MATCHED THEN DELETE WHEN MATCHED THEN UPDATE SET *
MERGE INTO {t} t USING s ON t.id = s.id WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED THEN INSERT *
MERGE INTO {t} t USING s ON t.id = s.id WHEN NOT MATCHED BY SOURCE THEN DELETE WHEN NOT MATCHED BY SOURCE THEN DELETE
MERGE INTO {t} t USING s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, nope) VALUES (1, 2)
ALTER TABLE {t} ADD CONSTRAINT big CHECK (id > 1)
ALTER TABLE {t} ADD CONSTRAINT positive CHECK (id > 0)
ALTER TABLE {t} ADD CONSTRAINT other CHECK (nope > 0)
ALTER TABLE {t} ADD CONSTRAINT number CHECK (id)
ALTER TABLE {t} ADD COLUMNS (v string)
ALTER TABLE {t} ADD COLUMNS (z int NOT NULL)
ALTER TABLE {t} DROP COLUMN v
ALTER TABLE {t} RENAME COLUMN v TO w
ALTER TABLE {p} ALTER COLUMN id TYPE string
ALTER TABLE {t} ALTER COLUMN nope COMMENT 'x'
ALTER TABLE {t} SET TBLPROPERTIES ('delta.nope' = '1')
ALTER TABLE {t} SET TBLPROPERTIES ('delta.feature.nope' = 'supported')
ALTER TABLE {t} DROP FEATURE nope
ALTER TABLE {p} CLUSTER BY (id)
VACUUM {t} RETAIN 0 HOURS
OPTIMIZE {p} WHERE id = 1
OPTIMIZE {p} WHERE nope = 1
OPTIMIZE {p} ZORDER BY (v)
OPTIMIZE {t} ZORDER BY (nope)
OPTIMIZE {c} ZORDER BY (id)
CREATE TABLE {nowhere} (id int, _change_type string) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')
ALTER TABLE {n} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')
ALTER TABLE {f} ADD COLUMNS (_commit_timestamp timestamp)
ALTER TABLE {f} RENAME COLUMN v TO _commit_version
OPTIMIZE {t} FULL
OPTIMIZE {c} WHERE id = 1
SHOW CREATE TABLE {t}
ANALYZE TABLE {t} COMPUTE STATISTICS
DELETE FRM {t}
"""

TABLES = {
    "t": "(id int NOT NULL, v string) USING delta",
    "p": "(id int, v string) USING delta PARTITIONED BY (v)",
    "a": "(id int, v string) USING delta TBLPROPERTIES ('delta.appendOnly' = 'true')",
    "c": "(id int, v string) USING delta CLUSTER BY (id)",
    "f": "(id int, v string) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'delta.columnMapping.mode' = 'name')",
    "n": "(id int, _change_type string) USING delta",
}
SOURCE = "CREATE OR REPLACE TEMP VIEW s AS SELECT id, v FROM VALUES (1, 'x'), (1, 'y') AS s(id, v)"


@pytest.fixture(scope="module")
def tables(delta_spark: DeltaSpark, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder: Path = tmp_path_factory.mktemp("conditions")
    names = {name: f"delta.`{folder / name}`" for name in (*TABLES, "nowhere", "folder")}
    (folder / "folder").mkdir()
    (folder / "files").mkdir()
    (folder / "files" / "one.parquet").write_bytes(b"no table's")
    names |= {f"{name}_at": str(folder / name) for name in (*TABLES, "files")}
    for name, columns in TABLES.items():
        delta_spark.execute(f"CREATE TABLE {names[name]} {columns}")
        delta_spark.execute(f"INSERT INTO {names[name]} VALUES (1, 'a'), (2, 'b')")
    delta_spark.execute(f"ALTER TABLE {names['t']} ADD CONSTRAINT positive CHECK (id > 0)")
    delta_spark.execute(SOURCE)
    return names


@pytest.fixture
def enabled(spark: SparkSession) -> Iterator[SparkSession]:
    from deltaplane import spark as dp

    dp.enable(spark)
    spark.sql(SOURCE)
    yield spark
    dp.disable(spark)


@pytest.mark.parametrize("statement", STATEMENTS.strip().splitlines())
def test_a_statement_fails_the_same(
    delta_spark: DeltaSpark, enabled: SparkSession, tables: dict[str, str], statement: str
) -> None:
    from pyspark.errors import PySparkException

    text = statement.format(**tables)
    with pytest.raises(PySparkException) as ours:
        enabled.sql(text).collect()
    with pytest.raises(DeltaSparkError) as theirs:
        delta_spark.execute(text)
    error: Any = ours.value
    assert error.getCondition() is not None, error
    said = str(theirs.value)
    assert error.getCondition() in said
    # PySpark fails to format some of delta-spark's texts; the state is then that of the formatting
    # failure.
    if f"[{error.getCondition()}" in said and "SQLSTATE: " in said:
        assert f"SQLSTATE: {error.getSqlState()}" in said
    # Errors raised by Spark itself aren't deltaplane's.
    assert isinstance(error, DeltaError) is ("SQLSTATE" not in str(error))
