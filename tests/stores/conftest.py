"""One running server per store, started for the first test of its group, and lock tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from stores.dynamo_server import LockTable, new_lock_table
from stores.servers import SERVERS, StoreServer

if TYPE_CHECKING:
    from tests.conftest import S3Server


@pytest.fixture
def locks(moto_server: S3Server) -> LockTable:
    """A new, empty lock table."""
    return new_lock_table(moto_server)


@pytest.fixture(scope="session", params=list(SERVERS))
def store_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreServer]:
    """Each of the stores' servers in turn."""
    with SERVERS[request.param](tmp_path_factory.mktemp(request.param)) as server:
        yield server
