"""The ten newest entries of a long log's history: from the table's location, and from an open
table.

From a location deltaplane reads only the history, without opening the table:
`DeltaTable.history_of`. deltalake has no such call and opens the table. The bar lists the directory
and parses the ten newest commits.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from support.harness import Case, Task, main, scale_of
from support.logs import Log

COMMITS = {"quick": [100], "small": [100, 1_000, 10_000], "full": [100, 1_000, 10_000]}
ENTRIES = 10


Entries = list[dict[str, Any]]


def _task(open_table: Any, of_location: Callable[[str], Entries], case: Mapping[str, Any]) -> Task:
    def versions(entries: Entries) -> int:
        return sum(entry["version"] for entry in entries)

    if case["opened"]:
        table = open_table(case["path"])
        return Task(lambda: table.history(ENTRIES), versions)
    return Task(lambda: of_location(case["path"]), versions)


def deltaplane(case: Mapping[str, Any], scratch: Path) -> Task:
    from deltaplane import DeltaTable

    return _task(DeltaTable, lambda path: DeltaTable.history_of(path, ENTRIES), case)


def deltaplane_opened(case: Mapping[str, Any], scratch: Path) -> Task:
    from deltaplane import DeltaTable

    return _task(DeltaTable, lambda path: DeltaTable(path).history(ENTRIES), case)


def deltalake(case: Mapping[str, Any], scratch: Path) -> Task:
    from deltalake import DeltaTable

    return _task(DeltaTable, lambda path: DeltaTable(path).history(ENTRIES), case)


def by_hand(case: Mapping[str, Any], scratch: Path) -> Task:
    log = Path(case["path"]) / "_delta_log"

    def run() -> int:
        names = sorted(entry.name for entry in log.iterdir() if entry.name.endswith(".json"))[-ENTRIES:]
        actions = [json.loads(line) for name in names for line in (log / name).read_text().splitlines()]
        if sum("commitInfo" in action for action in actions) != ENTRIES:
            raise ValueError(f"not every commit of {log} says what it did")
        return sum(int(name[:20]) for name in names)

    return Task(run)


OPENED, BY_HAND = "deltaplane, opening the table", "by hand"
CONTESTANTS = {"deltaplane": deltaplane, OPENED: deltaplane_opened, "deltalake": deltalake, BY_HAND: by_hand}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--commits", type=int, nargs="+", help="numbers of commits, instead of the scale's")


def cases(options: argparse.Namespace) -> list[Case]:
    all_cases = []
    for count in sorted(options.commits or COMMITS[scale_of(options)]):
        log = Log(count, "commits", tail=count)
        expected = sum(range(count - ENTRIES, count))
        for opened in (False, True):
            how = "open table" if opened else "from location"
            case = Case(
                f"history({ENTRIES}) of {count:,} commits, {how}",
                [name for name in CONTESTANTS if not (opened and name in (OPENED, BY_HAND))],
                log.arguments(opened=opened),
                3,
                expected,
                f"history({ENTRIES}), {how}",
                count,
                "" if opened else "T9",
            )
            all_cases.append(case)
    return all_cases


if __name__ == "__main__":
    main("history", CONTESTANTS, cases, arguments)
