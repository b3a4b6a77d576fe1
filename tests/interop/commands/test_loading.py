"""delta-spark and deltalake read and write tables after COPY INTO, after replaced rows, and after
CREATE OR REPLACE."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaplane import DeltaTable, copy_into, write_deltalake
from deltaplane.exceptions import ConstraintViolationError
from interop.delta_spark import DeltaSpark
from interop.same import assert_same
from interop.verifier import verify

DATA = pa.table({"k": range(20), "n": [i % 5 for i in range(20)], "p": ["ab"[i % 2] for i in range(20)]})
VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}


def put(folder: Path, name: str, first: int) -> None:
    folder.mkdir(exist_ok=True)
    pq.write_table(DATA.slice(first, 2), folder / name)


def test_delta_spark_keeps_the_memory_of_loads(
    delta_spark: DeltaSpark, tmp_table: Callable[[], str], tmp_path: Path
) -> None:
    # P002, P075, P076
    path, folder = tmp_table(), tmp_path / "in"
    write_deltalake(path, DATA.slice(0, 0), configuration={"delta.checkpointInterval": "2"})
    for number in range(4):
        put(folder, f"{number}.parquet", 2 * number)
        assert copy_into(path, folder, "parquet").num_loaded_files == 1
    assert_same(DeltaTable(path).to_pyarrow_table(), delta_spark.read(path))
    # Two of delta-spark's commits trigger a checkpoint of its own.
    for _ in range(3):
        delta_spark.sql(f"UPDATE delta.`{path}` SET n = n + 1 WHERE k = 3")
    put(folder, "more.parquet", 10)
    done = copy_into(path, folder, "parquet")
    assert (done.num_loaded_files, done.num_skipped_files) == (1, 4)
    verify(path)
    other = deltalake.DeltaTable(path)
    other.delete("k = 0")
    other.create_checkpoint()
    assert copy_into(path, folder, "parquet").num_skipped_files == 5
    assert_same(DeltaTable(path).to_pyarrow_table(), delta_spark.read(path))


@pytest.mark.parametrize("properties", [FEED, FEED | VECTORS], ids=["copied", "vectors"])
def test_delta_spark_reads_what_replacing_leaves(
    delta_spark: DeltaSpark, tmp_table: Callable[[], str], properties: dict[str, str]
) -> None:
    # P122, P130
    path = tmp_table()
    write_deltalake(path, DATA, partition_by=["p"], configuration=properties)
    table = DeltaTable(path)
    new = pa.table({"k": [3, 8, 50], "n": [30, 1, 50], "p": ["b", "a", "c"]})
    on = {"replace_on": "t.k = s.k AND t.n < s.n", "source_alias": "s", "target_alias": "t"}
    write_deltalake(table, new, mode="overwrite", **on)
    assert_same(table.to_pyarrow_table(), delta_spark.read(path))
    assert table.count() == 22
    changes = delta_spark.sql(f"SELECT * FROM table_changes_by_path('{path}', 0, {table.version()})")
    assert_same(pa.table(table.load_cdf(0)), changes)
    verify(path)


def test_delta_spark_reads_a_replaced_table(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    # P024, P093, P103, P110
    path = tmp_table()
    write_deltalake(path, DATA, configuration={"owner": "a"})
    properties = {**VECTORS, "delta.columnMapping.mode": "name", "delta.constraints.small": "n < 100"}
    table = DeltaTable.create(path, DATA.schema, mode="overwrite", configuration=properties, description="new")
    write_deltalake(table, DATA, mode="append")
    table.delete("k % 3 = 0")
    assert_same(table.to_pyarrow_table(), delta_spark.read(path))
    (said,) = delta_spark.sql(f"DESCRIBE DETAIL delta.`{path}`").to_pylist()
    assert said["description"] == "new"
    assert {"columnMapping", "deletionVectors", "checkConstraints"} <= set(said["tableFeatures"])
    delta_spark.sql(f"INSERT INTO delta.`{path}` VALUES (100, 1, 'z')")
    assert_same(DeltaTable(path).to_pyarrow_table(), delta_spark.read(path))
    # The previous version has its own columns and properties.
    assert DeltaTable(path, version=0).count() == 20
    with pytest.raises(ConstraintViolationError):
        write_deltalake(path, pa.table({"k": [1], "n": [500], "p": ["a"]}), mode="append")
    verify(path)
