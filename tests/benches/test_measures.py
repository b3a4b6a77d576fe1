"""Every measure at its smallest size: its cases can be made, deltaplane returns their answers, and
every target is measured."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import zipfile
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from support.harness import Case

BENCHES = Path(__file__).resolve().parents[2] / "benches"
# Measures that start Spark: options besides --quick, and a part of the names of the cases to run.
ON_SPARK: dict[str, tuple[list[str], str]] = {
    "bench_spark_append": ([], "20 partitions"),
    "bench_spark_load": ([], ""),
    "bench_spark_merge": ([], "clustered, vectors"),
    "bench_spark_partitions": (["--partitions", "3", "--rows", "9"], ""),
    "bench_spark_plan": (["--files", "20"], ""),
    "bench_spark_scan": (["--files", "20"], "again"),
    "bench_spark_tpcds": (["--queries", "3"], ""),
    "bench_stream_latency": (["--commits", "2"], ""),
}
MEASURES = sorted(
    path.stem
    for folder in (BENCHES, BENCHES / "catalogs", BENCHES / "sql", BENCHES / "huge")
    for path in folder.glob("bench_*.py")
)
# Options besides --quick: fewer processes, less to write.
OPTIONS = {
    "bench_concurrent": ["--processes", "2"],
    "bench_append": ["--rows", "1000"],
    "bench_scan": ["--rows", "1000"],
}


def cases_of(module: ModuleType, *options: str) -> list[Case]:
    from support import harness, sizes

    arguments = getattr(module, "arguments", sizes.arguments)
    all_cases: list[Case] = module.cases(harness.parser(arguments).parse_args(["--quick", *options]))
    return all_cases


def wheel(folder: Path) -> Path:
    path = folder / "some-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("some.py", "")
    return path


@pytest.mark.parametrize("name", MEASURES)
def test_deltaplane_gives_the_answer_of_each_case(name: str, benches: Path, tmp_path: Path) -> None:
    benches.mkdir()
    options = ["--wheel", str(wheel(tmp_path))] if name == "bench_start" else OPTIONS.get(name, [])
    if name == "bench_tpch":
        raw_tpch(benches / "tpch-0.01")
    check_answers(importlib.import_module(name), options, tmp_path)


@pytest.mark.spark
@pytest.mark.parametrize("name", ON_SPARK)
def test_deltaplane_gives_the_answers_on_spark(
    name: str, spark: SparkSession, benches: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from support import rows, sparks

    benches.mkdir()
    raw_tpcds(benches / "tpcds-0.01")
    monkeypatch.setitem(rows.ROWS, "quick", 800)
    # A measure may configure its own Spark session, which differs from this one.
    monkeypatch.setattr(sparks, "SETTINGS", {})
    monkeypatch.setenv("SPARK_HOME", os.environ.get("SPARK_HOME", ""))
    options, among = ON_SPARK[name]
    try:
        check_answers(importlib.import_module(name), options, tmp_path, among)
    finally:
        for view in spark.catalog.listTables():
            if view.isTemporary:
                spark.catalog.dropTempView(view.name)


def raw_tpch(folder: Path) -> None:
    """Some columns of two tables in the form of TPC-H, whose generator isn't part of the
    development environment, and queries over them under the numbers of the smallest size."""
    folder.mkdir()
    money = pa.decimal128(15, 2)
    lines = {
        "l_orderkey": [1, 1, 2],
        "l_extendedprice": pa.array([Decimal("10.00"), Decimal("20.50"), Decimal("7.25")], money),
        "l_shipdate": pa.array([9000, 9100, 9200], pa.date32()),
    }
    pq.write_table(pa.table(lines), folder / "lineitem.parquet")
    pq.write_table(
        pa.table({"o_orderkey": [1, 2], "o_shippriority": pa.array([0, 1], pa.int32())}), folder / "orders.parquet"
    )
    queries = {
        "1": "SELECT count(*) AS n, sum(l_extendedprice) AS total FROM lineitem;",
        "3": "SELECT o_shippriority, sum(l_extendedprice) AS revenue FROM orders, lineitem "
        "WHERE l_orderkey = o_orderkey GROUP BY o_shippriority ORDER BY revenue DESC LIMIT 10;",
        "6": "SELECT sum(l_extendedprice) AS revenue FROM lineitem WHERE l_shipdate >= CAST('1994-12-01' AS date);",
    }
    (folder / "queries.json").write_text(json.dumps(queries))


def test_answers_of_tpch_are_equal_for_equal_numbers_of_other_types() -> None:
    from support import tpch

    assert tpch.answer([(Decimal("1.50"), "a", None), (2, "b", 1)]) == tpch.answer([(2.0, "b", 1), (1.5, "a ", None)])
    assert tpch.answer([(Decimal("1.50"),)]) != tpch.answer([(Decimal("1.51"),)])


def raw_tpcds(folder: Path) -> None:
    """Three tables and a query in the form of TPC-DS, whose generator isn't part of the development
    environment."""
    folder.mkdir()
    sales = {
        "ss_sold_date_sk": pa.array([1, 1, 2, None], pa.int32()),
        "ss_item_sk": pa.array([1, 2, 2, 1], pa.int32()),
        "ss_ticket_number": pa.array([1, 2, 3, 4]),
        "ss_ext_sales_price": pa.array([Decimal("1.25"), Decimal("2.50"), None, Decimal("7.00")], pa.decimal128(7, 2)),
    }
    tables = {
        "store_sales": sales,
        "date_dim": {"d_date_sk": pa.array([1, 2], pa.int32()), "d_year": [1999, 2000]},
        "item": {"i_item_sk": pa.array([1, 2], pa.int32()), "i_brand_id": [7, 8]},
    }
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    (folder / "store_sales.csv").write_text("1,1,1,1.25\n1,2,2,2.50\n2,2,3,\n,1,4,7.00\n")
    sql = """
        SELECT d_year, i_brand_id AS brand, SUM(ss_ext_sales_price) AS total FROM date_dim dt, store_sales, item
        WHERE dt.d_date_sk = ss_sold_date_sk AND ss_item_sk = i_item_sk GROUP BY ALL ORDER BY d_year LIMIT 100"""
    (folder / "queries.json").write_text(json.dumps({"3": {"sql": sql, "columns": 3}}))


def test_a_limited_query_takes_the_same_rows_everywhere(benches: Path) -> None:
    from support import tpcds

    benches.mkdir()
    raw_tpcds(benches / "tpcds-0.01")
    assert "ORDER BY d_year NULLS LAST, 1 NULLS LAST, 2 NULLS LAST, 3 NULLS LAST LIMIT 100" in tpcds.query(0.01, 3)


def test_answers_are_equal_where_only_the_order_of_sums_differs() -> None:
    from support import tpcds

    assert tpcds.answer([("a", 0.1 + 0.2), ("b", None)]) == tpcds.answer([("b", None), ("a", 0.3)])
    assert tpcds.answer([("a", 0.1)]) != tpcds.answer([("a", 0.2)])


def test_a_spark_job_s_measure_starts_only_where_numbers_are_given() -> None:
    assert cases_of(importlib.import_module("bench_spark_plan")) == []


COUNTED = """
import subprocess, sys
from support import sparks

