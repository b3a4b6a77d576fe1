"""A process that uses more catalogs than it stays connected to."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from catalog.conftest import SCHEMA, rows
from deltaplane import Catalog, DeltaTable, write_deltalake

# The process stays connected to 32.
CATALOGS = 80


@pytest.fixture
def uris(tmp_path: Path) -> list[str]:
    """Embedded catalogs, each with the schema and a table of one row."""
    made = []
    for number in range(CATALOGS):
        made.append(f"sqlite:///{tmp_path}/{number}.db")
        catalog = Catalog(made[-1])
        catalog.create_catalog("main", storage_root=f"file://{tmp_path}/{number}")
        catalog.create_schema(SCHEMA)
        write_deltalake(f"uc://{SCHEMA}.t", rows(number), storage_options=catalog.storage_options)
    return made


def test_files_and_threads_stay_few(uris: list[str]) -> None:
    for uri in uris:
        assert DeltaTable(f"uc://{SCHEMA}.t", storage_options={"catalog": uri}).version() == 0
    own = [link for link in Path("/proc/self/fd").iterdir() if Path(uris[0][10:]).parent in link.resolve().parents]
    assert 0 < len(own) <= 32 * 10
    names = [(task / "comm").read_text() for task in Path(f"/proc/{os.getpid()}/task").iterdir()]
    assert sum(name.startswith("catalog-") for name in names) <= 32 * 3


def test_threads_use_them_at_the_same_time(uris: list[str]) -> None:
    def work(number: int) -> int:
        options = {"catalog": uris[number % CATALOGS]}
        write_deltalake(f"uc://{SCHEMA}.t", rows(number), mode="append", storage_options=options)
        return DeltaTable(f"uc://{SCHEMA}.t", storage_options=options).version()

    with ThreadPoolExecutor(8) as pool:
        assert min(pool.map(work, range(CATALOGS * 2))) >= 1
    for uri in uris:
        table = DeltaTable(f"uc://{SCHEMA}.t", storage_options={"catalog": uri})
        assert (table.version(), table.count()) == (2, 3)
