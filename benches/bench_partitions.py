"""Planning on a table of many partitions, one file in each: one partition of up to a million, after Armbrust et al.,
"Delta Lake: High-Performance ACID Table Storage over Cloud Object Stores" (VLDB 2020), section 6.1.

Metadata alone: no data file is there. The paper has 108 s cold and 17 s warm for a million partitions.
"""

from __future__ import annotations

import argparse

from harness import Case, main, scale_of
from logs import NAMES, Kind, Log
from planners import CONTESTANTS, by_day

PARTITIONS = {"quick": [1_000], "small": [1_000, 10_000, 100_000], "full": [1_000, 10_000, 100_000, 1_000_000]}
KINDS: tuple[Kind, ...] = ("json", "own")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--partitions", type=int, nargs="+", help="numbers of partitions, instead of the scale's")


def _numbers(options: argparse.Namespace, kind: Kind) -> list[int]:
    """Those that were asked for; else the foreign checkpoint has the largest number only."""
    numbers = PARTITIONS[scale_of(options)]
    return sorted(options.partitions or (numbers if kind == "own" else numbers[-1:]))


def cases(options: argparse.Namespace) -> list[Case]:
    found = []
    for kind in KINDS:
        for partitions in _numbers(options, kind):
            log = Log(partitions, kind, days=partitions)
            query = by_day(log)
            for opened in (False, True):
                how = "warm" if opened else "cold"
                case = Case(
                    f"{partitions:,} partitions, {NAMES[kind]}, {how}",
                    [n for n in CONTESTANTS if not (opened and n == "deltaplane, tuples")],
                    log.given(**query.arguments, opened=opened),
                    calls=3 if opened else 1,
                    expected=query.files,
                    series=f"one of many partitions, {NAMES[kind]}, {how}",
                    size=partitions,
                    target=f"paper 6.1 {how}",
                )
                found.append(case)
    return found


if __name__ == "__main__":
    main("partitions", CONTESTANTS, cases, arguments)
