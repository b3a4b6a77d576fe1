"""The process that the crash tests kill: it writes to one table until it is killed.

Each write is recorded in a journal before it begins and after it returned, so that the test knows
the expected rows. `killing.py` starts it.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import random
import sys
from pathlib import Path

import pyarrow as pa

from deltaplane import CommitProperties, DeltaTable, write_deltalake

ROWS = 5
VECTORS = {"delta.enableDeletionVectors": "true"}


def main(table: str, journal: str, first: int, seed: int, options: dict[str, str], errors: str) -> None:
    """Appends, and sometimes overwrites, updates, deletes or writes a checkpoint, in an endless
    loop; exceptions go to `errors`."""
    with Path(errors).open("w") as said:
        os.dup2(said.fileno(), sys.stderr.fileno())
    choose = random.Random(seed)
    with Path(journal).open("a") as file:
        for number in itertools.count(first):
            # Ends if the killing process was itself killed.
            if (killer := multiprocessing.parent_process()) is None or not killer.is_alive():
                return
            what = choose.choices(["append", "overwrite", "update", "delete"], [20, 2, 4, 4])[0]
            if not DeltaTable.is_deltatable(table, options):
                what = "append"
            if choose.random() < 0.1 and DeltaTable.is_deltatable(table, options):
                DeltaTable(table, storage_options=options).create_checkpoint()
            print(json.dumps({"begun": number, "mode": what}), file=file, flush=True)
            version = run(what, table, number, options)
            print(json.dumps({"done": number, "version": version}), file=file, flush=True)


def run(what: str, table: str, number: int, options: dict[str, str]) -> int | None:
    """One commit that contains its own number; its version, None if nothing was committed."""
    named = CommitProperties(custom_metadata={"userMetadata": str(number)})
    if what in ("delete", "update"):
        opened = DeltaTable(table, storage_options=options)
    if what == "delete":
        return opened.delete("text LIKE '%/1'", commit_properties=named).get("version")
    if what == "update":
        changed = {"text": "concat(text, '.')", "p": "1 - p"}
        where = f"write % 3 = {number % 3}"
        return opened.update(changed, predicate=where, commit_properties=named).get("version")
    modes = {"append": "append", "overwrite": "overwrite"}
    return write_deltalake(
        table,
        batch(number),
        mode=modes[what],
        partition_by=["p"],
        commit_properties=named,
        configuration=VECTORS,
        storage_options=options,
    ).version


def batch(number: int) -> pa.Table:
    """The rows of one write, with its number."""
    return pa.table(
        {"write": [number] * ROWS, "p": [i % 2 for i in range(ROWS)], "text": [f"{number}/{i}" for i in range(ROWS)]}
    )
