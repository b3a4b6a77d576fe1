"""Planning a selective query: from the table's location, or an open table, to the files' paths.

One predicate is on the partition column, one on statistics. From the location it is the first call
of its process; on an open table later calls are timed. DuckDB over the checkpoint alone is the bar.
As the table grows by days, the number of matching files stays constant.
"""

from __future__ import annotations

import argparse

from support import sizes
from support.harness import Case, main
from support.logs import NAMES, Log
from support.planners import CONTESTANTS, by_day, by_id, of

# Files per day in tables that grow by days.
A_DAY = 1_000


def _of_log(log: Log) -> list[Case]:
    all_cases = []
    for on, query in (("partition", by_day(log)), ("statistics", by_id(log))):
        for opened in (False, True):
            how = "open table" if opened else "cold"
            case = Case(
                f"{log.name}, {query.condition}, {how}",
                of(log.kind, opened, sizes.asked(CONTESTANTS, log.files)),
                log.arguments(**query.arguments, opened=opened),
                calls=3 if opened else 1,
                expected=query.files,
                series=f"plan on {on}, {NAMES[log.kind]}, {how}",
                size=log.files,
                target=f"plan {on} {log.kind} {how}",
            )
            all_cases.append(case)
    return all_cases


def _growing_by_days(files: int) -> Case:
    log = Log(files, "own", days=max(files // A_DAY, 1))
    query = by_day(log)
    return Case(
        f"{log.name}, {A_DAY:,} a day, {query.condition}, cold",
        of(log.kind, False, sizes.asked(CONTESTANTS, files)),
        log.arguments(**query.arguments, opened=False),
        calls=1,
        expected=query.files,
        series="plan on partition of one length, own checkpoint, cold",
        size=files,
        target="plan days own cold",
    )


def cases(options: argparse.Namespace) -> list[Case]:
    chosen = sizes.logs(options, ["own"], ["json", "structs"])
    all_cases = [case for kind, files in chosen for case in _of_log(Log(files, kind))]
    return all_cases + [_growing_by_days(files) for files in sizes.files(options)]


if __name__ == "__main__":
    main("plan", CONTESTANTS, cases, sizes.arguments)
