"""Clients that know files only see a commit when its publication is reported: by its writer within
a time, at the end of its process, or by the next reader."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catalog.conftest import SCHEMA, Lake, ids, rows, serving
from deltaplane import Catalog, transaction
from deltaplane.catalogs.table_checks import backfill_tables
from deltaplane.exceptions import InvalidArgumentError

TABLE = "/api/2.1/unity-catalog/delta/v1/catalogs/main/schemas/sales/tables"
# A report that no test waits for.
NEVER = "86400"

WRITE = """
import os, sys
from deltaplane import write_deltalake
import pyarrow as pa
url, delay, ending = sys.argv[1:]
rows = pa.table({"id": pa.array([7], pa.int64()), "text": ["seven"]})
options = {"catalog": url, "catalog_publication_report": delay}
write_deltalake("uc://main.sales.t", rows, mode="append", storage_options=options)
if ending == "killed":
    os._exit(0)
"""

TOGETHER = """
import os, sys
from deltaplane import Catalog, transaction
import pyarrow as pa
url, delay, ending = sys.argv[1:]
rows = pa.table({"id": pa.array([7], pa.int64()), "text": ["seven"]})
catalog = Catalog(url, storage_options={"catalog_publication_report": delay})
with transaction(catalog) as tx:
    for name in ("t", "other"):
        tx.write(f"main.sales.{name}", rows)
if ending == "killed":
    os._exit(0)
"""

READ = """
import sys
from deltaplane import DeltaTable
url, delay, ending = sys.argv[1:]
table = DeltaTable("uc://main.sales.t", storage_options={"catalog": url, "catalog_publication_report": delay})
assert table.version() == 1
"""


def python(script: str, *arguments: str) -> None:
    """Runs a script in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]


