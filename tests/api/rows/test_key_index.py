"""Indexes of keys: plans leave files out by them, and no index, whether old, partial or damaged,
changes a row, on random histories that foreign writers take part in."""

from __future__ import annotations

import datetime as dt
import itertools
import os
import random
import uuid
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltaplane import DeltaTable, Field, sql, write_deltalake
from deltaplane.exceptions import InvalidArgumentError, UnsupportedFeatureError
from interop.verifier import verify

FOLDER = "_deltaplane_index"
_fresh = itertools.count()


def fresh(path: Path | str) -> DeltaTable:
    """The table with options of its own, so that nothing of an index is in memory."""
    return DeltaTable(path, storage_options={"max_commit_bytes": str((1 << 30) + next(_fresh))})


def written(path: Path | str, files: Sequence[Sequence[Any]], **options: Any) -> DeltaTable:
    """A table with a file for each list of ids; their ranges overlap, so that statistics select all
    files."""
    for ids in files:
        write_deltalake(path, pa.table({"id": ids, "n": range(len(ids))}), mode="append", **options)
    return DeltaTable(path)


def objects(path: Path) -> list[Path]:
    folder = path / FOLDER
    return sorted(folder.iterdir()) if folder.exists() else []


def rows(table: DeltaTable, predicate: str | None = None) -> list[dict[str, Any]]:
    return sorted(table.scan(predicate=predicate).to_arrow().to_pylist(), key=repr)


FILES = [[1, 100, 7], [2, 99, 7], [3, 98, None]]


# --- look-ups ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("predicate", "files"),
    [
        ("id = 99", 1),
        ("id = 7", 2),
        ("id IN (1, 98)", 2),
        ("id = 50", 0),
        ("id = 99 AND n = 1", 1),
        ("id = 99 OR id = 98", 2),
        ("id = 99 OR n = 1", 3),
        ("NOT (id <> 99)", 1),
        ("id <> 99", 3),
        ("id > 98", 2),
        ("id <=> 99", 3),
        ("id IS NULL", 1),
        ("CAST(id AS BIGINT) = 99", 1),
        ("n = 1", 3),
    ],
)
def test_plans_leave_out_files_without_the_key(tmp_path: Path, predicate: str, files: int) -> None:
    table = written(tmp_path, FILES)
    expected = rows(table, predicate)
    table.index.create(["id"])
    why = table.explain(predicate)
    assert why.selected <= files
    assert why.selected + why.skipped == 3
    assert len(table.files(predicate)) == table.plan(predicate).read_all().num_rows == why.selected
    assert rows(table, predicate) == expected
    assert rows(fresh(tmp_path), predicate) == expected
    assert sql(f"SELECT id, n FROM delta.`{tmp_path}` WHERE {predicate}").num_rows == len(expected)


def test_state_and_files_that_come_later(tmp_path: Path) -> None:
    table = written(tmp_path, FILES)
    (state,) = table.index.create(["id"], build=False)
    assert (state.columns, state.segments, state.covered_files, state.uncovered_files) == (("id",), 0, 0, 3)
    assert table.explain("id = 7").skipped_by_index == 0
    (state,) = table.index.build()
    assert (state.segments, state.entries, state.covered_files, state.uncovered_files) == (1, 8, 3, 0)
    assert state.size_bytes == sum(p.stat().st_size for p in objects(tmp_path) if p.suffix == ".keys")
    written(tmp_path, [[4, 97]])
    table.update_incremental()
    why = table.explain("id = 50")
    assert (why.skipped_by_index, why.selected) == (3, 1)
    assert [s.uncovered_files for s in table.index.describe()] == [1]
    (state,) = table.index.build()
    assert (state.segments, state.covered_files) == (2, 4)
    assert table.explain("id = 50").selected == 0
    names = {p.name for p in objects(tmp_path)}
    assert table.index.build() == [state]
    assert {p.name for p in objects(tmp_path)} == names, "nothing is new"
    (state,) = table.index.build(rebuild=True)
    assert (state.segments, state.covered_files) == (1, 4)
    assert "skipped by key indexes                       4 files" in str(table.explain("id = 50"))


