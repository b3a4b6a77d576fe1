"""Who gets killed: a Spark session with one query that copies a table, file by file, until nothing is left.

Started by `test_stream_kill.py` with source, target and how to read and write.
"""

from __future__ import annotations

import os
import sys


def main(source: str, target: str, reads: str, writes: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from deltaplane import spark as dp

    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    spark = dp.session("copier", master="local[2]", spark__driver__extraJavaOptions=quick)
    spark.sparkContext.setLogLevel("OFF")
    if reads == "native":
        stream = dp.read_stream(spark, source, maxFilesPerTrigger=1)
    else:
        stream = spark.readStream.format("deltaplane").option("maxFilesPerTrigger", 1).load(source)
    checkpoint = f"{target}-query"
    if writes == "native":
        query = dp.write_stream(stream, target, checkpoint, trigger={"availableNow": True})
    else:
        writer = stream.writeStream.format("deltaplane").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start(target)
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
