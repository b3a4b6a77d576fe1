"""Statements that describe a table, and the history of its maintenance, on Spark: equal to
delta-spark's."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from interop.delta_spark import DeltaSpark

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TABLES = {
    "plain": "(id bigint, v string) USING delta",
    "old": "(id bigint, v string COMMENT 'of v') USING delta PARTITIONED BY (v) COMMENT 'about' TBLPROPERTIES (own = 'a')",
    "clustered": "(id bigint, v string) USING delta CLUSTER BY (v, id) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
}
STATEMENTS = """
SHOW TBLPROPERTIES {t}
SHOW TBLPROPERTIES {t} (own)
SHOW TBLPROPERTIES {t} ('delta.minWriterVersion')
DESCRIBE {t}
DESCRIBE EXTENDED {t}
DESCRIBE TABLE EXTENDED {t}
SHOW COLUMNS IN {t}
DESCRIBE QUERY SELECT v, max(id) AS m FROM {t} GROUP BY v
"""
RETENTION = "spark.databricks.delta.retentionDurationCheck.enabled"
LOGGING = "spark.databricks.delta.vacuum.logging.enabled"


@pytest.fixture
def enabled(spark: SparkSession) -> Iterator[SparkSession]:
    from deltaplane import spark as dp

    dp.enable(spark)
    yield spark
    dp.disable(spark)


@pytest.mark.parametrize("table", TABLES)
def test_a_table_is_described_the_same(
    delta_spark: DeltaSpark, enabled: SparkSession, tmp_path: Path, table: str
) -> None:
    name = f"delta.`{tmp_path / table}`"
    delta_spark.execute(f"CREATE TABLE {name} {TABLES[table]}")
    for statement in STATEMENTS.strip().splitlines():
        text = statement.format(t=name)
        theirs = delta_spark.sql(text).to_pylist()
        ours = [row.asDict() for row in enabled.sql(text).collect()]
        if "does not have property" in str(theirs):
            # delta-spark's message has the catalog's name before a path.
            assert "does not have property: own" in str(ours)
            continue
        assert ours == theirs, statement


@pytest.mark.parametrize("logging", [None, "true", "false"])
def test_the_history_of_vacuum_is_the_same(
    delta_spark: DeltaSpark, enabled: SparkSession, tmp_path: Path, logging: str | None
) -> None:
    paths = [tmp_path / "theirs", tmp_path / "ours"]
    delta_spark.execute(f"CREATE TABLE delta.`{paths[0]}` (id bigint) USING delta")
    for text in ("INSERT INTO {t} VALUES (1)", "INSERT OVERWRITE {t} VALUES (2)"):
        delta_spark.execute(text.format(t=f"delta.`{paths[0]}`"))
    shutil.copytree(*paths)
    settings = {RETENTION: "false", **({} if logging is None else {LOGGING: logging})}

    def facts(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
        return [(row["operation"], dict(row["operationParameters"])) for row in rows]

    def run(execute: Any, name: str) -> None:
        for text in ("VACUUM {t} RETAIN 0 HOURS", "VACUUM {t} RETAIN 0 HOURS DRY RUN", "VACUUM {t}"):
            execute(text.format(t=name))

    with delta_spark.settings(settings):
        run(delta_spark.execute, f"delta.`{paths[0]}`")
    for key, value in settings.items():
        enabled.conf.set(key, value)
    try:
        run(lambda text: enabled.sql(text).collect(), f"delta.`{paths[1]}`")
    finally:
        for key in settings:
            enabled.conf.unset(key)
    theirs, ours = (facts(delta_spark.sql(f"DESCRIBE HISTORY delta.`{path}`").to_pylist()) for path in paths)
    assert ours == theirs
    assert len(ours) == (3 if logging == "false" else 7)
    assert len(list(paths[1].rglob("*.parquet"))) == len(list(paths[0].rglob("*.parquet")))