class Foreign:
    """A client of the server that knows no extension."""

    def __init__(self, url: str) -> None:
        self.url = url

    def loaded(self, table: str = "t") -> dict[str, Any]:
        """A table as the server shows it."""
        with urllib.request.urlopen(f"{self.url}{TABLE}/{table}", timeout=20) as answer:
            made: dict[str, Any] = json.load(answer)
            return made

    def version(self, table: str = "t") -> int:
        """The newest version that the client can read."""
        version: int = self.loaded(table)["latest-table-version"]
        return version

    def awaited(self, version: int, seconds: float, table: str = "t") -> float:
        """The seconds until the client sees a version."""
        begun = time.monotonic()
        while self.version(table) < version:
            assert time.monotonic() - begun < seconds, f"version {version} isn't there after {seconds} s"
            time.sleep(0.01)
        return time.monotonic() - begun

    def updates(self) -> int:
        """How many updates of tables the server has served: commits, and reports."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=20) as answer:
            text = answer.read().decode()
        counts = re.findall(r'requests_total\{method="POST",route="[^"]*/tables/\{table\}",status="\d+"\} (\d+)', text)
        return sum(map(int, counts))


@pytest.fixture
def server(database: str, tmp_path: Path) -> Iterator[str]:
    """The URL of the server over the database."""
    with serving(database, tmp_path / "server.log", "--anonymous") as (url, _):
        yield url


def lake(url: str, seconds: str) -> Lake:
    return Lake(Catalog(url, storage_options={"catalog_publication_report": seconds}), url)


def test_a_commit_is_reported_within_the_time(server: str) -> None:
    foreign, own = Foreign(server), lake(server, "0.3")
    own.write("t", rows(1))
    assert own.write("t", rows(2)) == 1
    # Nobody commits again. The bound, and time for the machine.
    foreign.awaited(1, 0.3 + 20)
    assert foreign.loaded()["commits"] == []


def test_without_a_delay_a_commit_is_reported_before_it_returns(server: str) -> None:
    foreign, own = Foreign(server), lake(server, "0")
    own.write("t", rows(1))
    for version in (1, 2, 3):
        assert own.write("t", rows(version)) == version
        assert foreign.version() == version


def test_the_default_is_a_second(server: str) -> None:
    foreign, own = Foreign(server), Lake(Catalog(server), server)
    own.write("t", rows(1))
    own.write("t", rows(2))
    foreign.awaited(1, 1 + 20)


def test_a_burst_of_commits_has_one_report(server: str) -> None:
    foreign, own = Foreign(server), lake(server, "2")
    own.write("t", rows(0))
    before, begun = foreign.updates(), time.monotonic()
    for number in range(1, 21):
        own.write("t", rows(number))
    foreign.awaited(20, 2 + 20)
    reports = foreign.updates() - before - 20
    assert 1 <= reports <= 1 + (time.monotonic() - begun) // 2, "more than one report for each time"


def test_a_transaction_over_two_tables_is_reported(server: str) -> None:
    foreign, own = Foreign(server), lake(server, "0")
    for name in ("a", "b"):
        own.write(name, rows(1))
    with transaction(own.catalog, [f"{SCHEMA}.a", f"{SCHEMA}.b"]) as tx:
        tx.write(f"{SCHEMA}.a", rows(2))
        tx.write(f"{SCHEMA}.b", rows(3))
    assert (foreign.version("a"), foreign.version("b")) == (1, 1)


def test_the_end_of_a_process_reports(server: str) -> None:
    foreign = Foreign(server)
    lake(server, NEVER).write("t", rows(1))
    python(WRITE, server, NEVER, "ended")
    assert foreign.version() == 1


def after_transaction(server: str, ending: str) -> tuple[Foreign, Lake]:
    """Clients of two tables that a process wrote to in a transaction before it ended so."""
    own = lake(server, NEVER)
    for name in ("t", "other"):
        own.write(name, rows(1))
    python(TOGETHER, server, NEVER, ending)
    return Foreign(server), own


def test_the_end_of_a_process_publishes_a_transaction_and_reports_it(server: str) -> None:
    foreign, own = after_transaction(server, "ended")
    for name in ("t", "other"):
        assert foreign.version(name) == 1
        log = Path(own.open(name).table_uri.removeprefix("file://")) / "_delta_log"
        assert (log / f"{1:020}.json").exists(), sorted(log.iterdir())


def test_the_transaction_of_a_killed_process_is_there_and_can_be_published(server: str) -> None:
    foreign, own = after_transaction(server, "killed")
    for name in ("t", "other"):
        assert ids(own.open(name)) == [1, 7]
    assert dict(backfill_tables(own.catalog)) == {f"{SCHEMA}.{name}": 1 for name in ("other", "t")}
    for name in ("t", "other"):
        assert foreign.version(name) == 1


def test_a_reader_reports_what_a_killed_process_left(server: str) -> None:
    foreign = Foreign(server)
    lake(server, NEVER).write("t", rows(1))
    python(WRITE, server, NEVER, "killed")
    assert foreign.version() == 0
    python(READ, server, NEVER, "ended")
    assert foreign.version() == 1


def test_a_reader_without_the_right_to_report_reads(database: str, tmp_path: Path) -> None:
    owner = Catalog(database)
    owner.grant("reader", "READ", SCHEMA)
    token = owner.create_token("reader")
    with serving(database, tmp_path / "server.log") as (url, _):
        lake(database, NEVER).write("t", rows(1))
        python(WRITE, database, NEVER, "killed")
        options = {"catalog_publication_report": "0"}
        reader = Lake(Catalog(url, token, storage_options=options), database)
        assert ids(reader.open("t")) == ids(reader.open("t")) == [1, 7]
        unreported = owner.storage_options | {"catalog_publication_report": NEVER}
        assert len(Lake(Catalog(database, storage_options=unreported), database).open("t").history()) == 2
    log = (tmp_path / "server.log").read_text()
    assert "panicked" not in log, log


def test_the_time_is_a_number_of_seconds(tmp_path: Path) -> None:
    for wrong in ("-1", "soon", "1e9"):
        with pytest.raises(InvalidArgumentError, match="catalog_publication_report is a number of seconds"):
            Catalog(f"sqlite:///{tmp_path}/x.db", storage_options={"catalog_publication_report": wrong}).catalogs()
