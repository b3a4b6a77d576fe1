"""Kills the process of a transaction over two tables at each of its calls, to the tables' store and
to the catalog's server: before the call is served, and after it, when its answer gets lost. Then
both tables have the transaction's rows, or neither has. `python -m catalog.killing` from `tests/`
tries every call and writes docs/reliability/killed_transactions.json.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from catalog.conftest import SCHEMA, Lake, rows, serving
from crash.memory_s3 import Answer, MemoryS3, memory_s3
from deltaplane import Catalog, DeltaTable, transaction
from verifier import problems

RESULT = Path(__file__).resolve().parents[2] / "docs" / "reliability" / "killed_transactions.json"
TABLES = ("a", "b")
A, B = (f"{SCHEMA}.{name}" for name in TABLES)
WRITES = ("PUT", "POST", "DELETE")
PROCESS_SECONDS = 300
# More calls than a transaction makes.
MOST_CALLS = 500
# Kills between which the tables stay the same.
SCENE_KILLS = 20
_FORKED = multiprocessing.get_context("forkserver")
_FORKED.set_forkserver_preload(["catalog.killing", "duckdb"])


@dataclass
class Gate:
    """Counts the calls of a process, and kills it at one of them."""

    kill_at: int = 0
    after: bool = False
    # Whether reading calls count, too.
    counts_reads: bool = False
    calls: int = 0
    process: int = 0
    killed: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)
    started: threading.Event = field(default_factory=threading.Event)

    def serve(self, call: str, perform: Callable[[], Any]) -> Any:
        """Performs a call, and kills its process before or after it; None if nobody waits for the
        answer."""
        if not self.kill_at or not (self.counts_reads or call.startswith(WRITES)):
            return perform()
        self.started.wait(PROCESS_SECONDS)
        with self.lock:
            if self.killed:
                return None
            self.calls += 1
            if self.calls != self.kill_at:
                return perform()
            self.killed = call
        done = perform() if self.after else None
        os.kill(self.process, signal.SIGKILL)
        return done


class GatedS3(MemoryS3):
    """A store whose calls go through a gate."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate()

    def answer(self, method: str, url: str, headers: dict[str, str], body: bytes) -> Answer:
        path = url.partition("?")[0]
        done = self.gate.serve(f"{method} {path}", lambda: MemoryS3.answer(self, method, url, headers, body))
        return done if isinstance(done, Answer) else Answer(503)


@contextmanager
def gated(target: str, s3: GatedS3) -> Iterator[str]:
    """A URL before a catalog's server, whose requests go through the same gate."""
    host, port = target.removeprefix("http://").split(":")
    listener = socket.create_server(("127.0.0.1", 0))

    def exchange(server: socket.socket, request: bytes) -> bytes:
        server.sendall(request)
        return message(server)

    def serve(client: socket.socket) -> None:
        with suppress(OSError), client, socket.create_connection((host, int(port))) as server:
            while request := message(client):
                call = request.split(b" HTTP/", 1)[0].decode()
                answer = s3.gate.serve(call, lambda request=request: exchange(server, request))
                if not answer:
                    return
                client.sendall(answer)

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=serve, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()


