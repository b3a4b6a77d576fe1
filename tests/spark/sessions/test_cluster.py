"""A standalone cluster that loses a worker during a write, an UPDATE, a MERGE: each continues, and
every row is written once."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, write_deltalake
from spark.sessions.cluster import SECONDS, Cluster, cluster, environment

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

ROWS, TASKS = 4_000, 8
DRIVER = Path(__file__).with_name("cluster_driver.py")


@dataclass
class Driver:
    """A session on the cluster that runs jobs one after the other."""

    cluster: Cluster
    popen: subprocess.Popen[str]
    log: Path

    def does(self, job: str, path: Path, place: Path) -> int:
        """The number of remaining rows after a job that lost the worker of its first task before
        any task had finished."""
        assert self.popen.stdin is not None
        assert self.popen.stdout is not None
        place.mkdir()
        self.popen.stdin.write(json.dumps([job, str(path), str(place), ROWS]) + "\n")
        self.popen.stdin.flush()
        worker = self._waiting_worker(place / "arrived")
        self.cluster.lose(worker)
        (place / "open").touch()
        for line in self.popen.stdout:
            if line.startswith("counted "):
                return int(line.split()[1])
        raise AssertionError(self.log.read_text())

    def _waiting_worker(self, arrived: Path) -> int:
        """The process id of a worker with a waiting task."""
        deadline = time.monotonic() + 2 * SECONDS
        while True:
            for file in arrived.glob("*"):
                if text := file.read_text():
                    return int(text)
            assert self.popen.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.02)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    scratch = tmp_path_factory.mktemp("cluster")
    log = scratch / "driver.log"
    with cluster(scratch, workers=2) as running, log.open("w") as errors:
        command = [sys.executable, str(DRIVER), running.url]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
        popen = subprocess.Popen(command, text=True, env=environment(), cwd=scratch, **pipes)
        try:
            yield Driver(running, popen, log)
            popen.communicate(timeout=SECONDS)
        finally:
            popen.kill()
            popen.wait()


def table(path: Path) -> Counter[tuple[int, int]]:
    rows = DeltaTable(str(path)).to_pyarrow_table(columns=["id", "n"])
    return Counter(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def numbered(path: Path) -> None:
    """Rows 0 to ROWS in files of equal size, whose changed rows become deletion vectors."""
    for n in range(4):
        ids = pa.array(range(n * ROWS // 4, (n + 1) * ROWS // 4), pa.int64())
        marked = {"delta.enableDeletionVectors": "true"} if n == 0 else None
        write_deltalake(str(path), pa.table({"id": ids, "n": ids}), mode="append", configuration=marked)


def test_a_worker_is_lost_while_rows_are_written(driver: Driver, tmp_path: Path) -> None:
    path = tmp_path / "table"
    assert driver.does("write", path, tmp_path / "gate") == ROWS
    written = DeltaTable(str(path))
    assert written.version() == 0
    assert Counter(written.to_pyarrow_table()["id"].to_pylist()) == Counter(range(ROWS))
    assert len(written.file_uris()) == TASKS


def test_a_worker_is_lost_while_rows_are_updated(driver: Driver, tmp_path: Path) -> None:
    path = tmp_path / "table"
    numbered(path)
    assert driver.does("update", path, tmp_path / "gate") == ROWS
    assert DeltaTable(str(path)).version() == 4
    assert table(path) == Counter((n, n + 1000 if n % 2 == 0 else n) for n in range(ROWS))
    metrics = DeltaTable(str(path)).history(1)[0]["operationMetrics"]
    assert metrics["numUpdatedRows"] == str(ROWS // 2)


def test_a_worker_is_lost_while_rows_are_merged(driver: Driver, tmp_path: Path) -> None:
    path = tmp_path / "table"
    numbered(path)
    half = ROWS // 2
    deleted = half // 10
    assert driver.does("merge", path, tmp_path / "gate") == ROWS + half - deleted
    assert DeltaTable(str(path)).version() == 4
    unchanged = [(n, n) for n in range(half)]
    merged = [(n, n * 10) for n in range(half, ROWS + half) if n >= ROWS or n % 10]
    assert table(path) == Counter([*unchanged, *merged])
    metrics = DeltaTable(str(path)).history(1)[0]["operationMetrics"]
    changed = {name: metrics[f"numTargetRows{name}"] for name in ("Updated", "Deleted", "Inserted")}
    assert changed == {"Updated": str(half - deleted), "Deleted": str(deleted), "Inserted": str(half)}
