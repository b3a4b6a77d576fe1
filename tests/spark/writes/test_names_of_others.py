"""Catalog names of tables in other formats: Delta writes refuse them, since the rows would become
unreachable."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from deltaplane import exceptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def new(enabled: SparkSession, name: str) -> DataFrame:
    return enabled.createDataFrame([(2, "b")], "id int, p string")


@pytest.fixture
def held(enabled: SparkSession, name: str) -> str:
    enabled.sql(f"CREATE TABLE {name} (id int, p string) USING parquet")
    enabled.sql(f"INSERT INTO {name} VALUES (1, 'a')")
    return name


def rows(spark: SparkSession, name: str) -> list[tuple[int, str]]:
    spark.catalog.refreshTable(name)
    return sorted((row.id, row.p) for row in spark.table(name).collect())


def provider(spark: SparkSession, name: str) -> str:
    facts = {row[0]: row[1] for row in spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()}
    return str(facts["Provider"])


def folder(spark: SparkSession, name: str) -> Path:
    return Path(str(spark.conf.get("spark.sql.warehouse.dir")).removeprefix("file:")) / name


def test_nothing_is_written_beside_another_formats_rows(enabled: SparkSession, held: str, new: DataFrame) -> None:
    # Each with delta-spark 4.4.0's result.
    def streamed() -> None:
        source = f"{folder(enabled, held)}_source"
        new.write.mode("overwrite").parquet(source)
        stream = enabled.readStream.schema(new.schema).parquet(source).writeStream.format("delta")
        stream.option("checkpointLocation", f"{source}_query").toTable(held)

    new.createOrReplaceTempView("new_of_names_of_others")
    select = "SELECT * FROM new_of_names_of_others"
    delta = new.writeTo(held).using("delta")
    refused: dict[str, Callable[[], Any]] = {
        "append": lambda: new.write.format("delta").mode("append").saveAsTable(held),
        "error": lambda: new.write.format("delta").saveAsTable(held),
        "v2 append": delta.append,
        "v2 overwrite": lambda: delta.overwrite(F.lit(True)),
        "v2 partitions": delta.overwritePartitions,
        "v2 create": delta.create,
        "v2 replace": delta.replace,
        "v2 createOrReplace": delta.createOrReplace,
        "sql create": lambda: enabled.sql(f"CREATE TABLE {held} USING delta AS {select}"),
        "sql replace": lambda: enabled.sql(f"CREATE OR REPLACE TABLE {held} USING delta AS {select}"),
        "stream": streamed,
    }
    for said, run in refused.items():
        with pytest.raises((exceptions.DeltaError, AnalysisException)):
            run()
        assert not (folder(enabled, held) / "_delta_log").exists(), said
        assert (provider(enabled, held), rows(enabled, held)) == ("parquet", [(1, "a")]), said
    new.write.format("delta").mode("ignore").saveAsTable(held)
    enabled.sql(f"CREATE TABLE IF NOT EXISTS {held} USING delta AS {select}")
    # The existing table determines the format.
    new.write.format("delta").insertInto(held)
    assert (provider(enabled, held), rows(enabled, held)) == ("parquet", [(1, "a"), (2, "b")])


def test_an_overwrite_changes_the_format(enabled: SparkSession, held: str, new: DataFrame) -> None:
    with pytest.raises(exceptions.InvalidArgumentError, match="itself"):
        enabled.table(held).write.format("delta").mode("overwrite").saveAsTable(held)
    assert rows(enabled, held) == [(1, "a")]
    new.write.format("delta").mode("overwrite").saveAsTable(held)
    assert (folder(enabled, held) / "_delta_log").exists()
    assert (provider(enabled, held), rows(enabled, held)) == ("delta", [(2, "b")])
    with pytest.raises(exceptions.InvalidArgumentError, match="has the format delta"):
        new.write.format("parquet").mode("append").saveAsTable(held)
    new.writeTo(held).using("parquet").append()
    assert rows(enabled, held) == [(2, "b"), (2, "b")]
    new.write.format("parquet").mode("overwrite").saveAsTable(held)
    assert not (folder(enabled, held) / "_delta_log").exists()
    assert (provider(enabled, held), rows(enabled, held)) == ("parquet", [(2, "b")])


def test_a_views_name_is_taken(enabled: SparkSession, name: str, new: DataFrame) -> None:
    enabled.sql(f"CREATE VIEW {name} AS SELECT 1 AS id, 'a' AS p")
    try:
        for run in (
            lambda: new.write.format("delta").mode("append").saveAsTable(name),
            lambda: new.writeTo(name).using("delta").createOrReplace(),
            lambda: enabled.sql(f"CREATE TABLE {name} (id int) USING delta"),
        ):
            with pytest.raises((exceptions.DeltaError, AnalysisException)):
                run()
            assert not folder(enabled, name).exists()
    finally:
        enabled.sql(f"DROP VIEW {name}")
