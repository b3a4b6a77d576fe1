"""The commit of an append, alone, to a table in an object store (versitygw, S3) where each write
takes 60 ms and each read 30 ms. The data file is written before.

A catalog decides the commit by one call, and its writer publishes it afterwards; without a catalog
the commit is a write to the store. The bar is one such write.
"""

from __future__ import annotations

import argparse
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from support.harness import Case, Contestant, Task, main, scale_of
from support.object_stores import RemoteStore, remote_store
from support.planned_appends import planned_append
from support.servers import catalog_server, end, started

SCHEMA = pa.schema({"id": pa.int64()})
CALLS = {"quick": 3, "small": 20, "full": 50}


def _committing(store: RemoteStore, location: str, options: Mapping[str, str]) -> Task:
    """Commits a file of one row at each call, planned as `write_deltalake` plans an append."""
    from deltaplane import _native, write_deltalake

    own, ready = dict(options), list[Callable[[], Any]]()
    rows = pa.table({"id": [1]}, SCHEMA)
    write_deltalake(location, rows, storage_options=own)

    def prepare() -> None:
        _native.finish_background(60)
        store.proxy.end()
        ready[:] = [planned_append(location, own, rows)]
        store.proxy.begin()

    return Task(lambda: ready[0](), lambda committed: int(committed is not None), prepare=prepare)


def _by_catalog(store: RemoteStore, database: str, catalog: str) -> Task:
    from deltaplane import Catalog

    owner = Catalog(database)
    owner.create_catalog("main", storage_root=f"{store.root}/{uuid.uuid4().hex}")
    owner.create_schema("main.bench")
    return _committing(store, "uc://main.bench.t", {**Catalog(catalog).storage_options, **store.options})


def deltaplane(case: Mapping[str, Any], scratch: Path) -> Task:
    database = f"sqlite:///{scratch}/lake.db"
    return _by_catalog(remote_store("S3"), database, database)


def through_a_server(case: Mapping[str, Any], scratch: Path) -> Task:
    database = f"sqlite:///{scratch}/lake.db"
    server, address = started(catalog_server(database))
    task = _by_catalog(remote_store("S3"), database, address)

    def answer(committed: object) -> Any:
        end(server)
        return task.answer(committed)

    return replace(task, answer=answer)


def without_a_catalog(case: Mapping[str, Any], scratch: Path) -> Task:
    store = remote_store("S3")
    return _committing(store, f"{store.root}/{uuid.uuid4().hex}", store.options)


def bare(case: Mapping[str, Any], scratch: Path) -> Task:
    from deltaplane import _native

    store = remote_store("S3")
    puts = _native.RawStore.open(f"{store.root}/bare", store.options)
    puts.put("warm", b"{}")

    def run() -> int:
        puts.put(uuid.uuid4().hex, b"{}")
        return 1

    return Task(run, int, prepare=store.proxy.begin)


CONTESTANTS: dict[str, Contestant] = {
    "deltaplane": deltaplane,
    "through a server": through_a_server,
    "without a catalog": without_a_catalog,
    "one write": bare,
}


def cases(options: argparse.Namespace) -> list[Case]:
    calls = CALLS[scale_of(options)]
    return [Case("a commit alone, 60 ms for each write", list(CONTESTANTS), {}, calls=calls, expected=1)]


if __name__ == "__main__":
    main("slow_store", CONTESTANTS, cases, lambda parser: None)
