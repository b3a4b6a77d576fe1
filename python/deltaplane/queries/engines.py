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

from deltaplane.expr.duckdb_values import connect, left_to_parent, require_duckdb
from deltaplane.expr.functions.core_functions import register
from deltaplane.expr.types import text

__all__ = ["Engine", "close_idle", "connected", "idle_databases"]

# Idle databases. Each has a thread for each processor but one.
_MOST_IDLE = 4
# A database that worked longer may hold memory, which it gives back once it has waited for some
# time: the next query would have to ask for it again.
_SECONDS = 0.1
_IDLE_SECONDS = 1.0
_END_SECONDS = 5.0
# Above what an idle database holds.
_IDLE_MEMORY = "20MB"


class _Database:
    """A database in memory, and what belongs to it rather than to a connection."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        # Names of functions. They end with the connection that made them, though any can call them.
        self.functions: set[str] = set()
        self.holds_memory = False

    def gives_memory_back(self) -> bool:
        """Gives back to the system what queries left, which DuckDB does when the limit of its
        memory is lowered; returns whether it did."""
        try:
            ((limit,),) = self.connection.execute("SELECT current_setting('memory_limit')").fetchall()
            self.connection.execute(f"SET memory_limit = '{_IDLE_MEMORY}'")
            self.connection.execute(f"SET memory_limit = {text(limit)}")
        except Exception:  # noqa: BLE001  (it is closed then)
            return False
        self.holds_memory = False
        return True


# Settings, and a database with them; the one that was used last is the last one.
_Key = tuple[tuple[str, str | bool | int], ...]
_idle: list[tuple[_Key, _Database]] = []
_timer: threading.Timer | None = None
_lock = threading.Lock()
_has_ended = False


class Engine:
    """A query's connection to a database that no other query uses meanwhile."""

    def __init__(self, connection: Any, database: _Database) -> None:
        self.connection = connection
        self._database = database

    def make_functions(self, sql: str) -> None:
        """Makes the functions known that a statement calls."""
        register(self._database.connection, sql, self._database.functions)


@contextmanager
def connected(config: Mapping[str, str | bool | int]) -> Iterator[Engine]:
    """A database in memory with these settings. After the block it is kept, unless the block
    failed.

    Raises:
        UnsupportedExpressionError: DuckDB isn't installed.
    """
    # A kept database works without the module, which evaluating needs as well.
    require_duckdb()
    key: _Key = tuple(sorted((name, value) for name, value in config.items() if name != "temp_directory"))
    started = time.monotonic()
    database, connection = _opened(key, config)
    done = False
    try:
        yield Engine(connection, database)
        done = True
    finally:
        connection.close()
        database.holds_memory |= time.monotonic() - started > _SECONDS
        if not (done and _keeps(key, database)):
            database.connection.close()


def _opened(key: _Key, config: Mapping[str, str | bool | int]) -> tuple[_Database, Any]:
    """A database, and a connection to it."""
    database = _taken(key)
    if database is not None:
        connection = _connection(database)
        try:
            connection.execute(f"SET temp_directory = {text(str(config.get('temp_directory', '')))}")
            return database, connection
        except Exception:  # noqa: BLE001  (DuckDB refuses another directory after it used one)
            connection.close()
            database.connection.close()
    # Memory beside that of this database.
    _give_memory_back()
    database = _Database(connect(**config))
    return database, _connection(database)


def _connection(database: _Database) -> Any:
    connection = left_to_parent(database.connection.cursor())
    connection.execute("SET enable_progress_bar = false")
    return connection


def _taken(key: _Key) -> _Database | None:
    with _lock:
        for index in reversed(range(len(_idle))):
            if _idle[index][0] == key:
                return _idle.pop(index)[1]
    return None


def _keeps(key: _Key, database: _Database) -> bool:
    global _timer
    with _lock:
        if _has_ended:
            return False
        _idle.append((key, database))
        oldest = _idle.pop(0)[1] if len(_idle) > _MOST_IDLE else None
        if database.holds_memory and _timer is None:
            _timer = threading.Timer(_IDLE_SECONDS, _give_memory_back)
            _timer.name, _timer.daemon = "deltaplane-idle", True
            _timer.start()
    if oldest is not None:
        oldest.connection.close()
    return True


def _give_memory_back() -> None:
    """Makes idle databases give their memory back."""
    global _timer
    with _lock:
        if _timer is threading.current_thread():
            _timer = None
        holding = [entry for entry in _idle if entry[1].holds_memory]
        _idle[:] = [entry for entry in _idle if not entry[1].holds_memory]
    for key, database in holding:
        if not (database.gives_memory_back() and _keeps(key, database)):
            database.connection.close()


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
            database.connection.close()


def _end() -> None:
    # Queries that end later keep nothing.
    global _has_ended
    _has_ended = True
    timer = _timer
    if timer is not None:
        # The interpreter must not end while a thread runs the engine.
        timer.cancel()
        timer.join(_END_SECONDS)
    close_idle()


def _begin_in_child() -> None:
    # A thread of the parent may hold the lock.
    global _lock, _timer
    _lock, _timer = threading.Lock(), None
    # Databases that other threads of the parent put here during the fork, whose threads don't run
    # in this process, were made by `connect`: they are left to the parent.
    _idle.clear()


atexit.register(_end)
# A forked process has none of the threads of its parent's databases.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=close_idle, after_in_child=_begin_in_child)
