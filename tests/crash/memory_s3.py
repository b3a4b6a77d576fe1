"""An S3 server in this process's memory whose clients can die: each access key is a client, and
from its n-th call on it gets no answer. The state of a bucket is a dictionary, so copying it
restores a table: no other server here can do that hundreds of times a second. The store contract
suite passes with it (`test_points.py`).
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

from serving import served

DAY_SECONDS = 24 * 3600.0
# Names that are random in each run.
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
PAGE = 1000


@dataclass(frozen=True)
class Stored:
    """One object."""

    body: bytes
    etag: str
    modified: float = field(default_factory=time.time)


Bucket = dict[str, Stored]


@dataclass
class Client:
    """The calls of one access key, and the call that gets no answer, though the server may have
    executed it. From then on the client is `dead`, unless it `lives_on`.

    `fails_at` is a call in the form of `in_every_run`, and its number among the calls of this form:
    a client makes some calls side by side, so their order differs from run to run.
    """

    fails_at: tuple[str, int] | None = None
    does_it: bool = True
    lives_on: bool = False
    calls: list[str] = field(default_factory=list)
    dead: bool = False


def in_every_run(call: str) -> str:
    """A call without its bucket and without random parts of names."""
    method, _, path = call.partition(" ")
    return f"{method} {UUID.sub('UUID', path.lstrip('/').partition('/')[2])}"


class Answer(Exception):
    """An HTTP status with a body and headers."""

    def __init__(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.status, self.body = status, body
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def entries(keys: Iterable[str], prefix: str, delimiter: str, after: str) -> list[str]:
    """The entries of a listing: keys, and common prefixes for keys with the delimiter after the
    prefix."""

    def shown(key: str) -> str:
        level, delimited, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
        return f"{prefix}{level}{delimiter}" if delimited else key

    there = {shown(key) for key in keys if key.startswith(prefix)}
    return sorted((entry for entry in there if entry > after), key=str.encode)


def refusal(status: int, code: str) -> Answer:
    return Answer(status, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode())


class MemoryS3:
    """The server's state, and the options for connecting to it."""

    def __init__(self) -> None:
        self.buckets: dict[str, Bucket] = {}
        self.clients: dict[str, Client] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.lock = threading.Lock()
        self.endpoint = ""
        self._numbers = itertools.count()

    def client(self, **fault: Any) -> tuple[Client, dict[str, str]]:
        """A new client, and its storage options for a process; a dead client doesn't retry."""
        name = f"client{next(self._numbers)}"
        self.clients[name] = Client(**fault)
        return self.clients[name], {
            "aws_endpoint_url": self.endpoint,
            "aws_access_key_id": name,
            "aws_secret_access_key": "secret",
            "aws_region": "us-east-1",
            "aws_allow_http": "true",
            "max_retries": "2" if self.clients[name].lives_on else "0",
            "init_backoff": "1ms",
            # A dead client repeats the put of a commit in vain until this time has passed.
            "retry_timeout": "60s" if self.clients[name].lives_on else "500ms",
        }

    def bucket(self, state: Bucket) -> str:
        """The name of a new bucket with a copy of this state."""
        name = f"bucket{next(self._numbers)}"
        self.buckets[name] = dict(state)
        return name

    def aged(self, bucket: str, days: float) -> None:
        """Makes all objects of a bucket older."""
        held = self.buckets[bucket]
        self.buckets[bucket] = {key: Stored(o.body, o.etag, o.modified - days * DAY_SECONDS) for key, o in held.items()}

    def to_disk(self, bucket: str, path: Path) -> None:
        """Writes a bucket's objects to a directory, with their times."""
        for key, stored in self.buckets[bucket].items():
            file = path / key
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(stored.body)
            os.utime(file, (stored.modified, stored.modified))

    # --- the protocol -------------------------------------------------------------------------------------------------

    def answer(self, method: str, url: str, headers: dict[str, str], body: bytes) -> Answer:
        parts = urlsplit(url)
        query = {k: v[0] for k, v in parse_qs(parts.query, keep_blank_values=True).items()}
        bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
        with self.lock:
            if method == "PUT" and not key:
                self.buckets.setdefault(bucket, {})
                return Answer(200)
            if bucket not in self.buckets:
                return refusal(404, "NoSuchBucket")
            held = self.buckets[bucket]
            if not key:
                return self._of_bucket(held, method, query, body)
            if "uploads" in query or "uploadId" in query:
                return self._multipart(held, key, method, query, body)
            return self._of_object(held, key, method, headers, body)

    def _of_bucket(self, held: Bucket, method: str, query: dict[str, str], body: bytes) -> Answer:
        if method == "POST" and "delete" in query:
            keys = [_unescape(k) for k in re.findall(r"<Key>(.*?)</Key>", body.decode(), re.DOTALL)]
            for key in keys:
                held.pop(key, None)
            done = "".join(f"<Deleted><Key>{escape(k)}</Key></Deleted>" for k in keys)
            return Answer(200, f"<DeleteResult>{done}</DeleteResult>".encode())
        prefix, after = query.get("prefix", ""), query.get("continuation-token") or query.get("start-after", "")
        listed = entries((k for k in held if k > after), prefix, query.get("delimiter", ""), after)
        page = listed[:PAGE]
        items = "".join(
            f"<CommonPrefixes><Prefix>{escape(k)}</Prefix></CommonPrefixes>"
            if k not in held
            else f"<Contents><Key>{escape(k)}</Key><Size>{len(held[k].body)}</Size><ETag>{escape(held[k].etag)}</ETag>"
            f"<LastModified>{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(held[k].modified))}.000Z</LastModified></Contents>"
            for k in page
        )
        more = len(listed) > len(page)
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
        text = f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>{token}{items}</ListBucketResult>"
        return Answer(200, text.encode())

    def _multipart(self, held: Bucket, key: str, method: str, query: dict[str, str], body: bytes) -> Answer:
        upload = query.get("uploadId", "")
        if "uploads" in query:
            upload = f"upload{next(self._numbers)}"
            self.uploads[upload] = {}
            text = f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
            return Answer(200, text.encode())
        if upload not in self.uploads:
            return refusal(404, "NoSuchUpload")
        if method == "PUT":
            self.uploads[upload][int(query["partNumber"])] = body
            return Answer(200, ETag=_etag(body))
        parts = self.uploads.pop(upload)
        if method == "POST":
            whole = b"".join(parts[number] for number in sorted(parts))
            held[key] = Stored(whole, _etag(whole))
            text = (
                f"<CompleteMultipartUploadResult><ETag>{escape(held[key].etag)}</ETag></CompleteMultipartUploadResult>"
            )
            return Answer(200, text.encode())
        return Answer(204)

    def _of_object(self, held: Bucket, key: str, method: str, headers: dict[str, str], body: bytes) -> Answer:
        if method == "PUT":
            if headers.get("if-none-match") == "*" and key in held:
                return refusal(412, "PreconditionFailed")
            held[key] = Stored(body, _etag(body))
            return Answer(200, ETag=held[key].etag)
        if method == "DELETE":
            held.pop(key, None)
            return Answer(204)
        if key not in held:
            return refusal(404, "NoSuchKey")
        stored = held[key]
        object_headers = {"ETag": stored.etag, "Last_Modified": formatdate(stored.modified, usegmt=True)}
        wanted = headers.get("range")
        if wanted is None or method == "HEAD":
            return Answer(200, stored.body, **object_headers)
        first, last = _range(wanted, len(stored.body))
        if first >= len(stored.body):
            return refusal(416, "InvalidRange")
        part = stored.body[first : last + 1]
        return Answer(
            206, part, Content_Range=f"bytes {first}-{first + len(part) - 1}/{len(stored.body)}", **object_headers
        )


