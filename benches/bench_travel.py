"""Opening an older version and listing its files: by number and by timestamp, in a log of commits
alone and behind a checkpoint.

deltalake opens the newest version first to resolve a timestamp; its option for leaving out the file
list has no effect there.
"""

from __future__ import annotations

import argparse
import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.harness import Case, Task, main, scale_of
from support.logs import Log

COMMITS = {"quick": 100, "small": 1_000, "full": 10_000}
FILES = {"quick": 1_000, "small": 100_000, "full": 1_000_000}


def _asked(case: Mapping[str, Any]) -> int | str:
    """The version's number, or a time between it and the next one, which was committed a second
    later."""
    if not case["by_moment"]:
        return int(case["version"])
    committed = (Path(case["path"]) / "_delta_log" / f"{case['version']:020d}.json").stat().st_mtime
    return dt.datetime.fromtimestamp(committed + 0.5, dt.timezone.utc).isoformat()


def deltaplane(case: Mapping[str, Any], scratch: Path) -> Task:
    from deltaplane import DeltaTable

    asked = _asked(case)

    def run() -> int:
        table = DeltaTable(case["path"], version=asked)
        return table.version() + len(table.files())

    return Task(run)


def deltalake(case: Mapping[str, Any], scratch: Path) -> Task:
    from deltalake import DeltaTable

    asked = _asked(case)

    def run() -> int:
        if isinstance(asked, int):
            table = DeltaTable(case["path"], version=asked)
        else:
            table = DeltaTable(case["path"], without_files=True)
            table.load_as_version(asked)
            table = DeltaTable(case["path"], version=table.version())
        return table.version() + len(table.file_uris())

    return Task(run)


CONTESTANTS = {"deltaplane": deltaplane, "deltalake": deltalake}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--commits", type=int, help="commits of the log without checkpoint, instead of the scale's")
    parser.add_argument("--files", type=int, help="files of the table with a checkpoint, instead of the scale's")


def cases(options: argparse.Namespace) -> list[Case]:
    commits = options.commits or COMMITS[scale_of(options)]
    files = options.files or FILES[scale_of(options)]
    of_commits, of_checkpoint = Log(commits, "commits", tail=commits), Log(files)
    half = commits // 2
    # Each commit adds one file; the checkpoint's later commits replace files.
    older = [
        (of_commits, f"{commits:,} commits", half, half + half + 1),
        (of_checkpoint, f"{files:,} files", of_checkpoint.version - 2, of_checkpoint.version - 2 + files),
    ]
    all_cases = []
    for log, name, version, expected in older:
        for what in ("version", "moment"):
            arguments = log.arguments(version=version, by_moment=what == "moment")
            all_cases.append(Case(f"{name}, older {what}", list(CONTESTANTS), arguments, 1, expected))
    return all_cases


if __name__ == "__main__":
    main("travel", CONTESTANTS, cases, arguments)
