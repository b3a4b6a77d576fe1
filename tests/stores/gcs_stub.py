"""A small in-memory stub of Google Cloud Storage's XML API: objects, listings, multipart uploads.

No emulator suffices: fake-gcs-server 1.56 and gcp-storage-emulator 2026.7 support preconditions and
multipart uploads only in the JSON API, not in object_store's XML API. As a program it prints its
port and serves until its standard input closes, one request at a time.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import sys
import threading
import time
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

# As in the service: maximum number of names per answer.
PAGE = 1000


@dataclass
class Blob:
    """The last written state of an object."""

    body: bytes
    generation: int
    modified: float = field(default_factory=time.time)

    @property
    def etag(self) -> str:
        return f'"{hashlib.md5(self.body).hexdigest()}-{self.generation}"'

    @property
    def headers(self) -> dict[str, str]:
        return {
            "ETag": self.etag,
            "Last-Modified": formatdate(self.modified, usegmt=True),
            "x-goog-generation": str(self.generation),
        }


class State:
    """All buckets of a server, and the uploads in progress."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.buckets: dict[str, dict[str, Blob]] = {}
        self.uploads: dict[str, tuple[str, str, dict[int, bytes]]] = {}
        self.generations = itertools.count(1)

    def put(self, bucket: dict[str, Blob], name: str, body: bytes) -> Blob:
        """Writes an object; the caller holds the lock."""
        blob = bucket[name] = Blob(body, next(self.generations))
        return blob


Answer = tuple[int, dict[str, str], bytes]


def error(status: int, code: str) -> Answer:
    """The XML of an error response."""
    return status, {}, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()


def answer(state: State, method: str, url: str, headers: dict[str, str], body: bytes) -> Answer:
    """The service's response to one request; the caller holds the lock. Header names are
    lower-case."""
    parts = urlsplit(url)
    query = {k: v[0] for k, v in parse_qs(parts.query, keep_blank_values=True).items()}
    bucket_name, _, raw = parts.path.lstrip("/").partition("/")
    name = unquote(raw)
    if not raw and method == "PUT":
        state.buckets.setdefault(unquote(bucket_name), {})
        return 200, {}, b""
    bucket = state.buckets.get(unquote(bucket_name))
    if bucket is None:
        return error(404, "NoSuchBucket")
    if not raw:
        return listing(bucket, query)
    if "uploads" in query:
        upload = f"upload-{next(state.generations)}"
        state.uploads[upload] = (bucket_name, name, {})
        return (
            200,
            {},
            f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>".encode(),
        )
    if "uploadId" in query:
        return part(state, method, bucket, query, body)
    blob = bucket.get(name)
    if method == "PUT":
        expected = headers.get("x-goog-if-generation-match")
        if expected is not None and int(expected) != (blob.generation if blob else 0):
            return error(412, "PreconditionFailed")
        return 200, state.put(bucket, name, body).headers, b""
    if blob is None:
        return error(404, "NoSuchKey")
    if method == "DELETE":
        del bucket[name]
        return 204, {}, b""
    return read(blob, headers)


def part(state: State, method: str, bucket: dict[str, Blob], query: dict[str, str], body: bytes) -> Answer:
    """A step of a multipart upload: a part, its completion, its abortion."""
    upload = query["uploadId"]
    if upload not in state.uploads:
        return error(404, "NoSuchUpload")
    _, name, parts = state.uploads[upload]
    if method == "PUT":
        parts[int(query["partNumber"])] = body
        return 200, {"ETag": f'"{hashlib.md5(body).hexdigest()}"'}, b""
    del state.uploads[upload]
    if method == "DELETE":
        return 204, {}, b""
    numbers = [int(n) for n in re.findall(rb"<PartNumber>(\d+)</PartNumber>", body)]
    if any(n not in parts for n in numbers):
        return error(400, "InvalidPart")
    blob = state.put(bucket, name, b"".join(parts[n] for n in sorted(numbers)))
    result = f"<CompleteMultipartUploadResult><ETag>{escape(blob.etag)}</ETag></CompleteMultipartUploadResult>"
    return 200, blob.headers, result.encode()


def read(blob: Blob, headers: dict[str, str]) -> Answer:
    """An object or a range of it."""
    wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", headers.get("range", ""))
    if wanted is None:
        return 200, blob.headers, blob.body
    first, last = wanted.groups()
    size = len(blob.body)
    start = int(first) if first else max(0, size - int(last))
    end = min(size, int(last) + 1) if first and last else size
    if start >= size:
        return error(416, "InvalidRange")
    return 206, {**blob.headers, "Content-Range": f"bytes {start}-{end - 1}/{size}"}, blob.body[start:end]


def listing(bucket: dict[str, Blob], query: dict[str, str]) -> Answer:
    """Version 2 of the listing: ordered by the names' bytes, after an offset, a page at a time."""
    behind = max(query.get("start-after", ""), query.get("continuation-token", ""), key=str.encode)
    limit = min(PAGE, int(query.get("max-keys", PAGE)))
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    # With a delimiter, names that contain it behind the prefix are truncated after it and listed
    # once.
    shown = {level(n, prefix, delimiter) for n in bucket if n.startswith(prefix)}
    names = sorted((n for n in shown if not behind or n.encode() > behind.encode()), key=str.encode)
    out = ["<ListBucketResult>"]
    for name in names[:limit]:
        if name not in bucket:
            out.append(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>")
            continue
        blob = bucket[name]
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(blob.modified))
        out.append(
            f"<Contents><Key>{escape(name)}</Key><Size>{len(blob.body)}</Size><LastModified>{stamp}</LastModified>"
            f"<ETag>{escape(blob.etag)}</ETag></Contents>"
        )
    if len(names) > limit:
        out.append(f"<NextContinuationToken>{escape(names[limit - 1])}</NextContinuationToken>")
    out.append("</ListBucketResult>")
    return 200, {"Content-Type": "application/xml"}, "".join(out).encode()


def level(name: str, prefix: str, delimiter: str) -> str:
    """The name, or its part up to the delimiter behind the prefix."""
    end = name.find(delimiter, len(prefix)) if delimiter else -1
    return name if end < 0 else name[: end + len(delimiter)]


class Handler(BaseHTTPRequestHandler):
    """HTTP around `answer`."""

    protocol_version = "HTTP/1.1"
    # A response is two small writes; with Nagle's algorithm the second one would wait for the first
    # one's acknowledgement.
    disable_nagle_algorithm = True
    state = State()

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {k.lower(): v for k, v in self.headers.items()}
        with self.state.lock:
            status, extra, out = answer(self.state, self.command, self.path, headers, body)
        self.send_response(status)
        for key, value in extra.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(out)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(out)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve

    def log_message(self, format: str, *args: object) -> None:
        """Prints nothing, since the tests read this process's output."""


class Server(ThreadingHTTPServer):
    """Accepts as many connections at once as a test opens."""

    daemon_threads = True
    request_queue_size = 128


if __name__ == "__main__":
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()
