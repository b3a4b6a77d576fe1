"""OPTIMIZE: joins a thousand small files into few, and orders rows along a Z-order curve of two
columns.

delta-spark's session exists before its time begins, but its JVM is as cold as a job's.
"""

from __future__ import annotations

import argparse
import functools
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support import harness
from support.changed_tables import files_below, opened, table_of, written_since
from support.harness import Case, Contestant, Task, main, scale_of
from support.rows import ROWS, SEED, file_of, in_memory
from support.sparks import ENGINES, aim_at, copied, is_there, session, task

SMALL_FILES = {"quick": 50, "small": 1_000, "full": 1_000}
ROWS_OF_SMALL = {"quick": 100, "small": 1_000, "full": 10_000}
COLUMNS = ["account", "amount"]
# Small enough for several resulting files.
TARGET_BYTES = 32 << 20


def small_files(scale: str) -> Path:
    """A table of many small files, made if it doesn't exist."""
    files, rows = SMALL_FILES[scale], ROWS_OF_SMALL[scale]
    path = harness.CACHE / f"small-{files}-{rows}-{SEED}"
    if not path.exists():
        from deltaplane import write_deltalake

        data = in_memory(file_of(max(files * rows, ROWS["quick"])))
        unfinished = path.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        for file in range(files):
            write_deltalake(str(unfinished), data.slice(file * rows, rows), mode="append")
        unfinished.rename(path)
    return path


def contestant(name: str, case: Mapping[str, Any], scratch: Path) -> Task:
    table, path = opened(name, {"tables": dict.fromkeys(CONTESTANTS, case["table"])}, scratch)
    before = files_below(path)

    def change() -> dict[str, Any]:
        if case["kind"] == "compact":
            done: dict[str, Any] = table.optimize.compact(target_size=TARGET_BYTES)
        else:
            done = table.optimize.z_order(COLUMNS, target_size=TARGET_BYTES)
        return done

    return Task(change, lambda done: int(done["numFilesRemoved"]), lambda _: written_since(path, before))


def delta_spark(case: Mapping[str, Any], scratch: Path) -> Task:
    spark = session(scratch, ENGINES["delta-spark"].settings())
    aim_at(spark, TARGET_BYTES)
    path = copied(case["table"], scratch)
    before = files_below(path)
    order = f" ZORDER BY ({', '.join(COLUMNS)})" if case["kind"] == "z-order" else ""

    def change() -> int:
        return int(spark.sql(f"OPTIMIZE delta.`{path}`{order}").collect()[0]["metrics"]["numFilesRemoved"])

    return task(change, size_bytes=lambda _: written_since(path, before))


CONTESTANTS: dict[str, Contestant] = {n: functools.partial(contestant, n) for n in ("deltaplane", "deltalake")}
if is_there("delta-spark"):
    CONTESTANTS["delta-spark"] = delta_spark


def arguments(parser: argparse.ArgumentParser) -> None:
    del parser


def cases(options: argparse.Namespace) -> list[Case]:
    scale = scale_of(options)
    return [
        Case(
            f"{kind}, {what}",
            list(CONTESTANTS),
            functools.partial(lambda kind, make, *where: {"kind": kind, "table": str(make(*where))}, kind, *made),
            target=f"optimize {kind}",
        )
        for kind, what, made in (
            ("compact", f"{SMALL_FILES[scale]:,} files", (small_files, scale)),
            ("z-order", f"{ROWS[scale]:,} rows", (table_of, scale, "copy-on-write")),
        )
    ]


if __name__ == "__main__":
    main("optimize", CONTESTANTS, cases, arguments)
