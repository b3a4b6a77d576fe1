"""Engines read each other's tables after OPTIMIZE, and continue: delta-spark with vectors, ids,
mapping and clustering, deltalake with plain tables.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from deltaplane import DeltaTable, write_deltalake
from interop.delta_spark import DeltaSpark
from interop.same import assert_same
from interop.verifier import verify

EVERYTHING = {
    "delta.enableDeletionVectors": "true",
    "delta.enableRowTracking": "true",
    "delta.enableChangeDataFeed": "true",
    "delta.columnMapping.mode": "name",
}


def adds(path: str, version: int) -> list[dict[str, Any]]:
    """The files that a commit adds."""
    commit = Path(path, "_delta_log", f"{version:020}.json").read_text()
    return [json.loads(line)["add"] for line in commit.splitlines() if '"add":' in line[:8]]


def numbers(first: int, rows: int = 500) -> pa.Table:
    ids = range(first, first + rows)
    return pa.table({"id": ids, "name": [f"n{i * 7 % 100}" if i % 9 else None for i in ids], "p": [i % 2 for i in ids]})


def ids_of(table: DeltaTable) -> list[dict[str, Any]]:
    return table.scan(["id", "_row_id", "_row_commit_version"]).to_arrow().sort_by("id").to_pylist()


def test_delta_spark_goes_on_from_our_files(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    # P028, P122, P130, P142
    path = tmp_table()
    for first in range(0, 2000, 500):
        write_deltalake(path, numbers(first), mode="append", partition_by=["p"], configuration=EVERYTHING)
    ours = DeltaTable(path)
    ours.delete("id % 3 = 0")
    expected, tracked = delta_spark.read(path), ids_of(ours)
    assert ours.optimize.compact()["numFilesRemoved"] == 8
    assert ours.optimize.z_order(["name", "id"], curve="hilbert")["numFilesRemoved"] == 2
    assert_same(delta_spark.read(path), expected)
    assert ids_of(ours) == tracked
    theirs = delta_spark.sql(
        f"SELECT id, _metadata.row_id AS _row_id, _metadata.row_commit_version AS _row_commit_version FROM delta.`{path}`"
    )
    assert theirs.sort_by("id").to_pylist() == tracked
    last = ours.version()
    feed = delta_spark.sql(f"SELECT * FROM table_changes_by_path('{path}', {last - 1}, {last})")
    assert feed.num_rows == 0
    verify(path)
    delta_spark.execute(f"DELETE FROM delta.`{path}` WHERE id < 300")
    delta_spark.execute(f"OPTIMIZE delta.`{path}` ZORDER BY (id)")
    ours.update_incremental()
    assert_same(ours.to_pyarrow_table(), delta_spark.read(path))
    assert ids_of(ours) == [row for row in tracked if row["id"] >= 300]
    assert ours.optimize.compact()["versions"] == []


def test_clustered_tables_are_gone_on_with_by_both(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    # P152
    path = tmp_table()
    table = f"delta.`{path}`"
    delta_spark.execute(f"CREATE TABLE {table} (id BIGINT, name STRING, p BIGINT) USING delta CLUSTER BY (id, name)")
    for first in (0, 500):
        write_deltalake(path, numbers(first), mode="append")
    ours = DeltaTable(path)
    assert ours.optimize.compact()["numFilesRemoved"] == 2
    (clustered,) = adds(path, ours.version())
    delta_spark.execute(f"OPTIMIZE {table}")
    ours.update_incremental()
    assert ours.history(1)[0]["engineInfo"].startswith("deltaplane"), "they leave one whole run of ours alone"
    write_deltalake(path, numbers(1000), mode="append")
    delta_spark.execute(f"OPTIMIZE {table}")
    ours.update_incremental()
    (theirs,) = adds(path, ours.version())
    assert theirs["clusteringProvider"] == clustered["clusteringProvider"] == "liquid"
    assert theirs["tags"]["ZCUBE_ZORDER_BY"] == clustered["tags"]["ZCUBE_ZORDER_BY"] == '["id","name"]'
    assert ours.history(1)[0]["operationParameters"]["clusterBy"] == '["id","name"]'
    assert ours.optimize.compact()["versions"] == [], "and we theirs"
    ours.alter.cluster_by(["name"])
    write_deltalake(path, numbers(1500), mode="append")
    delta_spark.execute(f"OPTIMIZE {table}")
    ours.update_incremental()
    (changed,) = adds(path, ours.version())
    assert changed["tags"]["ZCUBE_ZORDER_BY"] == '["name"]'
    assert len(ours.files()) == 2, "files that were clustered by other columns stay"
    assert ours.optimize.compact(full=True)["numFilesRemoved"] == 2
    delta_spark.execute(f"OPTIMIZE {table} FULL")
    delta_spark.execute(f"ALTER TABLE {table} CLUSTER BY NONE")
    ours.update_incremental()
    write_deltalake(path, numbers(2000), mode="append")
    ours.update_incremental()
    assert ours.optimize.compact()["numFilesRemoved"] == 2
    assert_same(ours.to_pyarrow_table(), delta_spark.read(path))
    assert ours.count() == 2500
    verify(path)


@pytest.mark.parametrize("partitions", [[], ["p"]], ids=["plain", "partitioned"])
def test_deltalake_and_we_read_each_others(tmp_table: Callable[[], str], partitions: list[str]) -> None:
    path = tmp_table()
    for first in range(0, 1500, 500):
        write_deltalake(path, numbers(first), mode="append", partition_by=partitions or None)
    ours, columns = DeltaTable(path), ["id", "name", "p"]
    ours.optimize.compact()
    ours.optimize.z_order(["name", "id"], target_size=3_000)
    theirs = deltalake.DeltaTable(path)
    assert_same(pa.table(theirs.to_pyarrow_table()).select(columns), ours.to_pyarrow_table())
    theirs.optimize.compact()
    theirs.optimize.z_order(["id"])
    ours.update_incremental()
    assert_same(ours.to_pyarrow_table(), pa.table(theirs.to_pyarrow_table()).select(columns))
    assert ours.count() == 1500
