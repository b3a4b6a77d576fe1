"""Column mapping between engines: deltaplane reads tables after delta-spark's renames and drops,
and delta-spark reads and prunes deltaplane's."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, Field, write_deltalake
from deltaplane.exceptions import SchemaMismatchError
from interop.delta_spark import DeltaSpark, DeltaSparkError
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
    """P110-P113: delta-spark reads deltaplane's files, skips by their statistics, renames, drops
    and appends; deltaplane continues."""
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
    """P111: after a change from none to name, the old files keep their names, and new columns get
    new ones."""
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


def test_mapping_ends(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    """P098, P114: delta-spark reads the table before and after, continues, and finds the same rows
    with the same ids."""
    table = tmp_table()
    tracked = {"delta.columnMapping.mode": "name", "delta.enableRowTracking": "true"}
    write_deltalake(table, rows(0), partition_by="p,q", configuration=tracked)
    write_deltalake(table, rows(10), mode="append")
    alter = DeltaTable(table).alter
    alter.rename_column("the id", "id")
    alter.rename_column("`p,q`", "p")
    for struct in ("s", "l.element", "m.value"):
        alter.rename_column(f"{struct}.`a b`", "b")
    alter.drop_columns("s.x")
    columns = "*, _metadata.row_id AS r, _metadata.row_commit_version AS v"
    before = delta_spark.sql(f"SELECT {columns} FROM delta.`{table}`")
    assert before.num_rows == 8
    plan = DeltaTable(table).alter.drop_feature("columnMapping")
    assert (plan.removed_features, plan.added_features) == (["columnMapping"], ["checkpointProtection"])
    assert_same(delta_spark.sql(f"SELECT {columns} FROM delta.`{table}`"), before)
    assert_same(DeltaTable(table).to_pyarrow_table(), delta_spark.read(table))
    assert delta_spark.files_read(table, "id > 5") == 1
    assert delta_spark.files_read(table, "p = 'p10'") == 1
    delta_spark.sql(f"INSERT INTO delta.`{table}` SELECT 20, 'p20', named_struct('b', 20L), array(), map()")
    delta_spark.sql(f"UPDATE delta.`{table}` SET p = 'moved' WHERE id = 1")
    assert_same(DeltaTable(table).to_pyarrow_table(), delta_spark.read(table))
    verify(table)

    theirs = tmp_table()
    write_deltalake(theirs, rows(0).select(["the id", "s"]), configuration=tracked)
    DeltaTable(theirs).alter.rename_column("the id", "id")
    DeltaTable(theirs).alter.rename_column("s.`a b`", "b")
    delta_spark.sql(f"ALTER TABLE delta.`{theirs}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'none')")
    assert_same(DeltaTable(theirs).to_pyarrow_table(), delta_spark.read(theirs))
    write_deltalake(theirs, pa.table({"id": [9]}), mode="append")
    assert DeltaTable(theirs).alter.drop_feature("columnMapping").removed_features == ["columnMapping"]
    assert_same(DeltaTable(theirs).to_pyarrow_table(), delta_spark.read(theirs))
    verify(theirs)


UNSAFE = {
    "spark.databricks.delta.changeDataFeed.unsafeBatchReadOnIncompatibleSchemaChanges.enabled": "true",
    "spark.databricks.delta.changeDataFeed.defaultSchemaModeForColumnMappingTable": "latest",
}


@pytest.mark.parametrize("mode", MODES)
def test_changes_of_renamed_columns(mode: str, delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    """P131, P132: under the last version's columns, found by their names or ids in files.
    delta-spark does so only with its checks disabled if the range contains a rename; other ranges
    have equal results."""
    table = tmp_table()
    feed = {"delta.columnMapping.mode": mode, "delta.enableChangeDataFeed": "true", "delta.enableTypeWidening": "true"}
    data = pa.table(
        {"id": pa.array([1, 2], pa.int64()), "old": ["a", "b"], "n": pa.array([1, 2], pa.int32()), "p": ["x", "y"]}
    )
    write_deltalake(table, data, partition_by="p", configuration=feed)
    DeltaTable(table).update(updates={"old": "'z'"}, predicate="id = 1")
    alter = DeltaTable(table).alter
    alter.rename_column("old", "new")
    alter.rename_column("p", "part")
    alter.add_columns(Field("old", "double"))
    delta_spark.sql(f"UPDATE delta.`{table}` SET new = 'zz', old = 0.5 WHERE id = 2")
    DeltaTable(table).delete("id = 1")
    renamed = DeltaTable(table).version()

    def theirs(first: int, last: int) -> pa.Table:
        return delta_spark.sql(f"SELECT * FROM table_changes_by_path('{table}', {first}, {last})")

    def ours(first: int, last: int) -> pa.Table:
        return DeltaTable(table).load_cdf(first, last).to_arrow()

    for first, last in ((0, 1), (1, 1), (renamed - 1, renamed)):
        assert_same(ours(first, last), theirs(first, last))
    with pytest.raises(DeltaSparkError, match="DELTA_CHANGE_DATA_FEED_INCOMPATIBLE"):
        theirs(0, renamed)
    with delta_spark.settings(UNSAFE):
        unsafe = theirs(0, renamed)
    changes = ours(0, renamed)
    assert changes.column_names == [
        "id",
        "new",
        "n",
        "part",
        "old",
        "_change_type",
        "_commit_version",
        "_commit_timestamp",
    ]
    assert_same(changes, unsafe)

    # Widened types are shown as the newest types; dropped columns can't be shown, and both engines
    # refuse.
    alter.change_column_type("n", "long")
    widened = ours(0, renamed + 1)
    assert widened.schema.field("n").type == pa.int64()
    assert sorted(widened["n"].to_pylist()) == sorted(changes["n"].to_pylist())
    alter.drop_columns("n")
    with pytest.raises(SchemaMismatchError, match="the column `n` is gone"):
        ours(0, renamed + 2)
    with pytest.raises(DeltaSparkError, match="DELTA_CHANGE_DATA_FEED_INCOMPATIBLE"):
        theirs(0, renamed + 2)
    assert_same(ours(0, 1), data_changes := theirs(0, 1))
    assert data_changes.column_names[:4] == ["id", "old", "n", "p"]


def test_deltalake_does_not_know_mapping(tmp_table: Callable[[], str]) -> None:
    """deltalake 1.6 opens such a table, but looks for the table's own names in its files and
    returns nulls."""
    import deltalake

    table = tmp_table()
    data = pa.table({"the id": [1, 2], "v": ["a", "b"]})
    write_deltalake(table, data, configuration={"delta.columnMapping.mode": "name"})
    assert deltalake.DeltaTable(table).to_pyarrow_table()["the id"].null_count == 2
    assert_same(DeltaTable(table).to_pyarrow_table(), data)
