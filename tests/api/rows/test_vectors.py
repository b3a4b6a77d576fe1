"""`DeltaTable.deletion_vectors`: the masks of rows, as deltalake shows them."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pyarrow as pa

from deltaplane import DeltaTable, write_deltalake


def test_masks_are_those_of_deltalake(tmp_path: Path) -> None:
    # P120, P124
    rows = pa.table({"id": range(9), "p": ["a b"] * 6 + ["c"] * 3})
    on = {"delta.enableDeletionVectors": "true"}
    write_deltalake(tmp_path / "t:1", rows, partition_by=["p"], configuration=on)
    table = DeltaTable(tmp_path / "t:1")
    table.delete("id in (1, 4)")
    ours = table.deletion_vectors().read_all()
    theirs = pa.table(deltalake.DeltaTable(str(tmp_path / "t:1")).deletion_vectors())
    assert ours.schema.names == theirs.schema.names
    assert ours.to_pylist() == theirs.to_pylist()
    assert ours["selection_vector"].to_pylist() == [[True, False, True, True, False, True]]
    table.delete()
    assert table.deletion_vectors().read_all().num_rows == 0
