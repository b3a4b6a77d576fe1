"""Column mapping between engines: delta-spark renames and drops what we read, we write what it reads and skips by."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, write_deltalake
from interop.delta_spark import DeltaSpark
from interop.same import assert_same
from interop.verifier import verify

MODES = ("name", "id")


def rows(start: int) -> pa.Table:
    inner = pa.struct([("a b", pa.int64()), ("x", pa.string())])
    ids = range(start, start + 4)
    return pa.table(
        {
            "the id": pa.array(ids, pa.int64()),
            "p,q": pa.array([f"p{start}"] * 4),
            "s": pa.array([{"a b": i, "x": f"x{i}"} for i in ids], inner),
            "l": pa.array([[{"a b": i, "x": None}] for i in ids], pa.list_(inner)),
            "m": pa.array([[(f"k{i}", {"a b": -i, "x": "y"})] for i in ids], pa.map_(pa.string(), inner)),
        }
    )


@pytest.mark.parametrize("mode", MODES)
def test_ours_read_and_altered_by_delta_spark(mode: str, delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    """P110-P113: it reads our files, skips by our statistics, renames, drops and appends; we go on from there."""
    table = tmp_table()
    configuration = {"delta.columnMapping.mode": mode}
    for start in (0, 10):
        write_deltalake(table, rows(start), mode="append", partition_by="p,q", configuration=configuration)
    both = pa.concat_tables([rows(0), rows(10)])
    assert_same(delta_spark.read(table), both)
    assert delta_spark.files_read(table, "`the id` > 5") == 1
    assert delta_spark.files_read(table, "s.`a b` > 5") == 1
    assert delta_spark.files_read(table, "`p,q` = 'p10'") == 1
    verify(table)

    delta_spark.sql(f"ALTER TABLE delta.`{table}` RENAME COLUMN `the id` TO id")
    delta_spark.sql(f"ALTER TABLE delta.`{table}` RENAME COLUMN s.`a b` TO b")
    delta_spark.sql(f"ALTER TABLE delta.`{table}` RENAME COLUMN `p,q` TO p")
    delta_spark.sql(f"ALTER TABLE delta.`{table}` DROP COLUMN l")
    delta_spark.sql(f"ALTER TABLE delta.`{table}` ADD COLUMN (l date)")
    delta_spark.sql(
        f"INSERT INTO delta.`{table}` SELECT 20, 'p20', named_struct('b', 20L, 'x', 'n'), map(), DATE'2024-02-29'"
    )
    theirs = delta_spark.read(table)
    assert theirs.column_names == ["id", "p", "s", "m", "l"]
    assert_same(DeltaTable(table).to_pyarrow_table(), theirs)
    assert len(DeltaTable(table).files([("p", "=", "p20")])) == 1

    more = pa.table({"id": [30], "p": ["p30"], "new col": [1.5]})
    write_deltalake(table, more, mode="append", schema_mode="merge")
    assert_same(delta_spark.read(table), DeltaTable(table).to_pyarrow_table())
    assert delta_spark.files_read(table, "id = 30") == 1
    verify(table)


def test_theirs_upgraded_on_the_way(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    """P111: after none to name the old files keep their names, and what is new gets new ones."""
    table = tmp_table()
    plain = pa.table({"id": [1, 2], "s": [{"a": 1}, {"a": 2}]})
    write_deltalake(table, plain)
    delta_spark.sql(
        f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', "
        "'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5')"
    )
    delta_spark.sql(f"ALTER TABLE delta.`{table}` RENAME COLUMN id TO `the id`")
    delta_spark.sql(f"ALTER TABLE delta.`{table}` RENAME COLUMN s.a TO `a b`")
    more = pa.table({"the id": [3], "s": [{"a b": 3, "c": "x"}], "id": ["new"]})
    write_deltalake(table, more, mode="append", schema_mode="merge")
    ours = DeltaTable(table).to_pyarrow_table()
    assert sorted(ours["the id"].to_pylist()) == [1, 2, 3]
    assert_same(delta_spark.read(table), ours)
    assert delta_spark.files_read(table, "id = 'new'") <= 2
    verify(table)


def test_deltalake_does_not_know_mapping(tmp_table: Callable[[], str]) -> None:
    """deltalake 1.6 opens such a table, but looks for the table's own names in its files and gives nulls."""
    import deltalake

    table = tmp_table()
    data = pa.table({"the id": [1, 2], "v": ["a", "b"]})
    write_deltalake(table, data, configuration={"delta.columnMapping.mode": "name"})
    assert deltalake.DeltaTable(table).to_pyarrow_table()["the id"].null_count == 2
    assert_same(DeltaTable(table).to_pyarrow_table(), data)
