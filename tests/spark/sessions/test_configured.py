"""Sessions configured as in delta-spark's documentation, without its jar: the setup of scripts
before their one changed import."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import pytest

from deltaplane import exceptions
from deltaplane import spark as dp
from deltaplane.spark import DeltaTable, configure_spark_with_delta_pip
from deltaplane.spark.jvm.configured import without_delta_sparks
from following import needs_data_source
from sparks import is_at_least, needs_sources

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

EXTENSIONS, EXTENSION = "spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension"
CATALOG, DELTA_CATALOG = "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"


@pytest.fixture
def configured(spark: SparkSession) -> Iterator[SparkSession]:
    spark.conf.set(CATALOG, DELTA_CATALOG)
    yield spark
    spark.conf.unset(CATALOG)
    dp.disable(spark)


def test_a_catalog_that_is_not_there_is_let_go_of(configured: SparkSession, path: str) -> None:
    with pytest.raises(Exception, match="plugin class" if is_at_least("4.1") else "plugin class|NOT_FOUND"):
        configured.sql("SELECT * FROM no_table").collect()
    dp.write(configured.range(3), path)
    table = DeltaTable.forPath(configured, path)
    new = configured.range(2, 5)
    table.alias("t").merge(new.alias("n"), "t.id = n.id").whenMatchedDelete().whenNotMatchedInsertAll().execute()
    assert sorted(row.id for row in configured.sql("SELECT * FROM range(1)").union(table.toDF()).collect()) == [
        0,
        0,
        1,
        3,
        4,
    ]
    assert configured.conf.get(CATALOG, "none") != DELTA_CATALOG


@needs_sources
def test_another_catalog_stays(spark: SparkSession) -> None:
    spark.conf.set(CATALOG, "a.Catalog")
    try:
        dp.register(spark)
        assert spark.conf.get(CATALOG) == "a.Catalog"
    finally:
        spark.conf.unset(CATALOG)


def test_a_configured_builder_gives_enabled_sessions(configured: SparkSession, path: str) -> None:
    builder = type(configured).builder.config(CATALOG, DELTA_CATALOG).config("spark.sql.shuffle.partitions", "7")
    before = configured.conf.get("spark.sql.shuffle.partitions")
    try:
        made = configure_spark_with_delta_pip(builder, extra_packages=None).getOrCreate()
        assert made is configured
        assert made.conf.get("spark.sql.shuffle.partitions") == "7"
    finally:
        configured.conf.set("spark.sql.shuffle.partitions", cast("str", before))
    configured.range(3).write.format("delta").save(path)
    assert configured.sql(f"SELECT count(*) AS n FROM delta.`{path}`").collect()[0].n == 3
    with pytest.raises(exceptions.InvalidArgumentError, match="a builder of sessions is needed"):
        configure_spark_with_delta_pip(cast("Any", configured))


SCRIPT = f"""
    import sys
    from pyspark.sql import SparkSession
    from deltaplane.spark import DeltaTable, configure_spark_with_delta_pip

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("{EXTENSIONS}", "{EXTENSION}").config("{CATALOG}", "{DELTA_CATALOG}")
    spark = configure_spark_with_delta_pip(builder).getOrCreate()
    spark.range(5).write.format("delta").saveAsTable("numbers")
    spark.sql("UPDATE numbers SET id = id + 100 WHERE id % 2 = 0")
    print("sum", DeltaTable.forName(spark, "numbers").toDF().groupBy().sum().collect()[0][0])
    print("extensions", spark.conf.get("{EXTENSIONS}", "none"))
    try:
        spark.read.load(path=sys.argv[1], format="delta")
    except Exception as e:
        print("missing", e.getMessage())
"""


@pytest.mark.slow
def test_a_script_of_delta_spark_runs_with_its_import_changed(tmp_path: Any) -> None:
    missing = str(tmp_path / "missing")
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), missing]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert (said["sum"], said["extensions"]) == ("310", "none"), done.stderr
    assert said["missing"].startswith(f"[PATH_NOT_FOUND] Path does not exist: {missing}: no Delta table here")
    assert "DeltaSparkSessionExtension" not in done.stderr


@needs_data_source
def test_the_name_delta_is_registered_too(spark: SparkSession, path: str) -> None:
    dp.register(spark)
    spark.range(3).write.format("delta").mode("append").save(path)
    assert spark.read.format("delta").load(path).count() == 3
    with pytest.raises(Exception, match='the format "delta" needs a path'):
        spark.read.format("delta").load()


def test_settings_lose_what_is_delta_sparks_alone() -> None:
    packages = "io.delta:delta-spark_2.13:4.4.0, org.example:other:1.0"
    settings = {EXTENSIONS: f"a.B,{EXTENSION}", "spark.jars.packages": packages, CATALOG: "a.Catalog", "spark.x": "y"}
    expected = {EXTENSIONS: "a.B", "spark.jars.packages": "org.example:other:1.0", CATALOG: "a.Catalog", "spark.x": "y"}
    assert without_delta_sparks(settings) == expected
    of_delta = {
        EXTENSIONS: EXTENSION,
        "spark.jars.packages": "io.delta:delta-spark_4.2_2.13:4.4.0",
        CATALOG: DELTA_CATALOG,
    }
    assert without_delta_sparks(of_delta) == {}
