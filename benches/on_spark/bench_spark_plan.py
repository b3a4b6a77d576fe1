"""Planning a large log by a Spark job, compared with the core's replay on the driver: the driver's
costs.

Executors are separate processes: time is that of the whole job, but CPU and memory are those of the
driver's JVM and this process. The relevant figure of the job is memory, which must not grow with
the table. Each run starts JVMs, so only full scale or explicit numbers are measured.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from support.harness import Case, Contestant, Elsewhere, Task, main, used_by_this_process
from support.logs import NAMES, Kind, Log
from support.planners import Query, by_id
from support.sparks import cpu_seconds, peak_mb, session

FILES = [10_000, 1_000_000]
KINDS: list[Kind] = ["own", "v2", "json"]
# The minimum with which Spark starts, so that a list of files on the driver would show in the
# memory.
DRIVER_MEMORY = "512m"


def job(case: Mapping[str, Any], scratch: Path) -> Task:
    from pyspark.sql import functions as F

    from deltaplane import spark as dp

    spark = session(scratch, _settings(scratch), "local-cluster[1,2,1024]")
    jvm = spark.sparkContext._gateway.proc.pid
    # Loads the classes for a first job and starts the executor before the measurement.
    dp.plan(spark, case["tiny"], "id > 0").count()
    before = [0.0]

    def prepare() -> None:
        before[0] = cpu_seconds(jvm)

    def run() -> int:
        files = dp.plan(spark, case["path"], case["sql"])
        # The core returns every column before Spark prunes any.
        return int(files.agg(F.count("*"), F.max("max.id")).collect()[0][0])

    def elsewhere(_: Any) -> Elsewhere:
        # The caller counts this process's CPU.
        return Elsewhere(cpu_seconds(jvm) - before[0], peak_mb(jvm) + used_by_this_process().peak_mb)

    return Task(run, prepare=prepare, elsewhere=elsewhere)


def _settings(scratch: Path) -> dict[str, str]:
    """Settings of Spark's own small cluster: one executor with two cores. It writes files to
    Spark's installation, so a folder of links replaces the installation.
    """
    import pyspark

    home = scratch / "spark"
    home.mkdir()
    for name in ("bin", "jars"):
        (home / name).symlink_to(Path(pyspark.__file__).parent / name)
    os.environ["SPARK_HOME"] = str(home)
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.executor.memory": "1g",
    }


def _walk(take: Callable[[Any], int]) -> Contestant:
    def contestant(case: Mapping[str, Any], scratch: Path) -> Task:
        from deltaplane import DeltaTable

        return Task(lambda: take(DeltaTable(case["path"]).plan(case["sql"])))

    return contestant


CONTESTANTS: dict[str, Contestant] = {
    "deltaplane": job,
    "the driver's walk, streamed": _walk(lambda reader: sum(batch.num_rows for batch in reader)),
    "the driver's walk, one table": _walk(lambda reader: reader.read_all().num_rows),
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--files", type=int, nargs="+", help="numbers of files (10000 1000000)")


def cases(options: argparse.Namespace) -> list[Case]:
    all_cases = []
    for files in sorted(options.files or (FILES if options.full else [])):
        for kind in KINDS:
            log = Log(files, kind)
            for query in (Query("all files", log.live, {"sql": None}), by_id(log)):
                case = Case(
                    f"{log.name}, {query.condition}, by a Spark job",
                    list(CONTESTANTS),
                    log.arguments(sql=query.arguments["sql"], tiny=str(Log(10, kind).make())),
                    expected=query.files,
                    series=f"plan by a Spark job, {NAMES[kind]}, {query.condition}",
                    size=files,
                )
                all_cases.append(case)
    return all_cases


if __name__ == "__main__":
    main("spark plan", CONTESTANTS, cases, arguments)
