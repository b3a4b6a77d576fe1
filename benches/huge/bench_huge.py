"""Tables of millions of files under the policy `v2`: operations that must not grow with them.

Making a table takes some minutes and 0.3 GB for ten million files; `--hundred-million` adds one of
a hundred million. Size is that of the Parquet files that a checkpoint after ten commits wrote; its
bar is the size of the whole checkpoint.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from support.harness import Case, Contestant, Task, main, scale_of
from support.huge_logs import ROWS_PER_FILE, VERSION, HugeLog

FILES = {"quick": [3_000], "small": [30_000, 300_000], "full": [1_000_000, 3_000_000, 10_000_000]}
HUGE = 100_000_000
FILES_BY_ID = 10
COMMITS = 10


def opened(case: Mapping[str, Any], scratch: Path) -> Task:
    from deltaplane import DeltaTable

    def run() -> int:
        table = DeltaTable(case["path"])
        return table.version() + len(table.schema().fields)

    return Task(run)


def planned(case: Mapping[str, Any], scratch: Path) -> Task:
    from deltaplane import DeltaTable

    path, predicate = case["path"], case["sql"]
    if case["opened"]:
        table = DeltaTable(path)
        return Task(lambda: table.file_uris(predicate), len)
    return Task(lambda: DeltaTable(path).file_uris(predicate), len)


def appended(case: Mapping[str, Any], scratch: Path) -> Task:
    import pyarrow as pa

    from deltaplane import DeltaTable, write_deltalake

    table = HugeLog(**case["log"]).copy_to(scratch / "table")
    rows = pa.table({"id": [1], "day": pa.array([date(2026, 1, 1)], pa.date32())})
    return Task(
        lambda: write_deltalake(str(table), rows, mode="append"), lambda _: DeltaTable(str(table)).version() - VERSION
    )


def checkpointed(case: Mapping[str, Any], scratch: Path) -> Task:
    from deltaplane import DeltaTable

    table = HugeLog(**case["log"]).copy_to(scratch / "table")
    replace_all_over(HugeLog(**case["log"]), table)
    before = set(_parquet(table))
    return Task(
        lambda: DeltaTable(str(table)).create_checkpoint(),
        lambda _: DeltaTable(str(table)).version() - VERSION,
        lambda _: sum(path.stat().st_size for path in set(_parquet(table)) - before),
    )


def replace_all_over(log: HugeLog, table: Path, commits: int = COMMITS) -> None:
    """Adds commits that each replace one file, all over the table."""
    for number, file in enumerate(log.spread(commits)):
        some = np.array([file])
        log.commit(table, VERSION + 1 + number, some, some, 1)


def whole(case: Mapping[str, Any], scratch: Path) -> Task:
    """The size of the whole checkpoint."""
    table = Path(case["path"])
    return Task(lambda: COMMITS, size_bytes=lambda _: sum(path.stat().st_size for path in _parquet(table)))


def _parquet(table: Path) -> list[Path]:
    return list((table / "_delta_log").rglob("*.parquet"))


def history(case: Mapping[str, Any], scratch: Path) -> Task:
    from deltaplane import DeltaTable

    return Task(lambda: DeltaTable.history_of(case["path"], COMMITS), len)


WORK: Mapping[str, Contestant] = {
    "open": opened,
    "plan": planned,
    "append": appended,
    "checkpoint": checkpointed,
    "history": history,
}


def deltaplane(case: Mapping[str, Any], scratch: Path) -> Task:
    return WORK[case["work"]](case, scratch)


WHOLE = "all sidecars"
CONTESTANTS: dict[str, Contestant] = {"deltaplane": deltaplane, WHOLE: whole}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--files", type=int, nargs="+", help="numbers of files, instead of those of the scale")
    parser.add_argument("--hundred-million", action="store_true", help="also a table of a hundred million files")


def cases(options: argparse.Namespace) -> list[Case]:
    sizes = set(options.files or FILES[scale_of(options)]) | ({HUGE} if options.hundred_million else set())
    return [case for files in sorted(sizes) for case in _of(HugeLog(files))]


def _of(log: HugeLog) -> list[Case]:
    first = log.files // 2 * ROWS_PER_FILE
    by_id = f"id BETWEEN {first} AND {first + FILES_BY_ID * ROWS_PER_FILE - 1}"
    day = log.day(log.files // 2)
    by_day = f"day = DATE'{day}'"
    files_of_day = min(log.a_day, log.files)

    def case(work: str, series: str, target: str, expected: int, calls: int = 1, **others: Any) -> Case:
        return Case(
            f"{log.name}, {series}",
            ["deltaplane", WHOLE] if work == "checkpoint" else ["deltaplane"],
            log.arguments(work=work, **others),
            calls,
            expected,
            series=f"huge, {series}",
            size=log.files,
            target=target,
        )

    return [
        case("open", "open", "huge open", VERSION + 2, 5),
        case("plan", "ten files, cold", "huge plan", FILES_BY_ID, sql=by_id, opened=False),
        case("plan", "ten files, open table", "", FILES_BY_ID, 3, sql=by_id, opened=True),
        case("plan", "a day, cold", "", files_of_day, sql=by_day, opened=False),
        # One more for the untimed call.
        case("append", "append of one row", "huge append", 6, 5),
        case("checkpoint", "checkpoint after ten commits", "huge checkpoint", COMMITS),
        case("history", "history(10)", "huge history", 1, 3),
    ]


if __name__ == "__main__":
    main("huge", CONTESTANTS, cases, arguments)
