"""A pipeline on Spark with S3A, in a JVM of its own: a session that has Hadoop's settings alone
works on a server of S3. Prints the results as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from deltaplane import spark as dp


def session(settings: dict[str, str]) -> SparkSession:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def pipeline(spark: SparkSession, base: str, frames: list[DataFrame]) -> dict[str, Any]:
    """What each step returned, by its name."""
    rows = spark.range(1000).selectExpr("id", "id % 7 as k", "cast(id as string) as s")
    first, table, sink = f"{base}/first", f"{base}/t", f"{base}/sink"

    def read(path: str, **options: str) -> DataFrame:
        frame = spark.read.format("delta").options(**options).load(path)
        frames.append(frame)
        return frame

    def count(path: str, **options: str) -> int:
        return read(path, **options).count()

    def merge() -> int:
        new = spark.range(990, 1010).selectExpr("id", "id % 7 as k", "'new' as s").alias("s")
        matching = dp.DeltaTable.forPath(spark, table).alias("t").merge(new, "t.id = s.id")
        matching.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
        return read(table).where("s = 'new'").count()

    def changed(text: str) -> int:
        return int(spark.sql(text).collect()[0][0])

    def stream() -> int:
        writer = spark.readStream.format("delta").load(first).writeStream.format("delta")
        query = writer.option("checkpointLocation", f"{base}/query").trigger(availableNow=True).start(sink)
        assert query.awaitTermination(180)
        return count(sink)

    def named() -> int:
        spark.sql(f"CREATE TABLE of_lake USING delta LOCATION '{table}'")
        return int(spark.sql("SELECT count(*) FROM of_lake").collect()[0][0])

    def saved(path: str, mode: str, frame: DataFrame) -> int:
        frame.write.format("delta").mode(mode).save(path)
        return count(path)

    def filtered() -> int:
        frame = dp.read(spark, first).where("id BETWEEN 10 AND 20").select("s")
        frames.append(frame)
        return frame.count()

    def vacuumed() -> list[int]:
        """The numbers of unused files before and after, and of rows after."""
        spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        dry = f"VACUUM delta.`{table}` RETAIN 0 HOURS DRY RUN"
        before = len(spark.sql(dry).collect())
        spark.sql(f"VACUUM delta.`{table}` RETAIN 0 HOURS").collect()
        return [before, len(spark.sql(dry).collect()), count(table)]

    steps: dict[str, Callable[[], Any]] = {
        "write": lambda: dp.write(rows, first).version,
        "filter": filtered,
        "plan": lambda: dp.plan(spark, first).count(),
        "save": lambda: saved(table, "overwrite", rows),
        "append": lambda: saved(table, "append", rows.repartition(2)),
        "MERGE": merge,
        "DELETE": lambda: changed(f"DELETE FROM delta.`{table}` WHERE id = 3"),
        "UPDATE": lambda: changed(f"UPDATE delta.`{table}` SET s = 'up' WHERE id = 4"),
        "time travel": lambda: [count(table, versionAsOf="0"), count(table)],
        "stream": stream,
        "more rows": lambda: dp.write(rows.limit(10), first).version,
        "stream restarted": stream,
        "OPTIMIZE": lambda: len(spark.sql(f"OPTIMIZE delta.`{table}`").collect()),
        "VACUUM": lambda: len(spark.sql(f"VACUUM delta.`{table}` RETAIN 200 HOURS DRY RUN").collect()),
        "VACUUM for real": vacuumed,
        "history": lambda: spark.sql(f"DESCRIBE HISTORY delta.`{table}`").count(),
        "name": named,
        "changes": lambda: dp.read_changes(spark, feed, 0).count(),
        "data source": lambda: spark.read.format("deltaplane").load(first).count(),
    }
    feed = f"{base}/feed"
    dp.write(spark.range(3), feed, configuration={"delta.enableChangeDataFeed": "true"})
    return {name: step() for name, step in steps.items()}


def main() -> None:
    asked = json.loads(sys.stdin.readline())
    spark = session(asked["settings"])
    dp.enable(spark, options=asked["options"])
    frames: list[DataFrame] = []
    results = pipeline(spark, asked["base"], frames) if asked["whole"] else write_and_read(spark, asked["base"])
    plans = "".join(frame._jdf.queryExecution().toString() for frame in frames)
    print("results " + json.dumps({"results": results, "plans": plans}), flush=True)
    spark.stop()


def write_and_read(spark: SparkSession, base: str) -> dict[str, Any]:
    """A short pipeline, which also runs without a file system in the JVM."""
    dp.write(spark.range(10), f"{base}/plain")
    return {
        "read": dp.read(spark, f"{base}/plain").count(),
        "again": spark.read.format("delta").load(f"{base}/plain").where("id < 3").count(),
    }


if __name__ == "__main__":
    main()
