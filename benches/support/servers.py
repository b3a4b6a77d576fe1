"""Servers of a measure, in processes of their own."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["catalog_server", "end", "processor_seconds", "started"]


def started(command: Sequence[str]) -> tuple[subprocess.Popen[str], str]:
    """Starts a server that prints its address in its first line; returns both."""
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    # After a failure, too: the measure waits until nobody can write to its pipes.
    atexit.register(server.kill)
    assert server.stdout is not None
    return server, server.stdout.readline().strip()


def catalog_server(database: str) -> list[str]:
    """The command of deltaplane's own server over a database, without rights, at a free port."""
    command = [sys.executable, "-c", "from deltaplane.cli import main; main()", "catalog", "serve", database]
    return [*command, "--anonymous", "--address", "127.0.0.1:0"]


def end(server: subprocess.Popen[str]) -> None:
    """Ends a server: it would keep the pipes of this process open."""
    server.terminate()
    server.wait(30)


def processor_seconds(pid: int) -> float:
    """The processor time of a running process and its threads, in seconds."""
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
