"""`GroupWriter` with concurrent writers, on changing tables, and with failures of the store or the
process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import (
    CommitProperties,
    DeltaTable,
    GroupWriter,
    Transaction,
    write_deltalake,
)
from deltaplane.exceptions import (
    ConcurrentWriteException,
    ConstraintViolationError,
    MetadataChangedException,
    SchemaMismatchError,
    StoreUnavailableError,
    TableNotFoundError,
)
from deltaplane.schema import Field
from grouped import behind_a_commit, files, ids, rows, stream
from stores.gated_store import Gate, gated
from waiting import until

APPENDER = Path(__file__).parents[2] / "crash" / "appender.py"


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    write_deltalake(path, rows(0))
    return path


@pytest.fixture
def gate(table: str) -> Gate:
    return gated(Path(table))


# --- other writers ----------------------------------------------------------------------------------------------------


def test_other_processes_append_too(table: str) -> None:
    threads, appends = 3, 10
    command = [sys.executable, str(APPENDER), "deltaplane", table, "{}", str(appends), "1000"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        with GroupWriter(table) as writer, ThreadPoolExecutor(threads) as pool:
            appending = [pool.submit(writer.append, rows(n), ("a", n) if n % 3 else None) for n in range(1, 31)]
            output, _ = process.communicate("\n")
            results = [future.result() for future in appending]
    assert "failed" not in output
    written = [n for n, result in enumerate(results, 1) if result.skipped is None]
    assert ids(table) == sorted([0, *written, *range(1000, 1000 + appends)])
    # Outdated versions of an application are skipped; all appends without a version are committed.
    assert {n for n in range(1, 31) if n % 3 == 0} <= set(written)
    versions = [entry["version"] for entry in DeltaTable(table).history()]
    assert versions == list(reversed(range(len(versions))))


def test_a_lost_race_is_tried_again(gate: Gate) -> None:
    gate.open.set()
    with GroupWriter(gate.table) as writer:
        gate.before = lambda: write_deltalake(gate.base, rows(8), mode="append")
        assert writer.append(rows(1), ("a", 1)).version == 2
        gate.before = lambda: DeltaTable(gate.base).alter.set_table_properties({"delta.checkpointPolicy": "v2"})
        assert writer.append(stream(2), ("a", 2)).version == 4
        done = CommitProperties(app_transactions=[Transaction("a", 3)])
        gate.before = lambda: write_deltalake(gate.base, rows(9), mode="append", commit_properties=done)
        assert writer.append(rows(3), ("a", 3)).skipped == "txn"
        gate.before = lambda: write_deltalake(gate.base, rows(10), mode="append", commit_properties=done2)
        done2 = CommitProperties(app_transactions=[Transaction("a", 4)])
        assert writer.append(rows(5), ("a", 5)).version == 7
    assert ids(gate.base) == [0, 1, 2, 5, 8, 9, 10]
    assert files(gate.base) == 7


def test_a_bounded_number_of_lost_races_is_an_error(gate: Gate) -> None:
    # P079
    gate.open.set()
    once = CommitProperties(max_commit_retries=0)
    with GroupWriter(gate.table, commit_properties=once) as writer:
        gate.before = lambda: write_deltalake(gate.base, rows(8), mode="append")
        with pytest.raises(ConcurrentWriteException):
            writer.append(rows(1))
    assert (ids(gate.base), files(gate.base)) == ([0, 8], 2)


def widened(base: str) -> None:
    DeltaTable(base).alter.add_columns(Field("note", "string"))


def test_a_table_that_changed_has_rows_written_anew(gate: Gate) -> None:
    gate.open.set()
    with GroupWriter(gate.table) as writer:
        writer.append(rows(1))
        # Before the plan of the commit, and between plan and commit.
        widened(gate.base)
        assert writer.append(rows(2)).version == 3
        gate.before = lambda: DeltaTable(gate.base).alter.add_columns(Field("more", "string"))
        assert writer.append(rows(3)).version == 5
        DeltaTable(gate.base).alter.set_table_properties({"mine": "1"})
        assert writer.append(stream(4)).version == 7
    assert (ids(gate.base), files(gate.base)) == ([0, 1, 2, 3, 4], 5)


def test_a_stream_cannot_be_written_anew(gate: Gate) -> None:
    gate.open.set()
    with GroupWriter(gate.table) as writer:
        writer.append(rows(1))
        widened(gate.base)
        with pytest.raises(MetadataChangedException, match="append them again"):
            writer.append(stream(2))
        assert writer.append(stream(2)).version == 3
    assert (ids(gate.base), files(gate.base)) == ([0, 1, 2], 3)


def test_rows_are_judged_by_the_table_as_it_is(gate: Gate) -> None:
    gate.open.set()
    alter = DeltaTable(gate.base).alter
    with GroupWriter(gate.table) as writer:
        writer.append(rows(1))
        alter.add_constraint({"small": "id < 100"})
        with pytest.raises(ConstraintViolationError, match="small"):
            writer.append(rows(100))
        writer.append(rows(2))
        alter.drop_constraint("small")
        assert writer.append(rows(200)).version == 5
        alter.add_constraint({"small": "id < 1000"})
        writer.append(rows(3))
        alter.drop_constraint("small")
        with pytest.raises(MetadataChangedException):
            writer.append(stream(3000))
        alter.add_columns(Field("must", "long"))
        assert writer.append(pa.table({"id": [4], "must": [1]})).version == 10
        # Data that doesn't fit any more gets the specific error, though it fitted when it was
        # planned.
        write_deltalake(gate.base, pa.table({"must": [5]}), mode="overwrite", schema_mode="overwrite")
        with pytest.raises(SchemaMismatchError):
            writer.append(rows(5))
    assert DeltaTable(gate.base).to_pyarrow_table().to_pydict() == {"must": [5]}


def test_a_whole_group_is_written_anew(gate: Gate) -> None:
    # All appends are planned before the change that wins over the first commit, and all are
    # rewritten.
    writer = GroupWriter(gate.table)
    gate.open.set()
    writer.append(rows(1))
    gate.came = threading.Semaphore(0)
    with behind_a_commit(gate, writer, [(rows(n), (f"app {n}", 1)) for n in (2, 3, 4)]) as waiting:
        gate.before = lambda: widened(gate.base)
        gate.open.set()
        assert all(future.result().skipped is None for future in waiting)
    assert (ids(gate.base), files(gate.base)) == ([-1, 0, 1, 2, 3, 4], 6)


def test_files_of_an_old_plan_do_not_slip_in_with_those_of_a_new_one(gate: Gate) -> None:
    gate.open.set()
    writer = GroupWriter(gate.table)
    writer.append(rows(1))
    gate.came = threading.Semaphore(0)
    with behind_a_commit(gate, writer, []), ThreadPoolExecutor(2) as pool:
        DeltaTable(gate.base).alter.add_constraint({"small": "id < 100"})
        # Data of another type gets its own plan.
        new = pool.submit(writer.append, pa.table({"id": pa.array([2], pa.int32())}))
        until(lambda: writer.waiting == 1)
        old = pool.submit(writer.append, rows(100))
        until(lambda: writer.waiting == 2)
        gate.open.set()
        assert new.result().version is not None
        with pytest.raises(ConstraintViolationError, match="small"):
            old.result()
    assert (ids(gate.base), files(gate.base)) == ([-1, 0, 1, 2], 4)


def test_there_must_be_a_table(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        GroupWriter(str(tmp_path / "none"))
    table = tmp_path / "t"
    write_deltalake(str(table), rows(0))
    with GroupWriter(str(table)) as writer:
        writer.append(rows(1))
        table.rename(tmp_path / "moved")
        with pytest.raises(TableNotFoundError):
            writer.append(rows(2))
    assert not table.joinpath("_delta_log").exists()


# --- failures ---------------------------------------------------------------------------------------------------------


def test_a_failed_commit_is_told_to_everybody_in_its_group(gate: Gate) -> None:
    # Each retry of the put fails, too.
    gate.failures = 100
    writer = GroupWriter(gate.table, storage_options={"retry_timeout": "300ms"})
    with behind_a_commit(gate, writer, [(rows(n), (f"app {n}", 1)) for n in (1, 2, 3)]) as waiting:
        # The first commit is already at the gate; the failure hits the second one.
        gate.before = lambda: setattr(gate, "before", lambda: setattr(gate, "failure", TimeoutError("no answer")))
        gate.open.set()
        errors = [future.exception() for future in waiting]
    assert {type(e) for e in errors} == {StoreUnavailableError}
    assert len({id(e) for e in errors}) == 3
    gate.failure = None
    assert ids(gate.base) == [-1, 0]
    assert [writer.append(rows(n), (f"app {n}", 1)).skipped for n in (1, 2, 3)] == [None] * 3
    assert ids(gate.base) == [-1, 0, 1, 2, 3]


def test_a_commit_whose_answer_was_lost_counts(gate: Gate) -> None:
    gate.open.set()
    gate.failure, gate.fails_after = TimeoutError("no answer"), True
    with GroupWriter(gate.table) as writer:
        assert writer.append(rows(1), ("a", 1)).version == 1
    assert ids(gate.base) == [0, 1]


def test_nothing_is_committed_twice_when_the_outcome_stays_open(gate: Gate) -> None:
    gate.open.set()
    with GroupWriter(gate.table) as writer:
        writer.append(rows(1))
        gate.failure, gate.fails_after = TimeoutError("no answer"), True
        gate.before = lambda: setattr(gate, "blind", True)
        with pytest.raises(StoreUnavailableError, match="transaction id"):
            writer.append(rows(2), ("a", 1))
        gate.blind = False
        assert ids(gate.base) == [0, 1, 2], "the files of what may be committed stay"
        assert writer.append(rows(2), ("a", 1)).skipped == "txn"
    assert ids(gate.base) == [0, 1, 2]


CRASHING = """
import os, sys
from pathlib import Path
import pyarrow as pa
from deltaplane import GroupWriter
from stores.gated_store import gated

gate = gated(Path(sys.argv[1]))
gate.open.set()
gate.before = lambda: os._exit(9)
GroupWriter(gate.table).append(pa.table({"id": [1]}), ("a", 1))
"""


def test_a_crash_between_files_and_commit_leaves_no_rows(table: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", CRASHING, table], env=environment, check=False).returncode == 9
    assert (ids(table), files(table), DeltaTable(table).version()) == ([0], 2, 0)
    with GroupWriter(table) as writer:
        assert writer.append(rows(1), ("a", 1)).version == 1
    assert ids(table) == [0, 1]
