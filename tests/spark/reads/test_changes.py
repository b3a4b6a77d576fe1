"""The change data feed through the data source: the rows of `load_cdf`, split into tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, exceptions
from deltaplane import spark as dp
from sparks import is_at_least

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(zip(*table.to_pydict().values(), strict=True), key=repr)


def test_changes_are_those_of_the_core(spark: SparkSession, path: str) -> None:
    # P131, P132
    on = {"delta.enableChangeDataFeed": "true"}
    dp.write(spark.range(20).selectExpr("id", "int(id % 3) AS p"), path, partition_by="p", configuration=on)
    dp.write(spark.range(20, 30).selectExpr("id", "int(id % 3) AS p"), path)
    dp.write(spark.createDataFrame([(100, 1)], "id long, p int"), path, mode="overwrite", replace_where="p = 1")
    table = DeltaTable(path)
    for first, last in ((0, None), (1, 1), (2, 9)):
        ours = dp.read_changes(spark, path, first, last)
        expected = table.load_cdf(first, last).to_arrow()
        assert ours.columns == expected.column_names
        assert rows(ours.toArrow()) == rows(expected)
    assert dp.read_changes(spark, path, 0).where("_change_type = 'delete'").count() == 10
    if not is_at_least("4.0"):
        return
    # The data source's own options.
    frame = spark.read.format("deltaplane").option("readChangeFeed", "true").option("startingVersion", 1)
    assert frame.option("predicate", "p = 2").load(path).count() == 4


def test_refusals_come_before_any_task(spark: SparkSession, path: str) -> None:
    dp.write(spark.range(2), path)
    with pytest.raises(exceptions.InvalidArgumentError, match=r"delta\.enableChangeDataFeed"):
        dp.read_changes(spark, path, 0)
    with pytest.raises(exceptions.InvalidArgumentError, match="where the changes begin"):
        dp.read_changes(spark, path)
    if not is_at_least("4.0"):
        return
    with pytest.raises(Exception, match="go with readChangeFeed"):
        spark.read.format("deltaplane").option("startingVersion", "0").load(path).count()
