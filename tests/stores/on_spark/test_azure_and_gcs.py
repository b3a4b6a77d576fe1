"""Spark on Azure and on Google's store with Hadoop's settings for credentials: a JVM without their
jars writes by tasks and reads through the data source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stores.credentials.test_credentials import service_account
from stores.on_spark.driving import run_driver
from stores.servers import AZURITE_ACCOUNT, AZURITE_KEY, azurite, gcs

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

HOST = f"{AZURITE_ACCOUNT}.dfs.core.windows.net"


def driven(place: Path, base: str, settings: Mapping[str, str], options: Mapping[str, str]) -> tuple[Any, str]:
    own = {
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.warehouse.dir": str(place / "warehouse"),
    }
    asked = {"settings": {**own, **settings}, "options": dict(options), "base": base, "whole": False}
    answer, log = run_driver("stores.on_spark.s3a_driver", asked, place, 500)
    return answer["results"], answer["plans"] + log


def test_the_key_of_an_azure_account(tmp_path: Path) -> None:
    with azurite(tmp_path) as server:
        container = server.new_bucket().removeprefix("az://")
        settings = {f"spark.hadoop.fs.azure.account.key.{HOST}": AZURITE_KEY}
        # Azurite has no name of its own in the cloud's domain.
        options = {"azure_storage_endpoint": server.endpoint, "allow_http": "true"}
        results, shown = driven(tmp_path, f"abfss://{container}@{HOST}/lake", settings, options)
    assert results == {"read": 10, "again": 3}
    assert AZURITE_KEY not in shown


def test_the_key_file_of_a_google_account(tmp_path: Path) -> None:
    key_file, _ = service_account(tmp_path)
    with gcs(tmp_path) as server:
        settings = {
            "spark.hadoop.fs.gs.storage.root.url": server.endpoint,
            "spark.hadoop.fs.gs.auth.service.account.json.keyfile": str(key_file),
        }
        results, shown = driven(tmp_path, f"{server.new_bucket()}/lake", settings, {})
    assert results == {"read": 10, "again": 3}
    assert json.loads(key_file.read_text())["private_key"].splitlines()[1] not in shown
