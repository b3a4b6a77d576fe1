"""Kill -9 at any instant leaves a table that opens, holds every write that returned, and goes on.

DELTAPLANE_CRASH_ROUNDS sets the number of kills (20 unless told).
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import pytest

from crash.writer import ROWS
from deltaplane import DeltaTable
from interop.verifier import verify

ROUNDS = int(os.environ.get("DELTAPLANE_CRASH_ROUNDS", "20"))
# Rounds that share a table: enough to crash on top of crashes, few enough to check every file after each.
ROUNDS_PER_TABLE = 5
# The kill falls into the n-th write of a round, at any instant of it: a busy machine takes longer, not elsewhere.
MOST_WRITES = 25
A_WRITE_SECONDS = 0.05
START_SECONDS = 120
WRITER = Path(__file__).with_name("writer.py")


def kill_one(table: str, journal: Path, first: int, seed: int, writes: int, after: float) -> None:
    """Runs a writer and kills it a moment after its n-th write began."""
    begun, _ = journalled(journal)
    command = [sys.executable, str(WRITER), table, str(journal), str(first), str(seed)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            deadline = time.monotonic() + START_SECONDS
            while len(journalled(journal)[0]) < len(begun) + writes and process.poll() is None:
                assert time.monotonic() < deadline, f"{writes} writes did not begin in {START_SECONDS} s"
                time.sleep(0.001)
            time.sleep(after)
        finally:
            process.kill()
        assert process.stderr is not None
        errors = process.stderr.read()
    assert process.returncode == -9, f"the writer ended by itself ({process.returncode}):\n{errors}"


def journalled(journal: Path) -> tuple[dict[int, str], dict[int, int]]:
    """Writes that began, with their mode; writes that returned, with their version."""
    # The kill may cut the last line.
    lines = [json.loads(line) for line in journal.read_text().splitlines(keepends=True) if line.endswith("\n")]
    begun = {line["begun"]: line["mode"] for line in lines if "begun" in line}
    return begun, {line["done"]: line["version"] for line in lines if "done" in line}


def check(table: str, journal: Path) -> None:
    """The table holds what the journal says, give or take the writes that were cut off."""
    begun, done = journalled(journal)
    log = Path(table) / "_delta_log"
    versions = sorted(int(path.stem) for path in log.glob("*.json"))
    assert versions == list(range(len(versions))), "versions have a gap"
    assert versions, "no write was committed"
    opened = DeltaTable(table)
    assert opened.version() == versions[-1]
    committed: dict[int, int] = {}
    for version in versions:
        text = (log / f"{version:020d}.json").read_text()
        actions = [json.loads(line) for line in text.splitlines()]
        number = next(int(a["commitInfo"]["userMetadata"]) for a in actions if "commitInfo" in a)
        assert number not in committed, "a write was committed twice"
        committed[number] = version
        for add in (a["add"] for a in actions if "add" in a):
            path = Path(table) / unquote(add["path"])
            assert path.stat().st_size == add["size"], f"version {version}: {path}"
    assert done.items() <= committed.items(), "a write that returned isn't in the log"
    assert committed.keys() <= begun.keys()

    expected: Counter[int] = Counter()
    for number in sorted(committed, key=committed.__getitem__):
        if begun[number] == "overwrite":
            expected.clear()
        expected[number] = ROWS
    assert Counter(opened.to_pyarrow_table()["write"].to_pylist()) == expected
    assert opened.count() == expected.total()


@pytest.mark.slow
@pytest.mark.timeout(60 + 30 * ROUNDS)
def test_kill_at_any_instant(tmp_path: Path) -> None:
    choose = random.Random(20241121)
    kills_inside = 0
    for start in range(0, ROUNDS, ROUNDS_PER_TABLE):
        table, journal = str(tmp_path / f"table-{start}"), tmp_path / f"journal-{start}"
        journal.touch()
        for n in range(start, min(start + ROUNDS_PER_TABLE, ROUNDS)):
            writes, after = choose.randint(1, MOST_WRITES), choose.uniform(0, A_WRITE_SECONDS)
            kill_one(table, journal, 1_000 * n, n, writes, after)
            begun, done = journalled(journal)
            kills_inside += len(begun) > len(done)
            if (Path(table) / "_delta_log" / f"{0:020d}.json").exists():
                check(table, journal)
            else:
                assert not done
                assert not DeltaTable.is_deltatable(table)
        # The next write over all these ruins.
        kill_one(table, journal, 1_000_000 + start, start, MOST_WRITES, A_WRITE_SECONDS)
        check(table, journal)
        verify(table)
    assert kills_inside, "no kill fell into a write: the test shows nothing"
