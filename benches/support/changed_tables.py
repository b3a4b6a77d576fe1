"""Tables whose rows are changed, one for each way of deleting rows, and a fresh copy for each run.

The rows of `rows.py`, ordered by id, in files of equal size.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from support import harness
from support.harness import Task
from support.rows import ROWS, SEED, file_of, in_memory

FILES = {"quick": 8, "small": 64, "full": 64}
MODES = {"vectors": {"delta.enableDeletionVectors": "true"}, "copy-on-write": {}}


def table_of(scale: str, mode: str) -> Path:
    """A table of the scale's rows, made if it doesn't exist."""
    rows, files = ROWS[scale], FILES[scale]
    path = harness.CACHE / f"changed-{rows}-{files}-{mode}-{SEED}"
    if not path.exists():
        from deltaplane import write_deltalake

        data = in_memory(file_of(rows))
        unfinished = path.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        for file in range(files):
            part = data.slice(file * (rows // files), rows // files)
            write_deltalake(str(unfinished), part, mode="append", configuration=MODES[mode])
        unfinished.rename(path)
    return path


def tables(scale: str, mode: str) -> dict[str, str]:
    """The table that each contestant changes: deltalake doesn't write tables with deletion
    vectors."""
    ours, theirs = table_of(scale, mode), table_of(scale, "copy-on-write")
    return {"deltaplane": str(ours), "deltalake": str(theirs)}


def opened(contestant: str, arguments: Mapping[str, Any], scratch: Path) -> tuple[Any, Path]:
    """The contestant's own object for a copy of its table, and the copy's path."""
    path = scratch / "table"
    shutil.copytree(arguments["tables"][contestant], path)
    if contestant == "deltalake":
        import deltalake

        return deltalake.DeltaTable(str(path)), path
    import deltaplane

    return deltaplane.DeltaTable(str(path)), path


def written_since(path: Path, before: set[Path]) -> int:
    """Bytes of new files below a table, including the log's."""
    return sum(p.stat().st_size for p in files_below(path) - before)


def files_below(path: Path) -> set[Path]:
    return {p for p in path.rglob("*") if p.is_file()}


def task(contestant: str, arguments: Mapping[str, Any], scratch: Path, change: Any, answer: Any) -> Task:
    """A run of `change` on a contestant's copy of its table."""
    table, path = opened(contestant, arguments, scratch)
    before = files_below(path)
    return Task(lambda: change(table), answer, lambda _: written_since(path, before))


def source_of(ids: Any) -> pa.Table:
    """New values for these ids, with the table's columns."""
    import numpy as np
    from support.rows import SCHEMA

    count = len(ids)
    cents = np.zeros((count, 2), np.int64)
    prices = pa.Array.from_buffers(SCHEMA.field("price").type, count, [None, pa.py_buffer(cents)])
    columns = [
        pa.array(ids),
        pa.array(ids),
        pa.array(np.zeros(count)),
        pa.array(["changed"]).take(pa.array(np.zeros(count, np.int32))),
        pa.array(np.zeros(count, np.int64)).cast(SCHEMA.field("at").type),
        prices,
    ]
    return pa.table(columns, schema=SCHEMA)
