"""A process that reads tables of known rows through the local cache, over and over, until it is
killed. Run by `test_cache_kill.py`.
"""

from __future__ import annotations

import random
import traceback
from pathlib import Path

import pyarrow.compute as pc

from deltaplane import DeltaTable

# Rows of a file; a table has one file a commit, with the numbers that follow those before.
ROWS = 2_000


def main(paths: list[str], versions: int, options: dict[str, str], journal: str, seed: int) -> None:
    """Notes an answer a line, and what was wrong with it: never anything, if the cache is sound."""
    choose = random.Random(seed)
    with Path(journal).open("a", buffering=1) as notes:
        while True:
            path, version = choose.choice(paths), choose.randrange(versions)
            try:
                wrong = _read(path, version, options, choose)
            except Exception:  # noqa: BLE001 - whatever it is, a reader should not have seen it
                wrong = traceback.format_exc().replace("\n", " | ")
            notes.write(f"read {path} {version}: {wrong or 'right'}\n")


def _read(path: str, version: int, options: dict[str, str], choose: random.Random) -> str:
    table = DeltaTable(path, version=version, storage_options=options)
    rows = (version + 1) * ROWS
    first = choose.randrange(rows)
    rows_read = table.to_pyarrow_table(filters=[("x", ">=", first)])
    total, expected = pc.sum(rows_read["x"]).as_py(), sum(range(first, rows))
    return (
        ""
        if (rows_read.num_rows, total) == (rows - first, expected)
        else f"{rows_read.num_rows} rows from {first}, {total}"
    )
