"""Runs scenarios in one JVM and writes a line of JSON for each.

Arguments: `deltaplane` or `delta-spark`, the file of outcomes, a scratch directory, patterns of
scenarios' names (all without a pattern) and `--unrecorded`. The directory `tests` is on
Python's path.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from pathlib import Path

import jvm
from interop.differential.execution import SETTINGS, run
from interop.differential.selection import selected
from interop.jars import delta_jars

FIXED = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
    "spark.databricks.delta.snapshotPartitions": "1",
    # Number of tasks by which VACUUM lists, regardless of the number of directories; the default is
    # 10,000.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
}
DELTA_SPARK = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def main(engine: str, out: str, scratch: str, *arguments: str) -> None:
    from pyspark.sql import SparkSession

    jvm.start_quickly()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # PySpark logs each refused statement.
    logging.disable(logging.CRITICAL)
    settings = {**FIXED, **SETTINGS, "spark.sql.warehouse.dir": f"{scratch}/warehouse"}
    if engine == "delta-spark":
        settings |= {**DELTA_SPARK, "spark.jars": ",".join(map(str, delta_jars()))}
    builder = SparkSession.builder.master("local[2]").appName(engine)
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    if engine == "deltaplane":
        from deltaplane import spark as dp

        dp.enable(spark)
    chosen = selected(arguments)
    known = _known(Path(out))
    # A run that is interrupted has a part of every family.
    ordered = [*chosen[0::3], *chosen[1::3], *chosen[2::3]]
    chosen = [scenario for scenario in ordered if scenario.digest() not in known]
    with Path(out).open("a") as file:
        for number, scenario in enumerate(chosen):
            start = time.monotonic()
            outcome = run(spark, scenario, Path(scratch) / "tables")
            outcome["digest"] = scenario.digest()
            outcome["seconds"] = round(time.monotonic() - start, 2)
            print(json.dumps(outcome), file=file, flush=True)
            if number % 25 == 0:
                print(f"{engine}: {number} of {len(chosen)} scenarios", file=sys.stderr, flush=True)
            if engine == "delta-spark":
                spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    spark.stop()


def _known(out: Path) -> set[str]:
    """Digests of the scenarios that a file of outcomes already has: a run goes on where one
    ended."""
    if not out.exists():
        return set()
    return {json.loads(line)["digest"] for line in out.read_text().splitlines()}


if __name__ == "__main__":
    main(*sys.argv[1:])
