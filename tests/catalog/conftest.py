"""Owns the catalogs that the tests use: one in SQLite, the same behind the real server, and one in
PostgreSQL."""

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

from catalog.postgres_server import PostgresServer, postgres_server, programs
from deltaplane import Catalog, DeltaTable, write_deltalake

COMMAND = [sys.executable, "-c", "from deltaplane.cli import main; main()"]
SCHEMA = "main.sales"
# What tests of a `lake` run over, and what they run over in modules that say so.
BACKENDS = ("sqlite", "server")
ALL_BACKENDS = (*BACKENDS, "postgresql")


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


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server for all tests of this worker."""
    if programs() is None:
        pytest.skip("install Debian's package postgresql")
    with postgres_server() as server:
        yield server


@pytest.fixture
def database(tmp_path: Path) -> str:
    """A database with the schema."""
    return _with_schema(f"sqlite:///{tmp_path}/lake.db", tmp_path)


def _with_schema(uri: str, folder: Path) -> str:
    catalog = Catalog(uri)
    # A database that isn't a file has no place for tables beside it.
    catalog.create_catalog("main", storage_root=None if uri.startswith("sqlite") else f"file://{folder}/tables")
    catalog.create_schema(SCHEMA)
    return uri


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs tests of a `lake` over the catalogs that their module names in `BACKENDS`."""
    if "lake" in metafunc.fixturenames:
        metafunc.parametrize("lake", getattr(metafunc.module, "BACKENDS", BACKENDS), indirect=True)


@pytest.fixture
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lake]:
    """The catalog in this process, behind HTTP, and in PostgreSQL where a test asks for it."""
    if request.param == "postgresql":
        database = _with_schema(request.getfixturevalue("postgres").new_database(), tmp_path)
        yield Lake(Catalog(database), database)
        return
    database = request.getfixturevalue("database")
    if request.param == "sqlite":
        yield Lake(Catalog(database), database)
        return
    with serving(database, tmp_path / "server.log", "--anonymous") as (url, _):
        yield Lake(Catalog(url), database)


def another(database: str, folder: Path) -> Lake:
    """The same catalog as another process has it: this one knows nothing of what it commits."""
    return Lake(Catalog(f"sqlite:///{folder}/../{folder.name}/lake.db"), database)


@pytest.fixture
def other(lake: Lake, database: str, tmp_path: Path) -> Lake:
    """The lake as another process has it."""
    return another(database, tmp_path)
