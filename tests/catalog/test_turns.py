"""Appends of one process to a catalog's table take turns, and ask the catalog only by their
commits."""

from __future__ import annotations

import re
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from catalog.conftest import SCHEMA, Lake, ids, rows, serving
from deltaplane import Catalog, CommitProperties
from deltaplane.exceptions import DeltaError, SchemaMismatchError

THREADS, EACH = 16, 6
REQUESTS = re.compile(r'^deltaplane_catalog_requests_total\{(.*),status="(\d+)"\} (\d+)$', re.MULTILINE)


def requests(url: str) -> Counter[str]:
    """The requests about tables that a server has answered, by method and status."""
    counts: Counter[str] = Counter()
    with urllib.request.urlopen(f"{url}/metrics", timeout=20) as answer:
        for labels, status, count in REQUESTS.findall(answer.read().decode()):
            if "tables/{table}" in labels:
                method = re.search(r'method="(\w+)"', labels)
                assert method is not None, labels
                counts[f"{method[1]} {status}"] += int(count)
    return counts


def test_threads_that_append_to_one_table_lose_no_race(database: str, tmp_path: Path) -> None:
    with serving(database, tmp_path / "server.log", "--anonymous") as (url, _):
        lake = Lake(Catalog(url), database)
        lake.write("t", rows(-1))
        before = requests(url)
        numbers = range(THREADS * EACH)
        with ThreadPoolExecutor(THREADS) as pool:
            versions = list(pool.map(lambda number: lake.write("t", rows(number)), numbers))
        after = requests(url) - before
        assert sorted(version or 0 for version in versions) == [number + 1 for number in numbers]
        assert ids(lake.open("t")) == [-1, *numbers]
        assert after["POST 409"] == 0, after
        # Of the commits that a checkpoint leaves behind, only the first one opens the table.
        assert after["GET 200"] <= THREADS * EACH // 3, after


def test_each_append_of_a_lone_writer_is_one_request(database: str, tmp_path: Path) -> None:
    with serving(database, tmp_path / "server.log", "--anonymous") as (url, _):
        lake = Lake(Catalog(url), database)
        for number in range(2):
            lake.write("t", rows(number))
        before = requests(url)
        for number in range(2, 8):
            lake.write("t", rows(number))
        after = requests(url) - before
        assert (after["GET 200"], after["POST 409"]) == (0, 0), after


def test_an_append_finds_what_others_changed(lake: Lake, other: Lake) -> None:
    for number in range(2):
        lake.write("t", rows(number))
    wider = rows(2).append_column("more", pa.array([2], pa.int64()))
    other.write("t", wider, schema_mode="merge")
    # By its columns, which the version that the process knows doesn't have.
    lake.write("t", rows(3).append_column("more", pa.array([3], pa.int64())))
    other.open("t").alter.add_constraint({"small": "id < 100"})
    with pytest.raises(DeltaError, match="small"):
        lake.write("t", rows(100))
    other.write("t", rows(4))
    lake.write("t", rows(5))
    assert ids(lake.open("t")) == list(range(6))
    with pytest.raises(SchemaMismatchError):
        lake.write("t", pa.table({"id": pa.array([6], pa.int64()), "unknown": ["x"]}))


def test_an_append_without_retries_is_first_if_nobody_races(lake: Lake, other: Lake) -> None:
    once = CommitProperties(max_commit_retries=0)
    for number in range(2):
        lake.write("t", rows(number))
    other.write("t", rows(2))
    lake.write("t", rows(3), commit_properties=once)
    assert ids(lake.open("t")) == list(range(4))


def test_an_append_to_a_dropped_table_leaves_no_file_in_its_folder(lake: Lake, other: Lake) -> None:
    for number in range(2):
        lake.write("t", rows(number))
    folder = lake.folder("t")
    files = sorted(folder.glob("*.parquet"))
    other.catalog.drop(f"{SCHEMA}.t")
    lake.write("t", rows(2))
    assert ids(lake.open("t")) == [2]
    assert sorted(folder.glob("*.parquet")) == files
