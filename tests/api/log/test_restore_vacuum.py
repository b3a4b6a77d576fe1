"""Concurrent RESTORE and VACUUM, in every order of their requests: restored files exist, or RESTORE
was refused (P078)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, LogStore, register_log_store, write_deltalake
from deltaplane.exceptions import DeltaConcurrentModificationException, FileMissingError
from stores import proofs

# A thread that waits longer shows a fault of the test.
PATIENCE_SECONDS = 60
# RESTORE waits for VACUUM before every n-th of its requests; the recorded proof uses a smaller
# step.
STEP = 3 if os.environ.get("DELTAPLANE_PROOFS") == "1" else 9


class Turns:
    """Runs one command up to one of its requests, then the other one; each command has a thread of
    its own."""

    def __init__(self) -> None:
        self.stops: dict[str, int] = {}
        self.requests: dict[str, list[str]] = {}
        self.reached = {name: threading.Event() for name in ("vacuum", "restore")}
        self.goes_on = {name: threading.Event() for name in ("vacuum", "restore")}

    def request(self, who: str, what: str) -> None:
        if who not in self.reached:
            return
        seen = self.requests.setdefault(who, [])
        seen.append(what)
        # Requests in parallel to that one wait, too.
        if len(seen) >= self.stops.get(who, len(seen) + 1):
            self.reached[who].set()
            assert self.goes_on[who].wait(PATIENCE_SECONDS)


class Watched(LogStore):
    """The local disk as a store; the location's authority identifies the calling command."""

    turns = Turns()

    def __init__(self, location: str, options: dict[str, str]) -> None:
        self.who, _, path = location.removeprefix("test-turns://").partition("/")
        self.base, self.base_options = f"/{path}", {}

    def _ask(self, what: str) -> Any:
        self.turns.request(self.who, what)
        return NotImplemented

    def put_if_absent(self, path: str, data: bytes) -> Any:
        return self._ask(f"put {path}" if path.endswith(".json") else "put")

    def list_from(self, directory: str, name: str) -> Any:
        return self._ask("list")

    def list_all(self, directory: str) -> Any:
        return self._ask("list all")

    def head(self, path: str) -> Any:
        return self._ask(f"head {path}")

    def read(self, path: str) -> Any:
        return self._ask(f"read {path}")

    def delete(self, path: str) -> Any:
        return self._ask(f"delete {path}")


def vacuum(folder: Path) -> None:
    table = DeltaTable(f"test-turns://vacuum{folder}")
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)


def restore(folder: Path, **more: Any) -> None:
    DeltaTable(f"test-turns://restore{folder}").restore(0, **more)


class Done:
    """A command on a thread, with its exception."""

    def __init__(self, command: Callable[..., None], folder: Path, **more: Any) -> None:
        self.error: Exception | None = None

        def run() -> None:
            try:
                command(folder, **more)
            except Exception as e:  # noqa: BLE001 the test looks at what it was
                self.error = e

        self.thread = threading.Thread(target=run)
        self.thread.start()

    def wait_for(self, event: threading.Event) -> bool:
        """Returns whether the command reached the event rather than its end."""
        while not event.wait(0.002):
            if not self.thread.is_alive():
                return event.is_set()
        return True

    def join(self) -> None:
        self.thread.join(PATIENCE_SECONDS)
        assert not self.thread.is_alive()


def overwritten(folder: Path) -> None:
    """Three files that only version 0 has, and one file of the newest version."""
    write_deltalake(folder, pa.table({"x": [1, 2, 3], "p": ["a", "b", "c"]}), partition_by="p")
    write_deltalake(folder, pa.table({"x": [9], "p": ["a"]}), mode="overwrite")


