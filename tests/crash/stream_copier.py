"""The killed process: a Spark session with one query that copies a table, file by file, until it is
complete.

`test_stream_kill.py` starts it with source, target and the ways to read and write.
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
