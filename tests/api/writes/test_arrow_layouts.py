"""Every write accepts the Arrow layouts that an append accepts: all of them, in one table, through
every command with rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from deltaplane import DeltaTable, GroupWriter, sql, write_deltalake
from deltaplane.exceptions import DeltaError, SchemaMismatchError


def words(data_type: pa.DataType, index: pa.DataType) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0, None, 1], index), pa.array(["x", "y"], data_type))


def numbers(data_type: pa.DataType) -> pa.Array:
    return pa.array([1, None, 2]).cast(pa.decimal128(20, 0)).cast(data_type)


OFFSETS = pa.array([0, 1, 1, 3], pa.int32())
# Layouts of types that can be keys of a merge.
SIMPLE: dict[str, pa.Array] = {
    "dictionary": words(pa.string(), pa.int8()),
    "polars_categorical": words(pa.string_view(), pa.uint32()),
    "dictionary_of_large_string": words(pa.large_string(), pa.uint8()),
    "dictionary_with_null_value": pa.DictionaryArray.from_arrays([0, 1, 2], pa.array(["x", None, "y"])),
    "dictionary_of_numbers": pa.array([5, None, 7]).dictionary_encode(),
    "dictionary_of_dates": pa.array([5, None, 7], pa.int32()).cast(pa.date32()).dictionary_encode(),
    "string_view": pa.array(["x", None, "y"], pa.string_view()),
    "large_string": pa.array(["x", None, "y"], pa.large_string()),
    "binary_view": pa.array([b"x", None, b"y"], pa.binary_view()),
    "large_binary": pa.array([b"x", None, b"y"], pa.large_binary()),
    "fixed_size_binary": pa.array([b"xx", None, b"yy"], pa.binary(2)),
    "run_end_encoded": pc.run_end_encode(pa.array(["a", "a", None])),
    **{f"uint{bits}": pa.array([1, None, 2**bits - 1], getattr(pa, f"uint{bits}")()) for bits in (8, 16, 32, 64)},
    "half_float": pa.array([np.float16(1.5), None, np.float16(-2)], pa.float16()),
    "seconds": pa.array([1, None, -2], pa.timestamp("s", "UTC")),
    "milliseconds": pa.array([1, None, -2], pa.timestamp("ms")),
    "nanoseconds": pa.array([1000, None, -2000], pa.timestamp("ns", "+02:00")),
    "date64": pa.array([86_400_000, None, 0], pa.date64()),
    "decimal256": numbers(pa.decimal256(22, 2)),
    "uuid": pa.array([b"0" * 16, None, b"1" * 16], pa.uuid()),
    "json": pa.array(["1", None, "2"], pa.json_()),
}
NESTED: dict[str, pa.Array] = {
    "list_of_dictionary": pa.ListArray.from_arrays(OFFSETS, pa.array(["x", "y", "x"]).dictionary_encode()),
    "struct_of_dictionary": pa.StructArray.from_arrays(
        [words(pa.string_view(), pa.uint32())], ["a"], mask=pa.array([False, True, False])
    ),
    "map_of_dictionary": pa.MapArray.from_arrays(
        OFFSETS, pa.array(["x", "y", "z"]), pa.array(["x", "y", "x"]).dictionary_encode()
    ),
    "struct_of_runs": pa.StructArray.from_arrays([pc.run_end_encode(pa.array([5, 5, None]))], ["a"]),
    "list_of_string_view": pa.array([["x"], None, ["y"]], pa.list_(pa.string_view())),
    "list_of_uint16": pa.array([[1], None, [2]], pa.list_(pa.uint16())),
    "large_list": pa.array([[1], None, [2, 3]], pa.large_list(pa.int64())),
    "list_view": pa.array([[1], None, [2, 3]], pa.list_view(pa.int64())),
    "large_list_view": pa.array([[1], None, [2, 3]], pa.large_list_view(pa.int64())),
    "fixed_size_list": pa.array([[1, 2], None, [2, 3]], pa.list_(pa.int64(), 2)),
}
ROWS = pa.table({"k": [1, 2, 3], **SIMPLE, **NESTED})
MATCHING = {"source_alias": "s", "target_alias": "t"}
ALL_KEYS = " AND ".join(f"t.{name} <=> s.{name}" for name in ("k", *SIMPLE))


def _merged(table: DeltaTable, rows: pa.Table, on: str = "t.k = s.k", **options: Any) -> None:
    merger = table.merge(rows, on, **MATCHING, **options).when_matched_update_all().when_not_matched_insert_all()
    done = merger.execute()
    assert (done["num_target_rows_updated"], done["num_target_rows_inserted"]) == (3, 0)


def _group(table: DeltaTable, rows: pa.Table) -> None:
    table.delete()
    with GroupWriter(table.location) as writer:
        writer.append(rows)


def _sql(text: str) -> Callable[[DeltaTable, pa.Table], Any]:
    return lambda table, rows: sql(text, tables={"t": table.location, "d": rows})


COMMANDS: dict[str, Callable[[DeltaTable, pa.Table], Any]] = {
    "overwrite": lambda t, rows: write_deltalake(t.location, rows, mode="overwrite"),
    "predicate": lambda t, rows: write_deltalake(t.location, rows, mode="overwrite", predicate="k > 0"),
    "replace_using": lambda t, rows: write_deltalake(t.location, rows, mode="overwrite", replace_using=["k"]),
    "replace_on": lambda t, rows: write_deltalake(
        t.location, rows, mode="overwrite", replace_on="t.k = s.k", **MATCHING
    ),
    "merge": _merged,
    "merge by every column": lambda t, rows: _merged(t, rows, ALL_KEYS),
    "merge with evolution": lambda t, rows: _merged(t, rows, merge_schema=True),
    "merge by names": lambda t, rows: (
        t.merge(rows, "t.k = s.k", **MATCHING)
        .when_matched_update({f"t.{name}": f"s.{name}" for name in ROWS.column_names})
        .execute()
    ),
    "group": _group,
    "INSERT OVERWRITE": _sql("INSERT OVERWRITE t SELECT * FROM d"),
    "MERGE": _sql("MERGE INTO t USING d ON t.k = d.k WHEN MATCHED THEN UPDATE SET *"),
}


@pytest.mark.parametrize("ruled", [False, True])
def test_every_write_takes_every_layout(tmp_path: Path, ruled: bool) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, ROWS)
    if ruled:
        table = DeltaTable(path)
        # The constraint evaluates every column.
        table.alter.add_constraint({"known": " AND ".join(f"({n} IS NULL OR k > 0)" for n in ROWS.column_names)})
    expected = DeltaTable(path).to_pyarrow_table().sort_by("k").to_pylist()
    sliced = pa.concat_tables([ROWS.slice(1, 1), ROWS]).slice(1)
    for name, command in COMMANDS.items():
        for rows in (ROWS, sliced):
            command(DeltaTable(path), rows)
            written = DeltaTable(path).to_pyarrow_table().sort_by("k").to_pylist()
            assert str(written) == str(expected), name


def test_evolution_adds_columns_of_every_layout(tmp_path: Path) -> None:
    plain, grown = str(tmp_path / "plain"), str(tmp_path / "grown")
    write_deltalake(plain, ROWS)
    write_deltalake(grown, ROWS.select(["k"]))
    _merged(DeltaTable(grown), ROWS, merge_schema=True)
    tables = [DeltaTable(path).to_pyarrow_table().sort_by("k") for path in (plain, grown)]
    assert tables[0].equals(tables[1])


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Enum(["a"])])
def test_polars_categories_meet_rules_and_merges(tmp_path: Path, dtype: Any) -> None:
    path, frame = str(tmp_path / "t"), pl.DataFrame({"k": [1], "c": pl.Series(["a"], dtype=dtype)})
    write_deltalake(path, frame)
    table = DeltaTable(path)
    table.alter.add_constraint({"c": "c = 'a'"})
    write_deltalake(path, frame, mode="append")
    table.update_incremental()
    done = table.merge(frame, "t.c = s.c", **MATCHING).when_matched_update({"k": "s.k"}).execute()
    assert done["num_target_rows_updated"] == 2


def test_struct_fields_are_found_ignoring_case_where_rules_read_them(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"z": [{"a": 1}], "k": [1]}))
    DeltaTable(path).alter.add_constraint({"positive": "z.a > 0"})
    write_deltalake(path, pa.table({"z": [{"A": 2}], "k": [2]}), mode="append")
    assert sorted(row["z"]["a"] for row in DeltaTable(path).to_pyarrow_table().to_pylist()) == [1, 2]


TWICE = [["k", "v", "v"], ["k", "v", "k"], ["k", "v", "V"]]


@pytest.mark.parametrize("names", TWICE, ids=str)
@pytest.mark.parametrize("ruled", [False, True])
def test_a_source_with_one_name_twice_is_refused_by_every_write(tmp_path: Path, names: list[str], ruled: bool) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"k": [1], "v": [0]}))
    if ruled:
        DeltaTable(path).alter.add_constraint({"positive": "k > 0"})
    version = DeltaTable(path).version()
    rows = pa.table([[1, 2], [10, 20], [111, 1]], names=names)
    for name, command in COMMANDS.items():
        if name != "group":
            with pytest.raises(DeltaError, match=f"(?i)name.*`?{names[2]}"):
                command(DeltaTable(path), rows)
    for mode in ("append", "overwrite"):
        with pytest.raises(DeltaError, match=f"(?i)name.*`{names[2]}`"):
            write_deltalake(path, rows, mode=mode)
    assert DeltaTable(path).version() == version


def test_fields_of_one_name_are_refused_at_every_depth(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"k": [1], "z": [{"a": 1}]}))
    inner = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["a", "A"])
    for column in (inner, pa.ListArray.from_arrays([0, 1], inner)):
        rows = pa.table({"k": [1], "z": column})
        with pytest.raises(DeltaError, match="`a` and `A`"):
            DeltaTable(path).merge(rows, "t.k = s.k", **MATCHING).when_matched_update_all().execute()
        with pytest.raises(DeltaError, match=r"(?i)name"):
            write_deltalake(path, rows, mode="overwrite", replace_using=["k"])


def test_a_value_that_no_column_holds_is_refused_by_name(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    rows = pa.table({"k": [1], "at": pa.array([1], pa.timestamp("ns"))})
    write_deltalake(path, rows.set_column(1, "at", pa.array([1000], pa.timestamp("ns"))))
    with pytest.raises(SchemaMismatchError, match=r"`at`.*nanoseconds"):
        DeltaTable(path).merge(rows, "t.k = s.k", **MATCHING).when_matched_update_all().execute()
