"""MERGE with an evolving schema inside structs, against a model, in both ways of deleting and with
the change feed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from api.rows.row_model import TABLES
from deltaplane import DeltaTable, sql, write_deltalake
from deltaplane.exceptions import InvalidArgumentError
from nested_merges import Nested, arrow, lowered, nested_merges

MATCHING = {"source_alias": "s", "target_alias": "t"}


@pytest.mark.parametrize("properties", TABLES, ids=lambda p: "+".join(k.removeprefix("delta.") for k in p) or "none")
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=nested_merges())
def test_nested_fields_become_what_a_model_says(
    tmp_path_factory: pytest.TempPathFactory, properties: dict[str, str], case: Nested
) -> None:
    path, (target, source) = str(tmp_path_factory.mktemp("nested") / "t"), case.tables()
    write_deltalake(path, target, configuration=properties)
    sql(
        f"MERGE WITH SCHEMA EVOLUTION INTO t USING s ON t.id = s.id {case.clauses}",
        tables={"t": path, "s": source},
    )
    kind, rows = case.expected()
    merged = DeltaTable(path).to_pyarrow_table()
    assert fields_of(merged.schema.field("z").type) == fields_of(arrow(kind))
    left = {row["id"]: lowered(row["z"]) for row in merged.to_pylist()}
    assert json.dumps(left, sort_keys=True) == json.dumps({i: lowered(z) for i, z in rows.items()}, sort_keys=True)


def fields_of(data_type: pa.DataType) -> Any:
    """A type's fields at every depth, independent of case and order."""
    if pa.types.is_struct(data_type):
        return {f.name.lower(): fields_of(f.type) for f in data_type}
    return [fields_of(data_type.value_type)] if pa.types.is_list(data_type) else str(data_type)


def merged(path: str, rows: list[dict[str, Any]], updates: dict[str, str]) -> dict[str, Any]:
    table = DeltaTable(path)
    table.merge(pa.Table.from_pylist(rows), "t.id = s.id", merge_schema=True, **MATCHING).when_matched_update(
        updates
    ).execute()
    (row,) = table.to_pyarrow_table().to_pylist()
    return dict(row)


def test_only_assigned_fields_are_added(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"id": [1], "z": [{"a": 1}]}))
    rows = [{"id": 1, "z": {"a": 5, "b": "x", "c": 2}, "new": {"x": 1, "y": 2}}]
    assert merged(path, rows, {"z.b": "upper(s.z.b)"})["z"] == {"a": 1, "b": "X"}
    assert merged(path, rows, {"new.x": "s.new.x + t.z.a"})["new"] == {"x": 2}


def test_rows_without_match_add_no_column(tmp_path: Path) -> None:
    path, rows = str(tmp_path / "t"), pa.Table.from_pylist([{"id": 9, "z": {"b": "x"}, "new": 1}])
    write_deltalake(path, pa.table({"id": [1], "z": [{"a": 1}]}))
    for column in ("new", "z.b"):
        merger = DeltaTable(path).merge(rows, "t.id = s.id", merge_schema=True, **MATCHING)
        with pytest.raises(InvalidArgumentError, match=f"no column `{column}`"):
            merger.when_not_matched_by_source_update({column: "null"}).execute()


def test_rules_see_fields_that_the_merge_adds(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"id": [1], "z": [{"a": 1}]}))
    DeltaTable(path).alter.add_constraint({"a": "z.a > 0"})
    assert merged(path, [{"id": 1, "z": {"a": 5, "b": "x"}}], {"z.b": "s.z.b"})["z"] == {"a": 1, "b": "x"}
    assert merged(path, [{"id": 1, "z": {"A": 7}}], {"z": "s.z"})["z"] == {"a": 7, "b": None}
