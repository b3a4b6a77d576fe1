"""Computes constant values once, before a query runs: a value that is known can't fail for a row.

Uses a DuckDB connection of its own for each thread.
"""

from __future__ import annotations

import os
import threading
from functools import lru_cache
from typing import Any

from deltaplane.exceptions import UnsupportedExpressionError
from deltaplane.expr.duckdb_values import connect
from deltaplane.expr.typed import Typed
from deltaplane.expr.types import SparkType, text

__all__ = ["computed", "of_text"]

_connections = threading.local()


def of_text(to: SparkType, sql: str) -> str:
    """A typed constant from its text, which `sql` computes; binary text is hexadecimal."""
    if to.name == "string":
        return sql
    return f"from_hex({sql})" if to.name == "binary" else f"CAST({sql} AS {to.duck})"


def computed(value: Typed) -> Typed:
    """The value as a literal, if it is a constant whose computation could fail and doesn't.

    A constant that fails stays as it is: it fails only where a row needs it.
    """
    if not (value.constant and value.throws) or value.partial or not (value.type.atomic or value.type.interval):
        return value
    sql = _literal(value.sql, value.type)
    return value if sql is None else Typed(value.type, sql, constant=True, name=value.name)


@lru_cache(maxsize=1024)
def _literal(sql: str, data_type: SparkType) -> str | None:
    shown = f"hex({sql})" if data_type.name == "binary" else f"CAST({sql} AS VARCHAR)"
    try:
        result = _connection().execute(f"SELECT {shown}").fetchone()[0]
    except UnsupportedExpressionError:
        return None
    except Exception as e:
        if not _is_of_duckdb(e):
            raise
        return None
    return f"CAST(NULL AS {data_type.duck})" if result is None else of_text(data_type, text(result))


def _is_of_duckdb(e: Exception) -> bool:
    import duckdb

    return isinstance(e, duckdb.Error)


def _connection() -> Any:
    # A process that was forked must not use its parent's connection.
    if getattr(_connections, "process", None) != os.getpid():
        _connections.process, _connections.connection = os.getpid(), connect()
    return _connections.connection
