"""A streaming query of Spark in the soak: it writes the rows of the soak's table into a second
table of the same store, with its checkpoint on the local disk."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stores.on_spark.hadoop_aws import hadoop_aws_jars, hadoops

TRIGGER = "500 milliseconds"
SECONDS_OF_LAST_RUN = 300


@contextlib.contextmanager
def session(options: Mapping[str, str], place: Path) -> Iterator[Any]:
    """A session with Hadoop's settings of the store, and nothing else of deltaplane's."""
    from pyspark.sql import SparkSession

    from deltaplane import spark as dp

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.warehouse.dir": str(place / "warehouse"),
        "spark.driver.extraClassPath": ":".join(map(str, hadoop_aws_jars())),
        **hadoops(options),
    }
    builder = SparkSession.builder.master("local[1]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    dp.enable(spark)
    yield spark
    spark.stop()


def start(spark: Any, table: str, place: Path, **trigger: Any) -> Any:
    """Starts the query; a query with its checkpoint goes on after the last one's end."""
    source, sink = table.replace("s3://", "s3a://"), sink_of(table).replace("s3://", "s3a://")
    writer = spark.readStream.format("delta").load(source).writeStream.format("delta")
    return writer.option("checkpointLocation", str(place / "query")).trigger(**trigger).start(sink)


def sink_of(table: str) -> str:
    """The second table of a table."""
    return f"{table}-copied"


def follow(spark: Any, table: str, place: Path, until: float) -> None:
    """Runs the query until that time; raises the query's error."""
    query = start(spark, table, place, processingTime=TRIGGER)
    query.awaitTermination(max(1, int(until - time.time())))
    query.stop()


def finish(table: str, options: Mapping[str, str], place: Path) -> None:
    """Runs the query until it has written all rows."""
    with session(options, place) as spark:
        if not start(spark, table, place, availableNow=True).awaitTermination(SECONDS_OF_LAST_RUN):
            raise TimeoutError(f"the query hasn't ended after {SECONDS_OF_LAST_RUN} s")
