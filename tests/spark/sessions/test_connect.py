"""Spark Connect: rows and streams of the data source, commands of tables; operations that need a
classic session name it in the error."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
import textwrap
from decimal import Decimal
from pathlib import Path

import pyspark
import pytest

from deltaplane import DeltaTable
from deltaplane.exceptions import UnsupportedFeatureError
from following import needs_data_source
from interop.jars import delta_jars

pytestmark = [needs_data_source, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

# One client for all tests: its server is a separate JVM.
CLIENT = """
    import sys
    import deltaplane
    from pyspark.sql import SparkSession, functions
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

    dp.write(spark.range(10).selectExpr("id", "'x' AS text"), path + " changed")
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

    table = dp.DeltaTable.forPath(spark, path + " changed")
    F = functions
    table.update(condition="id % 2 = 0", set={"id": F.expr("id + 100"), "text": F.concat(F.col("text"), F.lit("'s \\\\"))})
    table.delete((F.col("id") > F.lit(3)) & ~F.col("id").isin(5, 100, 102))
    new = spark.range(3, 7).withColumn("text", F.lit("new"))
    merge = table.alias("t").merge(new.alias("n"), F.col("t.id") == F.col("n.id"))
    merge = merge.whenMatchedUpdate(set={"text": F.when(F.col("t.id") > 4, "more").otherwise(F.col("n.text"))})
    print("merged", merge.whenNotMatchedInsertAll().execute().collect()[0])
    table.alias("t").merge(new.alias("n"), "t.id = n.id").whenMatchedDelete("t.id = 6").execute()
    found = table.toDF()
    print("changed", sorted(map(tuple, found.collect())))
    print("optimized", table.optimize().executeCompaction().collect()[0].metrics.numFilesRemoved)
    table.optimize().executeZOrderBy("id")
    table.delete("id > 100")
    print("now", table.toDF().count(), table.clone(path + " clone").toDF().count())
    spark.read.format("delta").load(path + " changed").write.parquet(path + " files")
    print("converted", dp.DeltaTable.convertToDelta(spark, "parquet.`" + path + " files`").toDF().count())

    for name, call in {
        "by_name": lambda: dp.DeltaTable.forName(spark, "a_table"),
        "create": lambda: dp.DeltaTable.create(spark).tableName("made").addColumn("id", "long").execute(),
        "random": lambda: table.delete(F.rand() < F.udf(lambda: 0.5, "double")()),
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
    """The client's output."""
    pytest.importorskip("grpc", reason="Spark Connect's packages aren't installed")
    # The server's port is fixed unless SPARK_TESTING is set: then the system chooses a port.
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
    assert [name for name, _ in refused] == [
        "by_name",
        "create",
        "random",
        "enable",
        "sql",
        "foreach_batch",
        "view",
        "distributed_plan",
    ]
    assert "a view that follows the table needs the native scan" in dict(map(tuple, refused))["view"]
    assert "a CommonInlineUserDefinedFunction has no text" in dict(map(tuple, refused))["random"]


def test_commands_of_a_table_run_in_the_client(said: list[str], place: str) -> None:
    assert "merged Row(num_affected_rows=4, num_updated_rows=2, num_deleted_rows=0, num_inserted_rows=2)" in said
    rows = [(1, "x"), (3, "new"), (4, "new"), (5, "more"), (100, "x's \\"), (102, "x's \\")]
    assert f"changed {rows}" in said
    assert "now 5 5" in said
    assert "converted 5" in said
    assert DeltaTable(place + " changed").history(1)[0]["operation"] == "DELETE"


def test_expressions_of_spark_connect_have_their_text() -> None:
    pytest.importorskip("grpc", reason="Spark Connect's packages aren't installed")
    from pyspark.sql.connect import functions as F
    from pyspark.sql.connect.column import Column

    from deltaplane.spark.delta_api.connect_sql import sql_of

    for column, text in (
        (F.expr("a + 1"), "(a + 1)"),
        (F.col("t.a") == F.lit("it's"), r"(t.a = 'it\'s')"),
        (F.col("a").isNull() | ~(F.col("b") < F.lit(1.5)), "((a IS NULL) OR (NOT (b < CAST('1.5' AS double))))"),
        (F.col("a").cast("int") + F.lit(None), "(CAST(a AS int) + NULL)"),
        (F.lit(dt.date(2026, 11, 26)), "DATE '2026-11-26'"),
        (F.lit(dt.datetime(2026, 11, 26, 1, 2, 3, 4, dt.timezone.utc)), "TIMESTAMP '2026-11-26 01:02:03.000004 UTC'"),
        (F.lit(Decimal("1.50")), "CAST('1.50' AS decimal(3,2))"),
        (F.lit(b"\x01\xff"), "X'01ff'"),
        (F.when(F.col("a") > 1, True).otherwise(False), "(CASE WHEN (a > CAST(1 AS int)) THEN true ELSE false END)"),
        (F.upper(F.col("`a b`").alias("c")), "upper(`a b`)"),
        (F.coalesce(F.col("a"), -F.col("b")), "coalesce(a, (- b))"),
    ):
        assert isinstance(column, Column)
        assert sql_of(column) == text
    with pytest.raises(UnsupportedFeatureError, match="give the condition or value as Spark SQL"):
        sql_of(F.col("a").getField("b"))


WITH_JAR = """
    import sys
    from pyspark.sql import SparkSession
    from deltaplane import spark as dp

    path, jars = sys.argv[1:]
    builder = SparkSession.builder.remote("local[2]").config("spark.jars", jars)
    builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    catalog = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    spark = builder.config("spark.sql.catalog.spark_catalog", catalog).getOrCreate()
    dp.write(spark.range(3), path)
    dp.register(spark)
    try:
        print("rows", spark.read.format("delta").load(path + " missing").count())
    except Exception as e:
        print("missing", "io.delta" in str(e) or "PATH_NOT_FOUND" in str(e), "MULTIPLE" in str(e))
    print("rows", spark.read.format("delta").load(path).count(), spark.read.format("deltaplane").load(path).count())
    spark.stop()
"""


@pytest.mark.skipif(not pyspark.__version__.startswith("4.2."), reason="the jar at hand is for Spark 4.2")
def test_a_server_with_delta_sparks_jar_keeps_the_name(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Spark Connect's packages aren't installed")
    environment = {**os.environ, "SPARK_TESTING": "1", "PYSPARK_PYTHON": sys.executable}
    jars = ",".join(map(str, delta_jars()))
    command = [sys.executable, "-c", textwrap.dedent(WITH_JAR), str(tmp_path / "table"), jars]
    run = subprocess.run(command, capture_output=True, text=True, timeout=540, env=environment)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == ["missing True False", "rows 3 3"]
