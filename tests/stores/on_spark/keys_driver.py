"""Writes and reads tables under unusual names with delta-spark, with deltaplane on Spark and with
deltaplane alone, in a JVM of its own. Prints as JSON what each of them read."""

from __future__ import annotations

import json
import sys
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import deltaplane
from deltaplane import spark as dp
from stores.on_spark.s3a_driver import session


def shared(spark: SparkSession, location: str, plain: str, options: dict[str, str] | None) -> Any:
    """The rows of one table after each of the three has written one, as each of them reads it. The
    partition column has the name of the table as its value. `plain`: the location for deltaplane
    alone."""
    name = location.rpartition("/")[2]
    spark.createDataFrame([(1, name)], "id long, p string").write.format("delta").partitionBy("p").save(location)
    dp.write(spark.createDataFrame([(2, name)], "id long, p string"), location, mode="append")
    new = pa.table({"id": pa.array([3], pa.int64()), "p": [name]})
    deltaplane.write_deltalake(plain, new, mode="append", storage_options=options)
    own = deltaplane.DeltaTable(plain, storage_options=options)
    again = deltaplane.DeltaTable(own.table_uri, storage_options=options)
    return {
        "delta-spark": rows(spark.read.format("delta").load(location)),
        "deltaplane on Spark": rows(dp.read(spark, location)),
        "deltaplane": sorted((row["id"], row["p"]) for row in own.scan().to_arrow().to_pylist()),
        "by its URI": again.version(),
    }


def cloned(spark: SparkSession, source: str, base: str, options: dict[str, str]) -> Any:
    """The rows of shallow clones, whose logs name files by absolute URIs: those of delta-spark's
    clone as deltaplane reads it, and those of deltaplane's as delta-spark reads it."""
    theirs, ours = f"{base} theirs", f"{base} ours"
    spark.sql(f"CREATE TABLE delta.`{theirs}` SHALLOW CLONE delta.`{source}`")
    deltaplane.DeltaTable(source, storage_options=options).clone(ours, storage_options=options)
    allowed = {**options, "allow_external_files": source}
    own = deltaplane.DeltaTable(theirs, storage_options=allowed)
    return {
        "deltaplane": sorted(row["id"] for row in own.scan().to_arrow().to_pylist()),
        "delta-spark": sorted(row.id for row in spark.read.format("delta").load(ours).collect()),
    }


def rows(frame: Any) -> list[Any]:
    return sorted((row.id, row.p) for row in frame.collect())


def main() -> None:
    asked = json.loads(sys.stdin.readline())
    spark = session(asked["settings"])
    spark.sparkContext.setLogLevel("ERROR")
    results: dict[str, Any] = {"s3a": {}, "file": {}, "clones": {}}
    for number, name in enumerate(asked["names"]):
        table = f"{asked['bucket']}/{number}/{name}"
        results["s3a"][name] = shared(spark, table, table, asked["options"])
        local = f"{asked['folder']}/{number}/{name}"
        results["file"][name] = shared(spark, f"file:{local}", local, None)
        if name in asked["cloned"]:
            results["clones"][name] = cloned(spark, table, f"{asked['bucket']}/{number}/clone", asked["options"])
    print("results " + json.dumps(results), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
