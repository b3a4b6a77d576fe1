"""One partition of many, with real rows, on Spark: deltaplane's native scan beside Spark's own partitioned Parquet folder
and, where `make jars` has fetched it, delta-spark. The other half of the paper's section 6.1, see bench_partitions.py.

All read the same files. Cold is the session's first look at the table, warm a query on a frame that is there; memory
and CPU are the JVM's. Each run starts a JVM, so nothing is measured but at full scale or where numbers are given.
"""

from __future__ import annotations

import argparse
import functools
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import harness
import numpy as np
import pyarrow as pa
from harness import Case, Contestant, Elsewhere, Task, main

PARTITIONS = [1_000, 10_000, 100_000]
ROWS = 3_300_000
# Partitions of one commit: the writer has a file open for each.
PARTITIONS_PER_COMMIT = 500
DELTA_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Its default is meant for a cluster: here it would start fifty tasks for each look at a log.
    "spark.databricks.delta.snapshotPartitions": "2",
}


def _jars() -> list[Path]:
    return sorted((harness.CACHE.parent / "jars").glob("delta-*.jar"))


def _table(partitions: int, rows: int) -> Path:
    """The table's folder, made when it isn't there; its files lie as Spark lays out a partitioned table."""
    from deltaplane import write_deltalake

    path = harness.CACHE / f"partitions-{partitions}-{rows}"
    if not path.exists():
        unfinished = path.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        for batch in _batches(partitions, rows // partitions):
            write_deltalake(str(unfinished), batch, mode="append", partition_by=["part"])
        unfinished.rename(path)
    return path


def _batches(partitions: int, rows_each: int) -> Iterator[pa.Table]:
    for first in range(0, partitions, PARTITIONS_PER_COMMIT):
        parts = np.arange(first, min(first + PARTITIONS_PER_COMMIT, partitions), dtype=np.int32)
        ids = np.arange(first * rows_each, (first + len(parts)) * rows_each, dtype=np.int64)
        yield pa.table({"part": np.repeat(parts, rows_each), "id": ids, "amount": ids / 7})


# --- contestants ------------------------------------------------------------------------------------------------------


def _read_deltaplane(spark: Any, path: str) -> Any:
    from deltaplane import spark as dp

    return dp.read(spark, path)


def _read_parquet(spark: Any, path: str) -> Any:
    return spark.read.parquet(path)


def _read_delta(spark: Any, path: str) -> Any:
    return spark.read.format("delta").load(path)


def contestant(
    read: Callable[[Any, str], Any], settings: Mapping[str, str], case: Mapping[str, Any], scratch: Path
) -> Task:
    spark = _session(scratch, settings)
    # The classes that a first query of its kind loads are no part of the figures.
    read(spark, case["tiny"]).where("part = 1").groupBy().sum("id").collect()
    jvm = spark.sparkContext._gateway.proc.pid
    before = [0.0]

    def prepare() -> None:
        before[0] = cpu_seconds(jvm)

    def query(frame: Any) -> int:
        return int(frame.where(f"part = {case['part']}").groupBy().sum("id").collect()[0][0])

    def elsewhere(_: Any) -> Elsewhere:
        return Elsewhere(cpu_seconds(jvm) - before[0], peak_mb(jvm))

    if case["opened"]:
        frame = read(spark, case["path"])
        return Task(lambda: query(frame), prepare=prepare, elsewhere=elsewhere)
    return Task(lambda: query(read(spark, case["path"])), prepare=prepare, elsewhere=elsewhere)


def _session(scratch: Path, settings: Mapping[str, str]) -> Any:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("benches").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "4g").config("spark.sql.shuffle.partitions", "2")
    builder = builder.config("spark.local.dir", str(scratch)).config("spark.sql.warehouse.dir", str(scratch / "tables"))
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def cpu_seconds(process: int) -> float:
    """CPU time of another process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mb(process: int) -> float:
    """The most memory that another process had so far."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


CONTESTANTS: dict[str, Contestant] = {
    "deltaplane": functools.partial(contestant, _read_deltaplane, {}),
    "Spark's Parquet": functools.partial(contestant, _read_parquet, {}),
    "delta-spark": lambda case, scratch: contestant(
        _read_delta, {**DELTA_SETTINGS, "spark.jars": ",".join(map(str, _jars()))}, case, scratch
    ),
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--partitions", type=int, nargs="+", help="numbers of partitions (1000 10000 100000)")
    parser.add_argument("--rows", type=int, default=ROWS, help=f"rows of each table ({ROWS})")


def cases(options: argparse.Namespace) -> list[Case]:
    numbers = options.partitions or (PARTITIONS if options.full else [])
    asked = [name for name in CONTESTANTS if name != "delta-spark" or _jars()]
    found = []
    tiny = str(_table(3, 9)) if numbers else ""
    for partitions in sorted(numbers):
        path, each, part = str(_table(partitions, options.rows)), options.rows // partitions, partitions // 2
        expected = sum(range(part * each, (part + 1) * each))
        for opened in (False, True):
            how = "warm" if opened else "cold"
            case = Case(
                f"{partitions:,} partitions on Spark, {how}",
                asked,
                {"path": path, "tiny": tiny, "part": part, "opened": opened},
                calls=3 if opened else 1,
                expected=expected,
                series=f"one of many partitions on Spark, {how}",
                size=partitions,
            )
            found.append(case)
    return found


if __name__ == "__main__":
    main("spark partitions", CONTESTANTS, cases, arguments)
