"""Clones of and to managed tables in Spark's statements."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from catalog.conftest import SCHEMA, Lake, ids, rows
from deltaplane import DeltaTable
from deltaplane import spark as dp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

T = f"{SCHEMA}.t"


@pytest.mark.parametrize("kind", ["SHALLOW", "DEEP"])
def test_clones_by_names(kind: str, spark: SparkSession, local: Lake, tmp_path: Path) -> None:
    copy, outside = f"{SCHEMA}.copy", str(tmp_path / "outside")
    spark.sql(f"CREATE TABLE {copy} {kind} CLONE {T}")
    spark.sql(f"CREATE TABLE {SCHEMA}.other {kind} CLONE {T} VERSION AS OF 0 LOCATION '{outside}'")
    local.write("t", rows(3))
    spark.sql(f"INSERT INTO {copy} VALUES (4, 'four')")
    assert sorted(row.id for row in spark.table(copy).collect()) == [1, 2, 4]
    assert sorted(row.id for row in spark.table(f"{SCHEMA}.other").collect()) == [1, 2]
    assert ids(local.open("t")) == [1, 2, 3]
    infos = [local.catalog.info(f"{SCHEMA}.{name}")["table_type"] for name in ("copy", "other")]
    assert infos == ["MANAGED", "EXTERNAL"]
    spark.sql(f"DELETE FROM {copy} WHERE id = 1")
    assert sorted(row.id for row in spark.table(copy).collect()) == [2, 4]


def test_clones_of_the_delta_table(spark: SparkSession, local: Lake, tmp_path: Path) -> None:
    table = dp.DeltaTable.forName(spark, T)
    plain = table.clone(str(tmp_path / "plain"), isShallow=False)
    assert plain.toDF().count() == 2
    assert ids(DeltaTable(tmp_path / "plain")) == [1, 2]
    named = table.clone(f"{SCHEMA}.named", isShallow=False)
    assert named.toDF().count() == 2
    assert local.catalog.exists(f"{SCHEMA}.named")
