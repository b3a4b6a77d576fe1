"""Owns the process that the crash tests kill: it writes to one table until it is ended.

Each attempt is told to a journal before it begins and after it returned, so that the test knows what must be there.
Started by `test_kill.py` with the table, the journal, the first number to use and a seed.
"""

from __future__ import annotations

import itertools
import json
import random
import sys
from pathlib import Path

import pyarrow as pa

from deltaplane import CommitProperties, DeltaTable, write_deltalake

ROWS = 5


def main(table: str, journal: str, first: int, seed: int) -> None:
    """Appends, now and then overwrites or writes a checkpoint, for ever."""
    choose = random.Random(seed)
    with Path(journal).open("a") as file:
        for number in itertools.count(first):
            what = choose.choices(["append", "overwrite"], [20, 2])[0]
            if choose.random() < 0.1 and DeltaTable.is_deltatable(table):
                DeltaTable(table).create_checkpoint()
            print(json.dumps({"begun": number, "mode": what}), file=file, flush=True)
            result = write_deltalake(
                table,
                batch(number),
                mode=what,
                partition_by=["p"],
                commit_properties=CommitProperties(custom_metadata={"userMetadata": str(number)}),
            )
            print(json.dumps({"done": number, "version": result.version}), file=file, flush=True)


def batch(number: int) -> pa.Table:
    """The rows of one write: they name it."""
    return pa.table(
        {"write": [number] * ROWS, "p": [i % 2 for i in range(ROWS)], "text": [f"{number}/{i}" for i in range(ROWS)]}
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
