"""Credentials that a catalog's server hands out for each table reach Spark's scans and tasks: a
server of S3 sees the key of each table, and a session without keys of its own."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from catalog.conftest import SCHEMA, serving
from deltaplane import Catalog
from stores.forwarding import Answer, Request, forwarding
from stores.on_spark.driving import run_driver
from stores.on_spark.hadoop_aws import address, hadoop_aws_jars
from stores.on_spark.test_renewal import signer

if TYPE_CHECKING:
    from tests.conftest import S3Server

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(400)]

SECRET = "hush-hush"
DENIED = Answer(403, [], b"<Error><Code>AccessDenied</Code><Message>unknown key</Message></Error>")


class Vending:
    """Adds credentials to a catalog server's answers: a key for each name of a table, and for each
    identity of a table that is being created. They end after this many seconds."""

    def __init__(self, bucket: str, ends: float) -> None:
        self.bucket, self.ends = bucket, ends
        self.asked: list[str] = []

    def __call__(self, request: Request, ask: Callable[[], Answer]) -> Answer | None:
        answer = ask()
        match = re.search(r"/(?:tables|staging-tables)/([^/]+)/credentials", request.path)
        if match is None or answer.status != 200:
            return answer
        key = f"KEY{match[1]}"
        self.asked.append(key)
        config = {"s3.access-key-id": key, "s3.secret-access-key": SECRET, "s3.session-token": SECRET}
        credential = {
            "prefix": self.bucket,
            "operation": "READ_WRITE",
            "config": config,
            "expiration-time-ms": int((time.time() + self.ends) * 1000),
        }
        return Answer(
            200, [("content-type", "application/json")], json.dumps({"storage-credentials": [credential]}).encode()
        )


@pytest.mark.parametrize("ends", [3600, 200], ids=["hour", "minutes"])
def test_each_table_is_opened_with_its_own_credentials(ends: float, moto_server: S3Server, tmp_path: Path) -> None:
    base = moto_server.new_bucket()
    database = f"sqlite:///{tmp_path}/lake.db"
    owner = Catalog(database)
    owner.create_catalog("main", storage_root=f"{base}/lake")
    owner.create_schema(SCHEMA)
    owner.grant("etl", "MANAGE", "main")
    token = owner.create_token("etl")
    seen: list[tuple[str, str, bool]] = []

    def store(request: Request, ask: Callable[[], Answer]) -> Answer | None:
        key = signer(request)
        if not key.startswith("KEY"):
            return DENIED
        is_hadoop = "hadoop" in request.headers.get("user-agent", "").lower()
        seen.append((key, request.path, is_hadoop))
        return ask()

    vending = Vending(base, ends)
    with (
        serving(database, tmp_path / "log") as (server, _),
        forwarding(server, vending) as url,
        forwarding(moto_server.endpoint, store) as endpoint,
    ):
        settings = {
            "spark.master": "local[2]",
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
            "spark.driver.extraClassPath": ":".join(map(str, hadoop_aws_jars())),
            **address(endpoint),
        }
        asked: dict[str, Any] = {"settings": settings, "url": url, "token": token, "marks": str(tmp_path)}
        results, log = run_driver("stores.on_spark.catalog_driver", asked, tmp_path, 350)
    plans = results.pop("plans")
    assert results == {
        "join": 3,
        "update": 2,
        "merge": 10,
        "rows": 10,
        "plan": 1,
        "stream": True,
        "streamed": 20,
        "again": 10,
    }
    folders = {name: owner.info(f"{SCHEMA}.{name}")["location"].rpartition("/")[2] for name in "ab"}
    for name, folder in folders.items():
        here = [(key, path, is_hadoop) for key, path, is_hadoop in seen if folder in path]
        # The folder of a managed table has the table's identity as its name.
        assert {key for key, _, _ in here} <= {f"KEY{name}", f"KEY{folder}"}
        by_scan = {key for key, path, is_hadoop in here if is_hadoop and path.endswith(".parquet")}
        # Credentials of the creation may be used until five minutes before their end.
        assert by_scan <= {f"KEY{name}", *([f"KEY{folder}"] if ends > 300 else [])}
        # The driver reads small tables by itself.
        assert by_scan or name == "b"
    assert "FileScan" in plans
    for text in (plans, log, (tmp_path / "log").read_text()):
        assert SECRET not in text
        assert token not in text
