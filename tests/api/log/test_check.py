"""FSCK: finds and names every kind of damage, reports nothing for a sound table, and repair leaves
a readable table."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltaplane import DeltaTable, exceptions, write_deltalake

VECTORS = {"delta.enableDeletionVectors": "true"}


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    for first in (0, 100):
        rows = pa.table({"x": range(first, first + 10), "text": ["a"] * 9 + [None], "p": ["a", "b"] * 5})
        write_deltalake(tmp_path / "t", rows, mode="append", partition_by=["p"], configuration=VECTORS)
    table = DeltaTable(tmp_path / "t")
    table.delete("x IN (3, 104)")
    return table


def kinds_and_paths(table: DeltaTable, deep: bool = False) -> list[tuple[str, str | None]]:
    return [(finding["kind"], finding["path"]) for finding in DeltaTable(table.location).check(deep)]


def the_vector(root: Path) -> Path:
    return next(iter(root.glob("deletion_vector_*.bin")))


def test_a_sound_table_has_none(table: DeltaTable) -> None:
    assert kinds_and_paths(table, deep=True) == []


def test_each_damage_is_named(table: DeltaTable) -> None:
    root = Path(table.location)
    missing, other = sorted(table.files())[:2]
    (root / missing).unlink()
    (root / other).write_bytes((root / other).read_bytes() + b"x")
    vector = the_vector(root)
    vector.unlink()
    (root / "p=a/old.parquet").write_bytes(b"x")
    (root / "young.parquet").write_bytes(b"x")
    long_ago = time.time() - 400 * 3600
    os.utime(root / "p=a/old.parquet", (long_ago, long_ago))
    assert set(kinds_and_paths(table)) == {
        ("missing file", missing),
        ("size", other),
        ("missing deletion vector", vector.name),
        ("orphan", "p=a/old.parquet"),
    }
    messages = [finding["message"] for finding in DeltaTable(root).check()]
    assert any("repair" in m for m in messages)
    assert any("P031" in m for m in messages)


def test_a_checksum_that_contradicts_the_log(table: DeltaTable) -> None:
    # P018
    path = Path(table.location) / f"_delta_log/{table.version():020}.crc"
    sums = json.loads(path.read_text())
    path.write_text(json.dumps({**sums, "numFiles": sums["numFiles"] + 1}))
    assert kinds_and_paths(table) == [("checksum", f"_delta_log/{path.name}")]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s: {**s, "numRecords": s["numRecords"] + 1}, "rows"),
        (lambda s: {**s, "nullCount": {"x": 2}}, "nulls of the column `x`"),
        (lambda s: {**s, "minValues": {"x": s["minValues"]["x"] + 1}}, "below the minimum"),
        (lambda s: {**s, "maxValues": {"text": "A"}}, "above the maximum"),
    ],
)
def test_statistics_that_lie(table: DeltaTable, change: Any, said: str) -> None:
    # P160
    commit = Path(table.location) / "_delta_log/00000000000000000000.json"
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    added = next(line["add"] for line in lines if "add" in line and "p=b" not in line["add"]["path"])
    added["stats"] = json.dumps(change(json.loads(added["stats"])))
    commit.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for sums in (Path(table.location) / "_delta_log").glob("*.crc"):
        sums.unlink()
    assert kinds_and_paths(table) == []
    (finding,) = DeltaTable(table.location).check(deep=True)
    assert (finding["kind"], said in finding["message"]) == ("statistics", True)


def test_unreadable_files_and_vectors(table: DeltaTable) -> None:
    root = Path(table.location)
    marked = next(a["path"] for a in table.plan().read_all().to_pylist() if a["deletion_vector"])
    plain = next(a["path"] for a in table.plan().read_all().to_pylist() if not a["deletion_vector"])
    vector = the_vector(root)
    bytes_of = bytearray(vector.read_bytes())
    bytes_of[-1] ^= 1
    vector.write_bytes(bytes_of)
    (root / plain).write_bytes(b"x" * (root / plain).stat().st_size)
    findings = kinds_and_paths(table, deep=True)
    assert ("unreadable", plain) in findings
    assert {kind for kind, path in findings if path != plain} == {"deletion vector"}
    assert marked in {path for kind, path in findings if kind == "deletion vector"} or len(findings) == 2


def test_repair_takes_out_what_is_gone(table: DeltaTable) -> None:
    root = Path(table.location)
    gone = sorted(table.files())[:2]
    for name in gone:
        (root / name).unlink()
    would = table.repair(dry_run=True)
    assert (would["dry_run"], sorted(would["files_removed"]), table.version()) == (True, gone, 2)
    with pytest.raises(exceptions.FileMissingError):
        table.to_pyarrow_table()
    done = table.repair()
    assert (done["dry_run"], sorted(done["files_removed"]), table.version()) == (False, gone, 3)
    assert not {*gone} & {*table.files()}
    assert table.history(1)[0]["operation"] == "FSCK"
    assert table.to_pyarrow_table().num_rows == table.count()
    assert (kinds_and_paths(table), table.repair()["files_removed"]) == ([], [])


def test_files_in_hidden_places_are_there(tmp_path: Path) -> None:
    # A file that the listing omits is checked by a request of its own.
    write_deltalake(tmp_path, pa.table({"x": [1]}))
    (name,) = DeltaTable(tmp_path).files()
    (tmp_path / "_hidden").mkdir()
    shutil.move(tmp_path / name, tmp_path / "_hidden" / name)
    commit = tmp_path / "_delta_log/00000000000000000000.json"
    commit.write_text(commit.read_text().replace(name, f"_hidden/{name}"))
    table = DeltaTable(tmp_path)
    assert (kinds_and_paths(table), table.repair()["files_removed"]) == ([], [])


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values=st.lists(st.none() | st.floats(allow_nan=True, width=64), min_size=1, max_size=20),
    texts=st.text(max_size=50),
)
def test_our_own_statistics_never_lie(
    tmp_path_factory: pytest.TempPathFactory, values: list[float | None], texts: str
) -> None:
    root = tmp_path_factory.mktemp("own") / "t"
    rows = {"f": pa.array(values, pa.float64()), "t": [texts.replace("\0", "")] * len(values)}
    write_deltalake(root, pa.table({**rows, "d": pa.array([0] * len(values), pa.timestamp("us", "UTC"))}))
    assert DeltaTable(root).check(deep=True) == []
