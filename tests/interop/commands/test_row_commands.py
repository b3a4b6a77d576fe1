"""delta-spark and deltalake read tables after deltaplane's DELETE and UPDATE: rows, changes and row
ids; and continue."""

from __future__ import annotations

from collections.abc import Callable

import deltalake
import pyarrow as pa

from deltaplane import DeltaTable, write_deltalake
from interop.delta_spark import DeltaSpark
from interop.same import assert_same
from interop.verifier import verify

ROWS = 40
FEED = {"delta.enableChangeDataFeed": "true"}
IDS = {"delta.enableRowTracking": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}
TABLES = {
    "copied": FEED,
    "tracked": FEED | IDS,
    "all": FEED | IDS | VECTORS | {"delta.columnMapping.mode": "name"},
}


def ids(rows: list[dict[str, int]]) -> dict[int, tuple[int, int]]:
    return {row["k"]: (row["i"], row["v"]) for row in rows}


def test_delta_spark_reads_what_commands_leave(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    # P121, P122, P130, P131, P142, P143
    for name, properties in TABLES.items():
        path = tmp_table()
        data = pa.table({"k": range(ROWS), "n": [i % 5 for i in range(ROWS)], "p": ["ab"[i % 2] for i in range(ROWS)]})
        write_deltalake(path, data, partition_by=["p"], configuration=properties)
        table = DeltaTable(path)
        table.delete("n = 3 AND k < 20")
        table.update({"n": "n * 10", "p": "'c'"}, predicate="k % 4 = 0")
        table.update({"n": "n + 1"}, predicate="p = 'c' AND k >= 16")
        verify(path)
        assert_same(table.to_pyarrow_table(), delta_spark.read(path))
        changes = delta_spark.sql(f"SELECT * FROM table_changes_by_path('{path}', 0, {table.version()})")
        assert_same(pa.table(table.load_cdf(0)), changes)
        said = delta_spark.sql(f"DESCRIBE HISTORY delta.`{path}`").to_pylist()
        assert [entry["operation"] for entry in said[:3]] == ["UPDATE", "UPDATE", "DELETE"]
        if IDS.items() <= properties.items():
            query = "SELECT k, _metadata.row_id AS i, _metadata.row_commit_version AS v FROM delta.`{}`"
            theirs = ids(delta_spark.sql(query.format(path)).to_pylist())
            ours = table.scan(["k", "_row_id", "_row_commit_version"]).to_arrow().rename_columns(["k", "i", "v"])
            assert ids(ours.to_pylist()) == theirs
            assert {v for _, v in theirs.values()} == {0, 2, 3}
        # The others continue on deltaplane's files, and deltaplane on theirs.
        delta_spark.sql(f"UPDATE delta.`{path}` SET n = -1 WHERE k IN (5, 16, 17)")
        delta_spark.sql(f"DELETE FROM delta.`{path}` WHERE k BETWEEN 30 AND 33")
        table.update_incremental()
        assert table.update({"n": "n - 1"}, predicate="n < 0")["num_updated_rows"] == 3, name
        table.delete("k % 10 = 7 AND upper(p) = 'B'")
        assert_same(table.to_pyarrow_table(), delta_spark.read(path))
        first = table.version() - 3
        changes = delta_spark.sql(f"SELECT * FROM table_changes_by_path('{path}', {first}, {table.version()})")
        assert_same(pa.table(table.load_cdf(first)), changes)
        verify(path)


def test_deltalake_reads_what_commands_leave(tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    write_deltalake(path, pa.table({"k": range(ROWS), "n": [1.5] * ROWS}), configuration=FEED)
    table = DeltaTable(path)
    table.delete("k < 10")
    table.update({"n": "k / 2"}, predicate="k >= 30 AND k % 2 = 1")
    theirs = deltalake.DeltaTable(path)
    assert_same(table.to_pyarrow_table(), theirs.to_pyarrow_table())
    # deltalake's feed has unsigned versions and times without a zone.
    columns = ["k", "n", "_change_type", "_commit_version"]
    feed = pa.table(theirs.load_cdf(starting_version=0)).select(columns)
    feed = feed.set_column(3, "_commit_version", feed["_commit_version"].cast(pa.int64()))
    assert_same(pa.table(table.load_cdf(0, columns=columns)), feed)
    theirs.delete("k = 31")
    theirs.update({"n": "0.0"}, predicate="k = 33")
    table.update_incremental()
    table.update({"n": "n + 1"}, predicate="k = 33")
    assert_same(table.to_pyarrow_table(), deltalake.DeltaTable(path).to_pyarrow_table())
    verify(path)
