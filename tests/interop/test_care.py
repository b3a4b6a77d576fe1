"""What VACUUM, RESTORE and their kin leave is what delta-spark and deltalake leave, and what those read."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from deltaplane import DeltaTable, write_deltalake
from interop.delta_spark import DeltaSpark
from interop.same import assert_same

ODD = ["plain", "a b", "a/b", "a%b", "_x", ".x", None]


def data_files(root: Path) -> set[str]:
    found = (p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file())
    return {name for name in found if not name.startswith("_delta_log/") and not Path(name).name.startswith(".")}


def with_garbage(root: Path, *, vectors: bool) -> None:
    """A table with removed files, vectors, change files and files that no commit names, all of them old."""
    properties = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": str(vectors).lower()}
    for n in range(2):
        rows = pa.table({"x": range(n * 7, n * 7 + 7), "_p": ODD})
        write_deltalake(root, rows, mode="append", partition_by=["_p"], configuration=properties)
    DeltaTable(root).delete("x % 3 = 0")
    DeltaTable(root).update({"x": "x + 100"}, predicate="x % 4 = 1")
    DeltaTable(root).purge()
    DeltaTable(root).delete("x % 5 = 0")
    for name in ("lost.parquet", "_p=plain/lost.parquet", "_p=new/lost.parquet", "_tmp/x", "dir/_y/z"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"lost")
    then = time.time() - 400 * 3600
    for name in data_files(root):
        os.utime(root / name, (then, then))


@pytest.mark.parametrize("vectors", [False, True])
def test_the_same_files_go(delta_spark: DeltaSpark, tmp_path: Path, vectors: bool) -> None:
    # P044, P125, P200
    with_garbage(tmp_path / "ours", vectors=vectors)
    copies = [tmp_path / name for name in ("spark", "rs", "spark-lite", "ours-lite")]
    for copy in copies:
        shutil.copytree(tmp_path / "ours", copy)
    expected = DeltaTable(tmp_path / "ours").to_pyarrow_table()
    delta_spark.execute("SET spark.databricks.delta.retentionDurationCheck.enabled = false")
    try:
        delta_spark.execute(f"VACUUM delta.`{copies[0]}` RETAIN 0 HOURS")
        delta_spark.execute(f"VACUUM delta.`{copies[2]}` LITE RETAIN 0 HOURS")
    finally:
        delta_spark.execute("RESET spark.databricks.delta.retentionDurationCheck.enabled")
    DeltaTable(tmp_path / "ours").vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    DeltaTable(copies[3]).vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert data_files(tmp_path / "ours") == data_files(copies[0])
    assert data_files(copies[3]) == data_files(copies[2])
    if not vectors:
        deltalake.DeltaTable(copies[1]).vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
        # deltalake knows hidden names at the root only.
        assert data_files(tmp_path / "ours") - {"dir/_y/z"} == data_files(copies[1])
    for vacuumed in (tmp_path / "ours", copies[3]):
        assert_same(delta_spark.read(str(vacuumed)), expected)
        said = delta_spark.sql(f"DESCRIBE HISTORY delta.`{vacuumed}` LIMIT 2")["operation"].to_pylist()
        assert said == ["VACUUM END", "VACUUM START"]
