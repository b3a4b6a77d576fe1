"""GENERATE: engines that read the files of the manifests see the table's rows."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from deltaplane import DeltaTable, exceptions, write_deltalake
from deltaplane.statements import sql

FOLDER = "_symlink_format_manifest"


def listed(root: Path) -> dict[str, list[str]]:
    manifests = (root / FOLDER).rglob("manifest")
    return {m.parent.relative_to(root / FOLDER).as_posix(): m.read_text().splitlines() for m in manifests}


def read(addresses: list[str]) -> list[int]:
    assert all(address.startswith("file:///") for address in addresses)
    paths = [address.removeprefix("file://") for address in addresses]
    return sorted(row[0] for row in duckdb.read_parquet(paths, hive_partitioning=False).project("x").fetchall())


def test_one_list_of_a_table_without_partitions(tmp_path: Path) -> None:
    root = tmp_path / "a b%c"
    for x in range(3):
        write_deltalake(root, pa.table({"x": [x]}), mode="append")
    table = DeltaTable(root)
    table.delete("x = 1")
    table.generate()
    assert {name: read(names) for name, names in listed(root).items()} == {".": [0, 2]}


def test_a_list_for_each_partition_and_none_of_those_that_are_gone(tmp_path: Path) -> None:
    values = ["a b", "a/b", "ü", None]
    write_deltalake(tmp_path, pa.table({"x": range(4), "p": values}), partition_by=["p"])
    table = DeltaTable(tmp_path)
    would = table.generate(dry_run=True)
    assert listed(tmp_path) == {}
    assert table.generate() == would
    assert sorted(would) == sorted(p.relative_to(tmp_path).as_posix() for p in (tmp_path / FOLDER).rglob("manifest"))
    directories = {f"p={part}": [x] for x, part in enumerate(["a b", "a%2Fb", "ü", "__HIVE_DEFAULT_PARTITION__"])}
    assert {name: read(names) for name, names in listed(tmp_path).items()} == directories
    table.delete("p = 'ü'")
    assert sql("GENERATE symlink_format_manifest FOR TABLE t", tables={"t": table}).to_pylist() == [
        {"operation": "GENERATE", "version": 1}
    ]
    del directories["p=ü"]
    assert {name: read(names) for name, names in listed(tmp_path).items()} == directories
    # VACUUM doesn't delete manifests.
    assert not [name for name in table.vacuum(0, enforce_retention_duration=False, full=True) if FOLDER in name]


def test_what_such_engines_would_read_wrongly_is_refused(tmp_path: Path) -> None:
    on = {"delta.enableDeletionVectors": "true"}
    write_deltalake(tmp_path / "v", pa.table({"x": [1, 2]}), configuration=on)
    table = DeltaTable(tmp_path / "v")
    table.delete("x = 1")
    with pytest.raises(exceptions.UnsupportedFeatureError, match="deletion vectors"):
        table.generate()
    table.purge()
    table.generate()
    assert read(listed(tmp_path / "v")["."]) == [2]
    write_deltalake(tmp_path / "m", pa.table({"x": [1]}), configuration={"delta.columnMapping.mode": "name"})
    with pytest.raises(exceptions.UnsupportedFeatureError, match="column mapping"):
        DeltaTable(tmp_path / "m").generate()
    write_deltalake(tmp_path / "e", pa.table({"x": [1]}))
    table = DeltaTable(tmp_path / "e")
    table.delete()
    table.generate()
    assert listed(tmp_path / "e") == {".": []}
