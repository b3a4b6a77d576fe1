"""Who gets killed: a Spark session with one query that copies a table, file by file, until nothing
is left.

Started by `test_stream_kill.py` with source, target and how to read and write.
"""

from __future__ import annotations

import os
import sys


def main(source: str, target: str, reads: str, writes: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from crash.copying import started
    from deltaplane import spark as dp

    spark = dp.session("copier", master="local[2]")
    spark.sparkContext.setLogLevel("OFF")
    started(spark, source, target, reads, writes).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
