"""DuckDB databases for queries. An idle one is kept for the next query with the same limits, since
making one takes longer than most queries of small tables.

Each query has a connection of its own, whose relations and variables end with it.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from deltaplane.expr.duckdb_values import connect, left_to_parent
from deltaplane.expr.types import text

__all__ = ["Engine", "close_idle", "connected", "idle_databases"]

# Idle databases. Each has a thread for each processor but one.
_MOST_IDLE = 4
# A database that worked longer may hold memory, which it gives back before it waits.
_SECONDS = 0.1
# Above what an idle database holds.
_IDLE_MEMORY = "20MB"

# Settings, and a database with them; the one that was used last is the last one.
_Key = tuple[tuple[str, str | bool | int], ...]
_idle: list[tuple[_Key, Any]] = []
_lock = threading.Lock()
_has_ended = False


class Engine:
    """A query's connection to a database that no other query uses meanwhile."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        # Functions belong to the database, though they end with the connection that made them.
        self.has_functions = False


@contextmanager
def connected(config: Mapping[str, str | bool | int]) -> Iterator[Engine]:
    """A database in memory with these settings. After the block it is kept, unless the block
    failed or made functions.

    Raises:
        UnsupportedExpressionError: DuckDB isn't installed.
    """
    key: _Key = tuple(sorted((name, value) for name, value in config.items() if name != "temp_directory"))
    started = time.monotonic()
    database, connection = _opened(key, config)
    engine, done = Engine(connection), False
    try:
        yield engine
        done = True
    finally:
        connection.close()
        is_quick = time.monotonic() - started <= _SECONDS
        is_good = done and not engine.has_functions
        if not (is_good and (is_quick or _frees(database)) and _keeps(key, database)):
            database.close()


def _opened(key: _Key, config: Mapping[str, str | bool | int]) -> tuple[Any, Any]:
    """A database, and a connection to it."""
    database = _taken(key)
    if database is not None:
        connection = _connection(database)
        try:
            connection.execute(f"SET temp_directory = {text(str(config.get('temp_directory', '')))}")
            return database, connection
        except Exception:  # noqa: BLE001  (DuckDB refuses another directory after it used one)
            connection.close()
            database.close()
    database = connect(**config)
    return database, _connection(database)


def _connection(database: Any) -> Any:
    connection = left_to_parent(database.cursor())
    connection.execute("SET enable_progress_bar = false")
    return connection


def _frees(database: Any) -> bool:
    """Makes a database give back the memory that a query left to it, which it does when its limit
    is lowered; returns whether it did."""
    try:
        ((limit,),) = database.execute("SELECT current_setting('memory_limit')").fetchall()
        database.execute(f"SET memory_limit = '{_IDLE_MEMORY}'")
        database.execute(f"SET memory_limit = {text(limit)}")
    except Exception:  # noqa: BLE001  (it is closed then)
        return False
    return True


def _taken(key: _Key) -> Any | None:
    with _lock:
        for index in reversed(range(len(_idle))):
            if _idle[index][0] == key:
                return _idle.pop(index)[1]
    return None


def _keeps(key: _Key, database: Any) -> bool:
    with _lock:
        if _has_ended:
            return False
        _idle.append((key, database))
        oldest = _idle.pop(0)[1] if len(_idle) > _MOST_IDLE else None
    if oldest is not None:
        oldest.close()
    return True


def idle_databases() -> int:
    """How many databases wait for a query."""
    return len(_idle)


def close_idle() -> None:
    """Closes the databases that no query uses, with their threads and memory."""
    with _lock:
        databases = [database for _, database in _idle]
        _idle.clear()
    for database in databases:
        # The process ends, or forks.
        with suppress(Exception):
            database.close()


def _end() -> None:
    # Queries that end later keep nothing.
    global _has_ended
    _has_ended = True
    close_idle()


def _begin_in_child() -> None:
    # A thread of the parent may hold the lock.
    global _lock
    _lock = threading.Lock()
    # Databases that other threads of the parent put here during the fork, whose threads don't run
    # in this process, were made by `connect`: they are left to the parent.
    _idle.clear()


atexit.register(_end)
# A forked process has none of the threads of its parent's databases.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=close_idle, after_in_child=_begin_in_child)
