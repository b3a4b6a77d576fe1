"""Transactions over several tables, in Spark's statements, DataFrames and streams."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from catalog.conftest import SCHEMA, Lake, ids, rows
from deltaplane import spark as dp
from deltaplane.exceptions import (
    DeltaConcurrentModificationException,
    InvalidArgumentError,
    SqlSyntaxError,
    UnsupportedFeatureError,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

A, B = f"{SCHEMA}.a", f"{SCHEMA}.b"


@pytest.fixture
def two(shop: Lake) -> Lake:
    """The tables `a` and `b` of one row each."""
    shop.write("a", rows(1))
    shop.write("b", rows(2))
    return shop


@pytest.fixture
def pair(local: Lake) -> Lake:
    """The same, in this process."""
    local.write("a", rows(1))
    local.write("b", rows(2))
    return local


def _versions(lake: Lake) -> tuple[int, int]:
    return lake.open("a").version(), lake.open("b").version()


def _files(lake: Lake) -> int:
    return sum(len(list(lake.folder(name).rglob("*.parquet"))) for name in "ab")


def test_a_block_in_one_text(spark: SparkSession, two: Lake) -> None:
    done = spark.sql(
        f"""BEGIN ATOMIC
          INSERT INTO {A} VALUES (3, 'three; END');
          INSERT INTO {B} SELECT * FROM {A};
          DELETE FROM {B} WHERE id = 2;
          SELECT * FROM {B};
        END"""
    )
    assert done.collect() == [(A, 1), (B, 1)]
    assert (ids(two.open("a")), ids(two.open("b"))) == ([1, 3], [1, 3])
    groups = [two.open(name).history(1)[0]["transactionGroup"]["transactionId"] for name in "ab"]
    assert groups[0] == groups[1]


def test_a_transaction_over_several_calls(spark: SparkSession, two: Lake) -> None:
    spark.sql("BEGIN TRANSACTION")
    spark.sql(f"UPDATE {A} SET text = 'changed'")
    spark.table(A).write.mode("append").saveAsTable(B)
    assert spark.sql(f"SELECT text FROM {B} WHERE id = 1").collect() == [("changed",)]
    assert (_versions(two), ids(two.open("b"))) == ((0, 0), [2])
    assert spark.sql("COMMIT").collect() == [(A, 1), (B, 1)]
    assert ids(two.open("b")) == [1, 2]
    spark.sql("BEGIN TRANSACTION ISOLATION LEVEL SNAPSHOT")
    spark.sql(f"DELETE FROM {A}")
    spark.range(9).selectExpr("id", "'x' AS text").writeTo(B).append()
    assert spark.table(A).count() == 0
    assert spark.sql("ROLLBACK").collect() == []
    assert (spark.table(A).count(), _versions(two)) == (1, (1, 1))


def test_a_block_of_python(spark: SparkSession, pair: Lake) -> None:
    with dp.transaction(spark, [A, B]) as begun:
        spark.table(A).writeTo(B).append()
        dp.DeltaTable.forName(spark, A).delete("id = 1")
    assert begun.versions == {A: 1, B: 1}
    assert (ids(pair.open("a")), ids(pair.open("b"))) == ([], [1, 2])
    files = _files(pair)

    def failing() -> None:
        with dp.transaction(spark):
            spark.sql(f"INSERT INTO {A} VALUES (5, 'x')")
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert (_versions(pair), _files(pair)) == ((1, 1), files)


def test_what_spark_reads_is_checked(spark: SparkSession, pair: Lake) -> None:
    """A transaction that computes rows from what another writer changes meanwhile fails; with
    snapshot isolation it doesn't."""

    def copied() -> None:
        spark.sql(f"INSERT INTO {B} SELECT * FROM {A}")
        # Another thread isn't part of the block.
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: pair.open("a").delete("id = 1")).result()

    def serializable() -> None:
        with dp.transaction(spark):
            copied()

    with pytest.raises(DeltaConcurrentModificationException):
        serializable()
    assert pair.open("b").version() == 0
    pair.write("a", rows(1))
    with dp.transaction(spark, isolation="snapshot"):
        copied()
    assert ids(pair.open("b")) == [1, 2]


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("BEGIN ATOMIC INSERT INTO {a} VALUES (5, 'x'); INSERT INTO {b} VALUES ('x', 1); END", Exception, "(?i)cast"),
        ("BEGIN ATOMIC DELETE FROM {a}; CREATE TABLE default.other (id INT); END", UnsupportedFeatureError, "other"),
        ("BEGIN ATOMIC DELETE FROM {a}; DELETE FROM delta.`{path}`; END", UnsupportedFeatureError, "of its catalog"),
        ("BEGIN ATOMIC DELETE FROM {a}", SqlSyntaxError, "expected `;`"),
        ("BEGIN TRANSACTION; DELETE FROM {a};", SqlSyntaxError, "expected COMMIT or ROLLBACK"),
        ("COMMIT", InvalidArgumentError, "no transaction is open"),
        ("BEGIN ATOMIC DELETE FROM {a}; VACUUM {b}; END", UnsupportedFeatureError, "(?i)vacuum"),
    ],
)
def test_a_block_with_a_fault_changes_nothing(
    text: str, error: type[Exception], words: str, spark: SparkSession, pair: Lake, tmp_path: Path
) -> None:
    path, files = str(tmp_path / "plain"), _files(pair)
    dp.write(spark.range(2), path)
    with pytest.raises(error, match=words):
        spark.sql(text.format(a=A, b=B, path=path))
    assert (_versions(pair), _files(pair), dp.read(spark, path).count()) == ((0, 0), files, 2)