def test_optimize_extends_the_index(tmp_path: Path) -> None:
    table = written(tmp_path, FILES)
    table.index.create(["id"])
    table.optimize.compact()
    assert [(s.covered_files, s.uncovered_files) for s in table.index.describe()] == [(1, 0)]
    assert table.explain("id = 50").selected == 0


@pytest.mark.parametrize(("padding", "most_in_vain"), [(0, 20), (150, 3)])
def test_an_index_has_few_bytes_and_finds_few_files_in_vain(tmp_path: Path, padding: int, most_in_vain: int) -> None:
    """It has shorter hashes where rows are short, so that it stays small beside them."""
    generator = random.Random(59)
    keys = [[str(uuid.UUID(int=generator.getrandbits(128))) for _ in range(5_000)] for _ in range(20)]
    for part in keys:
        rest = [generator.randbytes(padding) for _ in part]
        write_deltalake(tmp_path, pa.table({"user": part, "rest": rest}), mode="append")
    table = DeltaTable(tmp_path)
    (state,) = table.index.create(["user"])
    assert (state.entries, state.covered_files) == (100_000, 20)
    data = sum(path.stat().st_size for path in tmp_path.glob("*.parquet"))
    names = 20 * 150
    # A UUID alone has 16 bytes, and 8 bits of an index of 20 files are 6 % of them.
    assert state.size_bytes < (0.02 * data if padding else 100_000 * 9.5 / 8) + names
    matches = [table.explain(f"user = '{part[n]}'").selected for part in keys for n in (17, 399, 1_204)]
    assert min(matches) == 1
    assert sum(matches) <= 60 + most_in_vain


def test_small_segments_become_one_without_reading_files(tmp_path: Path) -> None:
    table = written(tmp_path, [[-1, 1000]])
    table.index.create(["id"])
    for number in range(1, 8):
        written(tmp_path, [[-1, number, 1000]])
        table.update_incremental()
        (state,) = table.index.build()
        assert state.segments == number + 1
    written(tmp_path, [[-1, 8, 1000]])
    table.update_incremental()
    older = {name: (tmp_path / name).rename(tmp_path / f"{name}.away") for name in table.files("id <> 8 AND n >= 0")}
    new = DeltaTable(tmp_path).files("id = 8")
    for name in new:
        older[name].rename(tmp_path / name)
    (state,) = table.index.build()
    # The eight old segments, and the one of the new file.
    assert (state.segments, state.covered_files, state.uncovered_files) == (2, 9, 0)
    for name in set(older) - set(new):
        older[name].rename(tmp_path / name)
    for number in range(1, 9):
        assert table.explain(f"id = {number}").selected == 1
        assert len(rows(fresh(tmp_path), f"id = {number}")) == 1
    assert table.explain("id = 500").selected == 0


def test_writers_extend_indexes_where_the_table_says_so(tmp_path: Path) -> None:
    table = written(tmp_path, FILES)
    table.index.create(["id"], on_write=True)
    assert table.metadata().configuration["deltaplane.buildIndexesOnWrite"] == "true"
    versions = [table.version()]
    written(tmp_path, [[4, 97]])
    assert DeltaTable(tmp_path).index.describe()[0].uncovered_files == 0
    table.update_incremental()
    table.delete("id = 97")
    assert table.index.describe()[0].uncovered_files == 0
    source = pa.table({"id": pa.array([4, 50]), "n": pa.array([10, 11])})
    merger = table.merge(source, "t.id = s.id", source_alias="s", target_alias="t")
    merger.when_matched_update_all().when_not_matched_insert_all().execute()
    assert table.index.describe()[0].uncovered_files == 0
    versions.append(table.version())
    assert versions == [3, 6], "an index makes no commit"
    assert table.explain("id = 50").selected == 1
    assert table.explain("id = 51").selected == 0
    table.index.create(["n"], on_write=False)
    written(tmp_path, [[5, 96]])
    assert DeltaTable(tmp_path).index.describe()[0].uncovered_files == 1


def test_a_failing_index_fails_no_write(tmp_path: Path) -> None:
    table = written(tmp_path, FILES)
    table.index.create(["id"], on_write=True)
    for path in objects(tmp_path):
        path.unlink()
    (tmp_path / FOLDER).rmdir()
    # No object can be written below a file.
    (tmp_path / FOLDER).write_text("in the way")
    written(tmp_path, [[4, 97]])
    assert len(rows(DeltaTable(tmp_path))) == 11


