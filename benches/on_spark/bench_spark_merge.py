"""MERGE, UPDATE and DELETE on Spark, with deletion vectors and by rewriting files, compared with
delta-spark.

A MERGE's source has one row per hundred rows of the table, one in ten of them new: spread over the
whole table or in one range of it. UPDATE and DELETE change one row in a thousand, everywhere. Both
contestants change copies of the same table, and read back the result.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from bench_merge import keys
from support import harness
from support.changed_tables import MODES, files_below, source_of, table_of, written_since
from support.harness import Case, Task, main, scale_of
from support.rows import ROWS
from support.sparks import Engine, checksum, contestants, copied, session, task

CALLS = {"quick": 1, "small": 1, "full": 2}
SCATTERED = "id % 1000 = 7"


def _merge_ours(spark: Any, path: str, source: Any) -> None:
    from deltaplane.spark import DeltaTable

    merge = DeltaTable.forPath(spark, path).alias("t").merge(source.alias("s"), "t.id = s.id")
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()


def _merge_theirs(spark: Any, path: str, source: Any) -> None:
    source.createOrReplaceTempView("s")
    matched, others = "WHEN MATCHED THEN UPDATE SET *", "WHEN NOT MATCHED THEN INSERT *"
    spark.sql(f"MERGE INTO delta.`{path}` t USING s ON t.id = s.id {matched} {others}")


def _update_ours(spark: Any, path: str, source: Any) -> None:
    from deltaplane.spark import DeltaTable

    DeltaTable.forPath(spark, path).update(SCATTERED, {"amount": "amount + 1"})


def _update_theirs(spark: Any, path: str, source: Any) -> None:
    spark.sql(f"UPDATE delta.`{path}` SET amount = amount + 1 WHERE {SCATTERED}")


def _delete_ours(spark: Any, path: str, source: Any) -> None:
    from deltaplane.spark import DeltaTable

    DeltaTable.forPath(spark, path).delete(SCATTERED)


def _delete_theirs(spark: Any, path: str, source: Any) -> None:
    spark.sql(f"DELETE FROM delta.`{path}` WHERE {SCATTERED}")


COMMANDS: Mapping[tuple[str, str], Callable[[Any, str, Any], None]] = {
    ("deltaplane", "merge"): _merge_ours,
    ("delta-spark", "merge"): _merge_theirs,
    ("deltaplane", "update"): _update_ours,
    ("delta-spark", "update"): _update_theirs,
    ("deltaplane", "delete"): _delete_ours,
    ("delta-spark", "delete"): _delete_theirs,
}


def contestant(engine: Engine, case: Mapping[str, Any], scratch: Path) -> Task:
    spark = session(scratch, engine.settings())
    source = spark.read.parquet(case["source"]) if case["source"] else None
    command = COMMANDS[engine.name, case["command"]]
    before: list[set[Path]] = []

    def prepare() -> None:
        before[:] = [files_below(copied(case["path"], scratch))]

    def run() -> Path:
        command(spark, str(scratch / "table"), source)
        return scratch / "table"

    return task(
        run, lambda path: checksum(engine.read(spark, str(path))), prepare, lambda path: written_since(path, before[0])
    )


CONTESTANTS = contestants(contestant)


def arguments(parser: argparse.ArgumentParser) -> None:
    del parser


def _source(kind: str, scale: str) -> str:
    """A file with the source's rows."""
    path = harness.CACHE / f"merged-{kind}-{scale}.parquet"
    pq.write_table(source_of(keys(kind, scale)), path)
    return str(path)


def cases(options: argparse.Namespace) -> list[Case]:
    scale = scale_of(options)

    def arguments_of(command: str, kind: str, mode: str) -> dict[str, Any]:
        source = _source(kind, scale) if command == "merge" else ""
        return {"command": command, "path": str(table_of(scale, mode)), "source": source}

    return [
        Case(
            f"{command}, {kind}, {mode}, {ROWS[scale]:,} rows",
            ("deltaplane", "delta-spark"),
            functools.partial(arguments_of, command, kind, mode),
            calls=CALLS[scale],
            size=ROWS[scale],
            target=f"spark {command}",
            together="rows changed on Spark",
        )
        for command, kind in (
            ("merge", "spread"),
            ("merge", "clustered"),
            ("update", "scattered"),
            ("delete", "scattered"),
        )
        for mode in MODES
    ]


if __name__ == "__main__":
    main("spark merge", CONTESTANTS, cases, arguments)
