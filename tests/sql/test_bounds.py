"""Bounds of columns: operations that can't fail by the log's statistics are computed like any other
one, in 64 bits where they fit, with Spark's values and errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from deltaplane import DeltaError, DeltaTable, sql, write_deltalake
from deltaplane.queries import running
from deltaplane.queries.column_bounds import ColumnBounds
from deltaplane.queries.planning import Planner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BIG = 2**31 - 1


def money(*texts: str | None) -> pa.Array:
    return pa.array([None if t is None else Decimal(t) for t in texts], pa.decimal128(15, 2))


SMALL = pa.table(
    {
        "k": ["a", "a", "b", None],
        "n": pa.array([1, -7, None, 100], pa.int32()),
        "l": pa.array([5, None, -6, 7], pa.int64()),
        "p": money("104949.99", "-0.01", None, "901.00"),
        "q": money("0.10", "0.05", "0.00", "-0.07"),
        "w": pa.array([Decimal("1.234567"), Decimal("-9.5"), None, Decimal("0")], pa.decimal128(38, 6)),
    }
)
# The same columns with values at their types' limits.
LARGE = pa.table(
    {
        "k": ["a", "b"],
        "n": pa.array([BIG, -BIG - 1], pa.int32()),
        "l": pa.array([2**63 - 1, -(2**63)], pa.int64()),
        "p": money("9999999999999.99", "-9999999999999.99"),
        "q": money("9999999999999.99", "1.00"),
        "w": pa.array([Decimal("9" * 32 + ".999999"), Decimal("1")], pa.decimal128(38, 6)),
    }
)
VALUES = [
    "n + 1",
    "n - l",
    "n * n",
    "-n",
    "abs(n)",
    "n * 1000000 * l",
    "p * (1 - q)",
    "p * (1 - q) * (1 + q)",
    "p * (1 - q) - q * l",
    "p * w",
    "w * w",
    "w + p",
    "CAST(n AS TINYINT)",
    "CAST(p AS DECIMAL(9, 1))",
    "CASE WHEN k = 'a' THEN p * (1 - q) ELSE 0 END",
    "coalesce(p * q, 0) * q",
    "if(k = 'a', n, NULL) + 1",
    "-(p * q)",
]
QUERIES = [
    *(f"SELECT k, {value} AS v FROM t" for value in VALUES),
    *(f"SELECT k, sum({value}) AS s, avg({value}) AS a, min({value}) AS m FROM t GROUP BY k" for value in VALUES),
    *(f"SELECT k FROM t WHERE {value} > 0" for value in VALUES),
    "SELECT sum(DISTINCT p * (1 - q)) AS a, sum(s + 1) AS b FROM (SELECT p, q, count(*) AS s FROM t GROUP BY p, q)",
    "SELECT v + 1 AS w FROM (SELECT n AS v FROM t UNION ALL SELECT 2147483646) ORDER BY w",
    "SELECT sum(s) + 1 AS w FROM (SELECT k, sum(n) AS s FROM t GROUP BY k) WHERE s + 1 > 0",
    "SELECT a.k, a.n + b.n AS s FROM t a JOIN t b ON a.n + 1 > b.n",
    "SELECT k, sum(p * (1 - q)) OVER (PARTITION BY k ORDER BY p) AS s FROM t",
]


@pytest.fixture(scope="module", params=["small", "large"])
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, pa.Table]:
    path = str(tmp_path_factory.mktemp("bounds") / request.param)
    data = SMALL if request.param == "small" else pa.concat_tables([SMALL, LARGE])
    for start in range(0, data.num_rows, 3):
        write_deltalake(path, data.slice(start, 3), mode="append")
    return path, data


@pytest.fixture
def planners(monkeypatch: pytest.MonkeyPatch) -> list[Planner]:
    """The planners of the queries that ran."""
    seen: list[Planner] = []
    before = running._unwanted

    def noted(connection: Any, planner: Planner) -> list[str]:
        seen.append(planner)
        return before(connection, planner)

    monkeypatch.setattr(running, "_unwanted", noted)
    return seen


@pytest.fixture(scope="module")
def view(spark: SparkSession, stored: tuple[str, pa.Table], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    import pyarrow.parquet as pq

    file = str(tmp_path_factory.mktemp("parquet") / "t.parquet")
    pq.write_table(stored[1], file)
    spark.read.parquet(file).createOrReplaceTempView("t")
    yield spark
    spark.catalog.dropTempView("t")


def rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


@pytest.mark.spark
@pytest.mark.parametrize("query", QUERIES)
def test_values_and_failures_are_those_of_spark(view: Any, stored: tuple[str, pa.Table], query: str) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        theirs = view.sql(query).toArrow()
    except (PySparkException, Py4JError):
        with pytest.raises(DeltaError):
            sql(query, tables={"t": stored[0]}).to_arrow()
        return
    ours = sql(query, tables={"t": stored[0]}).to_arrow()
    assert ours.schema.types == theirs.schema.types
    assert rows(ours) == rows(theirs)


def test_columns_have_the_bounds_of_all_files(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    parts = pa.array([1, 1, 5, None], pa.int16())
    data = SMALL.append_column("part", parts)
    for start in range(4):
        write_deltalake(path, data.slice(start, 1), mode="append", partition_by=["part"])
    bounds = ColumnBounds(DeltaTable(path))
    assert bounds.of("n") == (-7, 100)
    assert bounds.of("l") == (-6, 7)
    assert bounds.of("p") == (Decimal("-0.01"), Decimal("104949.99"))
    assert bounds.of("part") == (1, 5)
    assert bounds.of("k") is None


def test_a_file_without_statistics_leaves_a_column_without_bounds(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, SMALL)
    write_deltalake(path, LARGE, mode="append", configuration={"delta.dataSkippingStatsColumns": "k"})
    DeltaTable(path).alter.set_table_properties({"delta.dataSkippingStatsColumns": "n"})
    write_deltalake(path, SMALL, mode="append")
    assert ColumnBounds(DeltaTable(path)).of("l") is None
    with pytest.raises(DeltaError, match="OVERFLOW"):
        sql("SELECT l + 1 AS a FROM t", tables={"t": path}).to_arrow()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT n + 1 AS a FROM t WHERE n - 1 > 0",
        "SELECT sum(p * (1 - q) * (1 + q)) AS a FROM t",
        "SELECT k, sum(l) AS s FROM t GROUP BY k HAVING sum(l) + count(*) > 1",
    ],
)
def test_no_rule_is_disabled_where_nothing_can_fail(tmp_path: Path, planners: list[Planner], query: str) -> None:
    small, large = str(tmp_path / "small"), str(tmp_path / "large")
    write_deltalake(small, SMALL)
    write_deltalake(large, pa.concat_tables([SMALL, LARGE]))
    sql(query, tables={"t": small}).to_arrow()
    with pytest.raises(DeltaError):
        sql(query, tables={"t": large}).to_arrow()
    assert [planner.can_fail for planner in planners] == [False, True]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT x.n FROM t x JOIN t y ON x.k = y.k AND 10 / x.l > y.n",
        "SELECT n FROM t WHERE n IN (SELECT n FROM t WHERE l <> 5 AND 10 / (l - 5) < 3)",
        "SELECT n, (SELECT max(n) FROM t WHERE 10 / l > 1) AS m FROM t WHERE 10 / l > 1",
        "SELECT n FROM t x WHERE EXISTS (SELECT 1 FROM t y WHERE y.k = x.k) AND 10 / l > 1",
    ],
)
def test_rules_that_move_conditions_stay_beside_guards(tmp_path: Path, planners: list[Planner], query: str) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, SMALL)
    sql(query, tables={"t": path}).to_arrow()
    assert [(planner.guards, planner.filters_can_fail) for planner in planners] == [(True, False)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT n FROM t x WHERE EXISTS (SELECT 1 FROM t y WHERE y.k = x.k AND 10 / y.l > 1)",
        "SELECT x.n FROM t x LEFT JOIN t y ON x.k = y.k AND 10 / y.l > 1",
    ],
)
def test_rules_that_move_conditions_are_disabled_without_guards(
    tmp_path: Path, planners: list[Planner], query: str
) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, SMALL)
    sql(query, tables={"t": path}).to_arrow()
    assert [planner.filters_can_fail for planner in planners] == [True]


def test_wrong_statistics_lead_to_an_error_not_to_another_value(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_deltalake(str(path), LARGE)
    (commit,) = (path / "_delta_log").glob("*.json")
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in lines:
        if "add" in action:
            statistics = json.loads(action["add"]["stats"])
            statistics["minValues"] |= {"n": 0, "l": 0, "p": 0, "q": 0}
            statistics["maxValues"] |= {"n": 1, "l": 1, "p": 1, "q": 1}
            action["add"]["stats"] = json.dumps(statistics)
    commit.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for checksum in (path / "_delta_log").glob("*.crc"):
        checksum.unlink()
    for query in ("n + 1", "l * l", "l + l", "p * (1 - q) * 2", "sum(p * q)"):
        with pytest.raises(DeltaError):
            sql(f"SELECT {query} AS a FROM t", tables={"t": str(path)}).to_arrow()
