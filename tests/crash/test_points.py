"""A process whose store disappears at a chosen call, for every operation: the log's writes here,
all calls by `make reliability`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crash.memory_s3 import MemoryS3, memory_s3
from crash.operations import OPERATIONS, Operation, write
from crash.points import choose_all, choose_some, explore
from stores import contract


@pytest.fixture(scope="module")
def server() -> Iterator[MemoryS3]:
    with memory_s3() as state:
        yield state


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_a_crash_leaves_old_or_new(operation: Operation, server: MemoryS3) -> None:
    tried = explore(server, operation, choose_some)
    assert tried.outcomes["old"] + tried.outcomes["the same"] > 0
    assert tried.outcomes["new"] + tried.outcomes["the same"] > 0
    assert tried.hiccups["succeeded"] > 0


def test_an_operation_that_is_not_atomic_is_found(server: MemoryS3) -> None:
    append = write()
    twice = Operation("append twice", lambda uri, options: (append(uri, options), append(uri, options)))
    with pytest.raises(AssertionError, match="neither old nor new"):
        explore(server, twice, choose_all)


@pytest.mark.slow
def test_the_server_keeps_the_store_contract(server: MemoryS3) -> None:
    """The server for the crash points is a real store: it passes the suite of every store."""
    _, options = server.client()
    server_entry = {"name": "in memory", "root": f"s3://{server.bucket({})}/tables", "options": options, "page": 1000}
    figures = contract.run([server_entry])["in memory"]
    assert figures["winners"] == figures["races"] > 0
