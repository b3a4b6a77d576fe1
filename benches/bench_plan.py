"""Planning a selective query: from the table's location, or from an open table, to the paths of the files to read.

One predicate is on the partition column (one of the days), one on a column's statistics. DuckDB over the checkpoint
alone, where it has parsed statistics, is the bar: it replays no log.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness import Case, Contestant, Task, main
from logs import ROWS_PER_FILE, Log

FILES_BY_ID = 10


def _per_call(open_table: Callable[[], Any], plan: Callable[[Any], Any], opened: bool) -> Task:
    if opened:
        table = open_table()
        return Task(lambda: plan(table), len)
    return Task(lambda: plan(open_table()), len)


def deltaplane(case: Mapping[str, Any], scratch: Path) -> Task:
    from deltaplane import DeltaTable

    predicate = case["sql"]
    return _per_call(lambda: DeltaTable(case["path"]), lambda table: table.file_uris(predicate), case["opened"])


def deltalake(case: Mapping[str, Any], scratch: Path) -> Task:
    from deltalake import DeltaTable

    predicate = [tuple(one) for one in case["filters"]]
    return _per_call(
        lambda: DeltaTable(case["path"]),
        lambda table: table.file_uris(file_pruning_predicate=predicate),
        case["opened"],
    )


def deltalake_actions(case: Mapping[str, Any], scratch: Path) -> Task:
    """What its users do by hand: the list of files as Arrow, filtered by bounds."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from deltalake import DeltaTable

    day, first, last = case["day"], case["first"], case["last"]
    if day is not None:
        keep = pc.field("partition.day").cast(pa.string()) == day
    else:
        keep = (pc.field("max.id") >= first) & (pc.field("min.id") <= last)

    def plan(table: Any) -> list[str]:
        actions = pa.table(table.get_add_actions(flatten=True))
        return actions.filter(keep)["path"].to_pylist()

    return _per_call(lambda: DeltaTable(case["path"]), plan, case["opened"])


def duckdb(case: Mapping[str, Any], scratch: Path) -> Task:
    import duckdb

    if case["day"] is not None:
        condition = f"add.partitionValues_parsed.day = DATE '{case['day']}'"
    else:
        condition = (
            f"add.stats_parsed.maxValues.id >= {case['first']} AND add.stats_parsed.minValues.id <= {case['last']}"
        )
    query = f"SELECT add.path FROM read_parquet('{case['checkpoint']}') WHERE {condition}"
    connection = duckdb.connect()
    return Task(lambda: connection.execute(query).fetchall(), len)


CONTESTANTS: dict[str, Contestant] = {
    "deltaplane": deltaplane,
    "deltalake file_uris": deltalake,
    "deltalake add_actions": deltalake_actions,
    "DuckDB, checkpoint only": duckdb,
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--files", type=int, nargs="+", help="numbers of files (1000 10000 100000)")


def _of_log(log: Log) -> list[Case]:
    middle = log.files // 2
    day = log.day(middle)
    first = middle * ROWS_PER_FILE
    last = first + FILES_BY_ID * ROWS_PER_FILE - 1
    by_day = {
        "sql": f"day = DATE'{day}'",
        "filters": [("day", "=", str(day))],
        "day": str(day),
        "first": None,
        "last": None,
    }
    by_id = {
        "sql": f"id BETWEEN {first} AND {last}",
        "filters": [("id", ">=", first), ("id", "<=", last)],
        "day": None,
        "first": first,
        "last": last,
    }
    found = []
    contestants = [name for name in CONTESTANTS if log.structs or not name.startswith("DuckDB")]
    place = {"path": str(log.make()), "checkpoint": str(log.checkpoint)}
    kind = "parsed statistics" if log.structs else "JSON statistics"
    for predicate, expected, what in ((by_day, log.files_of_day(day), "day ="), (by_id, FILES_BY_ID, "id BETWEEN")):
        for opened in (False, True):
            name = f"{log.files:,} files, {kind}, {what}, {'open table' if opened else 'from location'}"
            found.append(Case(name, contestants, {**place, **predicate, "opened": opened}, 3, expected))
    return found


def cases(options: argparse.Namespace) -> list[Case]:
    sizes = options.files or ([1000] if options.quick else [1_000, 10_000, 100_000])
    return [case for files in sizes for structs in (False, True) for case in _of_log(Log(files, structs=structs))]


if __name__ == "__main__":
    main("plan", CONTESTANTS, cases, arguments)
