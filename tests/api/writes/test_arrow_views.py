"""Strings and binaries as views, of which casts by pyarrow before 25 make arrays whose export ends
the process (https://github.com/apache/arrow/issues/49740): `make test-lowest` runs these tests with
pyarrow 20."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, sql, write_deltalake
from deltaplane import deltalake as room
from deltaplane.io.arrow_views import with_whole_buffers, without_views

SHORT = pa.table({"s": ["b", "a", None], "b": [b"1", None, b"2"]})
LONG = pa.table({"s": ["b" * 40, "a", None], "b": [b"1", None, b"2" * 30]})
VIEWS = pa.schema({"s": pa.string_view(), "b": pa.binary_view()})


def batches(rows: pa.Table) -> list[pa.RecordBatch]:
    """At least one batch, which has the columns of a table without rows."""
    return rows.to_batches() or [pa.RecordBatch.from_pylist([], rows.schema)]


# Ways by which rows come to a write.
SOURCES: dict[str, Callable[[pa.Table], Any]] = {
    "table": lambda rows: rows,
    "batch": lambda rows: batches(rows.combine_chunks())[0],
    "reader": lambda rows: rows.to_reader(),
    "list": batches,
    "iterator": lambda rows: iter(batches(rows)),
    "sliced": lambda rows: pa.concat_tables([rows.slice(1, 1), rows.slice(0, 1), rows.slice(2)]),
}


@pytest.mark.parametrize("rows", [SHORT, LONG, SHORT.slice(0, 0)], ids=["short", "long", "empty"])
@pytest.mark.parametrize("name", SOURCES)
def test_views_are_written(name: str, rows: pa.Table, tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), SOURCES[name](rows.cast(VIEWS)))
    stored = DeltaTable(str(tmp_path)).to_pyarrow_table()
    assert stored.cast(rows.schema).sort_by("b") == rows.sort_by("b")
    merged = DeltaTable(str(tmp_path)).merge(
        SOURCES[name](rows.cast(VIEWS)), "t.s = s.s", source_alias="s", target_alias="t"
    )
    assert merged.when_matched_delete().execute()["num_target_rows_deleted"] == len(rows) - rows["s"].null_count


def test_views_in_other_types_are_written(tmp_path: Path) -> None:
    text = pa.array(["b", "a"]).cast(pa.string_view())
    struct = pa.StructArray.from_arrays([text], names=["x"])
    rows = pa.table(
        {
            "struct": struct,
            "list": pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), text),
            "large": pa.LargeListArray.from_arrays(pa.array([0, 1, 2], pa.int64()), struct),
            "fixed": pa.FixedSizeListArray.from_arrays(text, 1),
            "map": pa.MapArray.from_arrays(pa.array([0, 1, 2], pa.int32()), text, text),
        }
    )
    write_deltalake(str(tmp_path), rows)
    assert DeltaTable(str(tmp_path)).to_pyarrow_table().to_pydict() == {
        "struct": [{"x": "b"}, {"x": "a"}],
        "list": [["b"], ["a"]],
        "large": [[{"x": "b"}], [{"x": "a"}]],
        "fixed": [["b"], ["a"]],
        "map": [[("b", "b")], [("a", "a")]],
    }


def test_queries_read_views() -> None:
    rows = {"t": SHORT.cast(VIEWS)}
    assert sql("SELECT s FROM t WHERE s >= 'b'", tables=rows).read_all()["s"].to_pylist() == ["b"]


@pytest.mark.parametrize("rows", [SHORT, LONG], ids=["short", "long"])
def test_results_of_the_drop_in_are_views(rows: pa.Table, tmp_path: Path) -> None:
    room.write_deltalake(tmp_path, rows, configuration={"delta.enableChangeDataFeed": "true"})
    table = room.DeltaTable(tmp_path)
    query = room.QueryBuilder().register("t", table)
    assert pa.table(query.execute("SELECT s, b FROM t").read_all()).cast(rows.schema) == rows
    changes = pa.table(table.load_cdf().read_all())
    assert changes.schema.field("s").type == pa.string_view()
    assert changes.select(["s", "b"]).cast(rows.schema) == rows


def test_what_is_exported_stays_the_same() -> None:
    cast = pa.array(["b", None, "a"]).cast(pa.string_view())
    whole = with_whole_buffers(cast.slice(1))
    assert whole.to_pylist() == [None, "a"]
    assert all(buffer is not None for buffer in whole.buffers()[2:])
    numbers = pa.array([1])
    assert with_whole_buffers(numbers) is numbers
    schema = pa.schema({"n": pa.int64(), "l": pa.list_(pa.struct({"s": pa.string()}))})
    assert without_views(schema) is schema