def test_vacuum_deletes_objects_that_no_manifest_named_for_a_day(tmp_path: Path) -> None:
    table = written(tmp_path, FILES)
    table.index.create(["id"])
    (first,) = (p for p in objects(tmp_path) if p.suffix == ".keys")
    (tmp_path / FOLDER / "s-unfinished.keys").write_bytes(b"of a builder that died")
    (tmp_path / FOLDER / "s-new.keys").write_bytes(b"of a builder at work")
    written(tmp_path, [[4, 97]])
    table.update_incremental()
    table.index.build(rebuild=True)
    unfinished = {"s-unfinished.keys", "s-new.keys"}
    (named,) = (p for p in objects(tmp_path) if p.suffix == ".keys" and p != first and p.name not in unfinished)
    for path in objects(tmp_path):
        if path.name != "s-new.keys":
            os.utime(path, (0, 0))
    remaining = [
        p for p in objects(tmp_path) if p != first and p.name != "s-unfinished.keys" and "0001.json" not in p.name
    ]
    table.vacuum(dry_run=True)
    assert first.exists()
    table.vacuum(dry_run=False)
    assert objects(tmp_path) == remaining
    assert named in remaining
    assert table.explain("id = 50").selected == 0
    assert rows(DeltaTable(tmp_path, version=2), "id = 99") == [{"id": 99, "n": 1}]


def test_maintenance_extends_indexes_within_its_time(tmp_path: Path) -> None:
    # OPTIMIZE, which extends indexes too, has nothing to do in partitions of one file.
    rows_of_files = pa.table({"id": [1, 100, 2, 99, 3, 98], "p": [0, 0, 1, 1, 2, 2]})
    write_deltalake(tmp_path, rows_of_files, partition_by=["p"])
    table = DeltaTable(tmp_path)
    table.index.create(["id"], build=False)
    advice = table.advise(["id = 7"]).of("index")
    assert advice is not None
    assert "3 of 3 files aren't covered" in advice.why
    steps = {step.kind: step.state for step in table.maintain(dry_run=True).steps}
    assert steps["index"] == "planned"
    assert table.index.describe()[0].uncovered_files == 3
    steps = {step.kind: step.state for step in table.maintain(max_time=dt.timedelta(0)).steps}
    assert steps["index"] == "skipped"
    steps = {step.kind: step.state for step in table.maintain().steps}
    assert steps["index"] == "done"
    assert table.index.describe()[0].uncovered_files == 0
    assert table.advise(["id = 7"]).of("index") is None


def test_advice_names_columns_that_are_looked_up(tmp_path: Path) -> None:
    generator = random.Random(3)
    for _ in range(12):
        part = {
            "user": [str(uuid.UUID(int=generator.getrandbits(128))) for _ in range(200)],
            "kind": [generator.choice("abc") for _ in range(200)],
            "n": [generator.random() for _ in range(200)],
        }
        write_deltalake(tmp_path, pa.table(part), mode="append")
    table = DeltaTable(tmp_path)
    looked_up = [f"user = '{uuid.UUID(int=generator.getrandbits(128))}'" for _ in range(3)]
    report = table.advise([*looked_up, "kind = 'a'", "n > 0.5"])
    (advice,) = (item for item in report if item.kind == "add_index")
    assert advice.columns == ("user",)
    assert advice.then.files < advice.now.files
    assert sql(advice.commands.sql).num_rows == 1
    after = DeltaTable(tmp_path).advise(looked_up)
    assert after.of("add_index") is None
    assert DeltaTable(tmp_path).explain(looked_up[0]).selected <= 1
    assert table.advise().of("add_index") is None, "drawn look-ups don't show what is looked up"


