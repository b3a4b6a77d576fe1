"""Writing rows from an Arrow table in memory to a new table on the local disk: six columns, two
codecs.

Plain pyarrow writes one Parquet file, without the table's statistics and without a commit.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from support.harness import Case, Contestant, Task, main, scale_of
from support.rows import CODECS, ROWS, WRITERS, data_files, file_of, in_memory


def contestant(writer: str, case: Mapping[str, Any], scratch: Path) -> Task:
    rows = in_memory(case["rows"])
    path = str(scratch / "table")
    return Task(
        lambda: WRITERS[writer](rows, path, case["codec"]),
        lambda _: sum(pq.read_metadata(p).num_rows for p in data_files(path)),
        lambda _: sum(p.stat().st_size for p in data_files(path)),
    )


CONTESTANTS: dict[str, Contestant] = {name: functools.partial(contestant, name) for name in WRITERS}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, help="rows to append, instead of the scale's")


def cases(options: argparse.Namespace) -> list[Case]:
    rows = options.rows or ROWS[scale_of(options)]
    path = str(file_of(rows))
    return [
        Case(
            f"{rows:,} rows, {codec}",
            list(CONTESTANTS),
            {"rows": path, "codec": codec},
            expected=rows,
            size=rows,
            target="F2",
        )
        for codec in CODECS
    ]


if __name__ == "__main__":
    main("append", CONTESTANTS, cases, arguments)
