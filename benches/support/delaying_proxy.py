"""A proxy in front of an object store's server that delays each request and records it, as if the
store were in the same region and not on this machine.

`DelayingProxy` starts it as a separate process, so that its work isn't counted as a contestant's;
it ends when its standard input closes, that is, with its starter.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import unescape

# Time to the first byte in the same region: of a read, and of a write, which is stored thrice.
READ_DELAY_MS, WRITE_DELAY_MS = 30, 60
# Requests of an operation are over when none has begun for so long; checksums follow a commit.
QUIET_SECONDS = 0.1
# What a request is for the store's bill. Deletions cost nothing.
LISTS, READS, WRITES = "LIST", ("GET", "HEAD"), ("PUT", "POST")


@dataclass(frozen=True)
class Recorded:
    """A request: when it began and ended in seconds, and the bytes of its body and its answer's."""

    kind: str
    begin: float
    end: float
    sent_bytes: int
    received_bytes: int


@dataclass(frozen=True)
class Prices:
    """A store's list prices in US dollars per request."""

    write: float
    list: float
    read: float

    def of(self, requests: Sequence[Recorded]) -> float:
        """What requests cost, without storage and without transfer, which is free within a
        region."""
        each = {LISTS: self.list, **dict.fromkeys(READS, self.read), **dict.fromkeys(WRITES, self.write)}
        return sum(each.get(request.kind, 0.0) for request in requests)


# Amazon S3 Standard in us-east-1; Azure block blobs, hot tier, locally redundant, in East US. The
# providers' lists change: compare them before quoting a figure.
PRICES = {
    "S3": Prices(write=0.005 / 1_000, list=0.005 / 1_000, read=0.0004 / 1_000),
    "Azure": Prices(write=0.065 / 10_000, list=0.065 / 10_000, read=0.005 / 10_000),
}


def rounds(requests: Sequence[Recorded]) -> int:
    """The length of the longest chain of requests that each begin after the one before ended."""
    count, until = 0, -1.0
    for request in sorted(requests, key=lambda request: request.end):
        if request.begin >= until:
            count, until = count + 1, request.end
    return count


class DelayingProxy:
    """A proxy for the server at `endpoint`, while this object lives. Requests outside of `begin`
    and `end` are passed on without delay."""

    def __init__(self, endpoint: str) -> None:
        command = [sys.executable, __file__, endpoint]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._end = weakref.finalize(self, self._process.communicate)
        self.endpoint = f"http://127.0.0.1:{int(self._answer())}"

    def begin(self) -> None:
        """Delays and records from now on."""
        self._ask("begin")

    def end(self) -> list[Recorded]:
        """The requests since `begin`, once no more of them follow."""
        return [Recorded(*fields) for fields in json.loads(self._ask("end"))]

    def _ask(self, command: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


def _started(listing: bytes, path: str) -> bytes:
    """A listing of Azurite from the name on that Azure's parameter `startFrom` gives: Azurite
    ignores it, and deltalake refuses earlier names."""
    first = parse_qs(urlsplit(path).query).get("startFrom", [""])[0]
    if not first:
        return listing

    def retained(blob: re.Match[bytes]) -> bytes:
        return blob[0] if unescape(blob[1].decode()) >= first else b""

    return re.sub(rb"<Blob><Name>(.*?)</Name>.*?</Blob>", retained, listing, flags=re.DOTALL)


class _Record:
    """The requests of the current operation."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.requests: list[tuple[str, float, float, int, int]] = []
        self.delays = False
        self.running, self.last_end = 0, 0.0

    def begin(self) -> None:
        with self.lock:
            self.requests, self.delays = [], True

    def end(self) -> list[tuple[str, float, float, int, int]]:
        while True:
            with self.lock:
                if self.running == 0 and time.monotonic() - self.last_end > QUIET_SECONDS:
                    self.delays = False
                    return self.requests
            time.sleep(0.01)

    def enter(self) -> bool:
        with self.lock:
            self.running += 1
            return self.delays

    def leave(self, delayed: bool, kind: str, begin: float, sent: int, received: int) -> None:
        with self.lock:
            self.running -= 1
            self.last_end = time.monotonic()
            if delayed:
                self.requests.append((kind, begin, self.last_end, sent, received))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    upstream: str
    record: _Record
    connection_behind: http.client.HTTPConnection | None = None

    def pass_on(self) -> None:
        begin, delayed = time.monotonic(), self.record.enter()
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        received = 0
        try:
            if delayed:
                is_read = self.command in READS
                time.sleep((READ_DELAY_MS if is_read else WRITE_DELAY_MS) / 1000)
            status, headers, answer = self._ask_behind(body)
            answer = _started(answer, self.path)
            received = len(answer)
        finally:
            self.record.leave(delayed, self._kind(), begin, len(body), received)
        self.send_response_only(status)
        length = str(len(answer))
        for name, value in headers:
            if name.lower() == "content-length" and self.command == "HEAD":
                length = value
            elif name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(answer)
        self.wfile.flush()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = pass_on

    def _kind(self) -> str:
        query = urlsplit(self.path).query
        is_list = self.command == "GET" and ("list-type=" in query or "comp=list" in query)
        is_deletion = self.command == "POST" and "delete" in query.split("&")
        return LISTS if is_list else "DELETE" if is_deletion else self.command

    def _ask_behind(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        headers = {name: value for name, value in self.headers.items() if name.lower() != "expect"}
        for attempt in range(2):
            if self.connection_behind is None:
                self.connection_behind = http.client.HTTPConnection(self.upstream, timeout=60)
            try:
                self.connection_behind.request(self.command, self.path, body, headers)
                response = self.connection_behind.getresponse()
                return response.status, response.getheaders(), response.read()
            except (http.client.HTTPException, ConnectionError):
                # The server closed an idle connection.
                self.connection_behind.close()
                self.connection_behind = None
                if attempt:
                    raise
        raise AssertionError("unreachable")

    def log_message(self, *_: object) -> None:
        """Logs nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Beyond this number of new connections at once a client waits a second for its next try.
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client closed its connection."""


def _main() -> None:
    _Handler.upstream, _Handler.record = urlsplit(sys.argv[1]).netloc, _Record()
    server = _Server(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    for line in sys.stdin:
        result = _Handler.record.begin() if line.strip() == "begin" else _Handler.record.end()
        print(json.dumps(result), flush=True)
    os._exit(0)


if __name__ == "__main__":
    _main()
