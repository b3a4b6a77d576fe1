"""Commits alone, to tables on the local disk whose commits a catalog decides: each is durable
before it returns. The data files are written before.

The catalog is a database in this process, or behind the server in a process of its own: SQLite, and
PostgreSQL where Debian's package is installed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from support.harness import Case, Contestant, Task, main, scale_of
from support.object_stores import TESTS
from support.planned_appends import planned_append
from support.servers import catalog_server, end, started

SCHEMA = pa.schema({"id": pa.int64()})
ROWS = pa.table({"id": [1]}, SCHEMA)
CALLS = {"quick": 3, "small": 20, "full": 50}
# Commits, threads and tables.
RACES = {"quick": (20, 4, 2), "small": (320, 64, 50), "full": (1_280, 64, 50)}


def _postgres() -> Any:
    """The tests' module that starts a PostgreSQL server."""
    if str(TESTS) not in sys.path:
        sys.path.append(str(TESTS))
    from catalog import postgres_server

    return postgres_server


def _database(kind: str, scratch: Path, servers: ExitStack) -> str:
    if kind == "SQLite":
        return f"sqlite:///{scratch}/lake.db"
    database: str = servers.enter_context(_postgres().postgres_server()).new_database()
    return database


def _served(database: str, servers: ExitStack) -> str:
    server, address = started(catalog_server(database))
    servers.callback(end, server)
    return address


def committing(kind: str, is_served: bool, case: Mapping[str, Any], scratch: Path) -> Task:
    """Commits a file of one row each, planned as `write_deltalake` plans an append, to the tables
    in turn."""
    from deltaplane import Catalog, _native, write_deltalake

    servers = ExitStack()
    database = _database(kind, scratch, servers)
    owner = Catalog(database)
    owner.create_catalog("main", storage_root=(scratch / "tables").as_uri())
    owner.create_schema("main.bench")
    names = [f"main.bench.t{number}" for number in range(case["tables"])]
    for name in names:
        owner.create_table(name, SCHEMA)
    catalog = Catalog(_served(database, servers)) if is_served else owner
    own, ready = catalog.storage_options, list[Callable[[], Any]]()
    locations = [catalog.location(name) for name in names]
    for location in locations:
        write_deltalake(location, ROWS, mode="append", storage_options=own)

    def prepare() -> None:
        ready[:] = [planned_append(locations[number % len(locations)], own, ROWS) for number in range(case["commits"])]
        _native.finish_background(60)

    def commit(write: Callable[[], Any]) -> bool:
        return write() is not None

    def run() -> int:
        if case["threads"] == 1:
            return sum(map(commit, ready))
        with ThreadPoolExecutor(case["threads"]) as pool:
            return sum(pool.map(commit, ready))

    def answer(committed: int) -> int:
        servers.close()
        return committed

    return Task(run, answer, prepare=prepare)


CONTESTANTS: dict[str, Contestant] = {
    "deltaplane": partial(committing, "SQLite", False),
    "SQLite through a server": partial(committing, "SQLite", True),
    "PostgreSQL": partial(committing, "PostgreSQL", False),
    "PostgreSQL through a server": partial(committing, "PostgreSQL", True),
}


def cases(options: argparse.Namespace) -> list[Case]:
    scale = scale_of(options)
    contestants = [name for name in CONTESTANTS if "PostgreSQL" not in name or _postgres().programs() is not None]
    commits, threads, tables = RACES[scale]
    alone = {"commits": 1, "threads": 1, "tables": 1}
    race = {"commits": commits, "threads": threads, "tables": tables}
    return [
        Case("a commit of one writer", contestants, alone, calls=CALLS[scale], expected=1),
        Case(f"{commits:,} commits, {threads} threads, {tables} tables", contestants, race, calls=2, expected=commits),
    ]


if __name__ == "__main__":
    main("commits", CONTESTANTS, cases, lambda parser: None)
