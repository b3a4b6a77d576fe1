"""Streams on Spark Connect, through the data source alone; what needs a classic session says so by name."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from deltaplane import DeltaTable

pytestmark = pytest.mark.spark

CLIENT = """
    import sys
    import deltaplane
    from pyspark.sql import SparkSession
    from deltaplane import spark as dp

    path = sys.argv[1]
    out, now = path + " out", {"availableNow": True}
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    for n in range(3):
        dp.write(spark.range(n * 10, n * 10 + 10, numPartitions=1), path)
        stream = dp.read_stream(spark, path, maxFilesPerTrigger=1)
        query = dp.write_stream(stream, out, out + "-query", trigger=now)
        assert query.awaitTermination(120)
    fed = dp.read_stream(spark, path, startingVersion=1).groupBy().count()
    query = dp.write_stream(fed, path + " count", path + " count-query", "complete", trigger=now)
    assert query.awaitTermination(120)
    print("counted", dp.read(spark, path + " count").collect()[0][0])
    print("sql", deltaplane.sql(f"SELECT count(*) AS n FROM delta.`{path}`", spark=spark).to_pylist()[0]["n"])
    for name, call in {
        "enable": lambda: dp.enable(spark),
        "sql": lambda: dp.sql(spark, "SELECT 1"),
        "foreach_batch": lambda: dp.foreach_batch(stream, print, out + "-other"),
        "view": lambda: dp.create_or_replace_temp_view(spark, "v", path),
        "distributed_plan": lambda: dp.read(spark, path, distributed_plan=True),
    }.items():
        try:
            call()
        except NotImplementedError as e:
            print("refused", name, e)
    spark.stop()
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_streams_on_spark_connect(path: str) -> None:
    pytest.importorskip("grpc", reason="Spark Connect's packages aren't installed")
    # The server's port is fixed unless Spark believes that it is tested: then the system chooses one.
    environment = {**os.environ, "SPARK_TESTING": "1", "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-c", textwrap.dedent(CLIENT), path]
    run = subprocess.run(command, capture_output=True, text=True, timeout=540, env=environment)
    assert run.returncode == 0, run.stderr
    assert sorted(DeltaTable(path + " out").to_pyarrow_table()["id"].to_pylist()) == list(range(30))
    assert "counted 20" in run.stdout
    assert "sql 30" in run.stdout
    refused = [line.split()[1] for line in run.stdout.splitlines() if line.startswith("refused")]
    assert refused == ["enable", "sql", "foreach_batch", "view", "distributed_plan"]
