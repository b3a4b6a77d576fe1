"""Serves a folder as a bucket of an S3 server with latency: each answer is delayed by some
milliseconds, as from a region.

Read-only, path style, ignoring signatures. `ObjectServer` starts it as a separate process, so that
no measure includes its costs; it ends when its standard input closes, that is, with its starter.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import weakref
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "bench"


class ObjectServer:
    """The server of a folder with answers delayed by `delay_ms`, while this object lives, and the
    storage `options` for it."""

    def __init__(self, folder: str, delay_ms: int) -> None:
        command = [sys.executable, __file__, folder, str(delay_ms)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._end = weakref.finalize(self, process.communicate)
        assert process.stdout is not None
        self.options = {
            "aws_endpoint_url": f"http://127.0.0.1:{int(process.stdout.readline())}",
            "aws_access_key_id": "bench",
            "aws_secret_access_key": "bench",
            "aws_region": "us-east-1",
            "aws_allow_http": "true",
        }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    folder: Path
    delay_s: float

    def do_GET(self) -> None:
        time.sleep(self.delay_s)
        parts = urlsplit(self.path)
        key = unquote(parts.path).removeprefix(f"/{BUCKET}").lstrip("/")
        if not key:
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            self._answer(200, self._listing(query.get("prefix", ""), query.get("start-after", "")).encode(), {})
            return
        file = self.folder / key
        if not file.is_file():
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>", {})
            return
        headers = _headers(file)
        size = file.stat().st_size
        wanted = self.headers.get("range")
        if wanted is None or self.command == "HEAD":
            self._answer(200, file.read_bytes() if self.command == "GET" else b"", headers, size)
            return
        first, last = wanted.removeprefix("bytes=").split("-")
        start = int(first) if first else max(0, size - int(last))
        end = min(int(last) + 1, size) if first and last else size
        with file.open("rb") as opened:
            opened.seek(start)
            self._answer(206, opened.read(end - start), {**headers, "Content-Range": f"bytes {start}-{end - 1}/{size}"})

    do_HEAD = do_GET

    def _answer(self, status: int, body: bytes, headers: dict[str, str], size: int | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if size is None else size))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def _listing(self, prefix: str, after: str) -> str:
        files = sorted(path for path in self.folder.rglob("*") if path.is_file())
        items = []
        for path in files:
            key = path.relative_to(self.folder).as_posix()
            if key.startswith(prefix) and key > after:
                headers, stat = _headers(path), path.stat()
                when = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(stat.st_mtime))
                items.append(
                    f"<Contents><Key>{escape(key)}</Key><Size>{stat.st_size}</Size><ETag>{escape(headers['ETag'])}</ETag>"
                    f"<LastModified>{when}</LastModified></Contents>"
                )
        return f"<ListBucketResult><IsTruncated>false</IsTruncated>{''.join(items)}</ListBucketResult>"

    def log_message(self, *_: object) -> None:
        """Logs nothing."""


def _headers(file: Path) -> dict[str, str]:
    stat = file.stat()
    return {"ETag": f'"{stat.st_mtime_ns:x}-{stat.st_size:x}"', "Last-Modified": formatdate(stat.st_mtime, usegmt=True)}


def _main() -> None:
    _Handler.folder, _Handler.delay_s = Path(sys.argv[1]), int(sys.argv[2]) / 1000
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    _main()
