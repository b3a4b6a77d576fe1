"""CLONE: a clone has the source's rows and then changes independently; cloning again copies only
new files."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaplane import DeltaTable, exceptions, write_deltalake
from deltaplane.statements import sql

PROPERTIES = {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true", "k": "v"}


@pytest.fixture
def source(tmp_path: Path) -> DeltaTable:
    for first in (0, 10):
        rows = pa.table({"x": range(first, first + 10), "p": ["a b", "c%d"] * 5})
        write_deltalake(tmp_path / "so urce", rows, mode="append", partition_by=["p"], configuration=PROPERTIES)
    table = DeltaTable(tmp_path / "so urce")
    table.delete("x % 7 = 3")
    return table


def rows(table: DeltaTable) -> list[dict[str, Any]]:
    return sorted(table.scan(["x", "p", "_row_id"]).to_arrow().to_pylist(), key=lambda row: row["x"])


def opened(clone: Path, source: DeltaTable) -> DeltaTable:
    return DeltaTable(clone, storage_options={"allow_external_files": source.location})


@pytest.mark.parametrize("shallow", [False, True])
def test_a_clone_has_the_sources_rows_and_goes_its_own_way(source: DeltaTable, tmp_path: Path, shallow: bool) -> None:
    expected = rows(source)
    metrics = source.clone(tmp_path / "clone", shallow, properties={"mine": "1"})
    data = [p for p in (tmp_path / "clone").rglob("*.parquet") if "_delta_log" not in p.parts]
    assert (metrics["sourceNumOfFiles"], len(data)) == (4, 0 if shallow else 4)
    assert metrics["numCopiedFiles"] == (0 if shallow else 4 + len(list(Path(source.location).glob("*.bin"))))
    clone = opened(tmp_path / "clone", source)
    assert rows(clone) == expected
    assert clone.metadata().id != source.metadata().id
    assert clone.metadata().configuration == {**source.metadata().configuration, "mine": "1"}
    assert clone.protocol() == source.protocol()
    (entry,) = clone.history()
    assert (entry["operation"], entry["operationParameters"]["sourceVersion"]) == ("CLONE", 2)
    # Later rows get ids of their own.
    write_deltalake(clone, pa.table({"x": [100], "p": ["new"]}), mode="append")
    clone.delete("x < 5")
    ids = [row["_row_id"] for row in rows(clone)]
    assert len(set(ids)) == len(ids)
    assert rows(DeltaTable(source.location)) == expected
    # Deleting the clone's own files never deletes the source's.
    clone.vacuum(0, False, False, full=True)
    assert rows(DeltaTable(source.location)) == expected


def test_a_shallow_clone_needs_leave_to_read_the_source(source: DeltaTable, tmp_path: Path) -> None:
    # P022
    expected = rows(source)
    made = "import sys; from deltaplane import DeltaTable; DeltaTable(sys.argv[1]).clone(sys.argv[2])"
    subprocess.run([sys.executable, "-c", made, source.location, tmp_path / "clone"], check=True)
    with pytest.raises(exceptions.InvalidArgumentError, match="allow_external_files"):
        DeltaTable(tmp_path / "clone").to_pyarrow_table()
    assert opened(tmp_path / "clone", source).check(deep=True) == []
    # Cloning a clone trusts its source, and the source of that source.
    opened(tmp_path / "clone", source).clone(tmp_path / "own")
    assert rows(DeltaTable(tmp_path / "own")) == expected
    with pytest.raises(exceptions.InvalidArgumentError, match="allow_external_files"):
        DeltaTable(tmp_path / "clone").to_pyarrow_table()


def test_a_deep_clone_stands_alone(source: DeltaTable, tmp_path: Path) -> None:
    expected = rows(source)
    source.clone(tmp_path / "clone", shallow=False)
    shutil.rmtree(source.location)
    assert rows(DeltaTable(tmp_path / "clone")) == expected
    assert DeltaTable(tmp_path / "clone").check(deep=True) == []


@pytest.mark.parametrize("shallow", [False, True])
def test_made_again_it_takes_only_what_is_new(source: DeltaTable, tmp_path: Path, shallow: bool) -> None:
    source.clone(tmp_path / "clone", shallow)
    with pytest.raises(exceptions.TableAlreadyExistsError):
        source.clone(tmp_path / "clone", shallow)
    assert source.clone(tmp_path / "clone", shallow, replace=True)["numCopiedFiles"] == 0
    assert opened(tmp_path / "clone", source).version() == 0
    write_deltalake(source, pa.table({"x": [50], "p": ["a b"]}), mode="append")
    source.delete("p = 'c%d'")
    metrics = source.clone(tmp_path / "clone", shallow, replace=True)
    assert (metrics["numCopiedFiles"], metrics["numRemovedFiles"]) == (0 if shallow else 1, 2)
    assert rows(opened(tmp_path / "clone", source)) == rows(source)
    write_deltalake(opened(tmp_path / "clone", source), pa.table({"x": [51], "p": ["a b"]}), mode="append")
    source.clone(tmp_path / "clone", shallow, replace=True)
    assert rows(opened(tmp_path / "clone", source)) == rows(source)


def test_an_older_version_and_a_clone_of_a_clone(source: DeltaTable, tmp_path: Path) -> None:
    old = DeltaTable(source.location, 1)
    old.clone(tmp_path / "shallow")
    assert opened(tmp_path / "shallow", source).count() == 20
    opened(tmp_path / "shallow", source).clone(tmp_path / "deep", shallow=False)
    assert rows(DeltaTable(tmp_path / "deep")) == rows(old)
    source.clone(tmp_path / "marked")
    with pytest.raises(exceptions.UnsupportedFeatureError, match="purge"):
        opened(tmp_path / "marked", source).clone(tmp_path / "other", shallow=False)
    with pytest.raises(exceptions.InvalidArgumentError, match="onto itself"):
        source.clone(source.location, replace=True)


def test_a_vacuumed_source_is_named(source: DeltaTable, tmp_path: Path) -> None:
    gone = source.files()[0]
    (Path(source.location) / gone).unlink()
    with pytest.raises(exceptions.FileMissingError, match="vacuumed"):
        source.clone(tmp_path / "clone", shallow=False)
    assert not (tmp_path / "clone/_delta_log").exists()


def test_the_statements(source: DeltaTable, tmp_path: Path) -> None:
    target = f"delta.`{tmp_path}/clone`"
    (done,) = sql(f"CREATE TABLE {target} DEEP CLONE t VERSION AS OF 0", tables={"t": source}).to_pylist()
    assert (done["source_num_of_files"], done["num_copied_files"]) == (2, 2)
    text = f"CREATE OR REPLACE TABLE {target} DEEP CLONE t TBLPROPERTIES ('a' = 'b')"
    (done,) = sql(text, tables={"t": source}).to_pylist()
    assert rows(DeltaTable(tmp_path / "clone")) == rows(source)
    assert DeltaTable(tmp_path / "clone").metadata().configuration["a"] == "b"
    (done,) = sql(f"CREATE TABLE IF NOT EXISTS {target} SHALLOW CLONE t", tables={"t": source}).to_pylist()
    assert done["num_copied_files"] is None
    with pytest.raises(exceptions.TableNotFoundError):
        sql(f"REPLACE TABLE delta.`{tmp_path}/none` SHALLOW CLONE t", tables={"t": source})


@pytest.mark.parametrize("shallow", [False, True])
def test_a_dry_run_tells_what_the_clone_would_take(source: DeltaTable, tmp_path: Path, shallow: bool) -> None:
    would = source.clone(tmp_path / "clone", shallow, dry_run=True)
    assert not (tmp_path / "clone").exists()
    done = source.clone(tmp_path / "clone", shallow)
    files = {"copiedFilesSize"}
    assert {k: v for k, v in would.items() if k not in files} == {k: v for k, v in done.items() if k not in files}
    # Only the table's vectors of a shared vector file are counted.
    assert 0 <= done["copiedFilesSize"] - would["copiedFilesSize"] < 1_000
    with pytest.raises(exceptions.TableAlreadyExistsError):
        source.clone(tmp_path / "clone", shallow, dry_run=True)
    source.delete("x = 1")
    again = source.clone(tmp_path / "clone", shallow, replace=True, dry_run=True)
    assert again["numRemovedFiles"] == 1
    assert opened(tmp_path / "clone", source).version() == 0
    text = f"CREATE OR REPLACE TABLE delta.`{tmp_path}/clone` {'SHALLOW' if shallow else 'DEEP'} CLONE t DRY RUN"
    (preview,) = sql(text, tables={"t": source}).to_pylist()
    assert (preview["num_removed_files"], opened(tmp_path / "clone", source).version()) == (1, 0)


# --- Parquet files ----------------------------------------------------------------------------------------------------


def test_parquet_files_are_cloned_where_they_are(tmp_path: Path) -> None:
    source, clone = tmp_path / "a täble %20", f"delta.`{tmp_path}/clone`"
    source.mkdir()
    pq.write_table(pa.table({"x": [1, 2]}), source / "one.parquet")
    pq.write_table(pa.table({"x": [3]}), source / "two.parquet")
    before = {path: path.read_bytes() for path in source.rglob("*")}
    source_clause = f"SHALLOW CLONE parquet.`{source}`"
    (preview,) = sql(f"CREATE TABLE {clone} {source_clause} TBLPROPERTIES ('a' = 'b') DRY RUN").to_pylist()
    assert not (tmp_path / "clone").exists()
    (done,) = sql(f"CREATE TABLE {clone} {source_clause} TBLPROPERTIES ('a' = 'b')").to_pylist()
    size = sum(len(data) for data in before.values())
    assert preview == done
    assert done == {**dict.fromkeys(done, 0), "source_table_size": size, "source_num_of_files": 2}
    table = DeltaTable(tmp_path / "clone")
    assert (table.metadata().configuration, sorted(table.to_pyarrow_table()["x"].to_pylist())) == (
        {"a": "b"},
        [1, 2, 3],
    )
    (entry,) = table.history()
    assert entry["operation"] == "CLONE"
    parameters = entry["operationParameters"]
    assert (parameters["source"], int(parameters["sourceVersion"])) == (f"parquet.`file:{source}`", -1)
    table.delete("x = 1")
    write_deltalake(tmp_path / "clone", pa.table({"x": [9]}), mode="append")
    assert sorted(DeltaTable(tmp_path / "clone").to_pyarrow_table()["x"].to_pylist()) == [2, 3, 9]
    with pytest.raises(exceptions.TableAlreadyExistsError):
        sql(f"CREATE TABLE {clone} {source_clause}")
    sql(f"CREATE OR REPLACE TABLE {clone} {source_clause}")
    assert sorted(DeltaTable(tmp_path / "clone").to_pyarrow_table()["x"].to_pylist()) == [1, 2, 3]
    assert {path: path.read_bytes() for path in source.rglob("*")} == before


def test_what_no_clone_of_parquet_files_is(tmp_path: Path) -> None:
    (tmp_path / "s" / "p=1").mkdir(parents=True)
    clone, source_name = f"CREATE TABLE delta.`{tmp_path}/t`", f"parquet.`{tmp_path}/s`"
    with pytest.raises(exceptions.InvalidArgumentError, match="no Parquet files"):
        sql(f"{clone} SHALLOW CLONE {source_name}")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "s" / "p=1" / "f.parquet")
    with pytest.raises(exceptions.InvalidArgumentError, match="1 directories deep"):
        sql(f"{clone} SHALLOW CLONE {source_name}")
    with pytest.raises(exceptions.UnsupportedFeatureError, match="only a SHALLOW CLONE"):
        sql(f"{clone} DEEP CLONE {source_name}")
    with pytest.raises(exceptions.UnsupportedFeatureError, match="has no versions"):
        sql(f"{clone} SHALLOW CLONE {source_name} VERSION AS OF 0")
    (tmp_path / "u").mkdir()
    pq.write_table(pa.table({"x": [1]}), tmp_path / "u" / "f.parquet")
    with pytest.raises(exceptions.InvalidArgumentError, match="cloned onto itself"):
        sql(f"CREATE TABLE delta.`{tmp_path}/u` SHALLOW CLONE parquet.`{tmp_path}/u`")
