"""Contestants on Spark, each with its own session: reading and writing tables, and their costs.

CPU is that of the JVM, of Python's workers and of the driver's Python; memory is the sum of their
peaks, which may occur at different times. delta-spark takes part if `make jars` has fetched it.
"""

from __future__ import annotations

import functools
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.harness import Contestant, Elsewhere, Task, used_by_this_process

JARS = Path(__file__).resolve().parents[2] / ".cache" / "jars"
NAMES = ("deltaplane", "Spark's Parquet", "delta-spark")
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": "2",
    # deltaplane's formats; Parquet's old timestamps would cost the others more.
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.session.timeZone": "UTC",
}
DELTA_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # The default is for a cluster: here it would start fifty tasks for each read of a log.
    "spark.databricks.delta.snapshotPartitions": "2",
    # The default would start ten thousand tasks for each listing of a VACUUM.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
}


@dataclass(frozen=True)
class Engine:
    """One contestant's reading and writing. `write` appends a frame to a folder, partitioned by
    these columns."""

    name: str
    read: Callable[[Any, str], Any]
    write: Callable[[Any, str, Sequence[str]], object]
    settings: Callable[[], Mapping[str, str]] = field(default=dict)


def _read_deltaplane(spark: Any, path: str) -> Any:
    from deltaplane import spark as dp

    return dp.read(spark, path)


def _write_deltaplane(frame: Any, path: str, partition_by: Sequence[str]) -> object:
    from deltaplane import spark as dp

    return dp.write(frame, path, partition_by=partition_by or None)


def _with_jars() -> Mapping[str, str]:
    return {**DELTA_SETTINGS, "spark.jars": ",".join(map(str, sorted(JARS.glob("delta-*.jar"))))}


ENGINES = {
    engine.name: engine
    for engine in (
        Engine("deltaplane", _read_deltaplane, _write_deltaplane),
        Engine(
            "Spark's Parquet",
            lambda spark, path: spark.read.parquet(path),
            lambda frame, path, by: frame.write.mode("append").partitionBy(*by).parquet(path),
        ),
        Engine(
            "delta-spark",
            lambda spark, path: spark.read.format("delta").load(path),
            lambda frame, path, by: frame.write.format("delta").mode("append").partitionBy(*by).save(path),
            _with_jars,
        ),
    )
}


def contestants(make: Callable[[Engine, Mapping[str, Any], Path], Task]) -> dict[str, Contestant]:
    """A measure's contestants: `make` gets the contestant's engine, then the arguments of every
    contestant."""
    return {name: functools.partial(make, ENGINES[name]) for name in NAMES if is_there(name)}


def is_there(name: str) -> bool:
    """Whether this engine is installed."""
    return name != "delta-spark" or any(JARS.glob("delta-*.jar"))


def session(scratch: Path, settings: Mapping[str, str], master: str = "local[2]") -> Any:
    """The process's session. A measure's own settings take precedence."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    folders = {"spark.local.dir": str(scratch), "spark.sql.warehouse.dir": str(scratch / "tables")}
    builder = SparkSession.builder.master(master).appName("benches")
    for name, value in {**SETTINGS, **folders, **settings}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def aim_at(spark: Any, file_bytes: int) -> None:
    """Sets the target size of delta-spark's OPTIMIZE, and the size of files that it leaves
    unchanged."""
    for name in ("maxFileSize", "minFileSize"):
        spark.conf.set(f"spark.databricks.delta.optimize.{name}", str(file_bytes))


def task(
    run: Callable[[], Any],
    answer: Callable[[Any], int] = int,
    prepare: Callable[[], object] | None = None,
    size_bytes: Callable[[Any], int] | None = None,
) -> Task:
    """A task whose cost includes that of its child processes."""
    before = [0.0]

    def ready() -> None:
        if prepare is not None:
            prepare()
        before[0] = cpu_of_others()

    def elsewhere(_: Any) -> Elsewhere:
        return Elsewhere(cpu_of_others() - before[0], used_by_this_process().peak_mb + peak_of_others_mb())

    return Task(run, answer, size_bytes, ready, None, elsewhere)


def checksum(frame: Any) -> int:
    """Equal for the same rows in any order."""
    from pyspark.sql import functions as F

    columns = [F.col(f"`{name}`") for name in frame.columns]
    small = F.pmod(F.xxhash64(*columns), F.lit(1_000_003))
    sums = frame.agg(F.sum(small), F.count("*")).collect()[0]
    return int(sums[0] or 0) * 1_000 + int(sums[1]) % 1_000


def copied(path: str, scratch: Path) -> Path:
    """A fresh copy of a table, replacing the last one."""
    copy = scratch / "table"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(path, copy)
    return copy


# --- processes --------------------------------------------------------------------------------------------------------


def cpu_of_others() -> float:
    """CPU seconds of all descendant processes so far, including ended ones."""
    return sum(_seconds(fields[11:15]) for _, fields in _others())


def peak_of_others_mb() -> float:
    """The sum of the memory peaks of all living descendant processes."""
    return sum(peak_mb(process) for process, _ in _others())


def cpu_seconds(process: int) -> float:
    """CPU time of another process so far, without its children."""
    return _seconds(_stat(process)[11:13])


def peak_mb(process: int) -> float:
    """The memory peak of another process so far; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0) / 1024


def _others() -> Iterator[tuple[int, list[str]]]:
    """The descendant processes, with their `stat`."""
    known = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            known[int(folder.name)] = _stat(int(folder.name))
        except OSError:
            continue  # it has ended
    below = {os.getpid()}
    while children := {process for process, fields in known.items() if int(fields[1]) in below} - below:
        below |= children
    yield from ((process, known[process]) for process in sorted(below - {os.getpid()}))


def _stat(process: int) -> list[str]:
    """The fields of `stat` from the process's state on."""
    return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()


def _seconds(ticks: Sequence[str]) -> float:
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
