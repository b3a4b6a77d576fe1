"""Column statistics for the cost-based optimizer: only exact facts of the remaining files, and only
at the optimizer's request."""

from __future__ import annotations

import random
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, _native, write_deltalake
from deltaplane import spark as dp
from deltaplane.spark.jvm import internals as _internals
from deltaplane.spark.jvm import statistics as _statistics
from deltaplane.spark.jvm.statistics import ColumnStatistics, Condition, column_statistics
from deltaplane.spark.scan import file_index as _index

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

CBO = "spark.sql.cbo.enabled"


@pytest.fixture
def table(path: str) -> str:
    """Eight files of a thousand rows: consecutive ids, one of five days in each file, ten values of
    `k`, some nulls, two shops."""
    for n in range(8):
        ids = range(1000 * n, 1000 * (n + 1))
        rows = {
            "id": list(ids),
            "day": [date(2024, 1, 1 + n % 5)] * 1000,
            "k": pa.array([i % 10 for i in ids], pa.int32()),
            "gap": [None if i % 4 == 0 else i * 7919 % 100_000 for i in ids],
            "word": [None if i % 2 else f"w{i % 3}" for i in ids],
            "never": pa.nulls(1000, pa.int64()),
            "x": [i / 3 for i in ids],
            "shop": [None if n == 7 else "north" if n < 4 else "south"] * 1000,
        }
        write_deltalake(path, pa.table(rows), mode="append", partition_by=["shop"])
    return path


