"""Tables of many files that a bench makes itself have the form of the core's checkpoints, and what
must not grow with the number of files doesn't, at sizes that a test can make."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from deltaplane import DeltaTable

FILES, A_DAY = 5_000, 700


def table(files: int = FILES, a_day: int = A_DAY) -> Any:
    from support.huge_logs import HugeLog

    return HugeLog(files, a_day)


def sidecars(folder: Path) -> set[Path]:
    return set((folder / "_delta_log" / "_sidecars").iterdir())


def ranges(log: Path, tombstones: int = 0) -> list[dict[str, Any]]:
    """What the newest checkpoint notes of its sidecars of live files, without their names and
    sizes."""
    top = max(log.glob("*.checkpoint.*.parquet"))
    rows = [row for row in pq.read_table(top)["sidecar"].to_pylist() if row is not None]
    notes = [json.loads(dict(row["tags"])["deltaplane.range"]) for row in rows]
    pairs = [(row, note) for row, note in zip(rows, notes, strict=True) if note["adds"]]
    assert len(notes) - len(pairs) == tombstones
    for row, note in pairs:
        assert note.pop("file") == row["path"]
        assert note.pop("size") == row["sizeInBytes"] == (log / "_sidecars" / row["path"]).stat().st_size
        place = note["paths"].pop("filter")
        assert 0 < place["start"] < place["start"] + place["length"] < row["sizeInBytes"]
        content = (log / "_sidecars" / row["path"]).read_bytes()
        assert zlib.crc32(content[place["start"] :][: place["length"]]) == place["crc32"]
    return sorted((note for _, note in pairs), key=lambda note: str(note["first"]))


def test_a_made_checkpoint_notes_what_the_core_notes(tmp_path: Path) -> None:
    made = ranges(table().make() / "_delta_log")
    own = ranges(table()._sampled(tmp_path / "sample") / "_delta_log")
    assert len(own) == 5
    assert made == own


def test_its_files_are_those_of_the_core_s(tmp_path: Path) -> None:
    log = table()
    made, own = DeltaTable(str(log.make())), DeltaTable(str(log._sampled(tmp_path / "sample")))
    wanted = own.get_add_actions(flatten=True).sort_by("path")
    assert made.get_add_actions(flatten=True).sort_by("path").equals(wanted)
    assert wanted.num_rows == FILES


def test_the_core_goes_on_from_it_without_writing_it_again(tmp_path: Path) -> None:
    from bench_huge import replace_all_over

    log = table(20_000, 3_000)
    folder = log.copy_to(tmp_path / "table")
    replace_all_over(log, folder)
    expected = sorted(DeltaTable(str(folder)).files())
    before = sidecars(folder)
    DeltaTable(str(folder)).create_checkpoint()
    # Ten of the twenty sidecars have a replaced file; one more has the tombstones.
    assert (len(before), len(sidecars(folder) - before)) == (20, 11)
    assert len(ranges(folder / "_delta_log", tombstones=1)) == 20
    table_again = DeltaTable(str(folder))
    assert sorted(table_again.files()) == expected
    assert len(table_again.files("id BETWEEN 5000 AND 14999")) == 10


@pytest.mark.parametrize("files", [1_000, 60_000, 200_000])
def test_answers_and_sidecars_by_size(files: int, tmp_path: Path) -> None:
    from support.huge_logs import ROWS_PER_FILE, sidecar_files

    log = table(files, 10_000)
    folder = log.copy_to(tmp_path / "table")
    count = len(sidecars(folder))
    assert count == -(-files // sidecar_files(files)) <= 0.9 * files**0.5 + 2
    opened = DeltaTable(str(folder))
    first = files // 2 * ROWS_PER_FILE
    assert len(opened.files(f"id BETWEEN {first} AND {first + 5 * ROWS_PER_FILE - 1}")) == 5
    before = sidecars(folder)
    whole = sum(path.stat().st_size for path in before)
    replaced = np.array([files // 2])
    log.commit(folder, 3, replaced, replaced, 1)
    DeltaTable(str(folder)).create_checkpoint()
    new = sidecars(folder) - before
    # One sidecar, and one of tombstones.
    assert len(new) == 2
    assert sum(path.stat().st_size for path in new) <= 2.5 / count * whole + 20_000
