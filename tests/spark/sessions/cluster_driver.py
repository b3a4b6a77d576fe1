"""The driver of `test_cluster.py`: runs one job for each line that it reads, and prints the number
of remaining rows.

Each job stops in its tasks, at one of their rows, until the test opens the job's gate.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

GATE_SECONDS = 120


def gate(place: Path) -> Callable[[], None]:
    """A function for tasks: reports its arrival, under the session of its worker, and waits."""
    arrived, opened = str(place / "arrived"), str(place / "open")

    def wait() -> None:
        # Runs in tasks, which don't have this module.
        import os
        import time

        if os.path.exists(opened):
            return
        os.makedirs(arrived, exist_ok=True)
        with open(f"{arrived}/{os.getpid()}", "w") as file:
            file.write(str(os.getsid(0)))
        deadline = time.monotonic() + GATE_SECONDS
        while not os.path.exists(opened):
            assert time.monotonic() < deadline, "the test never opened the gate"
            time.sleep(0.02)

    return wait


def gated(value: Any, place: Path) -> Any:
    """A column's value, for which tasks wait."""
    from pyspark.sql import functions as F

    wait = gate(place)

    def same(number: int) -> int:
        wait()
        return number

    return F.udf(same, "long")(value)


def write(spark: Any, path: str, place: Path, rows: int) -> None:
    from deltaplane import spark as dp

    wait = gate(place)

    def through(batches: Any) -> Any:
        for batch in batches:
            wait()
            yield batch

    dp.write(spark.range(0, rows, 1, 8).mapInArrow(through, "id long"), path)


def update(spark: Any, path: str, place: Path, rows: int) -> None:
    from pyspark.sql import functions as F

    from deltaplane.spark import DeltaTable

    table = DeltaTable.forPath(spark, path)
    table.update(F.col("id") % 2 == 0, {"n": gated(F.col("n") + 1000, place)})


def merge(spark: Any, path: str, place: Path, rows: int) -> None:
    from pyspark.sql import functions as F

    from deltaplane.spark import DeltaTable

    # Half of it matches; a tenth of that half is deleted.
    source = spark.range(rows // 2, rows + rows // 2, 1, 4).withColumn("n", F.col("id") * 10)
    merging = DeltaTable.forPath(spark, path).alias("t").merge(source.alias("s"), "t.id = s.id")
    merging = merging.whenMatchedDelete("s.id % 10 = 0")
    merging = merging.whenMatchedUpdate(set={"n": gated(F.col("s.n"), place)})
    merging.whenNotMatchedInsertAll().execute()


def main(master: str) -> None:
    from deltaplane import spark as dp

    small = {"spark__executor__memory": "512m", "spark__executor__cores": 1, "spark__driver__memory": "512m"}
    few = {"spark__sql__shuffle__partitions": 4, "spark__sql__autoBroadcastJoinThreshold": -1}
    spark = dp.session("lossy", master=master, spark__network__timeout="60s", **small, **few)
    for line in sys.stdin:
        name, path, place, rows = json.loads(line)
        {"write": write, "update": update, "merge": merge}[name](spark, path, Path(place), rows)
        print("counted", dp.read(spark, path).where("id >= 0").count(), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
