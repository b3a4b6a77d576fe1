"""Starts the server of py4j by which Spark's JVM calls this process."""

from __future__ import annotations

import select
import socket
from typing import Any

__all__ = ["start_callbacks"]


def start_callbacks(gateway: Any) -> None:
    """Starts the server unless it runs.

    Raises:
        OSError: the JVM couldn't call this process; the message says what to do.
    """
    from py4j.protocol import Py4JError
    from pyspark.java_gateway import ensure_callback_server_started

    if getattr(gateway, "_callback_server", None) is None:
        _check_descriptors()
    try:
        ensure_callback_server_started(gateway)
    except (Py4JError, OSError) as e:
        raise OSError(f"{e}; let it listen on a port of 127.0.0.1") from e


def _check_descriptors() -> None:
    # The server waits by `select`, which refuses descriptors from 1,024 on: its thread would end,
    # and the JVM would wait for it without an end.
    with socket.socket() as next_one:
        try:
            select.select([next_one], [], [], 0)
        except ValueError:
            raise OSError(
                f"this process has many open files: its next socket has the number {next_one.fileno()}, "
                "and py4j can only wait for numbers below 1024; close some, or start the session before they are opened"
            ) from None