def message(connection: socket.socket) -> bytes:
    """One HTTP message with its body; empty at the end of the connection."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65536)
        if not part:
            return b""
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    while len(body) < (int(lengths[0]) if lengths else 0):
        part = connection.recv(65536)
        if not part:
            return b""
        body += part
    return head + b"\r\n\r\n" + body


@dataclass
class Scene:
    """Two tables in a store and a catalog, both behind the gate."""

    s3: GatedS3
    bucket: str
    # The catalog as the killed processes reach it, and as the observer does.
    gated: Catalog
    lake: Lake
    number: int = 0

    def attempt(self, kill_at: int, after: bool, counts_reads: bool) -> tuple[str, bool] | None:
        """Runs a transaction in a process that is killed at a call; the call, and whether the
        transaction is in both tables. None if the process came to its end before."""
        self.number += 1
        before = self.versions()
        gate = self.s3.gate = Gate(kill_at, after, counts_reads)
        process = _FORKED.Process(target=transfer, args=(self.gated, self.number), daemon=True)
        process.start()
        assert process.pid is not None
        gate.process = process.pid
        gate.started.set()
        process.join(PROCESS_SECONDS)
        assert process.exitcode in ((-signal.SIGKILL,) if gate.killed else (0,)), (process.exitcode, gate.killed)
        gate.kill_at = 0
        is_in = [self.has_rows(name) for name in TABLES]
        assert is_in[0] == is_in[1], f"killed at {gate.killed}: {dict(zip(TABLES, is_in, strict=True))}"
        grown = [now - then for now, then in zip(self.versions(), before, strict=True)]
        assert grown == [int(is_in[0])] * 2, f"killed at {gate.killed}: the versions grew by {grown}"
        assert is_in[0] or gate.killed, "the transaction was reported as committed"
        return (gate.killed, is_in[0]) if gate.killed else None

    def versions(self) -> list[int]:
        return [self.lake.open(name).version() for name in TABLES]

    def has_rows(self, name: str) -> bool:
        """Whether the table has what this transaction did to it; fails if it has a part of it."""
        # Not the rows of all transactions before, each of which left files of its own.
        table = self.lake.open(name).to_pyarrow_table(filters=f"id IN (0, {self.number})")
        new = self.number in table["id"].to_pylist()
        if name == "b":
            marks = table.filter(pa.compute.equal(table["id"], 0))["text"].to_pylist()
            assert (marks == [f"seen {self.number}"]) == new, f"the table has the half: {marks}, {new}"
        return new

    def check(self) -> None:
        """After all kills: another transaction succeeds, everything can be published, and an
        independent reading of the protocol finds no fault."""
        self.s3.gate = Gate()
        self.number += 1
        transfer(self.lake.catalog, self.number)
        for name in TABLES:
            assert self.has_rows(name)
            opened = DeltaTable(self.lake.location(name), storage_options=self.lake.options)
            opened._snapshot.publish()
            assert opened.check() == []
        with tempfile.TemporaryDirectory() as directory:
            self.s3.to_disk(self.bucket, Path(directory))
            for name in TABLES:
                location = self.lake.catalog.info(f"{SCHEMA}.{name}")["location"]
                table = Path(directory) / location.removeprefix(f"s3://{self.bucket}/")
                faults = [problem for problem in problems(str(table)) if "catalogManaged" not in str(problem)]
                assert faults == [], faults


def transfer(catalog: Catalog, number: int) -> None:
    """A row into each of two tables, and a change of a row of one, in one transaction."""
    with transaction(catalog, [A, B]) as tx:
        tx.write(A, rows(number))
        tx.table(B).update(updates={"text": f"'seen {number}'"}, predicate="id = 0")
        tx.sql(f"INSERT INTO {B} SELECT * FROM {A} WHERE id = {number}")


@contextmanager
def scene(place: Path, kind: str) -> Iterator[Scene]:
    """The tables in a catalog behind its server, or in a database that each process opens."""
    uri = f"sqlite:///{place}/lake.db"
    with ExitStack() as stack:
        s3 = GatedS3()
        stack.enter_context(memory_s3(s3))
        bucket, (_, options) = s3.bucket({}), s3.client(lives_on=True)
        # The observer's calls are none of the process: it reports nothing by itself.
        owner = Catalog(uri, storage_options={**options, "catalog_publication_report": "86400"})
        owner.create_catalog("main", storage_root=f"s3://{bucket}/lake")
        owner.create_schema(SCHEMA)
        # Reports of publication are calls of the process, too.
        at_once = {**options, "catalog_publication_report": "0"}
        reached = Catalog(uri, storage_options=at_once)
        if kind == "server":
            url, _ = stack.enter_context(serving(uri, place / "server.log", "--anonymous"))
            reached = Catalog(stack.enter_context(gated(url, s3)), storage_options=at_once)
        lake = Lake(owner, uri)
        for name in TABLES:
            lake.write(name, rows(0))
        yield Scene(s3, bucket, reached, lake)


def explore(place: Path, kind: str, counts_reads: bool, every: int = 1) -> dict[str, Any]:
    """Kills a process at each call, or at every n-th one; the figures."""
    began, outcomes, calls = time.monotonic(), Counter[str](), Counter[bool]()
    for after in (False, True):
        numbers = iter(range(1, MOST_CALLS, every))
        while some := list(itertools.islice(numbers, SCENE_KILLS)):
            # New tables: each version of the old ones is one more call of the next transaction.
            with tempfile.TemporaryDirectory(dir=place) as folder, scene(Path(folder), kind) as tables:
                done = [tables.attempt(call, after, counts_reads) for call in some]
                tables.check()
            killed = [outcome for outcome in done if outcome is not None]
            calls[after] += len(killed)
            outcomes.update("in both tables" if is_in else "in neither" for _, is_in in killed)
            if len(killed) < len(some):
                break
        else:
            raise AssertionError(f"a transaction makes more than {MOST_CALLS} calls")
    return {
        "killed before a call": calls[False],
        "killed after a call": calls[True],
        **{name: outcomes[name] for name in ("in both tables", "in neither")},
        "seconds": round(time.monotonic() - began),
    }


def main() -> None:
    """Tries every call, through the server and with the catalog in the process."""
    figures = {}
    for kind, name in (("server", "a catalog's server"), ("sqlite", "a catalog in the process (SQLite)")):
        with tempfile.TemporaryDirectory() as directory:
            figures[name] = explore(Path(directory), kind, counts_reads=True)
        print(name, figures[name], flush=True)
    report = {
        "title": "Killed transactions over two tables",
        "claims": [
            "A process runs a transaction that writes to two tables of a catalog: an append, an update, and an insert"
            " of what it wrote. It gets SIGKILL at each of its calls to the tables' store and to the catalog's server:"
            " before the call is served, and after it, when the answer gets lost.",
            "After each kill both tables have everything of the transaction in one new version, or both have nothing"
            " of it and no new version. The next transaction succeeds, all commits can be published, and an"
            " independent verifier finds no fault in the tables.",
        ],
        "figures": figures,
        "how": "cd tests && ../.venv/bin/python -m catalog.killing",
    }
    RESULT.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
