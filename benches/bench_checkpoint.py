"""Writing a checkpoint of a table, opened in the same call: classic, V2 as a whole, and V2 after
ten small commits. Size is the total of the Parquet files that the call left in the log.

The bars are described beside them. `deltaplane, rewritten` writes again all sidecars of the same
table.
"""

from __future__ import annotations

import argparse
import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from support import sizes
from support.harness import Case, Task, main
from support.logs import Log, Touches

SMALL_COMMITS = 10
TAILS: Mapping[Touches, str] = {
    "nothing": "V2 again, files appended",
    "newest": "V2 again, newest files replaced",
    "anywhere": "V2 again, files all over replaced",
}


def _task(log: Log, scratch: Path, write: Callable[[str], object]) -> Task:
    """One contestant's call on a table of its own; the answer is the resulting number of files in
    the log."""
    table = log.copy_to(scratch / "table")
    before = set(_parquet(table))

    def files(_: Any) -> int:
        from deltaplane import DeltaTable

        return len(DeltaTable(str(table)).files())

    def size(_: Any) -> int:
        written = set(_parquet(table)) - before
        if not written:
            raise OSError(f"no checkpoint was written to {table}")
        return sum(path.stat().st_size for path in written)

    return Task(lambda: write(str(table)), files, size)


def _parquet(table: Path) -> list[Path]:
    return list((table / "_delta_log").rglob("*.parquet"))


def deltaplane(case: Mapping[str, Any], scratch: Path) -> Task:
    from deltaplane import DeltaTable

    return _task(Log(**case["log"]), scratch, lambda path: DeltaTable(path).create_checkpoint())


def deltaplane_rewritten(case: Mapping[str, Any], scratch: Path) -> Task:
    return deltaplane({"log": asdict(_not_yet_written(Log(**case["log"])))}, scratch)


def _not_yet_written(log: Log) -> Log:
    """As many files and commits, but without the sidecars of an earlier checkpoint."""
    return replace(log, kind="v2-due", tail=2 * log.tail)


def deltalake(case: Mapping[str, Any], scratch: Path) -> Task:
    from deltalake import DeltaTable

    return _task(Log(**case["log"]), scratch, lambda path: DeltaTable(path).create_checkpoint())


def bare_encode(case: Mapping[str, Any], scratch: Path) -> Task:
    """Plain re-encoding of the existing checkpoint, a row group at a time, synced. It neither sorts
    the files nor parses their statistics."""
    import pyarrow.parquet as pq

    checkpoint = case["checkpoints"][0]
    target = scratch / "again.parquet"

    def run() -> int:
        adds = 0
        source = pq.ParquetFile(checkpoint)
        with pq.ParquetWriter(target, source.schema_arrow, compression="zstd", compression_level=1) as writer:
            for group in range(source.num_row_groups):
                rows = source.read_row_group(group)
                adds += sum(chunk.field("path").drop_null().__len__() for chunk in rows["add"].chunks)
                writer.write_table(rows)
        handle = os.open(target, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)
        return adds

    return Task(run, int, lambda _: target.stat().st_size)


def sorted_encode(case: Mapping[str, Any], scratch: Path) -> Task:
    """Writes the files ordered by path, and their statistics as texts and as structs, on one thread
    and with bounded memory: the floor of a checkpoint by which readers skip."""
    import duckdb

    source, target = case["checkpoints"][0], scratch / "sorted.parquet"
    connection = duckdb.connect()
    connection.execute(f"SET threads = 1; SET memory_limit = '1500MB'; SET temp_directory = '{scratch / 'spilled'}'")
    shape = connection.execute(
        f"SELECT json_structure(add.stats) FROM read_parquet('{source}') WHERE add.stats IS NOT NULL LIMIT 1"
    ).fetchone()
    assert shape is not None
    files = (
        f"SELECT txn, remove, metaData, protocol, struct_insert(add, stats_parsed := "
        f"json_transform(add.stats, '{shape[0]}')) AS add FROM read_parquet('{source}') ORDER BY add.path"
    )

    def run() -> int:
        connection.execute(f"COPY ({files}) TO '{target}' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)")
        handle = os.open(target, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)
        counted = connection.execute(f"SELECT count(add.path) FROM read_parquet('{target}')").fetchone()
        return int(counted[0]) if counted else 0

    return Task(run, int, lambda _: target.stat().st_size)


SORTED = "DuckDB, sorted"
CONTESTANTS = {
    "deltaplane": deltaplane,
    "deltaplane, rewritten": deltaplane_rewritten,
    "deltalake": deltalake,
    "pyarrow re-encode": bare_encode,
    SORTED: sorted_encode,
}
ALL_FILES = [name for name in CONTESTANTS if name not in ("deltaplane, rewritten", SORTED)]


def _classic(options: argparse.Namespace) -> list[Case]:
    all_cases = []
    for kind, files in sizes.logs(options, ["json"], ["own", "v2-due"]):
        log = Log(files, kind)
        name = {"json": "classic, from a foreign one", "own": "classic, from an own one"}.get(kind, "V2, whole")
        # deltalake writes a classic checkpoint under the policy V2, so it isn't compared.
        asked = [n for n in ALL_FILES if not (kind == "v2-due" and n == "deltalake")]
        asked += [SORTED] if kind == "json" else []
        all_cases.append(_case(log, name, asked, "T7 classic" if kind == "json" else ""))
    return all_cases


def _v2_again(options: argparse.Namespace) -> list[Case]:
    """After ten commits of one file each: sidecars that no commit touched aren't rewritten."""
    all_cases = []
    for touches, name in TAILS.items():
        for kind, files in sizes.logs(options, [], ["v2"]):
            log = Log(files, kind, tail=SMALL_COMMITS, replaced_per_commit=1, touches=touches)
            all_cases.append(_case(log, name, ["deltaplane", "deltaplane, rewritten"], f"T7 V2 {touches}"))
    return all_cases


def _case(log: Log, name: str, contestants: list[str], target: str) -> Case:
    return Case(
        f"{log.files:,} files, {name}",
        sizes.asked(contestants, log.files),
        functools.partial(_arguments_of, log),
        expected=log.live,
        series=f"checkpoint, {name}",
        size=log.files,
        target=target,
    )


def _arguments_of(log: Log) -> Mapping[str, Any]:
    """Also makes the log for `deltaplane, rewritten`, so that making it isn't measured."""
    if log.kind == "v2":
        _not_yet_written(log).make()
    return log.arguments()()


def cases(options: argparse.Namespace) -> list[Case]:
    return _classic(options) + _v2_again(options)


if __name__ == "__main__":
    main("checkpoint", CONTESTANTS, cases, sizes.arguments)
