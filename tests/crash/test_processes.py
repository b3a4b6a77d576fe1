"""Several processes append to one table at once: no row is lost or duplicated, and no process
fails. And the synced files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from crash.processes import S3_SERVERS, check_synced, race, synced_before
from deltaplane import DeltaTable, write_deltalake
from interop.verifier import verify

PROCESSES, APPENDS = 8, 10


@pytest.mark.slow
def test_racing_processes_lose_nothing(tmp_table: Callable[[], str]) -> None:
    table = tmp_table()
    done = race("deltaplane", table, {}, PROCESSES, APPENDS)
    assert (done.failures, done.succeeded, done.wrong_rows) == ([], PROCESSES * APPENDS, 0)
    opened = DeltaTable(table)
    assert opened.version() == PROCESSES * APPENDS
    assert sorted(opened.to_pyarrow_table()["id"].to_pylist()) == list(range(PROCESSES * APPENDS))
    verify(table)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(S3_SERVERS))
def test_racing_processes_on_s3_lose_nothing(name: str, tmp_path: Path) -> None:
    with S3_SERVERS[name](tmp_path) as server:
        done = race("deltaplane", f"{server.new_bucket()}/t", server.options, 4, 5)
    assert (done.failures, done.succeeded, done.wrong_rows) == ([], 20, 0)


@pytest.mark.skipif(
    shutil.which("strace") is None and not os.environ.get("CI"), reason="strace isn't installed; CI must have it"
)
def test_a_commit_is_synced_before_it_is_acknowledged(tmp_table: Callable[[], str]) -> None:
    table = tmp_table()
    write_deltalake(table, pa.table({"id": [1]}))
    order = synced_before(table)
    check_synced(order, 1)
    # The check detects each missing sync.
    for missing in {call for call in order if call.startswith("sync")} - {"sync _delta_log/draft"}:
        with pytest.raises(AssertionError):
            check_synced([call for call in order if call != missing], 1)
