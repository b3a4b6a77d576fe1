"""What older versions of Spark lack is refused by name, with what to do instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from deltaplane import DeltaTable, Field, Schema, exceptions
from deltaplane import spark as dp
from deltaplane.spark.jvm import spark_versions
from deltaplane.spark.jvm.spark_versions import for_version, refuse_unread, refuse_widened
from sparks import is_at_least, only_before

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_older_versions_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_versions, "SUPPORTED", ("9.0", "9.1"))
    # Called itself, since names that were used before are in the module.
    lookup = vars(dp)["__getattr__"]
    for name in ("read", "write", "enable", "DeltaTable", "session"):
        with pytest.raises(
            exceptions.UnsupportedFeatureError, match=r"PySpark [\d.]+: use PySpark 9\.0 to 9\.1, or read"
        ):
            lookup(name)
    with pytest.raises(AttributeError, match="nothing"):
        lookup("nothing")


@only_before("4.0", "has data sources in Python")
def test_the_format_by_itself_is_refused(spark: SparkSession) -> None:
    with pytest.raises(exceptions.UnsupportedFeatureError, match=r"no data sources in Python.*enable\(spark\)"):
        dp.register(spark)


@only_before("4.0", "has clusterBy of writers")
def test_clusters_of_other_formats_are_refused(enabled: SparkSession, path: str) -> None:
    rows = enabled.range(2)
    for writer in (rows.write.format("parquet"), rows.writeTo(f"delta.`{path}`").using("parquet")):
        with pytest.raises(exceptions.UnsupportedFeatureError, match=r"clusterBy .* needs PySpark 4\.0"):
            writer.clusterBy("id")


@only_before("4.0", "has the type variant")
def test_variants_are_refused(spark: SparkSession, path: str) -> None:
    DeltaTable.create(path, Schema([Field("id", "long", True, None), Field("v", "variant", True, None)]))
    with pytest.raises(exceptions.UnsupportedFeatureError, match=r"the column v .* variant.*Spark 4"):
        dp.read(spark, path).count()


@only_before("4.0", "reads files of narrower types")
def test_widened_columns_are_refused(spark: SparkSession, path: str) -> None:
    """Unless Parquet stores both types alike; the changes are those of the nested fields, too."""
    fields = [Field("id", "long", True, None), Field("b", "byte", True, None), Field("n", "integer", True, None)]
    DeltaTable.create(path, Schema(fields), configuration={"delta.enableTypeWidening": "true"})
    dp.write(spark.sql("SELECT 1L AS id, CAST(7 AS tinyint) AS b, 8 AS n"), path)
    DeltaTable(path).alter.change_column_type("b", "integer")
    dp.write(spark.sql("SELECT 2L AS id, 70000 AS b, 8 AS n"), path)
    assert sorted(row.b for row in dp.read(spark, path).collect()) == [7, 70000]
    DeltaTable(path).alter.change_column_type("n", "long")
    with pytest.raises(exceptions.UnsupportedFeatureError, match=r"widened from integer to long.*Spark 4\.0 or newer"):
        dp.read(spark, path)


def test_changes_of_types_are_refused_by_the_version() -> None:
    def changed(source: str, target: str) -> dict[str, object]:
        field = {
            "name": "x",
            "type": target,
            "metadata": {"delta.typeChanges": [{"fromType": source, "toType": target}]},
        }
        return {
            "type": "struct",
            "fields": [{"name": "s", "type": {"type": "struct", "fields": [field]}, "metadata": {}}],
        }

    refuse_widened(changed("integer", "long"), "4.0.5")
    refuse_widened(changed("byte", "short"), "3.5.9")
    for source, target in (("integer", "long"), ("float", "double"), ("byte", "double"), ("date", "timestamp_ntz")):
        with pytest.raises(exceptions.UnsupportedFeatureError, match=f"from {source} to {target}"):
            refuse_widened(changed(source, target), "3.5.9")


@only_before("4.1", "reads columns of type void")
def test_void_columns_are_refused(enabled: SparkSession, path: str) -> None:
    enabled.sql(f"CREATE TABLE delta.`{path}` (id INT, nothing VOID) USING delta")
    enabled.sql(f"INSERT INTO delta.`{path}` (id) VALUES (1)")
    with pytest.raises(exceptions.UnsupportedFeatureError, match=r"a column of type void.*Spark 4\.1 or newer"):
        enabled.read.format("delta").load(path).count()


def test_types_are_refused_by_the_version() -> None:
    schema = '{"type":"struct","fields":[{"name":"a","type":{"type":"array","elementType":"void"}}]}'
    refuse_unread(schema, "4.1.0")
    refuse_unread('{"type":"struct","fields":[{"name":"void","type":"string"}]}', "4.0.5")
    with pytest.raises(exceptions.UnsupportedFeatureError, match="void"):
        refuse_unread(schema, "4.0.5")


def test_names_of_classes_are_those_of_the_version(spark: SparkSession) -> None:
    """The translation of this session's version names a class that it has."""
    name = for_version("org.apache.spark.sql.classic.Dataset", spark.version)
    assert name == ("org.apache.spark.sql.classic.Dataset" if is_at_least("4.0") else "org.apache.spark.sql.Dataset")
    jvm = spark._jvm
    assert jvm is not None
    assert jvm.java.lang.Class.forName(name).getSimpleName() == "Dataset"


def test_changes_between_versions_are_read(spark: SparkSession, path: str) -> None:
    """By a data source in Python, or without one."""
    dp.write(spark.range(4), path, configuration={"delta.enableChangeDataFeed": "true"})
    dp.write(spark.range(4, 6), path)
    every = dp.read_changes(spark, path, 0)
    assert sorted((row._commit_version, row.id) for row in every.collect()) == [
        *((0, id) for id in range(4)),
        *((1, id) for id in (4, 5)),
    ]
    assert [row.id for row in every.where("_commit_version = 1 AND id > 4").collect()] == [5]
