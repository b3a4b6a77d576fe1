"""Writers in 2, 4 and 8 processes that append to one table at once, each by blind single commits.

Time is from the moment when all writers are ready to the last commit, CPU is the total of all
writers, memory that of the largest. A commit that a writer gave up counts as failed. The bars race
by links alone, or also read winners' commits, or also write as many checkpoints as deltaplane, see
commits.py.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import sys
from collections.abc import Mapping
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from support import commits
from support.harness import Case, Contestant, Elsewhere, Task, main, scale_of, used_by_this_process
from support.logs import Log

PROCESSES = (2, 4, 8)
APPENDS = {"quick": 5, "small": 25, "full": 100}
# Longer than any start of eight interpreters takes.
READY_SECONDS = 120


def _writer(
    contestant: str, table: str, appends: int, ready: Barrier, begin: Barrier, results: SimpleQueue[Any]
) -> None:
    commit = commits.RACES[contestant](table)
    ready.wait(READY_SECONDS)
    begin.wait(READY_SECONDS)
    before = used_by_this_process()
    failed, why = 0, ""
    for _ in range(appends):
        try:
            commit()
        except Exception as e:  # noqa: BLE001 - whatever a peer raises, its commit isn't there
            failed, why = failed + 1, repr(e)
    after = used_by_this_process()
    results.put((failed, why, after.cpu_s - before.cpu_s, after.peak_mb))


def contestant(name: str, case: Mapping[str, Any], scratch: Path) -> Task:
    table = Log(**case["log"]).copy_to(scratch / "table")
    processes, appends = case["processes"], case["appends"]
    began = commits.newest_version(table)
    context = multiprocessing.get_context("spawn")
    ready, begin, results = context.Barrier(processes + 1), context.Barrier(processes + 1), context.SimpleQueue()
    for _ in range(processes):
        arguments = (name, str(table), appends, ready, begin, results)
        context.Process(target=_writer, args=arguments, daemon=True).start()

    def run() -> list[tuple[int, str, float, float]]:
        begin.wait(READY_SECONDS)
        return [results.get() for _ in range(processes)]

    def failed(writers: list[tuple[int, str, float, float]]) -> int:
        return sum(writer[0] for writer in writers)

    def attempts(writers: list[tuple[int, str, float, float]]) -> int:
        for writer in writers:
            if writer[1]:
                print(f"{name}: {writer[0]} commits failed, the last one: {writer[1]}", file=sys.stderr)
        return commits.newest_version(table) - began + failed(writers)

    def elsewhere(writers: list[tuple[int, str, float, float]]) -> Elsewhere:
        return Elsewhere(sum(writer[2] for writer in writers), max(writer[3] for writer in writers))

    return Task(run, attempts, prepare=lambda: ready.wait(READY_SECONDS), failed=failed, elsewhere=elsewhere)


CONTESTANTS: dict[str, Contestant] = {name: functools.partial(contestant, name) for name in commits.RACES}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--appends", type=int, help="commits of each writer, instead of the scale's")
    parser.add_argument("--processes", type=int, nargs="+", default=list(PROCESSES), help="numbers of writers (2 4 8)")


def cases(options: argparse.Namespace) -> list[Case]:
    log = Log(0)
    appends = options.appends or APPENDS[scale_of(options)]
    return [
        Case(
            f"{processes} writers, {appends} commits each",
            list(CONTESTANTS),
            log.arguments(processes=processes, appends=appends),
            expected=processes * appends,
            series="concurrent writers, all commits",
            size=processes,
            target=f"T12 {processes}",
        )
        for processes in options.processes
    ]


if __name__ == "__main__":
    main("concurrent", CONTESTANTS, cases, arguments)
