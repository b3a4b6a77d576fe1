"""Streams of a catalog's tables while others commit: the catalog holds the newest commits before
their files are published, and no stream may pass one over (as in delta-io/delta#6338)."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from catalog.conftest import SCHEMA, Lake, another, ids, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COMMITS = 60


def commit(*lakes: Lake) -> None:
    """Appends a row after the other, by each of them in turn."""
    for number in range(COMMITS):
        lakes[number % len(lakes)].write("t", rows(10 + number))


def test_a_stream_gets_each_commit_of_writers_that_go_on(
    spark: SparkSession, shop: Lake, database: str, tmp_path: Path
) -> None:
    query = (
        spark.readStream.table(f"{SCHEMA}.t")
        .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="0 seconds")
        .toTable(f"{SCHEMA}.copied")
    )
    try:
        commit(shop, another(database, tmp_path))
        wanted = [1, 2, *range(10, 10 + COMMITS)]
        deadline = time.monotonic() + 60
        while ids(shop.open("copied")) != wanted and time.monotonic() < deadline:
            time.sleep(0.2)
    finally:
        query.stop()
    assert query.exception() is None
    assert ids(shop.open("copied")) == wanted


def test_a_follower_gets_each_commit_of_writers_that_go_on(shop: Lake, database: str, tmp_path: Path) -> None:
    seen: list[int] = []

    def follow() -> None:
        for part in shop.open("t").tail(since=0, follow=True):
            seen.extend(part.to_arrow()["id"].to_pylist())
            if len(seen) >= COMMITS:
                break

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    commit(shop, another(database, tmp_path))
    follower.join(60)
    assert seen == list(range(10, 10 + COMMITS))
