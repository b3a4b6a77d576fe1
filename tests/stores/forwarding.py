"""A server on loopback that passes requests on to another one, and lets a test inspect them, answer
them or break the connection."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from serving import served


@dataclass(frozen=True)
class Request:
    """A received request; header names in lower case."""

    command: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Answer:
    """The response to send."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    # Bytes of the body after which the connection breaks; all are sent without it.
    sent: int | None = None


# Answers a request, optionally by asking the server behind; None breaks the connection.
Serve = Callable[[Request, Callable[[], Answer]], Answer | None]


@contextmanager
def forwarding(endpoint: str, serve: Serve, certificate: Path | None = None) -> Iterator[str]:
    """The address of a proxy for `endpoint`; with a certificate (and its key, in one file) it
    speaks TLS."""
    upstream = urlsplit(endpoint).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            request = Request(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body)
            answer = serve(request, lambda: self.ask(body))
            if answer is None:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.send_response_only(answer.status)
            for name, value in answer.headers:
                if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                    self.send_header(name, value)
            size = {name.lower(): value for name, value in answer.headers}.get("content-length")
            length = str(len(answer.body))
            self.send_header("Content-Length", (size or length) if self.command == "HEAD" else length)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body if answer.sent is None else answer.body[: answer.sent])
            if answer.sent is not None:
                self.wfile.flush()
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)

        def ask(self, body: bytes) -> Answer:
            connection = http.client.HTTPConnection(upstream, timeout=30)
            try:
                connection.request(self.command, self.path, body, dict(self.headers))
                response = connection.getresponse()
                return Answer(response.status, response.getheaders(), response.read())
            finally:
                connection.close()

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = pass_on

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        # Many connections at once: beyond this number a client waits a second for its next try.
        request_queue_size = 128

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client with a broken connection disconnects during an answer."""

    running = Server(("127.0.0.1", 0), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        running.socket = context.wrap_socket(running.socket, server_side=True)
    scheme = "http" if certificate is None else "https"
    with served(running):
        yield f"{scheme}://127.0.0.1:{running.server_address[1]}"
