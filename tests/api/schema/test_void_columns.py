"""A column created with nulls only takes the type of the first data that has one (P153, P181)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import SchemaMismatchError

VALUES: dict[str, tuple[pa.DataType, Any]] = {
    "text": (pa.string(), "x"),
    "number": (pa.int8(), 7),
    "list": (pa.list_(pa.string()), ["a"]),
    "struct": (pa.struct([pa.field("y", pa.int64(), nullable=False)]), {"y": 1}),
    "map": (pa.map_(pa.string(), pa.int64()), [("k", 1)]),
}


def _rows(ids: list[int], t: pa.DataType, value: Any) -> pa.Table:
    inner = pa.struct([("x", pa.int64()), ("v", t)])
    whole = [{"x": i, "v": value} for i in ids]
    return pa.table({"id": ids, "v": pa.array([value] * len(ids), t), "s": pa.array(whole, inner)})


def _write(how: str, path: str, rows: pa.Table) -> None:
    if how == "append":
        write_deltalake(path, rows, mode="append", schema_mode="merge")
    elif how == "overwrite":
        write_deltalake(path, rows, mode="overwrite", schema_mode="merge")
    elif how == "replace":
        write_deltalake(path, rows, mode="overwrite", schema_mode="merge", predicate="id = 2")
    elif how == "replace_using":
        write_deltalake(path, rows, mode="overwrite", schema_mode="merge", replace_using=["id"])
    else:
        merge = DeltaTable(path).merge(rows, "t.id = s.id", source_alias="s", target_alias="t", merge_schema=True)
        merge.when_matched_update_all().when_not_matched_insert_all().execute()


@pytest.mark.parametrize("how", ["append", "overwrite", "replace", "replace_using", "merge"])
@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize(
    "configuration", [{}, {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}]
)
def test_void_takes_the_first_type(kind: str, how: str, configuration: dict[str, str], tmp_path: Path) -> None:
    path, (t, value) = str(tmp_path / "t"), VALUES[kind]
    write_deltalake(path, _rows([1], pa.null(), None), configuration=configuration)
    if how == "append":
        with pytest.raises(SchemaMismatchError, match=r'`v`.*schema_mode="merge"'):
            write_deltalake(path, _rows([2], t, value), mode="append")
    _write(how, path, _rows([2], t, value))
    new = {"id": 2, "v": value, "s": {"x": 2, "v": value}}
    old = {"id": 1, "v": None, "s": {"x": 1, "v": None}}
    table = DeltaTable(path)
    rows = table.to_pyarrow_table().sort_by("id").to_pylist()
    assert rows == ([new] if how == "overwrite" else [old, new])
    assert "void" not in table.schema().to_json()
    assert "typeChanges" not in table.schema().to_json()
    write_deltalake(path, _rows([3], pa.null(), None), mode="append")
    table.update_incremental()
    assert [r["v"] for r in table.scan(predicate="id >= 2").to_arrow().sort_by("id").to_pylist()] == [value, None]
    nulls = table.scan(predicate="v IS NULL").to_arrow()["id"].to_pylist()
    assert sorted(nulls) == ([3] if how == "overwrite" else [1, 3])
