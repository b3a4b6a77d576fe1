"""Statements that maintain a table's files and versions have the same results as the API."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import InvalidArgumentError
from deltaplane.statements import sql


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    for x in range(3):
        write_deltalake(tmp_path, pa.table({"x": [x]}), mode="overwrite")
    return DeltaTable(tmp_path)


def run(text: str, table: DeltaTable, **more: Any) -> list[dict[str, Any]]:
    return sql(text, tables={"t": table, **more}).to_pylist()


def test_vacuum(table: DeltaTable) -> None:
    root = Path(table.location)
    dead = sorted(p.name for p in root.glob("*.parquet") if p.name not in table.files())
    (root / "lost.parquet").write_bytes(b"x")
    long_ago = time.time() - 30 * 24 * 3600
    for path in root.glob("*.parquet"):
        os.utime(path, (long_ago, long_ago))
    assert run("VACUUM t", table) == [{"path": table.table_uri}]
    assert not (root / "lost.parquet").exists()
    table.alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 0 hours"})
    rows = run("VACUUM t LITE RETAIN 0 HOURS DRY RUN", table)
    assert sorted(row["path"] for row in rows) == [f"{table.table_uri}/{name}" for name in dead]
    with pytest.raises(InvalidArgumentError, match="LITE"):
        run("VACUUM t LITE USING INVENTORY t", table)
    inventory = pa.table({"path": dead[:1], "length": [1], "isDir": [False], "modificationTime": [0]})
    assert run("VACUUM t USING INVENTORY i DRY RUN", table, i=inventory) == [{"path": f"{table.table_uri}/{dead[0]}"}]
    query = "VACUUM t RETAIN 0 HOURS USING INVENTORY (SELECT * FROM i)"
    assert run(query, table, i=inventory) == [{"path": table.table_uri}]
    assert sorted(p.name for p in root.glob("*.parquet")) == sorted([dead[1], *table.files()])


def test_restore(table: DeltaTable) -> None:
    sizes = [size for v in (0, 2) for size in DeltaTable(table.location, v).get_add_actions()["size_bytes"].to_pylist()]
    assert run("RESTORE TABLE t TO VERSION AS OF 0", table) == [
        {
            "table_size_after_restore": sizes[0],
            "num_of_files_after_restore": 1,
            "num_removed_files": 1,
            "num_restored_files": 1,
            "removed_files_size": sizes[1],
            "restored_files_size": sizes[0],
        }
    ]
    assert table.to_pyarrow_table()["x"].to_pylist() == [0]
    # An exact timestamp, since the next commit may be a millisecond later.
    moment = pa.scalar(table.history()[2]["timestamp"], pa.timestamp("ms", "UTC")).as_py()
    assert run(f"RESTORE t TO TIMESTAMP AS OF '{moment.isoformat()}'", table)[0]["num_restored_files"] == 1
    assert table.to_pyarrow_table()["x"].to_pylist() == [1]
