"""MERGE of one row into a table with a large log: of a hundred thousand files with a hundred
million rows, one may have the key, or none. Only that file exists, so opening any other file fails,
as in deltalake 1.6.6.

The bar does the minimum of disk operations, all synced: rewriting the one file, or writing a file
of one row, and a commit, with the file known in advance.
"""

from __future__ import annotations

import argparse
import functools
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from support import harness
from support.adds import PARTITION_COLUMN, ROWS_PER_FILE, rows
from support.changed_tables import task
from support.commits import bare_append, sync, sync_folder
from support.harness import Case, Contestant, Task, main, scale_of
from support.logs import Log, commit_by_hand

FILES = {"quick": 1_000, "small": 10_000, "full": 100_000}


def table_of(files: int) -> Path:
    """The table, made if it doesn't exist: a foreign log in which one file is replaced by an
    existing one."""
    path = harness.CACHE / f"keyed-{files}"
    if not path.exists():
        from deltaplane import DeltaTable

        unfinished = path.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        log = Log(files, "json")
        log.copy_to(unfinished)
        first = _key(files) - ROWS_PER_FILE // 2
        (old,) = DeltaTable(str(unfinished)).plan(f"id = {first}").read_all().to_pylist()
        folder, day = f"{PARTITION_COLUMN}={log.day(files // 2)}", str(log.day(files // 2))
        new = unfinished / folder / "there.parquet"
        new.parent.mkdir(exist_ok=True)
        ids = pa.array(np.arange(first, first + ROWS_PER_FILE))
        pq.write_table(rows(0, ROWS_PER_FILE).set_column(0, "id", ids).drop_columns([PARTITION_COLUMN]), new)
        values = {"partitionValues": {PARTITION_COLUMN: day}, "dataChange": True}
        stats = {
            "numRecords": ROWS_PER_FILE,
            "minValues": {"id": first},
            "maxValues": {"id": first + ROWS_PER_FILE - 1},
            "nullCount": {"id": 0},
        }
        add = {"path": f"{folder}/{new.name}", "size": new.stat().st_size, "modificationTime": 0, **values}
        actions: list[Mapping[str, Any]] = [
            {"remove": {"path": old["path"], "deletionTimestamp": 0, "size": old["size_bytes"], **values}},
            {"add": {**add, "stats": json.dumps(stats)}},
        ]
        commit_by_hand(unfinished, log.version + 1, [json.dumps(action) for action in actions])
        unfinished.rename(path)
    return path


def _key(files: int) -> int:
    """A key in the middle of the existing file."""
    return files // 2 * ROWS_PER_FILE + ROWS_PER_FILE // 2


def deltaplane(case: Mapping[str, Any], scratch: Path) -> Task:
    source = rows(0, 1).set_column(0, "id", pa.array([case["key"]]))

    def merge(table: Any) -> Any:
        merger = table.merge(source, "t.id = s.id", source_alias="s", target_alias="t")
        return merger.when_matched_update_all().when_not_matched_insert_all().execute()

    return task(
        "deltaplane", case, scratch, merge, lambda m: m["num_target_rows_updated"] * 2 + m["num_target_rows_inserted"]
    )


def by_hand(case: Mapping[str, Any], scratch: Path) -> Task:
    path = scratch / "table"
    shutil.copytree(case["tables"]["deltaplane"], path)
    (old,) = path.rglob("there.parquet")
    append = bare_append(str(path))

    def write() -> int:
        if case["there"]:
            rows = pq.read_table(old, partitioning=None)
            with old.with_name("new.parquet").open("wb") as file:
                pq.write_table(rows.filter(pc.not_equal(rows["id"], case["key"])), file, compression="zstd")
                sync(file)
            sync_folder(old.parent)
        append()
        return 2 if case["there"] else 1

    return Task(write, int, lambda _: 0)


CONTESTANTS: dict[str, Contestant] = {"deltaplane": deltaplane, "one file by hand": by_hand}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--files", type=int, help="files of the table, instead of the scale's")


def cases(options: argparse.Namespace) -> list[Case]:
    files = options.files or FILES[scale_of(options)]

    def arguments_of(what: str) -> dict[str, Any]:
        return {"key": keys[what], "there": what == "updated", "tables": {"deltaplane": str(table_of(files))}}

    keys = {"updated": _key(files), "inserted": 2 * files * ROWS_PER_FILE}
    return [
        Case(
            f"one row {what}, {files * ROWS_PER_FILE:,} rows in {files:,} files",
            list(CONTESTANTS),
            functools.partial(arguments_of, what),
            expected=2 if what == "updated" else 1,
            series=f"one row {what}",
            size=files,
            target=f"merge one row {what}",
        )
        for what in keys
    ]


if __name__ == "__main__":
    main("keyed merge", CONTESTANTS, cases, arguments)
