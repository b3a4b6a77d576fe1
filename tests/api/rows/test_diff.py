"""The difference of two versions is what the commits between them did to files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, exceptions, write_deltalake


def test_files_and_vectors(tmp_path: Path) -> None:
    on = {"delta.enableDeletionVectors": "true"}
    for first in (0, 10):
        write_deltalake(tmp_path, pa.table({"x": range(first, first + 10)}), mode="append", configuration=on)
    table = DeltaTable(tmp_path)
    first, second = (
        DeltaTable(tmp_path, 0).files()[0],
        (set(table.files()) - set(DeltaTable(tmp_path, 0).files())).pop(),
    )
    table.delete("x IN (1, 2)")
    assert table.diff(2).num_rows == 0

    def differences(earlier: int, other: int | None = None) -> list[tuple[str, str, int, int]]:
        rows = table.diff(earlier, other).to_pylist()
        return [(r["change"], r["path"], r["num_records"], r["deleted_rows"]) for r in rows]

    assert differences(0, 1) == [("added", second, 10, 0)]
    assert differences(1, 0) == [("removed", second, 10, 0)]
    assert differences(1) == [("removed", first, 10, 0), ("added", first, 10, 2)]
    with pytest.raises(exceptions.VersionNotFoundError):
        table.diff(17)


def test_it_undoes_itself(tmp_path: Path) -> None:
    for x in range(4):
        write_deltalake(tmp_path, pa.table({"x": [x]}), mode="append" if x % 2 else "overwrite")
    table = DeltaTable(tmp_path)
    for version in range(4):
        for other in range(4):
            files = set(DeltaTable(tmp_path, version).files())
            for row in table.diff(version, other).to_pylist():
                (files.add if row["change"] == "added" else files.remove)(row["path"])
            assert files == set(DeltaTable(tmp_path, other).files())
