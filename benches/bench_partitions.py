"""Planning on a table with up to a million partitions of one file each: one partition of all, after
Armbrust et al., "Delta Lake: High-Performance ACID Table Storage over Cloud Object Stores" (VLDB
2020), section 6.1.

Metadata only: no data file exists. The paper reports 108 s cold and 17 s warm for a million
partitions.
"""

from __future__ import annotations

import argparse

from support import sizes
from support.harness import Case, main, scale_of
from support.logs import NAMES, Kind, Log
from support.planners import CONTESTANTS, by_day, of

FILES = {
    "quick": [1_000],
    "small": [1_000, 10_000, 100_000],
    "full": [1_000, 10_000, 100_000, 1_000_000, 10_000_000],
}
# The paper's maximum number of partitions: more days would exceed the dates with four-digit years;
# larger tables have several files per partition.
MOST_PARTITIONS = 1_000_000
KINDS: tuple[Kind, ...] = ("json", "own")


def _numbers(options: argparse.Namespace, kind: Kind) -> list[int]:
    """The requested numbers; by default the foreign checkpoint has only the largest number of
    partitions."""
    numbers = options.files or FILES[scale_of(options)]
    if kind == "own" or options.files:
        return sorted(numbers)
    return [max(n for n in numbers if n <= MOST_PARTITIONS)]


def cases(options: argparse.Namespace) -> list[Case]:
    all_cases = []
    for kind in KINDS:
        for files in _numbers(options, kind):
            log = Log(files, kind, days=min(files, MOST_PARTITIONS))
            query = by_day(log)
            for opened in (False, True):
                how = "warm" if opened else "cold"
                case = Case(
                    f"{files:,} files, {log.days:,} partitions, {NAMES[kind]}, {how}",
                    of(kind, opened, sizes.asked(CONTESTANTS, files)),
                    log.arguments(**query.arguments, opened=opened),
                    calls=3 if opened else 1,
                    expected=query.files,
                    series=f"one of many partitions, {NAMES[kind]}, {how}",
                    size=files,
                    target=f"paper 6.1 {kind} {how}",
                )
                all_cases.append(case)
    return all_cases


if __name__ == "__main__":
    main("partitions", CONTESTANTS, cases, sizes.arguments)
