"""Scans by Spark leave out the files that an index of keys excludes, and show the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane import spark as dp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_scans_open_the_files_of_the_key(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    root = tmp_path / "keys"
    properties = {} if mode == "none" else {"delta.columnMapping.mode": mode}
    for ids in ([1, 60, 100], [2, 70, 99], [3, 60, 98]):
        rows = pa.table({"id": ids, "name": [f"n{i}" for i in ids]})
        write_deltalake(root, rows, mode="append", configuration=properties)
    table = DeltaTable(root)
    table.index.create(["id"])
    table.index.create(["name"])
    for condition, ids, files in [
        ("id = 70", [70], 1),
        ("id IN (60, 5)", [60, 60], 2),
        ("id = 50", [], 0),
        ("name = 'n98'", [98], 1),
        ("id = 70 OR name = 'n3'", [3, 70], 2),
        ("id <=> 70 OR id IS NULL", [70], 3),
    ]:
        planned = set(table.files(condition))
        assert len(planned) == files
        gone = [root / name for name in set(table.files()) - planned]
        # Opening any of these would fail.
        for file in gone:
            file.rename(file.with_suffix(".away"))
        try:
            matches = dp.read(spark, str(root)).where(condition).collect()
        finally:
            for file in gone:
                file.with_suffix(".away").rename(file)
        assert sorted(row["id"] for row in matches) == ids, condition
