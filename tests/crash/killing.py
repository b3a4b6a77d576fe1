"""The loop that kills writers, and the checks after each kill: no gap between versions, every
acknowledged write, no write twice, the rows of a serial history.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from crash import writer
from crash.writer import batch
from deltaplane import DeltaTable
from interop.verifier import verify

# Rounds per table: enough for crashes after crashes, few enough to check every file after each.
ROUNDS_PER_TABLE = 5
START_SECONDS = 120
# Factor of additional rounds for a loop whose kills all missed, on a machine that schedules the
# writer and the killer unevenly.
MISSED = 10
# A row: the write that made it, its partition, its text.
Row = tuple[int, int, str]
# Forked processes start at once, from a parent that has imported everything and started no thread.
_FORKED = multiprocessing.get_context("forkserver")
_FORKED.set_forkserver_preload(["crash.writer", "duckdb"])


@dataclass(frozen=True)
class Place:
    """The location of the tables, and the timing of kills: a kill hits the n-th write of a round at
    a random instant, so that a busy machine takes longer without shifting the kills."""

    root: str
    options: dict[str, str]
    most_writes: int
    write_seconds: float
    # Returns a directory with the files of a table, which may be copied into the passed directory.
    files: Callable[[str, Path], Path]


@dataclass
class Seen:
    """The loop's observations."""

    kills: int = 0
    kills_inside: int = 0
    writes: int = 0
    commits: int = 0
    # Commits in the log that were never acknowledged: killed between the store's put and the
    # return.
    untold: int = 0


def on_disk(root: Path) -> Place:
    return Place(str(root), {}, 25, 0.05, lambda table, _: Path(table))


def kill_loop(place: Place, scratch: Path, rounds: int, seed: int = 20241121) -> Seen:
    """Kills a writer in each round and checks the table after each; adds rounds if no kill hit a
    write."""
    choose, seen = random.Random(seed), Seen()
    for start in range(0, rounds * MISSED, ROUNDS_PER_TABLE):
        if start >= rounds and seen.kills_inside:
            break
        # The remaining rounds, at most as many as a table takes.
        table_rounds = min(ROUNDS_PER_TABLE, rounds - start) if start < rounds else ROUNDS_PER_TABLE
        kill_on_one_table(place, scratch, range(start, start + table_rounds), choose, seen)
    return seen


def kill_on_one_table(place: Place, scratch: Path, rounds: range, choose: random.Random, seen: Seen) -> None:
    table, journal = f"{place.root}/table-{rounds.start}", scratch / f"journal-{rounds.start}"
    journal.touch()
    for n in rounds:
        writes, after = choose.randint(1, place.most_writes), choose.uniform(0, place.write_seconds)
        kill_and_count(place, table, journal, n, writes, after, seen)
        check(place, table, journal)
    # A last writer continues on the table after the kills of all rounds.
    kill_and_count(place, table, journal, 1_000 + rounds.start, place.most_writes, place.write_seconds, seen)
    commits = check(place, table, journal)
    begun, done = journalled(journal)
    seen.writes += len(begun)
    seen.commits += commits
    seen.untold += commits - sum(version is not None for version in done.values())


def kill_and_count(place: Place, table: str, journal: Path, round_: int, writes: int, after: float, seen: Seen) -> None:
    before = unfinished(journal)
    kill_one(place, table, journal, round_, writes, after)
    seen.kills += 1
    seen.kills_inside += unfinished(journal) > before


def unfinished(journal: Path) -> int:
    begun, done = journalled(journal)
    return len(begun) - len(done)


def kill_one(place: Place, table: str, journal: Path, round_: int, writes: int, after: float) -> None:
    """Starts a writer and kills it a moment after its n-th write began."""
    begun, _ = journalled(journal)
    errors = journal.with_suffix(".errors")
    arguments = (table, str(journal), 1_000 * round_, round_, place.options, str(errors))
    process = _FORKED.Process(target=writer.main, args=arguments, daemon=True)
    process.start()
    try:
        deadline = time.monotonic() + START_SECONDS
        while len(journalled(journal)[0]) < len(begun) + writes and process.is_alive():
            assert time.monotonic() < deadline, f"{writes} writes did not begin in {START_SECONDS} s"
            time.sleep(0.001)
        time.sleep(after)
    finally:
        process.kill()
        process.join()
    said = errors.read_text() if errors.exists() else ""
    assert process.exitcode == -9, f"the writer ended by itself ({process.exitcode}):\n{said}"


def journalled(journal: Path) -> tuple[dict[int, str], dict[int, int | None]]:
    """Started writes with their mode; returned writes with their version, None if nothing was
    committed."""
    # The kill may truncate the last line.
    lines = [json.loads(line) for line in journal.read_text().splitlines(keepends=True) if line.endswith("\n")]
    begun = {line["begun"]: line["mode"] for line in lines if "begun" in line}
    return begun, {line["done"]: line["version"] for line in lines if "done" in line}


def check(place: Place, table: str, journal: Path) -> int:
    """The table has the rows of the journal, with or without the interrupted writes; returns the
    number of its commits."""
    begun, done = journalled(journal)
    if not DeltaTable.is_deltatable(table, place.options):
        assert not any(version is not None for version in done.values())
        return 0
    opened = DeltaTable(table, storage_options=place.options)
    with tempfile.TemporaryDirectory() as scratch:
        files = place.files(table, Path(scratch))
        committed = commits_of(files)
        verify(str(files))
    assert opened.version() == len(committed) - 1
    acknowledged = {number: version for number, version in done.items() if version is not None}
    assert acknowledged.items() <= committed.items(), "a write that returned isn't in the log"
    assert committed.keys() <= begun.keys()

    rows: list[Row] = []
    for number in sorted(committed, key=committed.__getitem__):
        rows = after(rows, begun[number], number)
    rows_read = opened.to_pyarrow_table(columns=["write", "p", "text"]).to_pylist()
    assert Counter(tuple(row.values()) for row in rows_read) == Counter(rows)
    assert opened.count() == len(rows)
    return len(committed)


def commits_of(files: Path) -> dict[int, int]:
    """Write → version, from a log without a gap whose files all exist completely."""
    log = files / "_delta_log"
    versions = sorted(int(path.stem) for path in log.glob("*.json"))
    assert versions == list(range(len(versions))), "versions have a gap"
    assert versions, "no write was committed"
    committed: dict[int, int] = {}
    for version in versions:
        text = (log / f"{version:020d}.json").read_text()
        actions = [json.loads(line) for line in text.splitlines()]
        number = next(int(a["commitInfo"]["userMetadata"]) for a in actions if "commitInfo" in a)
        assert number not in committed, "a write was committed twice"
        committed[number] = version
        for add in (a["add"] for a in actions if "add" in a):
            path = files / unquote(add["path"])
            assert path.stat().st_size == add["size"], f"version {version}: {path}"
    return committed


def after(rows: list[Row], mode: str, number: int) -> list[Row]:
    """The rows after one commit of `writer.run`."""
    if mode == "delete":
        return [row for row in rows if not row[2].endswith("/1")]
    if mode == "update":
        return [(w, 1 - p, text + ".") if w % 3 == number % 3 else (w, p, text) for w, p, text in rows]
    new = list(zip(*(column.to_pylist() for column in batch(number).columns), strict=True))
    return new if mode == "overwrite" else rows + new
