"""DuckDB orders joins by the numbers of rows of the tables' files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaplane
from deltaplane import write_deltalake
from deltaplane.queries import running
from deltaplane.queries.planning import Planner
from deltaplane.queries.sources import Catalog


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """DuckDB's plans of the queries that ran."""
    seen: list[dict[str, Any]] = []
    before = running.opened

    @contextmanager
    def noted(planner: Planner, catalog: Catalog, text: str, *held: Any, **settings: Any) -> Iterator[Any]:
        with before(planner, catalog, text, *held, **settings) as (connection, statement):
            (row,) = connection.execute(f"EXPLAIN (FORMAT json) {statement}").fetchall()
            seen.extend(json.loads(row[1]))
            yield connection, statement

    monkeypatch.setattr(running, "opened", noted)
    return seen


def operators(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan["children"]:
        yield from operators(child)


def scanned_rows(plan: dict[str, Any]) -> int:
    """The estimated number of rows of the files below an operator."""
    here = plan["extra_info"].get("Estimated Cardinality", 0) if not plan["children"] else 0
    return int(here) + sum(map(scanned_rows, plan["children"]))


@pytest.fixture
def tables(tmp_path: Path) -> dict[str, str]:
    """A large table whose newest file has one row, and two small ones that only join with it."""
    paths = {name: str(tmp_path / name) for name in ("large", "some", "few")}
    keys = pa.table({"id": range(40_000), "s": [n % 300 for n in range(40_000)], "f": [n % 20 for n in range(40_000)]})
    for start in range(0, 40_000, 10_000):
        write_deltalake(paths["large"], keys.slice(start, 10_000), mode="append")
    write_deltalake(paths["large"], keys.slice(0, 1), mode="append")
    write_deltalake(paths["some"], pa.table({"s": range(300), "a": ["x"] * 300}))
    write_deltalake(paths["few"], pa.table({"f": range(20), "b": ["y"] * 20}))
    return paths


@pytest.mark.parametrize("first", ["large", "few"])
def test_the_smaller_table_is_in_memory(plans: list[dict[str, Any]], tables: dict[str, str], first: str) -> None:
    other = "few" if first == "large" else "large"
    query = f"SELECT count(b) AS n FROM {first} JOIN {other} ON large.f = few.f"
    assert deltaplane.sql(query, tables=tables).to_pylist() == [{"n": 40_001}]
    (join,) = [operator for operator in operators(plans[0]) if "JOIN" in operator["name"]]
    # The second child is the one in memory.
    probed, in_memory = map(scanned_rows, join["children"])
    assert in_memory < 100 < 10_000 < probed


def test_tables_without_a_condition_between_them_are_not_multiplied(
    plans: list[dict[str, Any]], tables: dict[str, str]
) -> None:
    query = "SELECT count(a) AS n, sum(id) AS t FROM some, few, large WHERE large.s = some.s AND large.f = few.f"
    assert deltaplane.sql(query, tables=tables).to_pylist() == [{"n": 40_001, "t": sum(range(40_000))}]
    names = [operator["name"] for operator in operators(plans[0])]
    assert not [name for name in names if "CROSS" in name.upper()]
    assert len([name for name in names if "JOIN" in name.upper()]) == 2


def test_joins_by_a_condition_that_can_fail_keep_their_order(
    plans: list[dict[str, Any]], tables: dict[str, str]
) -> None:
    """The condition fails for rows that the first join excludes."""
    tables["texts"] = tables["few"] + "-texts"
    write_deltalake(tables["texts"], pa.table({"id": [1, 50_000], "t": ["1", "no number"]}))
    query = "SELECT count(*) AS n FROM texts JOIN large ON texts.id = large.id JOIN few ON CAST(t AS INT) = few.f"
    assert deltaplane.sql(query, tables=tables).to_pylist() == [{"n": 1}]


def test_alternatives_between_two_tables_filter_each_of_them(
    plans: list[dict[str, Any]], tables: dict[str, str]
) -> None:
    """Of a join's own condition with that many values DuckDB derives nothing."""
    letters = "abcdefghijklmnopqrst"
    tables["letters"] = tables["few"] + "-letters"
    write_deltalake(tables["letters"], pa.table({"f": range(20), "b": list(letters)}))
    branches = [
        f"(b IN ('{few}', '1', '2', '3') AND s >= {least} AND s <= {least + 20} AND letters.f BETWEEN 1 AND {most})"
        for few, least, most in (("b", 1, 15), ("r", 50, 18), ("s", 100, 19))
    ]
    query = f"SELECT count(*) AS n FROM large, letters WHERE large.f = letters.f AND ({' OR '.join(branches)})"
    wanted = ((1, 1), (17, 50), (18, 100))
    selected = [n for n in range(40_000) if any(n % 20 == f and least <= n % 300 <= least + 20 for f, least in wanted)]
    assert deltaplane.sql(query, tables=tables).to_pylist() == [{"n": len(selected)}]
    (join,) = [operator for operator in operators(plans[0]) if operator["extra_info"].get("Join Type") == "INNER"]
    for side in join["children"]:
        properties = json.dumps([operator["extra_info"] for operator in operators(side)])
        assert " OR " in properties, side
