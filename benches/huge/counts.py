"""Bytes and reads of operations on tables of millions of files, which don't depend on the build and
the clock. The model of docs/large-tables.md is made of them.

Each operation is the first one of a process of its own. Bytes and calls are the process's own
(`/proc/self/io`), without those of the interpreter's start; memory is the process's peak.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench_huge import CONTESTANTS, HUGE, cases
from support import harness

COLUMNS = ("ms", "CPU ms", "peak MB", "reads", "read kB", "written kB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--hundred-million", action="store_true")
    parser.add_argument("--only", default="", help="only operations whose name contains this")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(_counted(json.load(sys.stdin))))
        return
    sizes = [*options.files, *([HUGE] if options.hundred_million else [])]
    print(f"| operation | {' | '.join(COLUMNS)} |\n| {'--- | ' * (len(COLUMNS) + 1)}")
    every = argparse.Namespace(files=sizes, hundred_million=False)
    for case in cases(every):
        if options.only in case.name:
            order = {"arguments": harness.resolved_arguments(case)}
            command = [sys.executable, __file__, "--child"]
            done = subprocess.run(command, input=json.dumps(order), capture_output=True, text=True, check=False)
            if done.returncode != 0:
                sys.exit(f"{case.name}:\n{done.stderr}")
            counts: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
            print(f"| {case.name} | {' | '.join(f'{counts[name]:,.0f}' for name in COLUMNS)} |", flush=True)


def _counted(order: dict[str, Any]) -> dict[str, float]:
    import deltaplane

    with tempfile.TemporaryDirectory(dir=harness.CACHE) as scratch:
        task = CONTESTANTS[harness.SUBJECT](order["arguments"], Path(scratch))
        # Loads what is loaded at the first use, on no table.
        _loaded(deltaplane.DeltaTable)
        before, cpu, began = _io(), time.process_time(), time.perf_counter()
        task.run()
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        after = _io()
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return {
        "ms": 1000 * seconds,
        "CPU ms": 1000 * cpu,
        "peak MB": int(peak.split()[1]) / 1024,
        "reads": after["syscr"] - before["syscr"],
        "read kB": (after["rchar"] - before["rchar"]) / 1000,
        "written kB": (after["wchar"] - before["wchar"]) / 1000,
    }


def _loaded(open_table: Callable[[str], Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "_delta_log"
        log.mkdir()
        field = {"name": "id", "type": "long", "nullable": True, "metadata": {}}
        schema = json.dumps({"type": "struct", "fields": [field]})
        metadata = {"id": "0", "format": {"provider": "parquet", "options": {}}, "schemaString": schema}
        metadata |= {"partitionColumns": [], "configuration": {}}
        protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
        lines = [{"protocol": protocol}, {"metaData": metadata}]
        (log / f"{0:020d}.json").write_text("\n".join(map(json.dumps, lines)))
        open_table(folder).file_uris("id BETWEEN 1 AND 2")


def _io() -> dict[str, int]:
    pairs = (line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return {name: int(value) for name, value in pairs}


if __name__ == "__main__":
    main()