def test_other_rooms_use_it(tmp_path: Path) -> None:
    table = written(tmp_path, FILES, configuration={"delta.enableDeletionVectors": "true"})
    table.index.create(["id"])
    # Only the files that an index leaves out are gone: reading any of them would fail.
    planned = set(table.files("id = 99"))
    for name in set(table.files()) - planned:
        (tmp_path / name).rename(tmp_path / f"{name}.away")
    source = pa.table({"id": pa.array([99, 50]), "n": pa.array([10, 11])})
    merger = table.merge(source, "t.id = s.id", source_alias="s", target_alias="t")
    merger.when_matched_update_all().when_not_matched_insert_all().execute()
    assert [row["n"] for row in rows(table, "id = 99")] == [10]
    assert table.delete("id = 50")["num_deleted_rows"] == 1
    assert table.update({"n": "12"}, predicate="id = 99")["num_updated_rows"] == 1
    assert sql(f"SELECT n FROM delta.`{tmp_path}` WHERE id = 99").column("n").to_pylist() == [12]
    sql(f"DELETE FROM delta.`{tmp_path}` WHERE id IN (99)")
    for name in tmp_path.rglob("*.away"):
        name.rename(name.with_suffix(""))
    assert [row["id"] for row in rows(DeltaTable(tmp_path))] == [1, 100, 2, 3, 7, 7, 98, None]


# --- values -----------------------------------------------------------------------------------------------------------

_EXACT: dict[str, tuple[pa.DataType, list[Any], Any]] = {
    "byte": (pa.int8(), [-128, 0, 127], str),
    "short": (pa.int16(), [-(2**15), 0, 2**15 - 1], str),
    "int": (pa.int32(), [-(2**31), 0, 2**31 - 1], str),
    "long": (pa.int64(), [-(2**63), 0, 2**63 - 1], lambda v: f"{v}L" if v > -(2**63) else "-9223372036854775807L - 1L"),
    "decimal": (pa.decimal128(10, 2), [Decimal("1.50"), Decimal("0.00"), Decimal("-7.00")], str),
    "string": (pa.string(), ["", "ä", "a "], lambda v: f"'{v}'"),
    "binary": (pa.binary(), [b"", b"\x00", b"\xff\x00"], lambda v: f"X'{v.hex()}'"),
    "date": (
        pa.date32(),
        [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)],
        lambda v: f"DATE'{v.isoformat()}'",
    ),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc), dt.datetime(2020, 1, 1, 0, 0, 0, 1, dt.timezone.utc)],
        lambda v: f"TIMESTAMP'{v:%Y-%m-%d %H:%M:%S.%f}+00:00'",
    ),
    "timestamp_ntz": (
        pa.timestamp("us"),
        [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 0, 0, 0, 1)],
        lambda v: f"TIMESTAMP_NTZ'{v:%Y-%m-%d %H:%M:%S.%f}'",
    ),
}


@pytest.mark.parametrize("name", sorted(_EXACT))
def test_every_type_is_found_by_its_literals(tmp_path: Path, name: str) -> None:
    data_type, values, literal = _EXACT[name]
    # A file of all values beside one of each, so that statistics exclude none but the index some.
    for part in [values, *([v] for v in values)]:
        ids = pa.array([*part, min(values), max(values), None], data_type)
        write_deltalake(tmp_path, pa.table({"id": ids}), mode="append")
    table = DeltaTable(tmp_path)
    if name == "long":
        values = values[1:]
    predicates = [f"id = {literal(v)}" for v in values] + [f"id IN ({', '.join(map(literal, values))})"]
    before = [rows(table, p) for p in predicates]
    assert all(before)
    table.index.create(["id"])
    assert [rows(table, p) for p in predicates] == before
    assert [rows(fresh(tmp_path), p) for p in predicates] == before


def test_widened_and_renamed_columns_are_found(tmp_path: Path) -> None:
    properties = {"delta.enableTypeWidening": "true", "delta.columnMapping.mode": "name"}
    ids = [pa.array(part, pa.int16()) for part in ([1, 100], [2, 99])]
    for part in ids:
        write_deltalake(tmp_path, pa.table({"id": part, "o": part}), mode="append", configuration=properties)
    table = DeltaTable(tmp_path)
    table.index.create(["id"])
    sql(f"ALTER TABLE delta.`{tmp_path}` ALTER COLUMN id TYPE BIGINT")
    table = DeltaTable(tmp_path)
    table.alter.rename_column("id", "key")
    write_deltalake(tmp_path, pa.table({"key": pa.array([99, 2**40])}), mode="append")
    table = DeltaTable(tmp_path)
    assert [s.columns for s in table.index.describe()] == [("key",)]
    assert table.explain("key = 99L").skipped_by_index == 1
    assert len(rows(table, "key = 99")) == 2
    table.index.build()
    assert [len(rows(table, f"key = {v}L")) for v in (99, 1, 2**40, 3)] == [2, 1, 1, 0]
    # A new column of the old name is another column.
    table.alter.drop_columns(["key"])
    table.alter.add_columns(Field("id", "long"))
    assert table.index.describe() == []
    assert rows(table, "id = 99") == []