def run(folder: Path, vacuum_stops: int, restore_stops: int | None, **more: Any) -> tuple[Turns, Done, Done]:
    """Runs VACUUM up to a request, then RESTORE up to one of its own or to its end, then the rest
    of VACUUM, then of RESTORE."""
    overwritten(folder)
    turns = Watched.turns = Turns()
    register_log_store("test-turns", Watched)
    turns.stops = {"vacuum": vacuum_stops} | ({} if restore_stops is None else {"restore": restore_stops})
    first = Done(vacuum, folder)
    try:
        first.wait_for(turns.reached["vacuum"])
        second = Done(restore, folder, **more)
        try:
            second.wait_for(turns.reached["restore"])
            turns.goes_on["vacuum"].set()
            first.join()
        finally:
            turns.goes_on["restore"].set()
            second.join()
    finally:
        turns.goes_on["vacuum"].set()
        first.join()
    assert first.error is None, first.error
    return turns, first, second


def lost(folder: Path) -> bool:
    """Whether the newest version names a missing file."""
    return any(not (folder / name).exists() for name in DeltaTable(folder).files())


def counts(folder: Path) -> tuple[int, int]:
    """Number of requests of a VACUUM alone, and of a RESTORE alone."""
    turns = run(folder, 1_000_000, None)[0]
    return len(turns.requests["vacuum"]), len(turns.requests["restore"])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_order_of_their_requests(tmp_path: Path) -> None:
    asked = counts(tmp_path / "alone")
    refused = done = 0
    for vacuum_stops in range(1, asked[0] + 1):
        for restore_stops in (*range(1, 20, STEP), None):
            folder = tmp_path / f"{vacuum_stops}-{restore_stops}"
            _, _, second = run(folder, vacuum_stops, restore_stops)
            assert not lost(folder), (vacuum_stops, restore_stops)
            rows = DeltaTable(folder).count()
            if second.error is None:
                done += 1
                assert rows == 3
            else:
                refused += 1
                assert isinstance(second.error, (DeltaConcurrentModificationException, FileMissingError)), second.error
                assert rows == 1
    # Both outcomes occurred: before VACUUM's first commit all files are restored and spared.
    assert refused
    assert done
    proofs.tell(
        "restore_vacuum",
        title="RESTORE beside VACUUM",
        claims=[
            "In whatever order the requests of a VACUUM and of a RESTORE come, no version names a file that VACUUM deletes: what was"
            " brought back before VACUUM START is spared, and from then until VACUUM END bringing back is refused.",
            "A start without an end is believed for 24 hours, and VACUUM deletes for 20 at most. delta-spark's VACUUM has no such"
            " limit.",
            "Where the refusal is switched off the same orders do lose files.",
        ],
        figures={
            "requests of one VACUUM": asked[0],
            "orders tried": refused + done,
            "of these with the files back": done,
            "of these refused": refused,
            "files lost": 0,
        },
        how="DELTAPLANE_PROOFS=1 .venv/bin/python -m pytest tests/api/log/test_restore_vacuum.py",
    )


def test_the_fault_is_there_where_the_vacuum_is_ignored(tmp_path: Path) -> None:
    """Shows why RESTORE is refused: VACUUM continues and deletes restored files."""
    turns = run(tmp_path / "alone", 1_000_000, None)[0]
    deletes = [n for n, what in enumerate(turns.requests["vacuum"], 1) if what.startswith("delete ")]
    folder = tmp_path / "ignored"
    _, _, second = run(folder, deletes[0], None, ignore_unfinished_vacuum=True)
    assert second.error is None
    assert lost(folder)
    folder = tmp_path / "refused"
    _, _, second = run(folder, deletes[0], None)
    assert isinstance(second.error, DeltaConcurrentModificationException)
    assert "the VACUUM that began with version 2 hasn't said that it ended" in str(second.error)
    assert not lost(folder)


def test_a_vacuum_that_ended_is_no_reason_to_refuse(tmp_path: Path) -> None:
    """A vacuum that ended itself, a foreign one that ended, and an end beside one that never
    ended."""
    overwritten(tmp_path)
    table = DeltaTable(tmp_path)
    write_deltalake(tmp_path, pa.table({"x": [10], "p": ["b"]}), mode="append")
    table.update_incremental()
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    table.update_incremental()
    (entry,) = table.history(1)
    assert (entry["operation"], entry["vacuumStartVersion"]) == ("VACUUM END", 3)
    table.restore(1)
    assert table.count() == 1
