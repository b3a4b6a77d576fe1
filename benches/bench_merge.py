"""MERGE: updates and inserts by key, spread over the whole table, in one range of it, and in a few
files only.

The source has one row per hundred rows of the table, one in ten of them new; `narrow` has 999 rows
of one file.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from support.changed_tables import FILES, MODES, source_of, tables, task
from support.harness import Case, Contestant, Task, main, scale_of
from support.rows import ROWS, SEED


def keys(kind: str, scale: str) -> Any:
    """The ids of the source."""
    rows = ROWS[scale]
    count = rows // 100
    if kind == "spread":
        return np.random.default_rng(SEED).choice(rows + rows // 9, count, replace=False)
    per_file = rows // FILES[scale]
    # Starts in the middle of a file.
    first = per_file * (FILES[scale] // 2) + per_file // 3
    return np.arange(first, first + (count if kind == "clustered" else 999))


def contestant(name: str, case: Mapping[str, Any], scratch: Path) -> Task:
    source = source_of(keys(case["kind"], case["scale"]))

    def merge(table: Any) -> Any:
        merger = table.merge(source, "t.id = s.id", source_alias="s", target_alias="t")
        return merger.when_matched_update_all().when_not_matched_insert_all().execute()

    return task(name, case, scratch, merge, lambda m: m["num_target_rows_updated"] + m["num_target_rows_inserted"])


CONTESTANTS: dict[str, Contestant] = {n: functools.partial(contestant, n) for n in ("deltaplane", "deltalake")}


def arguments(parser: argparse.ArgumentParser) -> None:
    del parser


def cases(options: argparse.Namespace) -> list[Case]:
    scale = scale_of(options)
    return [
        Case(
            f"{kind}, {mode}",
            list(CONTESTANTS),
            functools.partial(lambda k, m: {"kind": k, "scale": scale, "tables": tables(scale, m)}, kind, mode),
            expected=len(keys(kind, scale)),
            target=f"merge {kind} {mode}",
        )
        for kind in ("spread", "clustered", "narrow")
        for mode in MODES
    ]


if __name__ == "__main__":
    main("merge", CONTESTANTS, cases, arguments)
