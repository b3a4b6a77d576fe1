"""Small consecutive commits: an append of one row to an empty table and to large ones, and a commit
alone, durable.

Due checkpoints are part of the mean, not of the median. To include checkpoints, enough appends
follow each other that every table writes its share of them. The bar does a commit's disk
operations, see commits.py.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from support import commits, sizes
from support.harness import Case, Contestant, Task, main, scale_of
from support.logs import Log

# Commits in each process: ten, so that a checkpoint every ten commits is due once.
CALLS = {"quick": 3, "small": 10, "full": 10}
DURABLE_CALLS = {"quick": 5, "small": 50, "full": 100}
# Maximum number of commits for which deltaplane delays a checkpoint by itself.
RATE_CALLS = {"quick": 3, "small": 100, "full": 100}
RATE_FILES = 1_000_000
# From this size on deltalake takes seconds for each commit.
PEER_FILES = 100_000


def contestant(name: str, case: Mapping[str, Any], scratch: Path) -> Task:
    """`with_rows`: writes and commits a file of one row; otherwise commits only the add of an
    imaginary file."""
    log = Log(**case["log"])
    table = log.copy_to(scratch / "table")
    commit = (commits.APPENDS if case["with_rows"] else commits.COMMITS)[name](str(table))
    return Task(commit, lambda _: commits.newest_version(table))


CONTESTANTS: dict[str, Contestant] = {name: functools.partial(contestant, name) for name in commits.APPENDS}


def rate(log: Log, calls: int) -> Case:
    """Measures appends including the checkpoints that they cause, on a table without removed files:
    removed files would make the next checkpoint rewrite row groups, which appends don't cause.
    """
    log = replace(log, replaced_per_commit=0)
    return Case(
        f"appends with their checkpoints, {log.name}",
        ["deltaplane"],
        log.arguments(with_rows=True),
        calls,
        log.version + 1 + calls,
        series="appends with their checkpoints",
        size=log.files,
        target="T10 rate" if log.files <= PEER_FILES else "",
    )


def cases(options: argparse.Namespace) -> list[Case]:
    scale = scale_of(options)
    all_cases = []
    for files in [0, *sizes.files(options)]:
        log = Log(files, "own")
        case = Case(
            f"one row appended, {log.name}",
            sizes.asked(CONTESTANTS, files, PEER_FILES),
            log.arguments(with_rows=True),
            CALLS[scale],
            # One more for the untimed call.
            log.version + 1 + CALLS[scale],
            series="append of one row",
            size=files,
            target="T10",
        )
        all_cases.append(case)
        if files <= RATE_FILES:
            all_cases.append(rate(log, RATE_CALLS[scale]))
    log, calls = Log(0), DURABLE_CALLS[scale]
    for with_rows in (False, True):
        arguments = log.arguments(with_rows=with_rows)
        name = f"durable, small table, {'one row appended' if with_rows else 'commit alone'}"
        expected = log.version + 1 + calls
        target = "" if with_rows else "T11"
        all_cases.append(Case(name, list(CONTESTANTS), arguments, calls, expected, target=target))
    return all_cases


if __name__ == "__main__":
    main("commit", CONTESTANTS, cases, sizes.arguments)
