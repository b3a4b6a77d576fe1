"""Commands on many files report their progress; the callback may end them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console

from deltaplane import DeltaTable, write_deltalake
from deltaplane.cli import render
from deltaplane.commands.progress import CareProgress

Command = Callable[[Callable[[CareProgress], object]], object]


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    """Seven files of the first version, in seven partitions, none of which the second version
    has."""
    root = tmp_path / "t"
    for x in range(2):
        rows = pa.table({"p": range(7), "x": [x] * 7})
        write_deltalake(root, rows, mode="overwrite", partition_by=["p"])
    return DeltaTable(root)


def command_of(name: str, table: DeltaTable, elsewhere: Path) -> Command:
    return {
        "vacuum": lambda tell: table.vacuum(0, False, enforce_retention_duration=False, progress=tell),
        "vacuum full": lambda tell: table.vacuum(0, False, enforce_retention_duration=False, full=True, progress=tell),
        "restore": lambda tell: table.restore(0, progress=tell),
        "check": lambda tell: table.check(progress=tell),
        "deep check": lambda tell: table.check(deep=True, progress=tell),
        "clone": lambda tell: table.clone(str(elsewhere), shallow=False, progress=tell),
        "generate": lambda tell: table.generate(progress=tell),
    }[name]


TOLD = {
    "vacuum": {"looking for files": 7, "deleting": 7},
    "vacuum full": {"looking for files": 14, "deleting": 7},
    "restore": {"looking for files": 7},
    "check": {"looking for files": 7},
    "deep check": {"looking for files": 7, "reading": 7},
    "clone": {"copying": -1},
    "generate": {"writing manifests": 7},
}


@pytest.mark.parametrize("name", TOLD)
def test_what_is_told_rises_to_all_that_there_is(name: str, table: DeltaTable, tmp_path: Path) -> None:
    reports: list[CareProgress] = []
    size = sum(table.get_add_actions()["size_bytes"].to_pylist())
    command_of(name, table, tmp_path / "other")(reports.append)
    last: dict[str, CareProgress] = {}
    for report in reports:
        assert report.total is None or report.done <= report.total
        if report.phase in last:
            assert report.done >= last[report.phase].done
        last[report.phase] = report
    wanted = {phase: size if count < 0 else count for phase, count in TOLD[name].items()}
    assert {phase: (report.done, report.total) for phase, report in last.items()} == {
        p: (n, n) for p, n in wanted.items()
    }


@pytest.mark.parametrize("name", TOLD)
def test_what_it_raises_ends_the_command_and_leaves_the_table(name: str, table: DeltaTable, tmp_path: Path) -> None:
    rows = table.to_pyarrow_table().sort_by("p")

    class Enough(Exception):
        pass

    def stop(_: CareProgress) -> None:
        raise Enough

    with pytest.raises(Enough):
        command_of(name, table, tmp_path / "other")(stop)
    assert DeltaTable(table.location).version() == 1
    assert not DeltaTable.is_deltatable(str(tmp_path / "other"))
    # The command can be repeated, and then completes.
    command_of(name, table, tmp_path / "other")(lambda _: None)
    if name != "restore":
        assert DeltaTable(table.location).to_pyarrow_table().sort_by("p").equals(rows)


def test_a_vacuum_that_was_ended_while_it_deleted_says_so(table: DeltaTable) -> None:
    def stop(report: CareProgress) -> None:
        if report.phase == "deleting":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        table.vacuum(0, False, enforce_retention_duration=False, progress=stop)
    end, start = DeltaTable(table.location).history(2)
    assert (start["operation"], end["operation"]) == ("VACUUM START", "VACUUM END")
    assert end["operationParameters"]["status"] == "FAILED"
    assert end["operationMetrics"]["numDeletedFiles"] == "7"


def test_other_threads_run_while_it_is_told(table: DeltaTable) -> None:
    # The callback waits for another thread that needs the interpreter.
    def wait(_: CareProgress) -> None:
        other = threading.Thread(target=lambda: sum(range(1_000)))
        other.start()
        other.join(20)
        assert not other.is_alive()

    assert table.check(deep=True, progress=wait) == []


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_shows_a_bar(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import sys

    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    monkeypatch.setattr(render, "Console", lambda stderr: Console(stderr=stderr, force_terminal=terminal, width=100))
    with render.counts("vacuum", shown=True) as advance:
        advance("looking for files", 10_000, None)
        advance("deleting", 7, 7)
    shown = capsys.readouterr().err
    assert ("vacuum: deleting" in shown and "7/7" in shown) is terminal
    with render.counts("vacuum", shown=False) as advance:
        advance("deleting", 7, 7)
    assert capsys.readouterr().err == ""
