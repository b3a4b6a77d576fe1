"""VACUUM, RESTORE and the like have the same results as in delta-spark and deltalake, and those
read the tables."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from deltaplane import DeltaTable, convert_to_deltalake, write_deltalake
from interop.delta_spark import DeltaSpark
from interop.same import assert_same

ODD = ["plain", "a b", "a/b", "a%b", "_x", ".x", None]


def data_files(root: Path) -> set[str]:
    names = (p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file())
    return {name for name in names if not name.startswith("_delta_log/") and not Path(name).name.startswith(".")}


def with_garbage(root: Path, *, vectors: bool) -> None:
    """A table with removed files, vectors, change files and files that no commit names, all of them
    old."""
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
        # deltalake recognises hidden names only in the root.
        assert data_files(tmp_path / "ours") - {"dir/_y/z"} == data_files(copies[1])
    for vacuumed in (tmp_path / "ours", copies[3]):
        assert_same(delta_spark.read(str(vacuumed)), expected)
        said = delta_spark.sql(f"DESCRIBE HISTORY delta.`{vacuumed}` LIMIT 2")["operation"].to_pylist()
        assert said == ["VACUUM END", "VACUUM START"]


def test_what_restore_leaves(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    # P200: with vectors, identity values and another schema in between; then delta-spark continues,
    # and restores, too
    path = str(tmp_path / "t")
    table = f"delta.`{path}`"
    delta_spark.execute(
        f"CREATE TABLE {table} (id BIGINT GENERATED ALWAYS AS IDENTITY, x INT) USING delta "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.enableRowTracking' = 'true')"
    )
    delta_spark.execute(f"INSERT INTO {table} (x) SELECT /*+ COALESCE(1) */ int(id) FROM range(100)")
    expected = delta_spark.read(path)
    delta_spark.execute(f"DELETE FROM {table} WHERE x % 3 = 0")
    delta_spark.execute(f"ALTER TABLE {table} ADD COLUMN more STRING")
    ours = DeltaTable(path)
    metrics = ours.restore(1)
    assert (metrics["numRestoredFiles"], metrics["numRemovedFiles"]) == (1, 1)
    assert_same(delta_spark.read(path), expected)
    assert_same(ours.to_pyarrow_table(), expected)
    delta_spark.execute(f"INSERT INTO {table} (x) VALUES (1000)")
    highest = max(expected["id"].to_pylist())
    assert delta_spark.counts(path, [f"x = 1000 AND id <= {highest}", "x = 1000"]) == [0, 1]
    # delta-spark's own restore has the same metrics.
    theirs = delta_spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF 2").to_pylist()[0]
    DeltaTable(path).restore(ours.version())
    again = DeltaTable(path).restore(2)
    names = {"num_restored_files": "numRestoredFiles", "num_of_files_after_restore": "numOfFilesAfterRestore"}
    names |= {"table_size_after_restore": "tableSizeAfterRestore", "restored_files_size": "restoredFilesSize"}
    assert {n: theirs[n] for n in names if "restored" not in n} == {
        n: again[m] for n, m in names.items() if "restored" not in n
    }
    assert_same(delta_spark.read(path), DeltaTable(path).to_pyarrow_table())


def test_clones_and_converted_directories(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    # P021, P022: delta-spark reads absolute paths of files and of vectors, and deltaplane reads its
    # clones
    source = tmp_path / "so urce"
    with_garbage(source, vectors=True)
    expected = DeltaTable(source).to_pyarrow_table()
    for shallow in (True, False):
        clone = tmp_path / f"clone {shallow}"
        DeltaTable(source).clone(clone, shallow)
        assert_same(delta_spark.read(str(clone)), expected)
        delta_spark.execute(f"DELETE FROM delta.`{clone}` WHERE x > 100")
        ours = DeltaTable(clone, storage_options={"allow_external_files": str(source)})
        assert_same(delta_spark.read(str(clone)), ours.to_pyarrow_table())
    theirs = tmp_path / "theirs"
    delta_spark.execute(f"CREATE TABLE delta.`{theirs}` SHALLOW CLONE delta.`{source}`")
    opened = DeltaTable(theirs, storage_options={"allow_external_files": str(source)})
    assert_same(opened.to_pyarrow_table(), expected)
    assert opened.clone(tmp_path / "again")["sourceNumOfFiles"] == DeltaTable(source).get_add_actions().num_rows
    files = tmp_path / "files"
    delta_spark.write(
        str(tmp_path / "delta"), pa.table({"x": range(9), "p": ["a b", "a/b", None] * 3}), partition_by=["p"]
    )
    shutil.copytree(tmp_path / "delta", files, ignore=shutil.ignore_patterns("_delta_log"))
    convert_to_deltalake(files, partition_by=pa.schema({"p": pa.string()}), partition_strategy="hive")
    converted = DeltaTable(files).to_pyarrow_table()
    assert_same(converted, delta_spark.read(str(tmp_path / "delta")))
    assert_same(delta_spark.read(str(files)), converted)
    said = delta_spark.sql(f"DESCRIBE HISTORY delta.`{files}`")["operation"].to_pylist()
    assert said == ["CONVERT"]


def test_manifests_are_those_of_delta_spark(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    rows = pa.table({"x": range(8), "p": ["a b", "a/b", "ü", None] * 2})
    write_deltalake(tmp_path / "ours", rows, partition_by=["p"])

    def manifests() -> dict[str, list[str]]:
        root = tmp_path / "ours/_symlink_format_manifest"
        files = root.rglob("manifest")
        # delta-spark writes `file:/…`
        return {
            m.parent.relative_to(root).as_posix(): sorted(
                line.removeprefix("file:").lstrip("/") for line in m.read_text().splitlines()
            )
            for m in files
        }

    DeltaTable(tmp_path / "ours").generate()
    own = manifests()
    shutil.rmtree(tmp_path / "ours/_symlink_format_manifest")
    delta_spark.execute(f"GENERATE symlink_format_manifest FOR TABLE delta.`{tmp_path}/ours`")
    assert own == manifests()


def test_delta_spark_leaves_indexes_of_keys(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    # P200
    for ids in ([1, 9], [2, 8]):
        write_deltalake(tmp_path, pa.table({"id": ids}), mode="append")
    table = DeltaTable(tmp_path)
    table.index.create(["id"])
    indexed = sorted((tmp_path / "_deltaplane_index").iterdir())
    delta_spark.execute(f"DELETE FROM delta.`{tmp_path}` WHERE id = 2")
    delta_spark.execute(f"INSERT INTO delta.`{tmp_path}` VALUES (3), (7)")
    delta_spark.execute("SET spark.databricks.delta.retentionDurationCheck.enabled = false")
    try:
        delta_spark.execute(f"VACUUM delta.`{tmp_path}` RETAIN 0 HOURS")
    finally:
        delta_spark.execute("RESET spark.databricks.delta.retentionDurationCheck.enabled")
    assert sorted((tmp_path / "_deltaplane_index").iterdir()) == indexed
    table.update_incremental()
    assert [table.scan(predicate=f"id = {i}").to_arrow().num_rows for i in (1, 2, 3, 7, 8, 9)] == [1, 0, 1, 1, 1, 1]
    assert table.explain("id = 5").skipped_by_index == 1
    assert [s.covered_files for s in table.index.build()] == [len(table.files())]
    assert_same(delta_spark.read(str(tmp_path)), table.to_pyarrow_table())
