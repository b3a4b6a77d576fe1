"""The server of catalogs: its start until it answers, and its memory when clients have listed and
loaded every table.

The bar of the start is Python's own HTTP server, which answers from a folder.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pyarrow as pa
from support import harness
from support.harness import Case, Contestant, Elsewhere, Task, main, scale_of
from support.servers import catalog_server, end, processor_seconds, started

SCHEMA = pa.schema({"id": pa.int64()})
TABLES = {"quick": 20, "small": 1_000, "full": 10_000}
CLIENTS = 8
FOLDER_SERVER = """
from http.server import ThreadingHTTPServer, SimpleHTTPRequestHandler
server = ThreadingHTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler)
print("http://%s:%s/" % server.server_address, flush=True)
server.serve_forever()
"""


def _lake(tables: int) -> Mapping[str, Any]:
    """A database with this many managed tables, which all contestants and runs use."""
    from deltaplane import Catalog

    place = harness.CACHE / f"server-{tables}"
    database = f"sqlite:///{place}/lake.db"
    if not (place / "made").exists():
        place.mkdir(parents=True, exist_ok=True)
        catalog = Catalog(database)
        catalog.create_catalog("main")
        catalog.create_schema("main.bench")
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(lambda n: catalog.create_table(f"main.bench.t{n}", SCHEMA), range(tables)))
        (place / "made").touch()
    return {"database": database, "tables": tables}


def _start_of(command: list[str], page: str) -> Task:
    """A start, until the first request is answered."""

    def run() -> subprocess.Popen[str]:
        server, address = started(command)
        with urlopen(address.rstrip("/") + page) as answer:
            assert answer.status == 200
        return server

    def answer(server: subprocess.Popen[str]) -> int:
        end(server)
        return 1

    return Task(run, answer, elsewhere=lambda server: _cost(server.pid, 0.0))


def _cost(pid: int, before: float) -> Elsewhere:
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    peak = next(line for line in status if line.startswith("VmHWM"))
    return Elsewhere(processor_seconds(pid) - before, int(peak.split()[1]) / 1024)


def deltaplane(case: Mapping[str, Any], scratch: Path) -> Task:
    if case.get("loads"):
        return _all_tables(case)
    return _start_of(catalog_server(case["database"]), "/health")


def folder_server(case: Mapping[str, Any], scratch: Path) -> Task:
    os.chdir(scratch)
    return _start_of([sys.executable, "-c", FOLDER_SERVER], "/")


def _all_tables(case: Mapping[str, Any]) -> Task:
    """Lists all tables and opens each of them, by several clients."""
    from deltaplane import Catalog

    server, address = started(catalog_server(case["database"]))
    before = processor_seconds(server.pid)

    def run() -> int:
        catalog = Catalog(address)
        names = catalog.tables("main.bench")
        with ThreadPoolExecutor(CLIENTS) as pool:
            return sum(table.version() + 1 for table in pool.map(catalog.table, names))

    def answer(opened: int) -> int:
        end(server)
        return opened

    return Task(run, answer, elsewhere=lambda _: _cost(server.pid, before))


CONTESTANTS: dict[str, Contestant] = {"deltaplane": deltaplane, "http.server": folder_server}


def cases(options: argparse.Namespace) -> list[Case]:
    tables = TABLES[scale_of(options)]
    return [
        Case(f"start over {tables:,} tables", list(CONTESTANTS), lambda: _lake(tables), expected=1),
        Case(
            f"{tables:,} tables are listed and opened",
            ["deltaplane"],
            lambda: {**_lake(tables), "loads": True},
            expected=tables,
        ),
    ]


if __name__ == "__main__":
    main("catalog server", CONTESTANTS, cases, lambda parser: None)
