"""Small appends to tables whose commits a catalog decides, and transactions over several tables.

Everything is durable: data files are synced, and SQLite with `synchronous = FULL` syncs each
decision. The bar writes and syncs each append's Parquet file and commits nothing.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from support.harness import Case, Contestant, Elsewhere, Task, main, scale_of
from support.servers import catalog_server, end, processor_seconds, started

SCHEMA = pa.schema({"id": pa.int64()})
# Numbers of threads and of tables by scale, and the total number of appends.
SIZES = {"quick": [(2, 1)], "small": [(1, 1), (16, 1), (16, 50)], "full": [(1, 1), (64, 1), (64, 50)]}
APPENDS = {"quick": 10, "small": 200, "full": 640}
IN_TRANSACTION = 10


def _names(case: Mapping[str, Any]) -> list[str]:
    return [f"main.bench.t{n}" for n in range(case["tables"])]


def _appends(case: Mapping[str, Any], append: Callable[[int, pa.Table], object]) -> Callable[[], int]:
    """Calls `append` with the number of a table, from the case's threads; returns the number of
    failed calls."""

    def failed(number: int) -> int:
        try:
            append(number % case["tables"], pa.table({"id": [number]}, SCHEMA))
        except Exception:  # noqa: BLE001 - whatever it is, it is counted
            return 1
        return 0

    def run() -> int:
        with ThreadPoolExecutor(case["threads"]) as pool:
            return sum(pool.map(failed, range(case["appends"])))

    return run


def _rows(tables: list[Any]) -> int:
    return sum(table.to_pyarrow_table().num_rows for table in tables)


def _lake(scratch: Path, names: list[str]) -> Any:
    """A catalog in a database, with empty tables."""
    from deltaplane import Catalog

    catalog = Catalog(f"sqlite:///{scratch}/lake.db")
    catalog.create_catalog("main")
    catalog.create_schema("main.bench")
    for name in names:
        catalog.create_table(name, SCHEMA)
    return catalog


def _into(case: Mapping[str, Any], catalog: Any, elsewhere: Callable[[Any], Elsewhere] | None = None) -> Task:
    from deltaplane import write_deltalake

    names, options = _names(case), catalog.storage_options
    locations = [catalog.location(name) for name in names]

    def append(table: int, rows: pa.Table) -> object:
        return write_deltalake(locations[table], rows, mode="append", storage_options=options)

    def answer(failed: int) -> int:
        return _rows([catalog.table(name) for name in names]) + failed

    return Task(_appends(case, append), answer, failed=int, elsewhere=elsewhere)


def deltaplane(case: Mapping[str, Any], scratch: Path) -> Task:
    if case.get("transaction"):
        return in_a_transaction(case, scratch)
    return _into(case, _lake(scratch, _names(case)))


def through_a_server(case: Mapping[str, Any], scratch: Path) -> Task:
    """The real server, in a process of its own, whose processor time counts."""
    from deltaplane import Catalog

    _lake(scratch, _names(case))
    server, address = started(catalog_server(f"sqlite:///{scratch}/lake.db"))
    catalog = Catalog(address)
    before = processor_seconds(server.pid)

    def used(_: Any) -> Elsewhere:
        status = Path(f"/proc/{server.pid}/status").read_text().splitlines()
        peak = next(line for line in status if line.startswith("VmHWM"))
        return Elsewhere(processor_seconds(server.pid) - before, int(peak.split()[1]) / 1024)

    task = _into(case, catalog, used)

    def answer(failed: int) -> int:
        seen = task.answer(failed)
        end(server)
        return seen

    return replace(task, answer=answer)


def file_system(case: Mapping[str, Any], scratch: Path) -> Task:
    """Tables whose commits are files, created by put-if-absent."""
    from deltaplane import DeltaTable, write_deltalake

    return _into_files(case, scratch, write_deltalake, DeltaTable)


def deltalake(case: Mapping[str, Any], scratch: Path) -> Task:
    from deltalake import DeltaTable, write_deltalake

    return _into_files(case, scratch, write_deltalake, DeltaTable)


def _into_files(
    case: Mapping[str, Any], scratch: Path, write: Callable[..., object], opened: Callable[[str], Any]
) -> Task:
    places = [str(scratch / name) for name in _names(case)]
    for place in places:
        write(place, SCHEMA.empty_table())
    return Task(
        _appends(case, lambda table, rows: write(places[table], rows, mode="append")),
        lambda failed: _rows([opened(place) for place in places]) + failed,
        failed=int,
    )


def files_alone(case: Mapping[str, Any], scratch: Path) -> Task:
    def write(_: int, rows: pa.Table) -> None:
        with (scratch / f"{rows['id'][0].as_py()}.parquet").open("xb") as file:
            pq.write_table(rows, file)
            file.flush()
            os.fsync(file.fileno())

    return Task(_appends(case, write), lambda failed: len(list(scratch.glob("*.parquet"))) + failed, failed=int)


def in_a_transaction(case: Mapping[str, Any], scratch: Path) -> Task:
    """One row into each table, all committed together."""
    from deltaplane import transaction

    names = _names(case)
    catalog = _lake(scratch, names)

    def run() -> None:
        with transaction(catalog, names) as tx:
            for name in names:
                tx.write(name, pa.table({"id": [1]}, SCHEMA))

    return Task(run, lambda _: _rows([catalog.table(name) for name in names]))


def one_after_the_other(case: Mapping[str, Any], scratch: Path) -> Task:
    """The same rows by a commit of each table."""
    return _into({**case, "threads": 1, "appends": case["tables"]}, _lake(scratch, _names(case)))


CONTESTANTS: dict[str, Contestant] = {
    "deltaplane": deltaplane,
    "through a server": through_a_server,
    "file system": file_system,
    "deltalake": deltalake,
    "files alone": files_alone,
    "one after the other": one_after_the_other,
}
APPENDING = ["deltaplane", "through a server", "file system", "deltalake", "files alone"]


def _appending(appends: int, threads: int, tables: int) -> Case:
    names = f"{threads} {'thread' if threads == 1 else 'threads'}, {tables} {'table' if tables == 1 else 'tables'}"
    # deltalake's racing appends to one table give up after some attempts.
    contestants = [name for name in APPENDING if name != "deltalake" or threads == 1 or tables > 1]
    case = {"appends": appends, "threads": threads, "tables": tables}
    return Case(f"{appends:,} appends of a row, {names}", contestants, case, expected=appends)


def cases(options: argparse.Namespace) -> list[Case]:
    scale = scale_of(options)
    together = Case(
        f"a row into each of {IN_TRANSACTION} tables",
        ["deltaplane", "one after the other"],
        {"tables": IN_TRANSACTION, "transaction": True},
        expected=IN_TRANSACTION,
    )
    return [*(_appending(APPENDS[scale], threads, tables) for threads, tables in SIZES[scale]), together]


if __name__ == "__main__":
    main("catalog", CONTESTANTS, cases, lambda parser: None)