@pytest.mark.parametrize("data_type", [pa.float64(), pa.bool_(), pa.list_(pa.int64())])
def test_columns_that_are_not_looked_up_are_refused(tmp_path: Path, data_type: pa.DataType) -> None:
    write_deltalake(tmp_path, pa.table({"id": pa.array([None], data_type), "p": ["x"]}), partition_by=["p"])
    table = DeltaTable(tmp_path)
    for column in ("id", "p"):
        with pytest.raises(UnsupportedFeatureError, match="can't have a key index"):
            table.index.create([column])
    assert table.version() == 0


def test_names_that_fit_no_index_are_refused(tmp_path: Path) -> None:
    table = written(tmp_path, FILES)
    with pytest.raises(InvalidArgumentError, match="no column `x`"):
        table.index.create(["x"])
    with pytest.raises(InvalidArgumentError, match="names the column `ID` twice"):
        table.index.create(["id", "ID"])
    with pytest.raises(InvalidArgumentError, match="no column `x`"):
        table.index.create(["id", "x"])
    with pytest.raises(InvalidArgumentError, match="in a list"):
        table.index.create([])
    with pytest.raises(InvalidArgumentError, match="the column `id` has no key index"):
        table.index.drop(["id"])
    with pytest.raises(InvalidArgumentError, match="the columns `id`, `n` have no key index"):
        table.index.drop(["id", "n"])


def test_statements(tmp_path: Path) -> None:
    written(tmp_path, FILES)
    done = sql(f"ALTER TABLE delta.`{tmp_path}` ADD INDEX ON (id)")
    assert done.column("version").to_pylist() == [3]
    assert DeltaTable(tmp_path).explain("id = 50").selected == 0
    sql(f"ALTER TABLE delta.`{tmp_path}` DROP INDEX ON (ID)")
    assert DeltaTable(tmp_path).explain("id = 50").selected == 3
    assert DeltaTable(tmp_path).metadata().configuration == {}
    assert {p.suffix for p in objects(tmp_path)} == {".json"}


# --- several columns --------------------------------------------------------------------------------------------------

# Each file has each tenant and each number, but only some of the pairs.
PAIRS = [
    [("a", 1), ("b", 2), ("c", 3)],
    [("a", 2), ("b", 3), ("c", 1)],
    [("a", 3), ("b", 1), ("c", 2), (None, 1), ("a", None)],
]


def of_pairs(path: Path, **options: Any) -> DeltaTable:
    for pairs in PAIRS:
        tenants, numbers = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        part = pa.table({"tenant": tenants, "number": pa.array(numbers, pa.int32()), "n": range(len(pairs))})
        write_deltalake(path, part, mode="append", **options)
    return DeltaTable(path)


@pytest.mark.parametrize(
    ("predicate", "files"),
    [
        ("tenant = 'a' AND number = 2", 1),
        ("number = 2 AND n >= 0 AND tenant = 'a'", 1),
        ("tenant = 'a' AND number IN (1, 3)", 2),
        ("tenant IN ('a', 'b') AND number IN (1, 2)", 3),
        ("(tenant = 'a' AND number = 1) OR (tenant = 'b' AND number = 2)", 1),
        ("(tenant = 'a' AND number = 1) OR (tenant = 'b' AND number = 3)", 2),
        ("(tenant = 'a' AND number = 1) OR tenant = 'b'", 3),
        ("tenant = 'd' AND number = 1", 0),
        ("tenant = 'a'", 3),
        ("tenant = 'a' AND number <=> 2", 3),
        ("tenant IS NULL AND number = 1", 1),
    ],
)
def test_an_index_of_several_columns_is_used_where_all_are_compared(tmp_path: Path, predicate: str, files: int) -> None:
    table = of_pairs(tmp_path)
    expected = rows(table, predicate)
    (state,) = table.index.create(["tenant", "number"])
    assert (state.columns, state.entries, state.covered_files) == (("tenant", "number"), 9, 3)
    assert table.metadata().configuration["deltaplane.index.(tenant,number)"] == "tenant,number"
    assert table.explain(predicate).selected <= files
    assert rows(table, predicate) == expected
    assert rows(fresh(tmp_path), predicate) == expected
    assert sql(f"SELECT n FROM delta.`{tmp_path}` WHERE {predicate}").num_rows == len(expected)


