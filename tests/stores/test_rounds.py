"""Rounds and requests of operations on an object store, each within a budget.

A round is a request that begins after another one ended: with 10 to 100 ms for each request, the
rounds of an operation are its time. A change that adds a round fails here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deltaplane import DeltaTable, write_deltalake
from stores.forwarding import Answer, Request, forwarding
from stores.servers import StoreServer, versitygw

# Long beside what a loaded machine takes to begin requests that don't wait for each other.
DELAY_SECONDS = 0.08


@dataclass
class Requests:
    """The requests of one operation: method and the times of begin and end."""

    spans: list[tuple[str, float, float]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    recorded: bool = False

    def serve(self, request: Request, ask: Callable[[], Answer]) -> Answer:
        begin = time.monotonic()
        if self.recorded:
            time.sleep(DELAY_SECONDS)
        answer = ask()
        if self.recorded:
            kind = "LIST" if request.command == "GET" and "list-type" in request.path else request.command
            with self.lock:
                self.spans.append((kind, begin, time.monotonic()))
        return answer

    @property
    def rounds(self) -> int:
        """The longest chain of requests that each begin after the one before ended."""
        count, until = 0, -1.0
        for _, begin, end in sorted(self.spans, key=lambda span: span[2]):
            if begin >= until:
                count, until = count + 1, end
        return count

    @contextmanager
    def of(self) -> Iterator[Requests]:
        """Records the requests of a block, and no others."""
        self.spans, self.recorded = [], True
        try:
            yield self
        finally:
            self.recorded = False


@dataclass(frozen=True)
class Remote:
    """A bucket behind a proxy that records requests."""

    server: StoreServer
    options: dict[str, str]
    requests: Requests

    def upload(self, local: str, without: str = "never") -> str:
        """Copies a local table to a new place; leaves out files with this ending."""
        import boto3

        options = self.server.options
        client = boto3.client(
            "s3",
            endpoint_url=options["AWS_ENDPOINT_URL"],
            region_name="us-east-1",
            aws_access_key_id=options["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=options["AWS_SECRET_ACCESS_KEY"],
        )
        place = f"{Path(local).name}-{time.monotonic_ns()}"
        for file in sorted(Path(local).rglob("*")):
            if file.is_file() and not file.name.endswith(without):
                client.put_object(
                    Bucket="rounds", Key=f"{place}/{file.relative_to(local).as_posix()}", Body=file.read_bytes()
                )
        return f"s3://rounds/{place}"

    def open(self, location: str) -> DeltaTable:
        return DeltaTable(location, storage_options=self.options)


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remote]:
    requests = Requests()
    with versitygw(tmp_path_factory.mktemp("versitygw")) as server:
        server.make_bucket("rounds")
        with forwarding(server.options["AWS_ENDPOINT_URL"], requests.serve) as endpoint:
            yield Remote(server, {**server.options, "AWS_ENDPOINT_URL": endpoint}, requests)


def rows(first: int, count: int) -> pa.Table:
    generator = np.random.default_rng(first)
    return pa.table(
        {
            "id": pa.array(range(first, first + count), pa.int64()),
            "x": pa.array(generator.random(count)),
            "s": pa.array([f"{value:032x}" for value in generator.integers(0, 1 << 62, count)]),
        }
    )


@pytest.fixture(scope="module")
def ten(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Ten commits of one file each, without a checkpoint."""
    path = str(tmp_path_factory.mktemp("ten") / "t")
    for number in range(10):
        first = {"configuration": {"delta.enableDeletionVectors": "true"}} if number == 0 else {}
        write_deltalake(path, rows(number * 2000, 2000), mode="append", **first)  # type: ignore[call-overload]
    return path


@pytest.fixture(scope="module")
def hundred(tmp_path_factory: pytest.TempPathFactory) -> str:
    """105 commits of one small file each, with a checkpoint of the hundredth."""
    path = str(tmp_path_factory.mktemp("hundred") / "t")
    for number in range(105):
        first = {"configuration": {"delta.checkpointInterval": "100"}} if number == 0 else {}
        write_deltalake(path, rows(number * 100, 100), mode="append", **first)  # type: ignore[call-overload]
    return path


def measured(remote: Remote, operation: Callable[[], Any]) -> tuple[int, int]:
    """Rounds and requests of an operation."""
    with remote.requests.of() as requests:
        operation()
    return requests.rounds, len(requests.spans)


@pytest.mark.parametrize(
    ("table", "without", "rounds"),
    [("ten", "never", 2), ("hundred", "never", 2), ("hundred", ".crc", 2)],
)
def test_opening(remote: Remote, request: pytest.FixtureRequest, table: str, without: str, rounds: int) -> None:
    location = remote.upload(request.getfixturevalue(table), without)
    assert measured(remote, lambda: remote.open(location))[0] <= rounds
    # The same files again: the hint and the listing at the same time.
    assert measured(remote, lambda: remote.open(location)) <= (1, 2)


def test_refreshing(remote: Remote, ten: str) -> None:
    location = remote.upload(ten)
    table = remote.open(location)
    assert measured(remote, table.update_incremental) == (1, 1)
    write_deltalake(location, rows(50_000, 10), mode="append", storage_options=remote.options)
    assert measured(remote, table.update_incremental) <= (2, 2)


@pytest.mark.parametrize("table", ["ten", "hundred"])
def test_reading(remote: Remote, request: pytest.FixtureRequest, table: str) -> None:
    location = remote.upload(request.getfixturevalue(table))

    def found(opened: DeltaTable) -> int:
        reader = opened.to_reader(columns=["x"], predicate="id >= 310 and id < 320")
        return int(reader.read_all().num_rows)

    opened = remote.open(location)
    for _ in range(2):
        assert found(opened) == 10
    assert measured(remote, lambda: found(opened))[0] <= 2
    assert measured(remote, lambda: remote.open(location).to_reader().read_all())[0] <= 5


def test_appending(remote: Remote, ten: str, hundred: str) -> None:
    for local in (ten, hundred):
        location = remote.upload(local)
        opened = remote.open(location)
        write_deltalake(opened, rows(60_000, 10), mode="append")
        again = measured(remote, lambda: write_deltalake(opened, rows(70_000, 10), mode="append"))
        assert again <= (7, 9), again
