"""`spark.catalog` of an enabled session, and options without an effect on Delta tables."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException

from deltaplane import DeltaTable
from deltaplane.exceptions import InvalidArgumentError, TableAlreadyExistsError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_tables_are_listed_as_who_made_them_said(enabled: SparkSession, path: str, name: str) -> None:
    catalog = enabled.catalog

    def kinds() -> dict[str, str]:
        return {table.name: table.tableType for table in catalog.listTables() if table.name == name}

    enabled.sql(f"CREATE TABLE {name} (id INT) USING delta COMMENT 'first'")
    enabled.sql(f"COMMENT ON TABLE {name} IS 'about'")
    assert kinds() == {name: "MANAGED"}
    entry = catalog.getTable(name)
    assert (entry.name, entry.namespace, entry.description, entry.tableType) == (name, ["default"], "about", "MANAGED")
    enabled.sql(f"DROP TABLE {name}")
    enabled.sql(f"CREATE TABLE {name} (id INT) USING delta LOCATION '{path}'")
    assert kinds() == {name: "EXTERNAL"}
    assert catalog.getTable(f"default.{name}").tableType == "EXTERNAL"
    name_of_path = f"delta.`{path}`"
    by_path = catalog.getTable(name_of_path)
    assert (by_path.name, by_path.namespace, by_path.catalog) == (path, ["delta"], "spark_catalog")
    assert (catalog.tableExists(name_of_path), catalog.tableExists(f"delta.`{path} other`")) == (True, False)
    enabled.range(1).createOrReplaceTempView(f"{name}_view")
    (view,) = [table for table in catalog.listTables() if table.name == f"{name}_view"]
    assert (view.isTemporary, view.tableType) == (True, "TEMPORARY")
    assert catalog.dropTempView(f"{name}_view")


def test_the_catalog_makes_tables(enabled: SparkSession, path: str, name: str) -> None:
    catalog, schema = enabled.catalog, enabled.range(1).schema
    made = catalog.createTable(name, source="delta", schema=schema, description="about", own="a")
    assert (made.columns, made.count(), catalog.getTable(name).tableType) == (["id"], 0, "MANAGED")
    (detail,) = enabled.sql(f"DESCRIBE DETAIL {name}").collect()
    assert (detail.description, detail.properties) == ("about", {"own": "a", "option.own": "a"})
    with pytest.raises(AnalysisException) as raised:
        catalog.createTable(name, source="delta", schema=schema)
    assert isinstance(raised.value, TableAlreadyExistsError)
    assert raised.value.getCondition() == "TABLE_OR_VIEW_ALREADY_EXISTS"
    enabled.sql(f"DROP TABLE {name}")
    enabled.range(3).write.format("delta").save(path)
    assert catalog.createTable(name, path, "delta").count() == 3
    assert (catalog.getTable(name).tableType, DeltaTable(path).version()) == ("EXTERNAL", 0)
    enabled.sql(f"DROP TABLE {name}")
    with pytest.raises(AnalysisException) as raised:
        catalog.createTable(name, path, "delta", enabled.createDataFrame([], "z int").schema)
    assert raised.value.getCondition() == "DELTA_CREATE_TABLE_SCHEME_MISMATCH"
    with pytest.warns(FutureWarning, match="deprecated"):
        assert catalog.createExternalTable(name, path, "delta").count() == 3
    enabled.sql(f"DROP TABLE {name}")
    # Other formats stay Spark's.
    assert catalog.createTable(name, source="parquet", schema=schema).count() == 0
    assert catalog.getTable(name).tableType == "MANAGED"


def test_options_that_mean_nothing(
    enabled: SparkSession, path: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    rows = enabled.range(3)
    with caplog.at_level(logging.WARNING, "deltaplane"):
        rows.write.format("delta").option("nonsense", "1").save(path)
        enabled.read.format("delta").option("nonsense", "1").load(path).count()
        rows.write.format("delta").mode("append").option("nonsense", "1").option("path", path).saveAsTable(name)
        rows.writeTo(name).option("nonsense", "1").append()
    said = [record.getMessage() for record in caplog.records if "nonsense" in record.getMessage()]
    assert len(said) == 4, said
    # Table properties among a reader's options, and settings of file systems that aren't in use.
    frame = enabled.read.format("delta").option("delta.appendOnly", "true").option("fs.nothing", "1").load(path)
    assert frame.count() == 9
    rows.write.format("delta").mode("append").option("fs.nothing", "1").save(path)
    rows.write.format("delta").mode("append").option("fs.nothing", "1").saveAsTable(name)
    assert enabled.table(name).count() == 15


def test_a_table_knows_its_columns(enabled: SparkSession, path: str) -> None:
    enabled.range(3).write.format("delta").save(path)
    for reader in (enabled.read, enabled.readStream):
        with pytest.raises(InvalidArgumentError, match="knows its columns"):
            reader.schema("id string").format("delta").load(path)


def test_a_path_is_given_once(enabled: SparkSession, path: str, conf: dict[str, str]) -> None:
    rows = enabled.range(3)
    with pytest.raises(InvalidArgumentError, match="give the path once"):
        rows.write.format("delta").option("path", f"{path} other").save(path)
    rows.write.format("delta").option("path", path).save()
    with pytest.raises(InvalidArgumentError, match="give the path once"):
        enabled.read.format("delta").option("path", path).load(path)
    conf["spark.sql.legacy.pathOptionBehavior.enabled"] = "true"
    assert enabled.read.format("delta").option("path", f"{path} other").load(path).count() == 3


def test_a_query_is_described(enabled: SparkSession, path: str) -> None:
    enabled.range(3).selectExpr("id", "'a' AS a").write.format("delta").save(path)
    for words in ("DESCRIBE QUERY", "DESC QUERY"):
        columns = enabled.sql(f"{words} SELECT a, count(*) AS n FROM delta.`{path}` GROUP BY a").collect()
        assert [(row.col_name, row.data_type) for row in columns] == [("a", "string"), ("n", "bigint")]
