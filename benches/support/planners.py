"""Contestants that plan a selective query, and the two queries: one day of the partition column,
ten files by statistics."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.adds import ROWS_PER_FILE
from support.harness import Contestant, Task
from support.logs import Kind, Log

FILES_BY_ID = 10
# Only foreign checkpoints are copied.
COPIED = "deltaplane, copied"
# The form of a predicate affects a process's first call.
TUPLES = "deltaplane, tuples"


def _per_call(open_table: Callable[[], Any], plan: Callable[[Any], Any], opened: bool) -> Task:
    if opened:
        table = open_table()
        return Task(lambda: plan(table), len)
    return Task(lambda: plan(open_table()), len)


def deltaplane(case: Mapping[str, Any], scratch: Path) -> Task:
    from deltaplane import DeltaTable

    predicate = case["sql"]
    return _per_call(lambda: DeltaTable(case["path"]), lambda table: table.file_uris(predicate), case["opened"])


def deltaplane_tuples(case: Mapping[str, Any], scratch: Path) -> Task:
    """The same predicate as tuples, without loading the SQL parser."""
    filters = [tuple(part) for part in case["filters"]]
    return deltaplane({**case, "sql": filters}, scratch)


def deltaplane_arrow(case: Mapping[str, Any], scratch: Path) -> Task:
    """With sizes, values and statistics, and without a Python string for each file."""
    from deltaplane import DeltaTable

    predicate = case["sql"]
    return _per_call(lambda: DeltaTable(case["path"]), lambda table: table.plan(predicate).read_all(), case["opened"])


def deltaplane_copied(case: Mapping[str, Any], scratch: Path) -> Task:
    """With a copy of the checkpoint in the local cache, like the second process on a machine."""
    from deltaplane import DeltaTable

    path, predicate = case["path"], case["sql"]
    options = {"cache_dir": str(scratch), "cache_bytes": "4GiB", "cache_checkpoints": "true"}
    # Another process makes the copy, so that the first call is still this process's first one.
    making = f"from deltaplane import DeltaTable; DeltaTable({path!r}, None, {options!r}).file_uris({predicate!r})"
    subprocess.run([sys.executable, "-c", making], check=True)
    return _per_call(
        lambda: DeltaTable(path, storage_options=options), lambda table: table.file_uris(predicate), case["opened"]
    )


def deltalake(case: Mapping[str, Any], scratch: Path) -> Task:
    from deltalake import DeltaTable

    predicate = [tuple(part) for part in case["filters"]]
    return _per_call(
        lambda: DeltaTable(case["path"]),
        lambda table: table.file_uris(file_pruning_predicate=predicate),
        case["opened"],
    )


def deltalake_actions(case: Mapping[str, Any], scratch: Path) -> Task:
    """The approach of deltalake's users: the list of files as Arrow, filtered by bounds."""
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

    connection = duckdb.connect()
    structs = _has_structs(case["checkpoints"][0])
    query = f"SELECT add.path FROM read_parquet({case['checkpoints']}) WHERE {_condition(case, structs)}"
    return Task(lambda: connection.execute(query).fetchall(), len)


def _has_structs(checkpoint: str) -> bool:
    import pyarrow.parquet as pq

    return "stats_parsed" in pq.ParquetFile(checkpoint).schema_arrow.field("add").type.names


def _condition(case: Mapping[str, Any], structs: bool) -> str:
    day, first, last = case["day"], case["first"], case["last"]
    if structs and day is not None:
        return f"add.partitionValues_parsed.day = DATE '{day}'"
    if structs:
        return f"add.stats_parsed.maxValues.id >= {first} AND add.stats_parsed.minValues.id <= {last}"
    if day is not None:
        return f"list_contains(map_values(add.partitionValues), '{day}')"
    bound = "CAST(json_extract(add.stats, '$.{}.id') AS BIGINT)"
    return f"{bound.format('maxValues')} >= {first} AND {bound.format('minValues')} <= {last}"


CONTESTANTS: dict[str, Contestant] = {
    "deltaplane": deltaplane,
    TUPLES: deltaplane_tuples,
    "deltaplane, as Arrow": deltaplane_arrow,
    COPIED: deltaplane_copied,
    "deltalake file_uris": deltalake,
    "deltalake add_actions": deltalake_actions,
    "DuckDB, checkpoint only": duckdb,
}


def of(kind: Kind, opened: bool, asked: Iterable[str]) -> list[str]:
    """The contestants that are affected by this kind of log, and by whether the table is open."""
    is_foreign = kind in ("json", "structs")
    left_out = ({TUPLES} if opened else set()) | (set() if is_foreign else {COPIED})
    return [name for name in asked if name not in left_out]


@dataclass(frozen=True)
class Query:
    """A query: its name within a case's name, the number of matching files, and the contestants'
    arguments."""

    condition: str
    files: int
    arguments: Mapping[str, Any]


def by_day(log: Log) -> Query:
    """The middle day, by partition values."""
    day = str(log.day(log.files // 2))
    arguments = {"sql": f"day = DATE'{day}'", "filters": [("day", "=", day)], "day": day, "first": None, "last": None}
    return Query("day =", log.files_of_day(day), arguments)


def by_id(log: Log) -> Query:
    """Some files in the middle, by statistics."""
    first = log.files // 2 * ROWS_PER_FILE
    last = first + FILES_BY_ID * ROWS_PER_FILE - 1
    arguments = {
        "sql": f"id BETWEEN {first} AND {last}",
        "filters": [("id", ">=", first), ("id", "<=", last)],
        "day": None,
        "first": first,
        "last": last,
    }
    return Query("id BETWEEN", FILES_BY_ID, arguments)
