"""The cost before any table is used: importing the package, its wheel, and sending an open table to
another process by pickle.

Imports run in a new interpreter, compared with one that imports nothing. The wheel is measured if
one is passed: `python benches/bench_start.py --wheel FILE`. deltalake's tables can't be pickled.
"""

from __future__ import annotations

import argparse
import functools
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support import sizes
from support.harness import Case, Contestant, Elsewhere, Task, main
from support.logs import Log

NOTHING = "bare Python"
# Each prints its CPU seconds and its peak memory in MB after the import.
_REPORT = """
import time
status = dict(line.split(":", 1) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(time.process_time(), int(status["VmHWM"].split()[0]) / 1024)
"""


def imported(name: str, case: Mapping[str, Any], scratch: Path) -> Task:
    program = _REPORT if name == NOTHING else f"import {name}\n{_REPORT}"

    def run() -> list[str]:
        return subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        ).stdout.split()

    return Task(run, lambda _: 0, elsewhere=lambda said: Elsewhere(float(said[0]), float(said[1])))


def deltaplane(case: Mapping[str, Any], scratch: Path) -> Task:
    if case["what"] == "import":
        return imported("deltaplane", case, scratch)
    if case["what"] == "wheel":
        return _unpacked(case["wheel"], scratch)
    from deltaplane import DeltaTable

    table = DeltaTable(case["path"])
    return Task(
        lambda: pickle.loads(pickle.dumps(table)),
        lambda table: table.version(),
        lambda table: len(pickle.dumps(table)),
    )


def _unpacked(wheel: str, scratch: Path) -> Task:
    def run() -> int:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(scratch)
            return len(archive.namelist())

    return Task(run, size_bytes=lambda _: Path(wheel).stat().st_size)


def deltalake(case: Mapping[str, Any], scratch: Path) -> Task:
    return imported("deltalake", case, scratch)


CONTESTANTS: dict[str, Contestant] = {
    "deltaplane": deltaplane,
    "deltalake": deltalake,
    NOTHING: functools.partial(imported, NOTHING),
}


def arguments(parser: argparse.ArgumentParser) -> None:
    sizes.arguments(parser)
    parser.add_argument("--wheel", help="a wheel of deltaplane, whose size is then shown")


def cases(options: argparse.Namespace) -> list[Case]:
    all_cases = [Case("import", list(CONTESTANTS), {"what": "import"}, 3, target="T13 import")]
    if options.wheel:
        arguments = {"what": "wheel", "wheel": str(Path(options.wheel).resolve(strict=True))}
        all_cases.append(Case(f"unpack {Path(options.wheel).name}", ["deltaplane"], arguments, target="T13 wheel"))
    for files in sizes.files(options):
        log = Log(files, "own")
        arguments = log.arguments(what="pickle")
        name = f"{log.name}, pickled and opened again"
        all_cases.append(Case(name, ["deltaplane"], arguments, 3, log.version, "pickle and open", files))
    return all_cases


if __name__ == "__main__":
    main("start", CONTESTANTS, cases, arguments)
