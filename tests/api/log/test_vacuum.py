"""VACUUM deletes exactly the unneeded files: by listing, log and inventory, on random tables."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import deltaplane
from deltaplane import CommitProperties, DeltaTable, exceptions, write_deltalake


def now(table: DeltaTable, dry_run: bool = False, **named: Any) -> list[str]:
    """A vacuum without retention, even for files removed in the last millisecond."""
    start = time.time()
    while time.time() - start < 0.003:
        pass
    return table.vacuum(0, dry_run, enforce_retention_duration=False, **named)


def data_files(root: Path) -> set[str]:
    names = (p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file())
    return {name for name in names if not name.startswith("_delta_log/")}


def age(root: Path, hours: float, below: str = "") -> None:
    """Sets the modification time of every data file whose path begins with `below` to `hours` hours
    ago."""
    then = time.time() - hours * 3600
    for name in data_files(root):
        if name.startswith(below):
            os.utime(root / name, (then, then))


def rows(table: DeltaTable) -> list[dict[str, Any]]:
    return sorted(table.to_pyarrow_table().to_pylist(), key=repr)


def replaced(root: Path, times: int = 3) -> DeltaTable:
    for x in range(times):
        write_deltalake(root, pa.table({"x": [x]}), mode="overwrite")
    return DeltaTable(root)


@pytest.mark.parametrize("full", [False, True])
def test_it_deletes_what_was_removed_and_tells_of_it(tmp_path: Path, full: bool) -> None:
    # P044, P200
    table = replaced(tmp_path)
    dead = data_files(tmp_path) - set(table.files())
    would = now(table, True, full=full)
    assert (set(would), table.version()) == (dead, 2)
    size = sum((tmp_path / name).stat().st_size for name in dead)
    assert set(now(table, full=full, commit_properties=CommitProperties({"who": "me"}))) == dead
    assert data_files(tmp_path) == set(table.files())
    end, start = table.history(2)
    assert (start["operation"], end["operation"], end["version"]) == ("VACUUM START", "VACUUM END", table.version())
    assert start["operationParameters"] == {
        "retentionCheckEnabled": False,
        "specifiedRetentionMillis": 0,
        "defaultRetentionMillis": 604800000,
    }
    assert start["operationMetrics"] == {"numFilesToDelete": "2", "sizeOfDataToDelete": str(size)}
    assert end["operationParameters"] == {"status": "COMPLETED"}
    assert end["operationMetrics"] == {"numDeletedFiles": "2", "numVacuumedDirectories": "1"}
    assert (start["who"], rows(table)) == ("me", [{"x": 2}])
    assert now(table, full=full) == []
    assert table.version() == 4


def test_a_retention_below_the_tables_is_refused(tmp_path: Path) -> None:
    # P200
    table = replaced(tmp_path)
    with pytest.raises(exceptions.InvalidArgumentError, match=r"167 hours is below the table's 168 .*TOO_SHORT"):
        table.vacuum(167)
    table.alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 3 hours"})
    assert table.vacuum(3) == []
    with pytest.raises(exceptions.InvalidArgumentError, match=r"2\.50 hours"):
        table.vacuum(2.5)
    for wrong in (-1, float("nan"), float("inf")):
        with pytest.raises(exceptions.InvalidArgumentError, match="0 hours or more"):
            table.vacuum(wrong, enforce_retention_duration=False)


def test_only_a_full_one_takes_files_that_no_commit_names_and_no_young_ones(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"x": [0], "y": [0]}), partition_by=["x"])
    for name in ("lost.parquet", "x=9/lost.parquet", ".hidden", "_tmp/a", "x=9/_tmp/a", "young.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    age(tmp_path, 200)
    os.utime(tmp_path / "young.parquet")
    table = DeltaTable(tmp_path)
    assert table.vacuum() == []
    assert set(table.vacuum(full=True)) == {"lost.parquet", "x=9/lost.parquet"}


def test_a_full_one_removes_directories_that_have_had_no_file(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"x": [0, 1], "y": [0, 1]}), partition_by=["x"])
    table = DeltaTable(tmp_path)
    table.delete("x = 0")
    now(table, full=True)
    for name in ("x=7/y=8", "_own/inner", "x=9", "linked"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "linked/link").symlink_to(tmp_path / "x=1")
    then = time.time() - 200 * 3600
    for name in ("x=0", "x=7/y=8", "x=7", "_own/inner", "_own", "linked", "x=1"):
        os.utime(tmp_path / name, (then, then))
    empty = {"x=0", "x=7/y=8", "x=7"}
    listed = deltaplane.sql(f"VACUUM delta.`{tmp_path}` DRY RUN")["path"].to_pylist()
    assert {path.removeprefix(f"{table.table_uri.rstrip('/')}/") for path in listed} == empty
    assert table.vacuum(full=True, dry_run=False) == []
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_dir()}
    assert left >= {"x=1", "x=9", "_own/inner", "linked"}
    assert not left & empty
    # A writer that knew a directory makes it again.
    write_deltalake(table, pa.table({"x": [0], "y": [5]}), mode="append")
    assert rows(table) == [{"x": 0, "y": 5}, {"x": 1, "y": 1}]


def test_live_files_stay_however_their_paths_are_written(tmp_path: Path) -> None:
    # P021: other writers store relative and absolute paths in various spellings
    table = replaced(tmp_path, 1)
    (name,) = table.files()
    commit = tmp_path / "_delta_log/00000000000000000000.json"
    original = commit.read_text()
    for spelling in (f"./{name}", f"{tmp_path}/{name}", f"file://{tmp_path}/{name}", name.replace("p", "%70")):
        commit.write_text(original.replace(name, spelling))
        assert now(DeltaTable(tmp_path), full=True) == []
    commit.write_text(original.replace(name, f"../{name}"))
    with pytest.raises(exceptions.CorruptLogError):
        now(DeltaTable(tmp_path), full=True)


def test_files_elsewhere_are_no_concern(tmp_path: Path) -> None:
    # P021, Q7: a shallow clone's log names the source's files
    source, clone = replaced(tmp_path / "source", 1), tmp_path / "clone"
    (name,) = source.files()
    (clone / "_delta_log").mkdir(parents=True)
    text = (tmp_path / "source/_delta_log/00000000000000000000.json").read_text()
    (clone / "_delta_log/00000000000000000000.json").write_text(text.replace(name, f"file://{tmp_path}/source/{name}"))
    (clone / "lost.parquet").write_bytes(b"x")
    assert now(DeltaTable(clone), full=True) == ["lost.parquet"]
    assert rows(source) == [{"x": 0}]


def test_it_judges_by_the_newest_version(tmp_path: Path) -> None:
    old = replaced(tmp_path, 1)
    write_deltalake(tmp_path, pa.table({"x": [7]}), mode="append")
    assert now(old, full=True) == []
    assert rows(DeltaTable(tmp_path)) == [{"x": 0}, {"x": 7}]


def test_unknown_features_are_refused(tmp_path: Path) -> None:
    # P150: an unknown writer feature, although the table can be read
    table = replaced(tmp_path, 2)
    protocol = '{"protocol":{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["frobnication"]}}'
    (tmp_path / "_delta_log/00000000000000000002.json").write_text(protocol)
    with pytest.raises(exceptions.UnsupportedFeatureError, match="frobnication"):
        now(table)


@pytest.mark.parametrize("as_arrow", [False, True])
def test_an_inventory_stands_in_for_the_listing(tmp_path: Path, as_arrow: bool) -> None:
    table = replaced(tmp_path, 2)
    for name in ("a.parquet", "b.parquet", "young.parquet"):
        (tmp_path / name).write_bytes(b"xyz")
    old, now = round((time.time() - 200 * 3600) * 1000), round(time.time() * 1000)
    live = table.files()[0]
    entries = [("a.parquet", old), (f"{tmp_path}/b.parquet", old), ("young.parquet", now), (live, old), ("/etc/x", old)]
    inventory: Any = [{"path": p, "length": 3, "isDir": False, "modificationTime": t} for p, t in entries]
    inventory.append({"path": "a", "length": 0, "isDir": True, "modificationTime": old})
    listing = pa.Table.from_pylist(inventory) if as_arrow else inventory
    assert table.vacuum(inventory=listing, dry_run=False) == ["a.parquet", "b.parquet"]
    assert table.vacuum(inventory=[]) == []
    with pytest.raises(exceptions.InvalidArgumentError, match="isDir, length lacks"):
        table.vacuum(inventory=[{"path": "a", "modificationTime": 1}])
    with pytest.raises(exceptions.InvalidArgumentError, match="whole numbers"):
        table.vacuum(inventory=[{**inventory[0], "length": "long"}])


def test_a_lite_one_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    table = replaced(tmp_path)
    now(table)
    note = (tmp_path / "_delta_log/_last_vacuum_info").read_text()
    assert note == '{"latestCommitVersionOutsideOfRetentionWindow":2}'
    write_deltalake(table, pa.table({"x": [9]}), mode="overwrite")
    assert len(now(DeltaTable(tmp_path))) == 1
    # Tombstones within a checkpoint are found, too.
    write_deltalake(tmp_path, pa.table({"x": [10]}), mode="overwrite")
    DeltaTable(tmp_path).create_checkpoint()
    assert len(now(DeltaTable(tmp_path))) == 1


def test_what_waits_to_expire_is_found_by_the_next_lite_one(tmp_path: Path) -> None:
    table = replaced(tmp_path, 2)
    files = now(table, keep_versions=[0])
    assert (files, table.version()) == ([], 1)
    assert len(now(table)) == 1


# --- on random tables ---

ODD = ["plain", "a b", "a/b", "a%b", "=", "_x", ".x", "ü", ""]
STEP = st.sampled_from(["append", "overwrite", "delete", "update", "checkpoint", "replace partition", "purge"])


def step(root: Path, name: str, n: int) -> None:
    data = pa.table({"x": [n * 10 + i for i in range(4)], "_p": [ODD[(n + i) % len(ODD)] for i in range(4)]})
    table = DeltaTable(root)
    match name:
        case "append" | "overwrite":
            write_deltalake(root, data, mode=name)
        case "replace partition":
            write_deltalake(root, data, mode="overwrite", partition_overwrite_mode="dynamic")
        case "delete":
            table.delete(f"x % 3 = {n % 3}")
        case "update":
            table.update({"x": "x + 1"}, predicate=f"x % 4 = {n % 4}")
        case "checkpoint":
            table.create_checkpoint()
        case "purge":
            table.purge()


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    steps=st.lists(STEP, min_size=2, max_size=6),
    partitioned=st.booleans(),
    vectors=st.booleans(),
    feed=st.booleans(),
    full=st.booleans(),
    keep=st.sets(st.integers(0, 5), max_size=2),
)
def test_no_version_that_is_promised_loses_a_file(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[str],
    partitioned: bool,
    vectors: bool,
    feed: bool,
    full: bool,
    keep: set[int],
) -> None:
    root = tmp_path_factory.mktemp("random") / "t"
    properties = {"delta.enableDeletionVectors": str(vectors).lower(), "delta.enableChangeDataFeed": str(feed).lower()}
    first = pa.table({"x": [1, 2, 3], "_p": ["_x", "a/b", None]})
    write_deltalake(root, first, configuration=properties, partition_by=["_p"] if partitioned else None)
    for n, name in enumerate(steps):
        step(root, name, n)
    newest = DeltaTable(root).version()
    versions = {v: rows(DeltaTable(root, v)) for v in range(newest + 1)}
    # Within the retention everything stays, though each data file was written long before it.
    # Change files have no tombstone: their own age decides.
    age(root, 30 * 24)
    age(root, 24, below="_change_data/")
    assert DeltaTable(root).vacuum(dry_run=False, full=full) == []
    assert {v: rows(DeltaTable(root, v)) for v in versions} == versions
    retained = sorted(v for v in keep if v <= newest)
    before = data_files(root)
    table = DeltaTable(root)
    gone = set(now(table, full=full, keep_versions=retained))
    assert data_files(root) == before - gone
    for version in {newest, table.version(), *retained}:
        assert rows(DeltaTable(root, version)) == versions.get(version, versions[newest])
    if full and not retained:
        assert all(name in table.files() or "deletion_vector" in name for name in data_files(root))
    else:
        assert now(DeltaTable(root), True, keep_versions=retained) == []
