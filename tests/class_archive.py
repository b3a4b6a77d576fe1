"""Makes the archive of Spark's classes that the tests' JVMs map instead of loading and checking
each class again.

A short run of what most tests do decides which classes are in it; others are loaded as ever, and a
JVM with another class path or version passes over it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import jvm


def use_spark(scratch: Path) -> None:
    """A session that writes, reads, joins, streams and gives rows to Python, and then ends."""
    from pyspark.sql import functions as F

    from deltaplane import spark as dp

    session = dp.session(
        "class archive",
        master="local[2]",
        spark__sql__shuffle__partitions=2,
        spark__local__dir=scratch / "local",
        spark__sql__warehouse__dir=scratch / "warehouse",
        spark__ui__showConsoleProgress="false",
    )
    session.sparkContext.setLogLevel("ERROR")
    table = str(scratch / "table")
    days = session.sql("SELECT id, CAST(id AS decimal(10, 2)) AS amount, date '2024-01-01' AS day FROM range(1000)")
    dp.write(days, table, partition_by="day")
    dp.create_or_replace_temp_view(session, "days", table)
    sums = "SELECT day, sum(amount) AS total, max(id) AS top FROM days WHERE id > 5 GROUP BY day ORDER BY day"
    session.sql(f"WITH sums AS ({sums}) SELECT * FROM days JOIN sums USING (day) WHERE id IN (6, 7)").toArrow()
    days.groupBy("day").agg(F.count("*")).write.parquet(str(scratch / "parquet"))
    session.read.parquet(str(scratch / "parquet")).collect()
    copied = session.readStream.format("deltaplane").load(table).writeStream.format("noop")
    copied.option("checkpointLocation", str(scratch / "stream")).trigger(availableNow=True).start().awaitTermination()
    session.stop()


def make() -> None:
    """Writes the archive again; the JVM does so when it ends."""
    jvm.ARCHIVE.unlink(missing_ok=True)
    jvm.ARCHIVE.parent.mkdir(parents=True, exist_ok=True)
    jvm.start_quickly(f'"-XX:ArchiveClassesAtExit={jvm.ARCHIVE}" -Xlog:disable')
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory() as scratch:
        use_spark(Path(scratch))
        from pyspark import SparkContext

        gateway = SparkContext._gateway
        process = gateway.proc if gateway is not None else None
        if gateway is not None and process is not None:
            gateway.shutdown()
            process.stdin.close()
            process.wait(300)
    if not jvm.ARCHIVE.exists():
        sys.exit(f"{jvm.ARCHIVE} is missing: the JVM wrote no archive of its classes")


if __name__ == "__main__":
    make()
