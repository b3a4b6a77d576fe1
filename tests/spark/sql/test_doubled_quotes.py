"""A doubled quote within a string is what the session's Spark makes of it, in statements, in the
Python API and where deltaplane prunes files: a quote from Spark 4.1 on, nothing before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import deltaplane
from deltaplane import DeltaTable, write_deltalake
from deltaplane import spark as dp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Change = Callable[["SparkSession", str], Any]


def statement(text: str) -> Change:
    return lambda spark, root: dp.sql(spark, text.format(f"delta.`{root}`"))


def overwrite(spark: SparkSession, root: str) -> None:
    frame = spark.sql("SELECT 'it''s' AS name, 9L AS v")
    dp.write(frame, root, mode="overwrite", replace_where="name = 'it''s'")


CHANGES: dict[str, Change] = {
    "delete": statement("DELETE FROM {} WHERE name = 'it''s'"),
    "update": statement("UPDATE {} SET v = 9 WHERE name = 'it''s'"),
    "update_value": statement("UPDATE {} SET name = 'it''s'"),
    "merge": statement("MERGE INTO {} t USING (SELECT 1) s ON t.name = 'it''s' WHEN MATCHED THEN UPDATE SET v = 9"),
    "insert": statement("INSERT INTO {} VALUES ('it''s', 9)"),
    "api_delete": lambda spark, root: dp.DeltaTable.forPath(spark, root).delete("name = 'it''s'"),
    "api_update": lambda spark, root: dp.DeltaTable.forPath(spark, root).update("name = 'it''s'", {"v": "9"}),
    "api_value": lambda spark, root: dp.DeltaTable.forPath(spark, root).update(None, {"name": "'it''s'"}),
    "embedded": lambda spark, root: deltaplane.sql(f"DELETE FROM delta.`{root}` WHERE name = 'it''s'", spark=spark),
    "overwrite": overwrite,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("partition_by", [None, ["name"]])
def test_commands_read_a_doubled_quote_as_spark_does(
    spark: SparkSession, tmp_path: Path, change: str, partition_by: list[str] | None
) -> None:
    root = str(tmp_path / "t")
    names = ["its", "it's"]
    for name in names:
        write_deltalake(root, pa.table({"name": [name], "v": [1]}), mode="append", partition_by=partition_by)
    meant = spark.sql("SELECT 'it''s'").collect()[0][0]
    assert meant in names
    CHANGES[change](spark, root)
    rows = sorted((row["name"], row["v"]) for row in DeltaTable(root).to_pyarrow_table().to_pylist())
    other = next(name for name in names if name != meant)
    expected = {
        "delete": [(other, 1)],
        "update": [(meant, 9), (other, 1)],
        "value": [(meant, 1), (meant, 1)],
        "insert": [(meant, 1), (other, 1), (meant, 9)],
    }
    expected |= dict.fromkeys(("api_delete", "embedded"), expected["delete"])
    expected |= dict.fromkeys(("merge", "api_update", "overwrite"), expected["update"])
    expected |= dict.fromkeys(("update_value", "api_value"), expected["value"])
    assert rows == sorted(expected[change])


def test_reads_prune_by_the_text_that_spark_means(spark: SparkSession, tmp_path: Path) -> None:
    root = str(tmp_path / "t")
    for name in ("its", "it's"):
        write_deltalake(root, pa.table({"name": [name]}), mode="append")
    meant = spark.sql("SELECT 'it''s'").collect()[0][0]
    assert [row[0] for row in dp.read(spark, root).where("name = 'it''s'").collect()] == [meant]
    assert [row[0] for row in dp.sql(spark, f"SELECT name FROM delta.`{root}` WHERE name = 'it''s'").collect()] == [
        meant
    ]
