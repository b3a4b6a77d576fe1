"""Catalogs that lie, break off or answer nonsense: a typed error in bounded time, and no change of
the table. A forwarding server before a real one changes its answers."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from catalog.conftest import SCHEMA, Lake, ids, rows, serving
from deltaplane import Catalog, DeltaError, transaction
from deltaplane.exceptions import (
    CorruptLogError,
    InvalidArgumentError,
    StoreDeniedError,
    StoreUnavailableError,
    TableNotFoundError,
    VersionNotFoundError,
)
from serving import served

# Far more than each case takes.
SECONDS = 30
REFUSALS = (CorruptLogError, StoreUnavailableError, InvalidArgumentError, TableNotFoundError, VersionNotFoundError)
Change = Callable[[Any], Any]
Raw = Callable[[bytes], bytes]


def metadata(**changes: Any) -> Change:
    """Changes fields of a loaded table's metadata."""
    return lambda table: {**table, "metadata": {**table["metadata"], **changes}}


def commits(change: Callable[[list[dict[str, Any]]], list[Any]]) -> Change:
    """Changes a loaded table's list of commits."""
    return lambda table: {**table, "commits": change(table["commits"])}


def first(**changes: Any) -> Change:
    """Changes fields of the newest commit."""
    return commits(lambda all_of_them: [{**all_of_them[0], **changes}, *all_of_them[1:]])


def latest(version: Any) -> Change:
    """Another latest version."""
    return lambda table: {**table, "latest-table-version": version}


LIES: dict[str, Change] = {
    "a version that doesn't exist": latest(7),
    "a version out of range": latest(2**63),
    "an enormous version": latest(2**62),
    "a negative version": latest(-3),
    "a version that is a text": latest("2"),
    "no latest version": lambda table: {k: v for k, v in table.items() if k != "latest-table-version"},
    "no commits and a newer version": lambda table: {**table, "commits": [], "latest-table-version": 3},
    "a gap between commits": commits(lambda listed: [{**listed[0], "version": 4}, *listed[1:]]),
    "a commit twice": commits(lambda listed: [listed[0], *listed]),
    "commits in the other order": commits(lambda listed: listed[::-1]),
    "a file elsewhere": first(**{"file-name": "../../../etc/passwd"}),
    "a file of another version": first(
        **{"file-name": f"{9:020}.48ae7812-9cf2-4548-a859-fc64b89de294.json", "content": None}
    ),
    "a file that isn't there": first(
        **{"file-name": f"{2:020}.48ae7812-9cf2-4548-a859-fc64b89de294.json", "content": None}
    ),
    "a commit that is no JSON": first(content="{", **{"file-size": 1}),
    "a commit that is null": commits(lambda listed: [None, *listed[1:]]),
    "commits that are an object": lambda table: {**table, "commits": {}},
    "a location that isn't there": metadata(location="file:///nowhere/at/all"),
    "a location of another kind": metadata(location="no-such-scheme://x/y"),
    "a location that is empty": metadata(location=""),
    "no metadata": lambda table: {k: v for k, v in table.items() if k != "metadata"},
    "a list": lambda table: [table],
    "null": lambda table: None,
}

