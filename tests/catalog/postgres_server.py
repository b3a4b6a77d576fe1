"""A real PostgreSQL server for tests, from Debian's package `postgresql`, at a free port of
loopback. The tests of rust/catalog start theirs in the same way.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

VERSIONS = Path("/usr/lib/postgresql")
START_SECONDS = 30


def programs() -> Path | None:
    """The folder of the newest server's programs; `None` if none is installed."""
    folders = [folder for folder in VERSIONS.glob("*/bin") if (folder / "initdb").exists()]
    return max(folders, key=lambda folder: int(folder.parent.name), default=None)


class PostgresServer:
    """A running server."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        self._names = count()

    def new_database(self) -> str:
        """The URL of a new, empty database."""
        name = f"lake{next(self._names)}"
        _run(self.folder, "createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", name)
        return f"postgresql://postgres@127.0.0.1:{self.port}/{name}"


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """A server with an empty folder, which is stopped and removed at the end."""
    folder = programs()
    assert folder is not None, "this needs a PostgreSQL server: apt-get install postgresql"
    work = Path(tempfile.mkdtemp(prefix="deltaplane-postgres-"))
    # Root runs the server as the user `postgres`.
    work.chmod(0o777)
    data = work / "data"
    process: subprocess.Popen[bytes] | None = None
    try:
        _run(
            folder,
            "initdb",
            "-D",
            str(data),
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-sync",
            "--locale=C.UTF-8",
        )
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        # The pools of this process stay until its end.
        settings = ("unix_socket_directories=", "shared_buffers=32MB", "max_connections=500")
        command = _command(
            folder, "postgres", "-D", str(data), "-p", str(port), "-h", "127.0.0.1", *_settings(settings)
        )
        with (work / "log").open("wb") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/")
        deadline = time.monotonic() + START_SECONDS
        ready = _command(folder, "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port))
        while subprocess.run(ready, check=False, cwd="/").returncode != 0:
            running = process.poll() is None and time.monotonic() < deadline
            assert running, f"PostgreSQL did not start:\n{(work / 'log').read_text()[-4000:]}"
            time.sleep(0.1)
        yield PostgresServer(folder, port)
    finally:
        if process is not None and process.poll() is None:
            # Ends the server at once, with the connections that pools of this process hold; its
            # data are deleted.
            process.send_signal(signal.SIGQUIT)
            process.wait()
        shutil.rmtree(work, ignore_errors=True)


def _settings(settings: Sequence[str]) -> list[str]:
    return [part for setting in settings for part in ("-c", setting)]


def _command(folder: Path, program: str, *arguments: str) -> list[str]:
    """A command line. PostgreSQL refuses to run as root."""
    as_postgres = ("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups") if os.geteuid() == 0 else ()
    return [*as_postgres, str(folder / program), *arguments]


def _run(folder: Path, program: str, *arguments: str) -> None:
    done = subprocess.run(_command(folder, program, *arguments), capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