def test_pairs_are_found_after_renames_widening_and_foreign_files(tmp_path: Path) -> None:
    properties = {"delta.enableTypeWidening": "true", "delta.columnMapping.mode": "name"}
    table = of_pairs(tmp_path, configuration=properties)
    table.index.create(["number", "tenant"])
    sql(f"ALTER TABLE delta.`{tmp_path}` ALTER COLUMN number TYPE BIGINT")
    table = DeltaTable(tmp_path)
    table.alter.rename_column("tenant", "who, where")
    table = DeltaTable(tmp_path)
    assert [s.columns for s in table.index.describe()] == [("number", "who, where")]
    assert table.explain("`who, where` = 'a' AND number = 2L").selected == 1
    new = pa.table({"who, where": ["a"], "number": pa.array([2], pa.int64()), "n": [9]})
    write_deltalake(tmp_path, new, mode="append")
    table = DeltaTable(tmp_path)
    matches = rows(table, "`who, where` = 'a' AND number = 2")
    assert sorted(row["n"] for row in matches) == [0, 9]
    table.index.build()
    assert [s.covered_files for s in table.index.describe()] == [4]
    assert rows(table, "`who, where` = 'a' AND number = 2") == matches
    # An index loses its meaning with one of its columns, and a new column of the name is another.
    table.alter.drop_columns(["number"])
    table.alter.add_columns(Field("number", "long"))
    assert table.index.describe() == []
    assert rows(table, "`who, where` = 'a' AND number = 2") == []


@pytest.mark.parametrize("source_rows", [3, 200])
def test_a_merge_by_several_columns_reads_the_files_of_its_keys(tmp_path: Path, source_rows: int) -> None:
    """With few keys their lists are combined; with many, the rows themselves are looked up."""
    for file in range(6):
        numbers = [*range(500), 0]
        tenants = [f"t{(number + file) % 6}" for number in numbers[:-1]] + ["t5"]
        write_deltalake(tmp_path, pa.table({"tenant": tenants, "number": numbers, "n": [0] * 501}), mode="append")
    table = DeltaTable(tmp_path)
    table.index.create(["tenant", "number"])
    # Pairs that the third file has alone.
    keys = [(f"t{(number + 2) % 6}", number) for number in range(7, 7 + source_rows)]
    tenants, numbers = [k[0] for k in keys] + [None], [k[1] for k in keys] + [9]
    source = pa.table({"tenant": tenants, "number": numbers, "n": [1] * len(numbers)})
    merger = table.merge(source, "t.tenant = s.tenant AND t.number = s.number", source_alias="s", target_alias="t")
    done = merger.when_matched_update_all().execute()
    assert (done["num_target_files_scanned"], done["num_target_rows_updated"]) == (1, source_rows)
    assert len(rows(table, "n = 1")) == source_rows
    # A null of the source equals a null: no index tells where those are.
    written_null = pa.table({"tenant": pa.array([None], pa.string()), "number": [7], "n": [0]})
    write_deltalake(tmp_path, written_null, mode="append")
    table = DeltaTable(tmp_path)
    table.index.build()
    nulls = pa.table({"tenant": pa.array([None], pa.string()), "number": [7], "n": [2]})
    merger = table.merge(nulls, "t.tenant <=> s.tenant AND t.number = s.number", source_alias="s", target_alias="t")
    assert merger.when_matched_update_all().execute()["num_target_rows_updated"] == 1