def estimate(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().optimizedPlan().stats()


def rows_of(frame: DataFrame) -> int:
    return int(str(estimate(frame).rowCount().get()))


def columns_of(frame: DataFrame) -> dict[str, ColumnStatistics]:
    """The column statistics of a plan's leaf."""

    def value_of(option: Any, kind: type) -> Any:
        return kind(str(option.get())) if option.isDefined() else None

    leaf = frame._jdf.queryExecution().optimizedPlan().collectLeaves().head()
    stats = leaf.stats().attributeStats()
    columns = {}
    for i in range(leaf.output().size()):
        attribute = leaf.output().apply(i)
        if stats.contains(attribute):
            statistics_of_column = stats.get(attribute).get()
            columns[attribute.name()] = ColumnStatistics(
                value_of(statistics_of_column.nullCount(), int),
                value_of(statistics_of_column.distinctCount(), int),
                value_of(statistics_of_column.min(), str),
                value_of(statistics_of_column.max(), str),
            )
    return columns


def test_columns_are_told_exactly(spark: SparkSession, table: str, conf: dict[str, str]) -> None:
    frame = dp.read(spark, table)
    conf[CBO] = "true"
    assert rows_of(frame) == 8000
    days = [(date(2024, 1, day) - date(1970, 1, 1)).days for day in (1, 5)]
    gaps = [i * 7919 % 100_000 for i in range(8000) if i % 4]
    assert columns_of(frame) == {
        "id": ColumnStatistics(0, None, "0", "7999"),
        "day": ColumnStatistics(0, 5, str(days[0]), str(days[1])),
        # Ten values, of which the log only contains the first and the last.
        "k": ColumnStatistics(0, None, "0", "9"),
        "gap": ColumnStatistics(2000, None, str(min(gaps)), str(max(gaps))),
        "word": ColumnStatistics(4000),
        "never": ColumnStatistics(8000, 0),
        "shop": ColumnStatistics(1000, 2),
    }


def test_estimates_after_filters(spark: SparkSession, table: str, conf: dict[str, str]) -> None:
    frame = dp.read(spark, table)
    conf["spark.sql.cbo.planStats.enabled"] = conf[CBO] = "true"
    for condition, least, most in [
        ("id >= 2000 AND id < 5000", 3000, 3000),
        ("id BETWEEN 2500 AND 6499", 4000, 5000),
        ("day >= DATE '2024-01-04'", 2000, 2000),
        ("day > DATE '2024-01-02' AND id < 3500", 1000, 2000),
        ("gap IS NULL", 2000, 2000),
        ("gap IS NOT NULL AND id < 1000", 750, 750),
        ("never = 3", 0, 1),
        ("shop = 'south'", 3000, 3000),
        ("shop IS NULL", 1000, 1000),
    ]:
        assert least <= rows_of(frame.where(condition)) <= most, condition
    assert rows_of(frame.groupBy("day").count()) == 5
    assert rows_of(frame.groupBy("shop").count()) == 3
    # With an alias, and joined with itself.
    days = frame.alias("t").where("t.id < 2000")
    assert columns_of(days)["day"].distinct == 2
    assert columns_of(days)["id"] == ColumnStatistics(0, None, "0", "1999")
    joined = frame.alias("a").join(frame.where("id < 1000").alias("b"), "day").select("a.id")
    assert 1_000_000 <= rows_of(joined) <= 4_000_000


def test_results_are_the_same(spark: SparkSession, table: str, conf: dict[str, str]) -> None:
    dp.read(spark, table).createOrReplaceTempView("counted")
    queries = [
        "SELECT count(*), sum(id), count(gap) FROM counted WHERE day >= DATE '2024-01-03' AND k IN (1, 2, 11)",
        "SELECT day, shop, count(*) FROM counted WHERE gap < 5000 OR never = 1 GROUP BY day, shop ORDER BY day, shop",
        "SELECT count(*) FROM counted a JOIN counted b ON a.id = b.gap WHERE b.shop = 'north' AND a.k <> 3",
        "SELECT count(*) FROM counted WHERE word = 'w1' AND x > 100 AND never IS NULL AND id = k",
        "SELECT count(*) FROM counted a LEFT JOIN counted b ON a.never = b.id WHERE a.day = DATE '2030-01-01'",
    ]
    before = [spark.sql(query).collect() for query in queries]
    conf[CBO] = "true"
    conf["spark.sql.cbo.joinReorder.enabled"] = "true"
    assert [spark.sql(query).collect() for query in queries] == before
    spark.catalog.dropTempView("counted")


def test_nothing_is_asked_where_spark_doesn_t_estimate(
    spark: SparkSession, table: str, conf: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def noted(name: str, function: Any) -> Any:
        return lambda *args: asked.append(name) or function(*args)

    monkeypatch.setattr(_index, "column_statistics", noted("statistics", column_statistics))
    monkeypatch.setattr(_internals.Jvm, "conditions", noted("conditions", _internals.Jvm.conditions))
    frame = dp.read(spark, table)
    assert frame.where("id < 1000").count() == 1000
    assert columns_of(frame) == {}
    assert not asked
    conf[CBO] = "true"
    assert frame.where("id < 1000").count() == 1000
    assert asked == ["conditions", "statistics"]


def test_a_deletion_vector_takes_bounds_away(spark: SparkSession, path: str, conf: dict[str, str]) -> None:
    on = {"delta.enableDeletionVectors": "true"}
    for n in range(3):
        rows = pa.table({"id": range(10 * n, 10 * n + 10), "p": [n] * 10})
        write_deltalake(path, rows, mode="append", partition_by=["p"], configuration=on if n == 0 else None)
    DeltaTable(path).delete("id = 19")
    conf[CBO] = "true"
    frame = dp.read(spark, path)
    assert rows_of(frame) == 29
    assert columns_of(frame) == {"id": ColumnStatistics(0, None, "0", "29"), "p": ColumnStatistics(0, 2, "0", "2")}
    snapshot = DeltaTable(path)._snapshot
    marked = statistics(spark, snapshot, [], "marked")
    assert marked == {"p": ColumnStatistics(0, 1, "1", "1")}


def test_a_view_says_nothing_of_columns_before_its_version_is_known(
    spark: SparkSession, table: str, conf: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    dp.create_or_replace_temp_view(spark, "counted_live", table)
    conf[CBO] = "true"
    assert columns_of(spark.table("counted_live")) == {}
    noted_statistics: list[dict[str, ColumnStatistics]] = []

    def noted(*args: Any) -> dict[str, ColumnStatistics]:
        noted_statistics.append(column_statistics(*args))
        return noted_statistics[-1]

    monkeypatch.setattr(_index, "column_statistics", noted)
    assert spark.sql("SELECT max(id) FROM counted_live").first()[0] == 7999
    DeltaTable(table).delete("id >= 4000")
    assert spark.sql("SELECT max(id) FROM counted_live").first()[0] == 3999
    assert [columns["id"].high for columns in noted_statistics] == ["7999", "3999"]
    spark.catalog.dropTempView("counted_live")


def test_renamed_columns(spark: SparkSession, path: str, conf: dict[str, str]) -> None:
    on = {"delta.columnMapping.mode": "name"}
    for n in range(4):
        rows = pa.table({"id": range(10 * n, 10 * n + 10), "p": [n] * 10})
        write_deltalake(path, rows, mode="append", partition_by=["p"], configuration=on if n == 0 else None)
    DeltaTable(path).alter.rename_column("id", "a b")
    conf[CBO] = "true"
    frame = dp.read(spark, path).where("`a b` >= 20 AND p < 3")
    assert rows_of(frame) == 10
    assert sorted(columns_of(frame).values(), key=str) == [
        ColumnStatistics(0, 1, "2", "2"),
        ColumnStatistics(0, None, "20", "29"),
    ]


# --- without Spark's estimates ---


def statistics(
    spark: SparkSession, snapshot: _native.Snapshot, filters: list[str], files: str = "all"
) -> dict[str, ColumnStatistics]:
    """The statistics of all files, whatever the conditions are."""
    plan = _native.spark_plan(snapshot, [], "UTC", files, True)
    return column_statistics(snapshot, plan, [Condition(text) for text in filters], files)


def test_other_files_than_the_plan_s_say_nothing(spark: SparkSession, table: str) -> None:
    snapshot = DeltaTable(table)._snapshot
    assert statistics(spark, snapshot, ["id >= 0", "what is this"])["id"].high == "7999"
    assert statistics(spark, snapshot, ["id >= 1000"]) == {}
    assert statistics(spark, snapshot, ["no_column = 1"]) == {}


def test_files_without_statistics_say_nothing(spark: SparkSession, path: str) -> None:
    off = {"delta.dataSkippingStatsColumns": "id"}
    write_deltalake(path, pa.table({"id": [1, 2], "n": [1, 2]}), configuration=off)
    snapshot = DeltaTable(path)._snapshot
    assert statistics(spark, snapshot, []) == {"id": ColumnStatistics(0, 2, "1", "2")}


@pytest.mark.parametrize("seed", range(20))
def test_what_is_said_is_true(spark: SparkSession, path: str, seed: int) -> None:
    """For random files every number equals that of the rows."""
    chance = random.Random(seed)
    rows: list[dict[str, Any]] = []
    kinds = {"a": pa.int64(), "b": pa.int8(), "d": pa.date32(), "s": pa.string(), "p": pa.int16()}
    for _ in range(chance.randint(1, 5)):
        narrow, shift = chance.choice([1, 2, 3, 50]), chance.choice([0, 0, 1, 7])
        part = [
            {
                "a": chance.choice([None, 1 << 62, -(1 << 62)])
                if chance.random() < 0.1
                else shift + chance.randrange(narrow),
                "b": None if chance.random() < 0.3 else chance.randrange(narrow),
                "d": None if chance.random() < 0.2 else date(1969, 12, 30) + timedelta(chance.randrange(narrow)),
                "s": None if chance.random() < 0.5 else "x",
                "p": chance.choice([None, 1, 2]),
            }
            for _ in range(chance.randint(1, 6))
        ]
        rows += part
        table = pa.Table.from_pylist(part, schema=pa.schema(kinds))
        write_deltalake(path, table, mode="append", partition_by=["p"])
    said = statistics(spark, DeltaTable(path)._snapshot, [])
    assert {"a", "b", "d", "s", "p"} == said.keys()
    for name, column in said.items():
        values = [row[name] for row in rows if row[name] is not None]
        assert column.nulls == len(rows) - len(values)
        assert column.distinct in (None, len(set(values))), name
        if name != "s":
            bounds = (min(values), max(values)) if values else (None, None)
            assert (column.low, column.high) == tuple(None if value is None else str(value) for value in bounds)
    assert said["p"].distinct is not None


def test_many_values_aren_t_kept(spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write_deltalake(path, pa.table({"p": range(5), "k": range(5)}), partition_by=["p"])
    snapshot = DeltaTable(path)._snapshot
    assert {name: column.distinct for name, column in statistics(spark, snapshot, []).items()} == {"p": 5, "k": 5}
    monkeypatch.setattr(_statistics, "_MOST_VALUES", 4)
    said = statistics(spark, snapshot, [])
    assert said == {name: ColumnStatistics(0, None, "0", "4") for name in ("p", "k")}
    assert snapshot.info.partition_columns == ["p"]
