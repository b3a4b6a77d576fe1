"""Credentials that a catalog hands out, as settings of Spark's own scan; and what is read how where
Hadoop has no setting for them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from catalog.conftest import SCHEMA, Lake, rows
from deltaplane import spark as dp
from deltaplane.exceptions import UnsupportedFeatureError
from deltaplane.io.credentials import provider_name
from deltaplane.spark.execution.vended import hadoop_settings
from deltaplane.spark.jvm.internals import NativeScanUnavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

T = f"{SCHEMA}.t"
END = int(time.time()) + 3600
TOKEN_CLASS = "fs.gs.auth.access.token.provider"
HANDED: dict[str, tuple[str, dict[str, Any], dict[str, str]]] = {
    "s3": (
        "s3://lake/t",
        {"access_key_id": "id", "secret_access_key": "key", "session_token": "token", "expires_at": END},
        {
            "fs.s3a.access.key": "id",
            "fs.s3a.secret.key": "key",
            "fs.s3a.session.token": "token",
            "fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
            "fs.s3a.impl.disable.cache": "true",
        },
    ),
    "azure": (
        "abfss://c@acme.dfs.core.windows.net/t",
        {"sas_token": "sv=1&sig=x", "expires_at": END},
        {
            "fs.azure.account.auth.type.acme.dfs.core.windows.net": "SAS",
            "fs.azure.sas.fixed.token.acme.dfs.core.windows.net": "sv=1&sig=x",
            "fs.abfs.impl.disable.cache": "true",
            "fs.abfss.impl.disable.cache": "true",
        },
    ),
    "google": (
        "gs://lake/t",
        {"token": "ya29", "expires_at": END},
        {
            "fs.gs.auth.type": "ACCESS_TOKEN_PROVIDER",
            "fs.gs.auth.access.token.credential": "ya29",
            "fs.gs.auth.access.token.expiration": f"{END}000",
            "fs.gs.create.items.conflict.check.enable": "false",
            "fs.gs.impl.disable.cache": "true",
        },
    ),
}


@pytest.fixture
def token_class(spark: SparkSession) -> Iterator[None]:
    """A session whose jars have a class that gives Google's connector a token of the settings."""
    spark.conf.set(TOKEN_CLASS, "io.unitycatalog.spark.GcsVendedTokenProvider")
    yield
    spark.conf.unset(TOKEN_CLASS)


@pytest.mark.usefixtures("token_class")
@pytest.mark.parametrize("store", HANDED)
def test_settings_have_what_the_catalog_hands_out(store: str) -> None:
    place, credentials, expected = HANDED[store]
    provider = provider_name(lambda: credentials)
    assert hadoop_settings(place, {"credential_provider": provider}) == expected
    assert hadoop_settings(place, {}) == {}


def test_a_token_of_google_needs_a_class_of_the_session(spark: SparkSession) -> None:
    place, credentials, _ = HANDED["google"]
    provider = provider_name(lambda: credentials)
    with pytest.raises(NativeScanUnavailable, match="gs:// has no setting for the credentials"):
        hadoop_settings(place, {"credential_provider": provider})


def plan_of(spark: SparkSession) -> str:
    frame: Any = spark.table(T)
    return str(frame._jdf.queryExecution().executedPlan().toString())


def test_without_a_setting_rows_are_read_by_the_data_source(
    spark: SparkSession, shop: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> dict[str, str]:
        raise NativeScanUnavailable("there is no setting for these credentials")

    assert "FileScan parquet" in plan_of(spark)
    for module in ("scan", "stream"):
        monkeypatch.setattr(f"deltaplane.spark.{module}.read.scan_settings", refused)
    assert "FileScan parquet" not in plan_of(spark)
    assert spark.sql(f"SELECT id FROM {T} WHERE id > 1").collect() == [(2,)]
    assert dp.read(spark, f"uc://{T}", options=shop.options).count() == 2
    stream = spark.readStream.table(T).writeStream.format("memory").queryName("vended")
    query = stream.option("checkpointLocation", f"{tmp_path}/c").trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    assert spark.table("vended").count() == 2
    shop.write("t", rows(3))
    assert spark.table(T).count() == 3
    with pytest.raises(UnsupportedFeatureError, match=r"there is no setting .* use deltaplane\.DeltaTable"):
        spark.sql(f"DELETE FROM {T} WHERE id = 1")
    assert spark.table(T).count() == 3
