"""The data source on Spark Connect: rows and streams; what needs a classic session says so by name."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from deltaplane import DeltaTable
from following import needs_data_source

pytestmark = [needs_data_source, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

# One client for all: its server is a JVM of its own.
CLIENT = """
    import sys
    import deltaplane
    from pyspark.sql import SparkSession
    from deltaplane import spark as dp

    path = sys.argv[1]
    spark = SparkSession.builder.remote("local[2]").getOrCreate()

    rows = path + " rows"
    dp.register(spark)
    spark.range(10).selectExpr("id", "id % 2 AS p").write.format("deltaplane").mode("append").save(rows)
    dp.write(spark.range(10, 15).selectExpr("id", "id % 2 AS p"), rows)
    even = spark.read.format("deltaplane").load(rows).where("p = 0")
    print("rows", even.count(), dp.read(spark, rows, version=0).count())
    print("plan", dp.plan(spark, rows, "id >= 0").agg({"num_records": "sum"}).collect()[0][0])

    out, now = path + " out", {"availableNow": True}
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


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("connect") / "table")


@pytest.fixture(scope="module")
def said(place: str) -> list[str]:
    """What the client printed."""
    pytest.importorskip("grpc", reason="Spark Connect's packages aren't installed")
    # The server's port is fixed unless Spark believes that it is tested: then the system chooses one.
    environment = {**os.environ, "SPARK_TESTING": "1", "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-c", textwrap.dedent(CLIENT), place]
    run = subprocess.run(command, capture_output=True, text=True, timeout=540, env=environment)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def test_rows_are_written_read_and_planned(said: list[str], place: str) -> None:
    assert "rows 8 10" in said
    assert "plan 15" in said
    assert DeltaTable(place + " rows").version() == 1


def test_streams(said: list[str], place: str) -> None:
    assert sorted(DeltaTable(place + " out").to_pyarrow_table()["id"].to_pylist()) == list(range(30))
    assert "counted 20" in said
    assert "sql 30" in said


def test_what_needs_a_classic_session_is_refused_by_name(said: list[str]) -> None:
    refused = [line.split(maxsplit=2)[1:] for line in said if line.startswith("refused")]
    assert [name for name, _ in refused] == ["enable", "sql", "foreach_batch", "view", "distributed_plan"]
    assert "a view that follows the table needs the native scan" in dict(map(tuple, refused))["view"]
