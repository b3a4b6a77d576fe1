"""Owns one running server per store, each started when the first test of its group asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stores.servers import SERVERS, StoreServer


@pytest.fixture(scope="session", params=list(SERVERS))
def store_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreServer]:
    """Each of the stores' servers in turn."""
    with SERVERS[request.param](tmp_path_factory.mktemp(request.param)) as server:
        yield server