def test_indexes_of_one_and_of_several_columns_are_apart(tmp_path: Path) -> None:
    table = of_pairs(tmp_path)
    table.index.create(["number"])
    table.index.create(["tenant", "number"])
    table.index.create(["NUMBER", "tenant"])
    assert [s.columns for s in table.index.describe()] == [("tenant", "number"), ("number",)]
    sql(f"ALTER TABLE delta.`{tmp_path}` DROP INDEX ON (number)")
    table = DeltaTable(tmp_path)
    assert [s.columns for s in table.index.describe()] == [("tenant", "number")]
    assert table.explain("tenant = 'a' AND number = 2").selected == 1
    sql(f"ALTER TABLE delta.`{tmp_path}` DROP INDEX ON (number, tenant)")
    assert DeltaTable(tmp_path).metadata().configuration == {}
    assert {p.suffix for p in objects(tmp_path)} == {".json"}
    sql(f"ALTER TABLE delta.`{tmp_path}` ADD INDEX ON (tenant, number)")
    assert DeltaTable(tmp_path).explain("tenant = 'a' AND number = 2").selected == 1


# --- other engines ----------------------------------------------------------------------------------------------------


def test_vacuum_leaves_the_index(tmp_path: Path) -> None:
    table = written(tmp_path, FILES)
    table.index.create(["id"])
    before = objects(tmp_path)
    table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    theirs = deltalake.DeltaTable(tmp_path)
    theirs.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    assert objects(tmp_path) == before
    assert theirs.to_pyarrow_table().num_rows == 9


def test_an_index_of_a_table_that_was_here_before_is_not_used(tmp_path: Path) -> None:
    table = written(tmp_path, FILES)
    table.index.create(["id"])
    for path in (tmp_path / "_delta_log").iterdir():
        path.unlink()
    (tmp_path / "_delta_log").rmdir()
    again = written(tmp_path, [[7]], configuration={"deltaplane.index.id": "keys"})
    assert again.explain("id = 50").selected <= 1
    assert [(s.segments, s.uncovered_files) for s in again.index.describe()] == [(0, 1)]
    again.index.build()
    assert len(rows(again, "id = 7")) == 1


# --- histories --------------------------------------------------------------------------------------------------------

_KEYS = list(range(12))
_some_keys = st.lists(st.sampled_from(_KEYS), min_size=1, max_size=4)
_step = st.one_of(
    st.tuples(st.just("append"), _some_keys),
    st.tuples(st.just("append"), _some_keys),
    st.tuples(st.just("foreign"), _some_keys),
    st.tuples(st.just("delete"), _some_keys),
    st.tuples(st.just("update"), _some_keys),
    st.tuples(st.just("merge"), _some_keys),
    st.tuples(st.just("optimize"), st.none()),
    st.tuples(st.just("restore"), st.integers(0, 9)),
    st.tuples(st.just("vacuum"), st.none()),
    st.tuples(st.just("build"), st.booleans()),
    st.tuples(st.just("build"), st.booleans()),
    st.tuples(st.just("truncate"), st.integers(0, 1 << 16)),
    st.tuples(st.just("flip"), st.integers(0, 1 << 16)),
    st.tuples(st.just("lose"), st.integers(0, 1 << 16)),
    st.tuples(st.just("clone"), st.none()),
)


def of_ids(ids: list[int]) -> pa.Table:
    """Rows whose two columns have the same values."""
    return pa.table({"id": pa.array(ids, pa.int64()), "same": pa.array(ids, pa.int32())})