before = sparks.cpu_of_others()
work = "import time\\nwhile time.process_time() < 0.3: pass\\nprint(flush=True)\\ninput()"
with subprocess.Popen([sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
    child.stdout.readline()
    print(sparks.cpu_of_others() - before, sparks.peak_of_others_mb())
    child.communicate(b"\\n")
"""


def test_processes_below_this_one_are_counted_while_they_live() -> None:
    # Runs in a process of its own: other child processes of the tests would add to its cost.
    done = subprocess.run([sys.executable, "-c", COUNTED], cwd=BENCHES, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    cpu_s, peak_mb = map(float, done.stdout.split())
    assert 0.2 < cpu_s < 10
    assert peak_mb > 1


def check_answers(module: ModuleType, options: list[str], tmp_path: Path, among: str = "") -> None:
    """Runs each case whose name contains `among` once with deltaplane."""
    from support import harness

    cases = [case for case in cases_of(module, *options) if among in case.name]
    assert cases
    assert len({case.name for case in cases}) == len(cases), "a case's figures are found by its name"
    for number, case in enumerate(cases):
        assert set(case.contestants) <= {*module.CONTESTANTS, "delta-spark"}, case.name
        scratch = tmp_path / f"scratch-{number}"
        scratch.mkdir()
        order = {
            "contestant": "deltaplane",
            "arguments": harness.resolved_arguments(case),
            "calls": case.calls,
            "scratch": str(scratch),
        }
        done = harness.one_run(module.CONTESTANTS, order)
        assert case.expected is None or done["answer"] == case.expected, case.name
        assert (done["failed"], len(done["seconds"])) == (0, case.calls), case.name


def test_each_goal_says_something_of_its_own() -> None:
    """Rows of the page that have no new figures are found by what their goal says."""
    from support.targets import GOALS

    said = [goal.says for goal in GOALS]
    assert sorted(set(said)) == sorted(said)


def test_every_goal_is_measured_and_its_contestants_are_asked(benches: Path, tmp_path: Path) -> None:
    """A tag or a name without a case would never be reported as missing."""
    from support.targets import GOALS

    benches.mkdir()
    asked: dict[str, set[str]] = {}
    for name in [*MEASURES, *ON_SPARK]:
        options = ["--wheel", str(wheel(tmp_path))] if name == "bench_start" else ON_SPARK.get(name, ([], ""))[0]
        for case in cases_of(importlib.import_module(name), *options):
            asked.setdefault(case.target, set()).update(case.contestants)
    missing = {
        goal.tag: {"deltaplane", getattr(goal, "over", "deltaplane")} - asked.get(goal.tag, set()) for goal in GOALS
    }
    assert {tag: names for tag, names in missing.items() if names} == {}
