"""Owns the catalogs that the tests use: one in SQLite, and the same behind the real server."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import Catalog, DeltaTable, write_deltalake

COMMAND = [sys.executable, "-c", "from deltaplane.cli import main; main()"]
SCHEMA = "main.sales"


@dataclass(frozen=True)
class Lake:
    """A catalog with the schema `main.sales`."""

    catalog: Catalog
    # The URI of its database, whose owner a server's administrator is.
    database: str

    @property
    def options(self) -> dict[str, str]:
        """The storage options of its tables."""
        return self.catalog.storage_options

    def location(self, table: str) -> str:
        """A table of the schema."""
        return f"uc://{SCHEMA}.{table}"

    def write(self, table: str, rows: pa.Table, mode: Any = "append", **more: Any) -> int | None:
        """Writes rows to a table of the schema; the version."""
        done = write_deltalake(self.location(table), rows, mode=mode, storage_options=self.options, **more)
        version: int | None = done.version
        return version

    def open(self, table: str, version: int | None = None) -> DeltaTable:
        """Opens a table of the schema."""
        return DeltaTable(self.location(table), version, self.options)

    def folder(self, table: str) -> Path:
        """Where the table's files are."""
        location = self.catalog.info(f"{SCHEMA}.{table}")["location"]
        return Path(location.removeprefix("file://"))


def rows(*ids: int) -> pa.Table:
    """Rows of two columns."""
    return pa.table(
        {"id": pa.array(ids, pa.int64()), "text": pa.array([f"text {number}" for number in ids], pa.string())}
    )


def ids(table: DeltaTable) -> list[int]:
    """The ids of all rows, sorted."""
    return sorted(table.to_pyarrow_table(columns=["id"])["id"].to_pylist())


@contextmanager
def serving(database: str, log: Path, *arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The URL of `deltaplane catalog serve` on a free port; it must stop by itself on SIGTERM."""
    command = [*COMMAND, "catalog", "serve", database, "--address", "127.0.0.1:0", *arguments]
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url.startswith("http://"), log.read_text()
        yield url, process
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0, log.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture
def database(tmp_path: Path) -> str:
    """A database with the schema."""
    uri = f"sqlite:///{tmp_path}/lake.db"
    catalog = Catalog(uri)
    catalog.create_catalog("main")
    catalog.create_schema(SCHEMA)
    return uri


@pytest.fixture(params=["sqlite", "server"])
def lake(request: pytest.FixtureRequest, database: str, tmp_path: Path) -> Iterator[Lake]:
    """The catalog in this process, and behind HTTP."""
    if request.param == "sqlite":
        yield Lake(Catalog(database), database)
        return
    with serving(database, tmp_path / "server.log", "--anonymous") as (url, _):
        yield Lake(Catalog(url), database)
