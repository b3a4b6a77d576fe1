"""Moving an open table to the newest version after one foreign commit; alone, and with a plan on
it.

The bar lists the log's directory and parses the one commit.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from support import sizes
from support.harness import Case, Task, main
from support.logs import NAMES, Log, commit_by_hand
from support.planners import by_id

CALLS = 5


def _copied(case: Mapping[str, Any], scratch: Path) -> tuple[Path, Callable[[], None]]:
    """The table in a directory of its own, and a function that commits one more file to it."""
    log = Log(**case["log"])
    table = log.copy_to(scratch / "table")
    versions = count(log.version + 1)

    def commit() -> None:
        version = next(versions)
        # Beyond all other files, so that no plan selects it.
        new = log.adds(np.array([log.files + version]))
        commit_by_hand(table, version, new.add_lines())

    return table, commit


def deltaplane(case: Mapping[str, Any], scratch: Path) -> Task:
    from deltaplane import DeltaTable

    path, commit = _copied(case, scratch)
    table = DeltaTable(str(path))
    predicate = case["sql"]
    # An open table with an earlier plan, as in a service.
    table.file_uris(predicate)

    def run() -> int:
        table.update_incremental()
        return len(table.file_uris(predicate)) if case["plans"] else table.version()

    return Task(run, prepare=commit)


def deltalake(case: Mapping[str, Any], scratch: Path) -> Task:
    from deltalake import DeltaTable

    path, commit = _copied(case, scratch)
    table = DeltaTable(str(path))
    filters = [tuple(part) for part in case["filters"]]

    def run() -> int:
        table.update_incremental()
        return len(table.file_uris(file_pruning_predicate=filters)) if case["plans"] else table.version()

    return Task(run, prepare=commit)


def by_hand(case: Mapping[str, Any], scratch: Path) -> Task:
    path, commit = _copied(case, scratch)
    log = path / "_delta_log"

    def run() -> int:
        newest = max(entry.name for entry in log.iterdir() if entry.name.endswith(".json"))
        for line in (log / newest).read_text().splitlines():
            json.loads(line)
        return int(newest[:20])

    return Task(run, prepare=commit)


CONTESTANTS = {"deltaplane": deltaplane, "deltalake": deltalake, "by hand": by_hand}


def _of_log(log: Log) -> list[Case]:
    query = by_id(log)
    all_cases = []
    for plans in (False, True):
        how = "refresh and plan" if plans else "refresh"
        case = Case(
            f"{log.name}, {how}",
            [n for n in sizes.asked(CONTESTANTS, log.files) if not (plans and n == "by hand")],
            log.arguments(plans=plans, **query.arguments),
            CALLS,
            query.files if plans else log.version + 1 + CALLS,
            series=f"{how}, {NAMES[log.kind]}",
            size=log.files,
            target="" if plans else f"T6 {log.kind}",
        )
        all_cases.append(case)
    return all_cases


def cases(options: argparse.Namespace) -> list[Case]:
    return [case for kind, files in sizes.logs(options, ["own"], ["json"]) for case in _of_log(Log(files, kind))]


if __name__ == "__main__":
    main("refresh", CONTESTANTS, cases, sizes.arguments)