def _etag(body: bytes) -> str:
    return f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'


def _unescape(text: str) -> str:
    return unescape(text, {"&quot;": '"', "&apos;": "'"})


def _range(text: str, size: int) -> tuple[int, int]:
    first, last = text.removeprefix("bytes=").split("-")
    if not first:
        return max(size - int(last), 0), size - 1
    return int(first), int(last) if last else size - 1


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    # A single write for head and body.
    wbufsize = -1

    def _serve(self) -> None:
        state: MemoryS3 = self.server.state  # type: ignore[attr-defined]
        body = self._body()
        headers = {name.lower(): value for name, value in self.headers.items()}
        named = re.search(r"Credential=([^/]+)/", headers.get("authorization", ""))
        client = state.clients.get(named[1]) if named else None
        if client is not None:
            with state.lock:
                client.calls.append(f"{self.command} {self.path}")
                form = in_every_run(client.calls[-1])
                number = sum(in_every_run(call) == form for call in client.calls)
                fails = client.fails_at == (form, number)
                silent, does_it = client.dead or fails, not client.dead and (not fails or client.does_it)
                client.dead = client.dead or (fails and not client.lives_on)
        else:
            silent, does_it = False, True
        answer = state.answer(self.command, self.path, headers, body) if does_it else None
        if silent or answer is None:
            self.close_connection = True
            return
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)
        self.wfile.flush()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def log_message(self, *_: object) -> None:
        """Requests are counted, not printed."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        """Disconnecting clients are the subject of the tests."""


@contextmanager
def memory_s3(state: MemoryS3 | None = None) -> Iterator[MemoryS3]:
    """A server on loopback, at a free port."""
    server = _Server(("127.0.0.1", 0), _Handler)
    state = state or MemoryS3()
    state.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    server.state = state  # type: ignore[attr-defined]
    with served(server):
        yield state
