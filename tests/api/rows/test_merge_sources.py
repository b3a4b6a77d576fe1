"""Sources of a merge: data in memory for any number of executions, a stream for one, rare Arrow
layouts, and errors for invalid arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import ConcurrentAppendException, ConstraintViolationError, InvalidArgumentError
from deltaplane.table.merge import TableMerger

SOURCE = pa.table({"id": [2], "v": ["B"]})


@pytest.fixture
def path(tmp_path: Path) -> str:
    where = str(tmp_path / "t")
    write_deltalake(where, pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"]}))
    return where


def _merger(table: DeltaTable, source: Any) -> TableMerger:
    merger = table.merge(source, "t.id = s.id", source_alias="s", target_alias="t")
    return merger.when_matched_update_all().when_not_matched_by_source_delete()


def _rows(table: DeltaTable) -> list[dict[str, Any]]:
    return sorted(table.to_pyarrow_table().to_pylist(), key=lambda row: row["id"])


IN_MEMORY: dict[str, Callable[[], Any]] = {
    "table": lambda: SOURCE,
    "batch": lambda: SOURCE.to_batches()[0],
    "list": lambda: SOURCE.to_batches(),
    "pandas": lambda: SOURCE.to_pandas(),
    "polars": lambda: pl.DataFrame(SOURCE),
}
STREAMS: dict[str, Callable[[], Any]] = {
    "reader": lambda: SOURCE.to_reader(),
    "iterator": lambda: iter(SOURCE.to_batches()),
}


@pytest.mark.parametrize("kind", IN_MEMORY)
def test_a_merge_that_lost_a_race_can_be_executed_again(path: str, kind: str) -> None:
    table = DeltaTable(path)
    merger = _merger(table, IN_MEMORY[kind]())
    write_deltalake(path, pa.table({"id": [4], "v": ["d"]}), mode="append")
    with pytest.raises(ConcurrentAppendException):
        merger.execute()
    table.update_incremental()
    assert merger.execute(dry_run=True).rows["numTargetRowsDeleted"] == 3
    done = merger.execute()
    assert (done["num_source_rows"], done["num_target_rows_updated"], done["num_target_rows_deleted"]) == (1, 1, 3)
    assert _rows(table) == [{"id": 2, "v": "B"}]


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("dry_run", [True, False])
def test_a_stream_that_was_read_is_refused_and_not_empty(path: str, kind: str, dry_run: bool) -> None:
    table = DeltaTable(path)
    merger = _merger(table, STREAMS[kind]())
    merger.execute(dry_run=dry_run)
    before = _rows(table)
    with pytest.raises(InvalidArgumentError, match="is a stream, which was read"):
        merger.execute()
    assert _rows(DeltaTable(path)) == before


def test_a_stream_of_which_nothing_was_read_is_taken(path: str) -> None:
    table = DeltaTable(path)
    merger = table.merge(SOURCE.to_reader(), "t.id = s.id", source_alias="s", target_alias="t")
    with pytest.raises(InvalidArgumentError, match="at least one clause"):
        merger.execute()
    assert merger.when_matched_update_all().execute()["num_target_rows_updated"] == 1


def test_source_rows_are_counted_where_nothing_changes(path: str) -> None:
    table = DeltaTable(path)
    merger = table.merge(
        pa.table({"id": [7, 8]}), "t.id = s.id", source_alias="s", target_alias="t"
    ).when_matched_delete()
    assert merger.execute(dry_run=True).rows == {"numSourceRows": 2}
    done = merger.execute()
    assert (done["num_source_rows"], done["num_target_rows_deleted"], table.version()) == (2, 0, 0)
    assert "version" not in done


@pytest.mark.parametrize(("source_alias", "target_alias"), [("a", "a"), ("a", "A")])
def test_one_alias_for_both_tables_is_ambiguous(path: str, source_alias: str, target_alias: str) -> None:
    table = DeltaTable(path)
    merger = table.merge(SOURCE, "a.id = a.id", source_alias=source_alias, target_alias=target_alias)
    with pytest.raises(InvalidArgumentError, match="column of either table, which are both called `a`"):
        merger.when_matched_delete().execute()
    # A name that only one side has isn't ambiguous.
    other = table.merge(SOURCE.rename_columns(["key", "w"]), "a.id = a.key", source_alias="a", target_alias="a")
    assert other.when_matched_update({"v": "a.w"}).execute()["num_target_rows_updated"] == 1


LAYOUTS: dict[str, Callable[[], pa.Array]] = {
    "list_view": lambda: pa.array([[1], None, [2, 3]], pa.list_view(pa.int64())),
    "large_list_view": lambda: pa.array([[1], None, [2, 3]], pa.large_list_view(pa.int64())),
    "list of list_view": lambda: pa.array([[[1], []], None, [None, [2]]], pa.list_(pa.list_view(pa.int64()))),
    "struct of list_view": lambda: pa.StructArray.from_arrays(
        [pa.array([[1], None, []], pa.list_view(pa.int64()))], ["a"]
    ),
    "map of list_view": lambda: pa.array(
        [[("a", [1])], None, [("b", None)]], pa.map_(pa.string(), pa.list_view(pa.int64()))
    ),
    "list_view of string_view": lambda: pa.array([["x"], None, ["y"]], pa.list_view(pa.string_view())),
    "run_end_encoded": lambda: pc.run_end_encode(pa.array([5, 5, None])),
    "string_view": lambda: pa.array(["x", None, "y"], pa.string_view()),
    "binary_view": lambda: pa.array([b"x", None, b"y"], pa.binary_view()),
    "dictionary": lambda: pa.array(["x", None, "x"]).dictionary_encode(),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sliced", [False, True])
def test_arrow_layouts_are_merged_as_they_are_written(tmp_path: Path, layout: str, sliced: bool) -> None:
    path = str(tmp_path / "t")
    rows = pa.table({"k": [1, 2, 3], "v": LAYOUTS[layout]()})
    write_deltalake(path, rows)
    table = DeltaTable(path)
    expected = table.to_pyarrow_table()["v"].to_pylist()
    source = rows.slice(1) if sliced else rows
    merger = table.merge(source, "t.k = s.k + 10", source_alias="s", target_alias="t")
    assert merger.when_not_matched_insert({"k": "s.k + 10", "v": "s.v"}).execute()["num_target_rows_inserted"] == len(
        source
    )
    values = {row["k"]: row["v"] for row in table.to_pyarrow_table().to_pylist()}
    assert [values[k + 10] for k in source["k"].to_pylist()] == expected[int(sliced) :]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_arrow_layouts_meet_constraints_and_predicates(tmp_path: Path, layout: str) -> None:
    path = str(tmp_path / "t")
    rows = pa.table({"k": [1, 2, 3], "v": LAYOUTS[layout]()})
    write_deltalake(path, rows)
    write_deltalake(path, rows, mode="overwrite", predicate="k >= 1")
    table = DeltaTable(path)
    table.alter.add_constraint({"positive": "k > 0"})
    write_deltalake(path, rows, mode="append")
    bad = pa.table({"k": [4, -5, 6, -7][:3], "v": LAYOUTS[layout]()})
    with pytest.raises(ConstraintViolationError, match="k : -5"):
        write_deltalake(path, bad, mode="append")
    assert DeltaTable(path).to_pyarrow_table().num_rows == 6


def test_a_frame_of_pandas_or_polars_meets_a_constraint(tmp_path: Path) -> None:
    for number, frame in enumerate((pd.DataFrame({"k": [1], "s": ["a"]}), pl.DataFrame({"k": [1], "s": ["a"]}))):
        path = str(tmp_path / str(number))
        write_deltalake(path, frame)
        DeltaTable(path).alter.add_constraint({"known": "s = 'a'"})
        write_deltalake(path, frame, mode="append")
        assert DeltaTable(path).to_pyarrow_table()["s"].to_pylist() == ["a", "a"]


@pytest.mark.parametrize("value", [5, None, True, ["x"]])
def test_expressions_are_texts(path: str, value: Any) -> None:
    table = DeltaTable(path)
    begun = table.merge(SOURCE, "t.id = s.id", source_alias="s", target_alias="t")
    for wrong in (
        lambda: begun.when_matched_update({"v": value}),
        lambda: begun.when_not_matched_insert({"v": value}),
        lambda: table.merge(SOURCE, value),
        lambda: table.update(updates={"id": value}),
    ):
        with pytest.raises(InvalidArgumentError, match="Spark SQL"):
            wrong()


def test_one_excepted_column_may_be_a_text(path: str) -> None:
    table = DeltaTable(path)
    merger = table.merge(SOURCE, "t.id = s.id", source_alias="s", target_alias="t")
    merger.when_matched_update_all(except_cols="v").execute()
    assert _rows(table)[1] == {"id": 2, "v": "b"}


def test_a_temporary_directory_that_is_not_there(path: str) -> None:
    merger = DeltaTable(path).merge(
        SOURCE, "t.id = s.id", source_alias="s", target_alias="t", temp_directory="/nowhere/at/all"
    )
    with pytest.raises(InvalidArgumentError, match="temp_directory"):
        merger.when_matched_update_all().execute()
