"""Opening a table, by the number of its files: version, protocol and schema, without any row.

deltalake reads the list of files at once unless it is told not to; both ways are shown.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness import Case, Task, main
from logs import TAIL_COMMITS, Log


def deltaplane(case: Mapping[str, Any], scratch: Path) -> Task:
    from deltaplane import DeltaTable

    def run() -> int:
        table = DeltaTable(case["path"])
        return table.version() + len(table.schema().fields)

    return Task(run)


def deltalake(case: Mapping[str, Any], scratch: Path, without_files: bool = False) -> Task:
    from deltalake import DeltaTable

    def run() -> int:
        table = DeltaTable(case["path"], without_files=without_files)
        return table.version() + len(table.schema().fields)

    return Task(run)


def deltalake_without_files(case: Mapping[str, Any], scratch: Path) -> Task:
    return deltalake(case, scratch, without_files=True)


CONTESTANTS = {
    "deltaplane": deltaplane,
    "deltalake": deltalake,
    "deltalake without_files": deltalake_without_files,
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--files", type=int, nargs="+", help="numbers of files (1000 10000 100000)")
    parser.add_argument("--commits", type=int, help="commits of the log without checkpoint (1000)")


def cases(options: argparse.Namespace) -> list[Case]:
    columns = 7
    found = []
    for files in options.files or ([1000] if options.quick else [1_000, 10_000, 100_000]):
        path = Log(files).make()
        name = f"checkpoint of {files:,} files, {TAIL_COMMITS} commits"
        found.append(Case(name, list(CONTESTANTS), {"path": str(path)}, 5, expected=1 + TAIL_COMMITS + columns))
    commits = options.commits or (100 if options.quick else 1000)
    path = Log(10 * commits, commits=commits).make()
    name = f"{commits:,} JSON commits, {10 * commits:,} files"
    found.append(Case(name, list(CONTESTANTS), {"path": str(path)}, 5, expected=commits - 1 + columns))
    return found


if __name__ == "__main__":
    main("open", CONTESTANTS, cases, arguments)