def test_only_tables_of_the_catalog_while_a_transaction_is_open(
    spark: SparkSession, pair: Lake, tmp_path: Path
) -> None:
    spark.sql("BEGIN TRANSACTION")
    try:
        for call in (
            lambda: dp.write(spark.range(1), str(tmp_path / "plain")),
            lambda: spark.sql("CREATE TABLE default.plain (id INT) USING parquet"),
            lambda: spark.readStream.table(A).writeStream.toTable(B),
        ):
            with pytest.raises(UnsupportedFeatureError):
                call()
        with pytest.raises(InvalidArgumentError, match="don't nest"):
            spark.sql("BEGIN TRANSACTION")
    finally:
        spark.sql("ROLLBACK")


def test_sparks_own_scripts_are_sparks(spark: SparkSession, pair: Lake) -> None:
    spark.sql(f"BEGIN INSERT INTO {A} VALUES (5, 'x'); INSERT INTO {B} VALUES (5, 'x'); END")
    assert (ids(pair.open("a")), ids(pair.open("b"))) == ([1, 5], [2, 5])


def test_a_batch_changes_several_tables_once(spark: SparkSession, pair: Lake, tmp_path: Path) -> None:
    """A batch that Spark repeats, because its end wasn't recorded, is in each table once; and a
    batch that fails between two tables is in none."""
    calls: list[int] = []

    def each(batch: DataFrame, txn: tuple[str, int]) -> None:
        calls.append(txn[1])
        batch.writeTo(A).append()
        if len(calls) == 1:
            raise KeyError
        batch.sparkSession.sql(f"DELETE FROM {B} WHERE id = 2")
        # Also through the session of the caller, which isn't the batch's.
        spark.sql(f"INSERT INTO {B} SELECT id + 10, text FROM {A} WHERE id = 2")

    once, checkpoint = dp.atomic_batch(each, [A, B]), tmp_path / "checkpoint"

    def run() -> None:
        stream = dp.read_stream(spark, f"uc://{SCHEMA}.t")
        dp.foreach_batch(stream, once, checkpoint, "append", trigger={"availableNow": True}).awaitTermination(60)

    with pytest.raises(Exception, match="KeyError"):
        run()
    assert _versions(pair) == (0, 0)
    run()
    assert (ids(pair.open("a")), ids(pair.open("b")), _versions(pair)) == ([1, 1, 2], [12], (1, 1))
    for file in (checkpoint / "commits").glob("*"):
        file.unlink()
    run()
    assert (calls, _versions(pair)) == ([0, 0], (1, 1))
