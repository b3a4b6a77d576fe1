"""The process that uses hostile tables: it runs all user actions on each, and reports the outcomes.
The system limits its memory, so that a decompression bomb ends the process instead of the machine.
`hostile.py` starts one for many tables.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import DeltaError

MORE = pa.table({"x": pa.array([3], pa.int64()), "p": ["c"]})

Action = Callable[[DeltaTable], Any]
READS: dict[str, Action] = {
    "rows": lambda t: t.to_pyarrow_table(),
    "some rows": lambda t: t.to_pyarrow_table(filters="x > 1 and p = 'a'"),
    "row ids": lambda t: t.scan(["x", "_file", "_row"]).to_arrow(),
    "count": lambda t: t.count(),
    "files": lambda t: t.get_add_actions(flatten=True),
    "uris": lambda t: t.file_uris(),
    "partitions": lambda t: t.partitions(),
    "vectors": lambda t: [len(batch) for batch in t.deletion_vectors()],
    "history": lambda t: t.history(),
    "said": lambda t: (t.metadata(), t.protocol(), t.schema().to_arrow(), t.domain_metadata()),
    "feed": lambda t: t.load_cdf(0).to_arrow(),
    "time": lambda t: t.load_as_version("2024-01-01"),
}
# Each runs on a copy, since it changes the table.
CHANGES: dict[str, Callable[[str], Any]] = {
    "append": lambda path: write_deltalake(path, MORE, mode="append"),
    "overwrite": lambda path: write_deltalake(path, MORE, mode="overwrite"),
    "delete": lambda path: DeltaTable(path).delete("x = 1"),
    "update": lambda path: DeltaTable(path).update({"x": "x + 1"}, predicate="x = 1"),
    "purge": lambda path: DeltaTable(path).purge(),
    "alter": lambda path: DeltaTable(path).alter.set_table_properties({"mine": "1"}),
    "checkpoint": lambda path: DeltaTable(path).create_checkpoint(),
    "clean up": lambda path: DeltaTable(path).cleanup_metadata(),
    "compact": lambda path: DeltaTable(path).compact_logs(0, 1),
}
# Actions for tables that take long, or are numerous.
FEW = ("rows", "some rows", "count", "history", "feed", "append", "delete")


def tell(action: str, do: Callable[[], Any]) -> None:
    """Runs the action and prints its outcome; prints `starts` before, in case the process dies."""
    print(json.dumps({"starts": action}), flush=True)
    # Resets the measured memory peak.
    Path("/proc/self/clear_refs").write_text("5")
    before = megabytes("VmRSS")
    began = time.monotonic()
    try:
        do()
        outcome, text = "ok", ""
    except DeltaError as e:
        outcome, text = e.kind, str(e)
    except BaseException as e:  # noqa: BLE001 - a panic is one, and is what is looked for
        outcome, text = f"untyped {type(e).__name__}", str(e)
    report = {
        "did": action,
        "outcome": outcome,
        "text": text[:2000],
        "seconds": time.monotonic() - began,
        "mb": megabytes("VmHWM") - before,
    }
    print(json.dumps(report), flush=True)


def megabytes(what: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(what)).split()[1]) >> 10


def meet(path: str, actions: set[str]) -> None:
    """Runs these actions on one table. Files of a log and of data are immutable, so a copy consists
    of links."""
    opened: list[DeltaTable] = []
    tell("open", lambda: opened.append(DeltaTable(path)))
    for name, action in READS.items() if opened else ():
        if name in actions:
            tell(name, lambda action=action: action(opened[0]))
    copy = f"{path}-copy"
    for name, change in CHANGES.items():
        if name not in actions:
            continue
        shutil.copytree(path, copy, symlinks=True, copy_function=linked)
        tell(name, lambda change=change: change(copy))
        shutil.rmtree(copy)


def linked(source: str, target: str) -> None:
    os.link(source, target, follow_symlinks=False)


def main(limit_mb: int) -> None:
    """Reads tables from standard input, each a line of JSON: its path, and whether to run all
    actions."""
    logging.getLogger("deltaplane").setLevel(logging.CRITICAL)
    resource.setrlimit(resource.RLIMIT_AS, (limit_mb << 20, limit_mb << 20))
    for table in map(json.loads, sys.stdin):
        print(json.dumps({"table": table["path"]}), flush=True)
        meet(table["path"], {*READS, *CHANGES} if table["all"] else set(FEW))


if __name__ == "__main__":
    main(int(sys.argv[1]))