class History:
    """A table with indexes of one and of two columns, changed step by step; a list of ids is the
    model."""

    def __init__(self, path: Path, vectors: bool) -> None:
        self.path = path
        properties = {"delta.enableDeletionVectors": "true"} if vectors else {}
        self.vectors = vectors
        self.versions: dict[int, list[int]] = {}
        self.ids: list[int] = []
        self.vacuumed_at = 0
        self.append([0, 5], configuration=properties)
        DeltaTable(path).index.create(["id"])
        DeltaTable(path).index.create(["same", "id"])
        self.note()

    def note(self) -> None:
        self.versions[DeltaTable(self.path).version()] = list(self.ids)

    def append(self, ids: list[int], **options: Any) -> None:
        # The bounds of all files are the same.
        ids = [*ids, min(_KEYS), max(_KEYS)]
        write_deltalake(self.path, of_ids(ids), mode="append", **options)
        self.ids += ids

    def foreign(self, ids: list[int]) -> None:
        if not self.vectors:
            deltalake.write_deltalake(self.path, of_ids(ids), mode="append")
            self.ids += ids

    def delete(self, ids: list[int]) -> None:
        DeltaTable(self.path).delete(f"id IN ({', '.join(map(str, ids))})")
        self.ids = [i for i in self.ids if i not in ids]

    def update(self, ids: list[int]) -> None:
        fresh(self.path).update({"id": "id + 20", "same": "same + 20"}, predicate=f"same = id AND id = {ids[0]}")
        self.ids = [i + 20 if i == ids[0] else i for i in self.ids]

    def merge(self, ids: list[int]) -> None:
        source = of_ids(sorted(set(ids)))
        condition = "t.id = s.id AND t.same = s.same"
        merger = DeltaTable(self.path).merge(source, condition, source_alias="s", target_alias="t")
        merger.when_matched_delete().when_not_matched_insert_all().execute()
        there = set(self.ids)
        self.ids = [i for i in self.ids if i not in ids] + [i for i in set(ids) if i not in there]

    def optimize(self, _: None) -> None:
        DeltaTable(self.path).optimize.compact()

    def restore(self, back: int) -> None:
        known = [v for v in self.versions if v >= self.vacuumed_at]
        version = known[back % len(known)]
        DeltaTable(self.path).restore(version)
        self.ids = list(self.versions[version])

    def vacuum(self, _: None) -> None:
        table = DeltaTable(self.path)
        table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
        self.vacuumed_at = DeltaTable(self.path).version()

    def build(self, again: bool) -> None:
        DeltaTable(self.path).index.build(rebuild=again)

    def _object(self, number: int) -> Path | None:
        matches = objects(self.path)
        return matches[number % len(matches)] if matches else None

    def truncate(self, number: int) -> None:
        if path := self._object(number):
            path.write_bytes(path.read_bytes()[: number % (path.stat().st_size + 1)])

    def flip(self, number: int) -> None:
        path = self._object(number)
        if path and (content := bytearray(path.read_bytes())):
            content[number % len(content)] ^= 1 + number % 255
            path.write_bytes(content)

    def lose(self, number: int) -> None:
        if path := self._object(number):
            path.unlink()

    def clone(self, _: None) -> None:
        target = self.path.parent / f"clone-{next(_fresh)}"
        cloned = DeltaTable(self.path).clone(str(target), shallow=True)
        del cloned
        check(DeltaTable(target), self.ids)
        DeltaTable(target).index.build()
        check(DeltaTable(target), self.ids)
        DeltaTable(target).delete("id = 5")
        check(DeltaTable(target), [i for i in self.ids if i != 5])


def check(table: DeltaTable, ids: list[int]) -> None:
    """Every look-up gives the rows of the model."""
    assert sorted(table.scan(["id"]).to_arrow()["id"].to_pylist()) == sorted(ids)
    for key in [*_KEYS, 25]:
        matches = table.scan(["id"], f"id = {key}").to_arrow()["id"].to_pylist()
        assert matches == [i for i in ids if i == key], key
        matches = table.scan(["id"], f"id = {key} AND same = {key}").to_arrow()["id"].to_pylist()
        assert matches == [i for i in ids if i == key], key
    some = {0, 3, 8, 25}
    matches = table.scan(["id"], "id IN (0, 3, 8, 25)").to_arrow()["id"].to_pylist()
    assert sorted(matches) == sorted(i for i in ids if i in some)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(vectors=st.booleans(), steps=st.lists(_step, min_size=1, max_size=10))
def test_no_history_and_no_damage_changes_a_row(
    tmp_path_factory: pytest.TempPathFactory, vectors: bool, steps: list[tuple[str, Any]]
) -> None:
    history = History(tmp_path_factory.mktemp("history") / "table", vectors)
    for name, argument in steps:
        getattr(history, name)(argument)
        history.note()
        check(DeltaTable(history.path), history.ids)
        check(fresh(history.path), history.ids)
    for version, ids in history.versions.items():
        if version >= history.vacuumed_at:
            check(DeltaTable(history.path, version=version), ids)
    verify(str(history.path))
