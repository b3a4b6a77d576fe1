"""Several processes append to one local table at once: nothing is lost, nothing is written twice, nobody fails."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from deltaplane import DeltaTable, write_deltalake
from interop.verifier import verify

PROCESSES, APPENDS = 4, 25


def test_racing_processes_lose_nothing(tmp_table: Callable[[], str]) -> None:
    table = tmp_table()
    write_deltalake(table, pa.table({"id": pa.array([], pa.int64())}))
    script = str(Path(__file__).with_name("appender.py"))
    processes = [
        subprocess.Popen(
            [sys.executable, script, table, str(n * APPENDS), str(APPENDS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for n in range(PROCESSES)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        ended = [process.communicate(timeout=240) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert [err for _, err in ended if err] == []
    assert [process.returncode for process in processes] == [0] * PROCESSES
    versions = sorted(int(line) for out, _ in ended for line in out.split())
    assert versions == list(range(1, PROCESSES * APPENDS + 1))
    opened = DeltaTable(table)
    assert opened.version() == PROCESSES * APPENDS
    assert sorted(opened.to_pyarrow_table()["id"].to_pylist()) == list(range(PROCESSES * APPENDS))
    verify(table)
