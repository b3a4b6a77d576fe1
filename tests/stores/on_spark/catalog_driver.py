"""Works on tables of a catalog whose server hands out the credentials of their store, in a JVM of
its own. Prints the results as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from deltaplane import spark as dp
from stores.on_spark.s3a_driver import session

A, B = "main.sales.a", "main.sales.b"


def steps(spark: SparkSession, asked: dict[str, Any]) -> dict[str, Any]:
    """What each step returned, by its name."""
    marks = Path(asked["marks"])
    frames: list[DataFrame] = []

    def count(text: str) -> int:
        frames.append(spark.sql(text))
        return int(frames[-1].collect()[0][0])

    results: dict[str, Any] = {}
    spark.range(10).write.saveAsTable(A)
    spark.sql(f"CREATE TABLE {B} (id BIGINT)")
    spark.sql(f"INSERT INTO {B} SELECT id + 5 FROM {A}")
    results["join"] = count(f"SELECT count(*) FROM {A} a JOIN {B} b ON a.id = b.id WHERE a.id > 6")
    results["update"] = count(f"UPDATE {A} SET id = id + 100 WHERE id < 2")
    merge = f"MERGE INTO {A} a USING {B} b ON a.id = b.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"
    results["merge"] = count(merge)
    spark.sql(f"OPTIMIZE {A}")
    results["rows"] = count(f"SELECT count(*) FROM {A}")
    results["plan"] = dp.plan(spark, f"uc://{A}").count()
    stream = spark.readStream.table(A).writeStream.option("checkpointLocation", str(marks / "query"))
    query = stream.trigger(availableNow=True).toTable(B)
    results["stream"] = query.awaitTermination(120)
    results["streamed"] = count(f"SELECT count(*) FROM {B}")
    results["again"] = count(f"SELECT count(*) FROM {A}")
    results["plans"] = "\n".join(frame._jdf.queryExecution().toString() for frame in frames)
    return results


def main() -> None:
    """Runs the steps that standard input asks for."""
    asked = json.loads(sys.stdin.readline())
    spark = session(asked["settings"])
    dp.enable(spark, catalogs={"main": {"uri": asked["url"], "token": asked["token"]}})
    print("results " + json.dumps(steps(spark, asked)))
    spark.stop()


if __name__ == "__main__":
    main()
