"""Overwrites by a condition over old and new rows against a model in plain Python, in both ways of
deleting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.rows.row_model import SCHEMA, TABLES, Model, rehearsed, values
from api.rows.test_merge import ONS, Pair, Row
from deltaplane import DeltaTable, sql, write_deltalake
from deltaplane.exceptions import InvalidArgumentError, UnsupportedExpressionError
from interop.verifier import verify

new_rows = st.lists(
    st.tuples(st.none() | st.integers(0, 9), values).map(lambda pair: {"k": pair[0], **pair[1]}), max_size=5
)


class Replaced(Model):
    """The model with overwrites of the rows that match new ones."""

    def replace_on(self, given_rows: list[Row], on: tuple[str, Pair]) -> None:
        data, (condition, meets) = pa.Table.from_pylist(given_rows, SCHEMA), on
        gone = [row for row in self.rows if any(meets(row, new) for new in given_rows)]
        for row in gone:
            self.changed(row, "delete")
        for row in given_rows:
            self.changed(row, "insert")
        by = {"replace_on": condition, "source_alias": "s", "target_alias": "t"}
        done = rehearsed(
            self.table,
            lambda: write_deltalake(self.table, data, mode="overwrite", dry_run=True, **by),
            lambda: write_deltalake(self.table, data, mode="overwrite", **by),
        )
        assert done.skipped == (None if given_rows else "nothing")
        self.rows = [row for row in self.rows if not any(row is deleted for deleted in gone)] + [
            dict(r) for r in given_rows
        ]
        self.ids = {}


@pytest.mark.parametrize("properties", TABLES, ids=lambda p: "+".join(k.removeprefix("delta.") for k in p) or "none")
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(partitioned=st.booleans(), steps=st.lists(st.tuples(new_rows, st.sampled_from(ONS)), min_size=1, max_size=3))
def test_replacing_does_what_a_model_does(
    tmp_path_factory: pytest.TempPathFactory, properties: dict[str, str], partitioned: bool, steps: list[Any]
) -> None:
    # P122, P130, P131
    model = Replaced(str(tmp_path_factory.mktemp("replace") / "t"), properties, partitioned)
    model.append([{"a": i % 4, "s": "ab"[i % 2], "f": float(i), "p": "xy"[i % 2]} for i in range(6)])
    for given_rows, on in steps:
        model.replace_on(given_rows, on)
        model.check()
    model.check_changes()
    verify(model.table.location)


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    write_deltalake(str(tmp_path / "t"), pa.table({"k": [1, 2, 3], "v": ["a", "b", "c"]}))
    return DeltaTable(str(tmp_path / "t"))


def pairs(table: DeltaTable) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pyarrow_table().to_pylist())


@pytest.mark.parametrize(
    ("statement", "left"),
    [
        ("INSERT INTO t AS o REPLACE ON o.k = s.k (SELECT * FROM n) AS s", [(1, "a"), (2, "B"), (3, "c"), (9, "z")]),
        ("INSERT INTO t o REPLACE ON o.k < s.k SELECT k, v FROM n WHERE k = 9 AS s", [(9, "z")]),
        ("INSERT INTO t REPLACE ON t.k = s.k AND s.k IN (1, 3) (SELECT 3L AS k, 'x' AS v) s", [(1, "a"), (2, "b"), (3, "x")]),
        ("INSERT INTO t (v, k) REPLACE ON t.v = s.v VALUES ('b', 8L) AS s", [(1, "a"), (3, "c"), (8, "b")]),
        ("INSERT INTO t REPLACE USING (k) VALUES (1L, 'x'), (1L, 'y')", [(1, "x"), (1, "y"), (2, "b"), (3, "c")]),
        ("INSERT INTO t REPLACE ON t.k = s.k (SELECT * FROM n WHERE k = 77) s", [(1, "a"), (2, "b"), (3, "c")]),
    ],
)  # fmt: skip
def test_the_statements(table: DeltaTable, statement: str, left: list[tuple[Any, ...]]) -> None:
    tables = {"t": table, "n": pa.table({"k": [2, 9], "v": ["B", "z"]})}
    sql(statement, tables=tables)
    assert pairs(table) == left


def test_the_history_says_by_what(table: DeltaTable) -> None:
    rows = pa.table({"k": [2], "v": ["B"]})
    write_deltalake(table, rows, mode="overwrite", replace_on="t.k = s.k", source_alias="s", target_alias="t")
    said = table.history(1)[0]
    assert (said["operation"], said["operationParameters"]["replaceOn"]) == ("WRITE", "t.k = s.k")


def test_what_says_nothing_clear_is_refused(table: DeltaTable) -> None:
    rows = pa.table({"k": [2], "v": ["B"]})
    for wrong in (
        {"mode": "append", "replace_on": "t.k = s.k"},
        {"replace_on": "t.k = s.k", "predicate": "k = 1"},
        {"replace_on": "t.k = s.k", "replace_using": ["k"]},
        {"source_alias": "s"},
        {"replace_on": "k = 1"},
        {"replace_on": "t.k + s.k", "source_alias": "s", "target_alias": "t"},
    ):
        with pytest.raises(InvalidArgumentError):
            write_deltalake(table, rows, **{"mode": "overwrite", **wrong})  # type: ignore[call-overload]
    with pytest.raises(UnsupportedExpressionError, match="rand"):
        write_deltalake(
            table, rows, mode="overwrite", replace_on="t.k = s.k AND rand() < 1", source_alias="s", target_alias="t"
        )
    assert table.version() == 0
