"""The commit of a transaction over ten tables, alone, beside the commits of appends to these tables
one after the other: each of them, and the slowest of the ten. The data files are written before.

On the local disk, where files and the database are synced, and in an object store (versitygw, S3)
where each write takes 60 ms and each read 30 ms.
"""

from __future__ import annotations

import argparse
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from support.harness import Case, Contestant, Task, main, scale_of
from support.object_stores import RemoteStore, remote_store
from support.planned_appends import planned_append

if TYPE_CHECKING:
    from deltaplane import Catalog

SCHEMA = pa.schema({"id": pa.int64()})
ROWS = pa.table({"id": [1]}, SCHEMA)
TABLES = 10
CALLS = {"quick": 3, "small": 20, "full": 50}


def _lake(case: Mapping[str, Any], scratch: Path) -> tuple[Catalog, list[str], RemoteStore | None]:
    """A catalog in a database with tables of a row each, and their store unless they are local."""
    from deltaplane import Catalog, write_deltalake

    store = remote_store("S3") if case["store"] else None
    options = dict(store.options) if store else None
    catalog = Catalog(f"sqlite:///{scratch}/lake.db", storage_options=options)
    catalog.create_catalog("main", storage_root=f"{store.root}/{uuid.uuid4().hex}" if store else None)
    catalog.create_schema("main.bench")
    names = [f"main.bench.t{number}" for number in range(TABLES)]
    for name in names:
        catalog.create_table(name, SCHEMA)
        write_deltalake(catalog.location(name), ROWS, mode="append", storage_options=catalog.storage_options)
    return catalog, names, store


@contextmanager
def _undelayed(store: RemoteStore | None) -> Iterator[None]:
    """Within the block, which begins when no work is left in the background, the store isn't
    delayed."""
    from deltaplane import _native

    _native.finish_background(60)
    if store:
        store.proxy.end()
    yield
    if store:
        store.proxy.begin()


def deltaplane(case: Mapping[str, Any], scratch: Path) -> Task:
    from deltaplane import transaction

    catalog, names, store = _lake(case, scratch)
    ready: list[Any] = []

    def prepare() -> None:
        with _undelayed(store):
            ready[:] = [transaction(catalog, names)]
            for name in names:
                ready[0].write(name, ROWS)

    return Task(lambda: ready[0].commit(), len, prepare=prepare)


def one_table(case: Mapping[str, Any], scratch: Path) -> Task:
    """A commit of each table in turn; counts as ten, since the answers are compared."""
    catalog, names, store = _lake(case, scratch)
    ready: list[Callable[[], Any]] = []

    def prepare() -> None:
        with _undelayed(store):
            names.append(names.pop(0))
            ready[:] = [planned_append(catalog.location(names[0]), catalog.storage_options, ROWS)]

    return Task(lambda: ready[0](), lambda committed: TABLES * (committed is not None), prepare=prepare)


def slowest_table(case: Mapping[str, Any], scratch: Path) -> Task:
    """The slowest of ten commits, one of each table. Its processor time is that of all ten."""
    catalog, names, store = _lake(case, scratch)
    ready: list[Callable[[], Any]] = []

    def prepare() -> None:
        with _undelayed(store):
            ready[:] = [planned_append(catalog.location(name), catalog.storage_options, ROWS) for name in names]

    def run() -> list[float]:
        times = [time.perf_counter()]
        for commit in ready:
            commit()
            times.append(time.perf_counter())
        return [end - begin for begin, end in pairwise(times)]

    return Task(run, len, prepare=prepare, seconds=max)


CONTESTANTS: dict[str, Contestant] = {
    "deltaplane": deltaplane,
    "one table": one_table,
    "slowest of ten": slowest_table,
}


def cases(options: argparse.Namespace) -> list[Case]:
    calls = CALLS[scale_of(options)]
    names = {False: "local disk", True: "60 ms for each write"}
    return [
        Case(
            f"the commit of a transaction over {TABLES} tables, {name}",
            list(CONTESTANTS),
            {"store": store},
            calls=calls,
            expected=TABLES,
        )
        for store, name in names.items()
    ]


if __name__ == "__main__":
    main("transaction", CONTESTANTS, cases, lambda parser: None)
