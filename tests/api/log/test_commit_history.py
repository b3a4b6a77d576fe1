"""A table's history as a list, as Arrow data, and in notebooks."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable

import duckdb
import pyarrow as pa

from deltaplane import DeltaTable, sql, write_deltalake


def _table(path: str) -> DeltaTable:
    for x in range(3):
        write_deltalake(path, pa.table({"x": [x, x + 1]}), mode="append")
    table = DeltaTable(path)
    table.delete("x = 2")
    return table


def test_arrow_has_the_rows_of_describe_history(tmp_table: Callable[[], str]) -> None:
    table = _table(tmp_table())
    described = sql(f"DESCRIBE HISTORY delta.`{table.location}`").to_arrow()
    assert table.history().to_arrow() == described
    assert table.history(2).to_arrow() == described.slice(0, 2)
    assert DeltaTable.history_of(table.location, 1).to_arrow() == described.slice(0, 1)
    assert described["operation"].to_pylist() == ["DELETE", "WRITE", "WRITE", "WRITE"]
    assert dict(described["operationParameters"][0].as_py()) == {"predicate": '["x = 2"]'}


def test_other_libraries_read_it(tmp_table: Callable[[], str]) -> None:
    rows = duckdb.from_arrow(_table(tmp_table()).history().to_arrow())
    counted = rows.aggregate("operation, count(*)").order("ALL").fetchall()
    assert counted == [("DELETE", 1), ("WRITE", 3)]


def test_it_is_a_list_of_dicts(tmp_table: Callable[[], str]) -> None:
    history = _table(tmp_table()).history()
    assert isinstance(history, list)
    assert isinstance(history[0], dict)
    assert json.loads(json.dumps(history)) == history
    assert pickle.loads(pickle.dumps(history)) == history
    assert history[0]["version"] == 3
    assert "<td>DELETE</td>" in history._repr_html_()
    assert "&#x27;" in _escaped(tmp_table())


def _escaped(path: str) -> str:
    table = _table(path)
    table.delete("x = cast('1' AS BIGINT)")
    return table.history(1)._repr_html_()
