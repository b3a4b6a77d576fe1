"""A standalone cluster that loses workers while rows are written and changed: jobs go on, and every row is there once."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable
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


CHANGER = """
    import pathlib, sys, time
    from pyspark.sql import functions as F
    from deltaplane import spark as dp
    from deltaplane.spark import DeltaTable

    master, path, rows, tasks = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    small = {"spark__executor__memory": "512m", "spark__executor__cores": 1, "spark__driver__memory": "512m"}
    spark = dp.session("lossy", master=master, spark__network__timeout="60s", **small)
    dp.write(spark.range(0, rows, 1, tasks).selectExpr("id", "id AS x"), path)

    def slowly(mark):
        def more(x):
            pathlib.Path(mark).touch()
            time.sleep(0.01)
            return x + 1
        return F.udf(more, "long")

    table = DeltaTable.forPath(spark, path)
    table.update("id % 4 = 0", {"x": slowly(path + "-update")("x")})
    print("updated", flush=True)
    source = spark.range(1, 2 * rows, 4, tasks).withColumnRenamed("id", "k")
    merge = table.merge(source, "id = k").whenMatchedUpdate(set={"x": slowly(path + "-merge")("x")})
    merge.whenNotMatchedInsert(values={"id": "k", "x": "k"}).execute()
    print("merged", flush=True)
    spark.stop()
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_workers_are_lost_while_rows_are_changed(tmp_path: Path) -> None:
    path = tmp_path / "table"
    with cluster(tmp_path, workers=3) as running:
        command = [sys.executable, "-c", textwrap.dedent(CHANGER), running.url, str(path), str(ROWS), str(TASKS)]
        driver = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment(), cwd=tmp_path
        )
        try:
            for worker, mark in zip(running.workers, ("update", "merge"), strict=False):
                wait_for(lambda mark=mark: Path(f"{path}-{mark}").exists(), driver)  # type: ignore[misc]
                worker.kill()
            said, _ = driver.communicate(timeout=5 * SECONDS)
        finally:
            driver.kill()
    assert driver.returncode == 0, said
    assert "updated" in said
    assert "merged" in said
    found = DeltaTable(str(path)).to_pyarrow_table()
    rows = dict(zip(found["id"].to_pylist(), found["x"].to_pylist(), strict=True))
    new = range(ROWS + 1, 2 * ROWS, 4)
    assert found.num_rows == len(rows) == ROWS + len(new)
    assert rows == {n: n + (n % 4 < 2) for n in range(ROWS)} | {n: n for n in new}
    assert [entry["operation"] for entry in DeltaTable(str(path)).history()] == ["MERGE", "UPDATE", "WRITE"]


def wait_for_files(path: Path, count: int, driver: subprocess.Popen[str]) -> None:
    """Until some tasks have written their files."""
    wait_for(lambda: len(list(path.glob("*.parquet"))) >= count, driver)


def wait_for(reached: Callable[[], bool], driver: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 2 * SECONDS
    while not reached():
        assert driver.poll() is None, driver.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.05)
