"""Catalogs from Spark's own settings, and their tokens, which appear nowhere."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from catalog.conftest import SCHEMA, rows
from deltaplane import Catalog, write_deltalake
from deltaplane import spark as dp
from deltaplane.exceptions import StoreDeniedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

T = f"{SCHEMA}.t"


@pytest.fixture
def configured(spark: SparkSession, guarded: tuple[str, str]) -> Iterator[str]:
    """The session's settings as Unity Catalog's documentation has them; the token."""
    url, token = guarded
    settings = {
        "spark.sql.catalog.main": "io.unitycatalog.spark.UCSingleCatalog",
        "spark.sql.catalog.main.uri": url,
        "spark.sql.catalog.main.token": token,
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.uri": "http://127.0.0.1:1",
    }
    for key, value in settings.items():
        spark.conf.set(key, value)
    dp.enable(spark)
    yield token
    dp.disable(spark)
    for key in settings:
        spark.conf.unset(key)


def test_settings_describe_catalogs(spark: SparkSession, configured: str) -> None:
    spark.sql(f"CREATE TABLE {T} AS SELECT id, 'x' AS text FROM range(4)")
    spark.sql(f"DELETE FROM {T} WHERE id = 0")
    assert spark.sql(f"SELECT count(*) FROM {T}").collect()[0][0] == 3
    assert {entry.name for entry in spark.catalog.listCatalogs()} >= {"main", "spark_catalog"}


def test_a_default_catalog_is_ours(spark: SparkSession, configured: str) -> None:
    dp.disable(spark)
    spark.conf.set("spark.sql.defaultCatalog", "main")
    try:
        dp.enable(spark)
        assert (spark.catalog.currentCatalog(), spark.catalog.currentDatabase()) == ("main", "default")
        spark.sql("USE SCHEMA sales")
        spark.sql("CREATE TABLE named AS SELECT 1 AS id")
        assert spark.table("named").collect() == [(1,)]
    finally:
        spark.conf.unset("spark.sql.defaultCatalog")


def test_tokens_appear_nowhere(
    spark: SparkSession, configured: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    fed = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    spark.sql(f"CREATE TABLE {T} {fed} AS SELECT id, 'x' AS text FROM range(4)")
    spark.sql(f"UPDATE {T} SET text = 'y' WHERE id = 1")
    frame, feed = spark.table(T).where("id > 1"), spark.sql(f"SELECT * FROM table_changes('{T}', 1)")
    assert (frame.count(), feed.count()) == (2, 2)
    plans = [str(query._jdf.queryExecution().toString()) for query in (frame, feed)]
    frame.explain(True)
    # PySpark's own protocol carries the session's settings.
    logged = [record.getMessage() for record in caplog.records if not record.name.startswith("py4j")]
    shown = [*plans, *capfd.readouterr(), *logged, repr(frame), str(spark.sql(f"DESCRIBE HISTORY {T}").collect())]
    settings = {key: value for key, value in spark.conf.getAll.items() if configured in value}
    assert settings.keys() == {"spark.sql.catalog.main.token"}
    assert not [text for text in shown if configured in text]


def test_errors_do_not_show_a_token(spark: SparkSession, guarded: tuple[str, str]) -> None:
    url, token = guarded
    write_deltalake(f"uc://{T}", rows(1), storage_options=Catalog(url, token).storage_options)
    wrong = "dapi-wrong-and-secret"
    dp.enable(spark, catalogs={"main": {"uri": url, "token": wrong}})
    try:
        for call in (
            lambda: spark.sql(f"SELECT * FROM {T}"),
            lambda: spark.sql(f"INSERT INTO {T} VALUES (2, 'x')"),
            lambda: spark.range(1).writeTo(T).append(),
        ):
            with pytest.raises(StoreDeniedError) as raised:
                call()
            assert wrong not in str(raised.value)
            assert wrong not in repr(raised.value.__cause__)
    finally:
        dp.disable(spark)


def test_a_token_from_a_function_and_a_file(
    spark: SparkSession, guarded: tuple[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    url, token = guarded
    file = tmp_path_factory.mktemp("token") / "token"
    file.write_text(token)
    for catalog in (Catalog(url, lambda: token), Catalog(url, storage_options={"catalog_token_file": str(file)})):
        dp.enable(spark, catalogs={"main": catalog})
        spark.range(2).write.mode("append").saveAsTable(T)
        assert spark.table(T).count() > 0
        dp.disable(spark)