NONSENSE: dict[str, Raw] = {
    "nothing": lambda _: b"",
    "half of the answer": lambda body: body[: len(body) // 2],
    "a page": lambda _: b"<html><body>Please log in</body></html>",
    "deep nesting": lambda _: b'{"metadata":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    "a number without end": lambda body: body.replace(b'"latest-table-version":2', b'"latest-table-version":2e400'),
    "invalid UTF-8": lambda body: body.replace(b"metadata", b"m\xff\xfeadata"),
    "megabytes of spaces": lambda body: b" " * (8 << 20) + b"x" + body,
}


class Forwarding(ThreadingHTTPServer):
    """Forwards to a server, and changes what it answers."""

    daemon_threads = True

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = target
        self.change: Callable[[str, str, int, bytes], tuple[int, bytes]] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, *_: object) -> None:
        """Clients that hang up are the subject of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Forwarding

    def _serve(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(length) if length else None
        headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "content-length", "connection")}
        request = urllib.request.Request(self.server.target + self.path, body, headers, method=self.command)
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                status, content = answer.status, answer.read()
        except urllib.error.HTTPError as e:
            status, content = e.code, e.read()
        if self.server.change is not None:
            status, content = self.server.change(self.command, self.path, status, content)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        if status != 204:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD" and status != 204:
            self.wfile.write(content)

    do_GET = do_HEAD = do_POST = do_DELETE = _serve

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""


@pytest.fixture(scope="module")
def forwarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Forwarding, Lake]]:
    """A forwarding server before a catalog, and the catalog as its owner sees it."""
    place = tmp_path_factory.mktemp("lying")
    uri = f"sqlite:///{place}/lake.db"
    owner = Catalog(uri)
    owner.create_catalog("main")
    owner.create_schema(SCHEMA)
    with serving(uri, place / "log", "--anonymous") as (url, _), served(Forwarding(url)) as server:
        yield server, Lake(owner, uri)


def _is_table(method: str, path: str, name: str) -> bool:
    return method == "GET" and path.partition("?")[0].endswith(f"/tables/{name}")


@dataclass
class Lied:
    """A table whose last two versions only the forwarding server knows."""

    server: Forwarding
    lake: Lake
    name: str
    hidden: dict[Path, bytes]
    commits: list[dict[str, Any]]

    def answer(self, change: Change) -> None:
        """Makes the server answer so about this table."""

        def changed(method: str, path: str, status: int, body: bytes) -> tuple[int, bytes]:
            if status == 200 and path.endswith("/snapshots"):
                answer = json.loads(body)
                tables = [change({**table, "commits": self.commits}) for table in answer["tables"]]
                return status, json.dumps({**answer, "tables": tables}).encode()
            if status == 200 and _is_table(method, path, self.name):
                return status, json.dumps(change({**json.loads(body), "commits": self.commits})).encode()
            return status, body

        self.server.change = changed

    def restore(self) -> None:
        for file, content in self.hidden.items():
            file.write_bytes(content)


@pytest.fixture
def lied(forwarded: tuple[Forwarding, Lake], request: pytest.FixtureRequest) -> Iterator[Lied]:
    server, lake = forwarded
    server.change = None
    name = f"t{zlib.crc32(request.node.name.encode())}"
    for number in (1, 2, 3):
        lake.write(name, rows(number))
    hidden, made = {}, []
    for version in (2, 1):
        file = lake.folder(name) / "_delta_log" / f"{version:020}.json"
        text = file.read_text()
        made.append(
            {
                "version": version,
                "timestamp": json.loads(text.splitlines()[0])["commitInfo"]["inCommitTimestamp"],
                "file-name": f"{version:020}.48ae7812-9cf2-4548-a859-fc64b89de294.json",
                "file-size": len(text.encode()),
                "file-modification-timestamp": 1,
                "content": text,
            }
        )
        for each in (file, file.with_suffix(".crc")):
            if each.exists():
                hidden[each] = each.read_bytes()
                each.unlink()
    made_up = Lied(server, lake, name, hidden, made)
    yield made_up
    server.change = None
    made_up.restore()
    assert lake.open(name).version() == 2
    assert ids(lake.open(name)) == [1, 2, 3]


def _attempts(client: Lake, name: str) -> list[Callable[[], object]]:
    def in_transaction() -> None:
        with transaction(client.catalog, [f"{SCHEMA}.{name}"]) as tx:
            tx.write(f"{SCHEMA}.{name}", rows(9))

    return [lambda: ids(client.open(name)), lambda: client.write(name, rows(9)), in_transaction]


def test_the_truth_is_accepted(lied: Lied) -> None:
    lied.answer(lambda table: table)
    assert ids(Lake(Catalog(lied.server.url), lied.lake.database).open(lied.name)) == [1, 2, 3]


@pytest.mark.parametrize("lie", LIES)
def test_lies_are_refused(lie: str, lied: Lied) -> None:
    lied.answer(LIES[lie])
    _refused(lied)


@pytest.mark.parametrize("nonsense", NONSENSE)
def test_nonsense_is_refused(nonsense: str, lied: Lied) -> None:
    def changed(method: str, path: str, status: int, body: bytes) -> tuple[int, bytes]:
        is_read = _is_table(method, path, lied.name) or path.endswith("/snapshots")
        return (status, NONSENSE[nonsense](body)) if is_read and status == 200 else (status, body)

    lied.server.change = changed
    _refused(lied)


def _refused(lied: Lied) -> None:
    for number, attempt in enumerate(_attempts(Lake(Catalog(lied.server.url), lied.lake.database), lied.name)):
        began = time.monotonic()
        with pytest.raises(DeltaError) as raised:
            attempt()
        assert isinstance(raised.value, REFUSALS), (number, repr(raised.value))
        assert time.monotonic() - began < SECONDS


def test_expired_tokens_are_refused(database: str, tmp_path: Path) -> None:
    owner = Catalog(database)
    owner.grant("ann", "READ")
    expired = owner.create_token("ann", datetime.now(timezone.utc) - timedelta(seconds=1))
    with serving(database, tmp_path / "log") as (url, _):
        with pytest.raises(StoreDeniedError, match="expired"):
            Catalog(url, expired).schemas("main")
