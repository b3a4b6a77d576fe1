"""A standalone cluster that loses a worker while a frame is written: the job goes on, and every row is there once."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from collections import Counter
from pathlib import Path

import pytest

from deltaplane import DeltaTable
from spark.cluster import SECONDS, cluster, environment

pytestmark = pytest.mark.spark

ROWS, TASKS = 4_000, 8

DRIVER = """
    import sys, time
    from deltaplane import spark as dp

    master, path, rows, tasks = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    small = {"spark__executor__memory": "512m", "spark__executor__cores": 1, "spark__driver__memory": "512m"}
    spark = dp.session("lossy", master=master, spark__network__timeout="60s", **small)

    def slowly(batches):
        for batch in batches:
            time.sleep(1)
            yield batch

    frame = spark.range(0, rows, 1, tasks).mapInArrow(slowly, "id long")
    print("version", dp.write(frame, path).version, flush=True)
    print("count", dp.read(spark, path).where("id >= 0").count(), flush=True)
    spark.stop()
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_worker_is_lost_while_rows_are_written(tmp_path: Path) -> None:
    path = tmp_path / "table"
    with cluster(tmp_path, workers=2) as running:
        command = [sys.executable, "-c", textwrap.dedent(DRIVER), running.url, str(path), str(ROWS), str(TASKS)]
        driver = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment(), cwd=tmp_path
        )
        try:
            wait_for_files(path, 2, driver)
            assert not DeltaTable.is_deltatable(str(path)), "the write was over before the worker was lost"
            running.workers[0].kill()
            said, _ = driver.communicate(timeout=4 * SECONDS)
        finally:
            driver.kill()
    assert driver.returncode == 0, said
    assert "version 0" in said
    assert f"count {ROWS}" in said
    table = DeltaTable(str(path))
    assert Counter(table.to_pyarrow_table()["id"].to_pylist()) == Counter(range(ROWS))
    assert len(table.file_uris()) == TASKS


def wait_for_files(path: Path, count: int, driver: subprocess.Popen[str]) -> None:
    """Until some tasks have written their files."""
    deadline = time.monotonic() + 2 * SECONDS
    while len(list(path.glob("*.parquet"))) < count:
        assert driver.poll() is None, driver.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.05)
