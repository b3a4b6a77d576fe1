"""Opening a log of many small commits and listing its files: without a checkpoint, and behind one.

The bar is Python's json.loads over the same lines, once with and once without reading the files;
reading them alone, by three system calls for each, is the floor of any program.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from support.harness import Case, Task, main, scale_of
from support.logs import Log

COMMITS = {"quick": [100], "small": [100, 1_000, 10_000], "full": [100, 1_000, 10_000]}
# Files of the checkpoint before as many commits.
FILES_BEHIND = {"quick": 1_000, "small": 10_000, "full": 1_000_000}


def deltaplane(case: Mapping[str, Any], scratch: Path) -> Task:
    from deltaplane import DeltaTable

    return Task(lambda: DeltaTable(case["path"]).files(), len)


def deltalake(case: Mapping[str, Any], scratch: Path) -> Task:
    from deltalake import DeltaTable

    return Task(lambda: DeltaTable(case["path"]).file_uris(), len)


def _parsed(texts: Iterable[str]) -> list[dict[str, Any]]:
    return [action for text in texts for line in text.splitlines() if "add" in (action := json.loads(line))]


def json_loads(case: Mapping[str, Any], scratch: Path) -> Task:
    texts = [path.read_text() for path in _commits(case)]
    return Task(lambda: _parsed(texts), len)


def read_and_loads(case: Mapping[str, Any], scratch: Path) -> Task:
    return Task(lambda: _parsed(path.read_text() for path in _commits(case)), len)


def reading(case: Mapping[str, Any], scratch: Path) -> Task:
    paths = [os.fspath(path) for path in _commits(case)]
    most = max(path.stat().st_size for path in _commits(case)) + 1

    def run() -> int:
        read = 0
        for path in paths:
            file = os.open(path, os.O_RDONLY)
            read += len(os.read(file, most)) > 0
            os.close(file)
        return read

    return Task(run, int)


def _commits(case: Mapping[str, Any]) -> list[Path]:
    return sorted((Path(case["path"]) / "_delta_log").glob("*.json"))


CONTESTANTS = {
    "deltaplane": deltaplane,
    "deltalake": deltalake,
    "json.loads alone": json_loads,
    "read, json.loads": read_and_loads,
    "reading alone": reading,
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--commits", type=int, nargs="+", help="numbers of commits, instead of the scale's")


def cases(options: argparse.Namespace) -> list[Case]:
    commits = sorted(options.commits or COMMITS[scale_of(options)])
    all_cases = []
    for count in commits:
        log = Log(count, "commits", tail=count).arguments()
        name = f"{count:,} commits, no checkpoint"
        all_cases.append(Case(name, list(CONTESTANTS), log, 1, count, "commits without checkpoint", count, "T8"))
    files, count = FILES_BEHIND[scale_of(options)], commits[-1]
    log = Log(files, "json", tail=count, replaced_per_commit=1).arguments()
    name = f"{count:,} commits after a checkpoint of {files:,} files"
    all_cases.append(Case(name, ["deltaplane", "deltalake"], log, 1, files))
    return all_cases


if __name__ == "__main__":
    main("replay", CONTESTANTS, cases, arguments)
