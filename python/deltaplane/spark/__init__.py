"""Delta tables on PySpark without a jar: a native scan that Catalyst prunes, writes on executors, one commit on the driver.

`read`, `write` and the live view work on classic sessions; the data source `deltaplane` also on Spark Connect.
Importing it needs PySpark, which is imported nowhere else in the package. Called by users.
"""

from __future__ import annotations

import importlib.util
from importlib import import_module
from typing import TYPE_CHECKING, Any

if importlib.util.find_spec("pyspark") is None:
    raise ImportError("deltaplane.spark needs PySpark: pip install 'deltaplane[spark]'")

from deltaplane.spark._plan import plan
from deltaplane.spark._read import create_or_replace_temp_view, read, read_changes
from deltaplane.spark._session import register, session
from deltaplane.spark._stream_read import read_stream
from deltaplane.spark._stream_write import foreach_batch, write_stream
from deltaplane.spark._write import write
from deltaplane.spark.tables import (
    DeltaMergeBuilder,
    DeltaOptimizeBuilder,
    DeltaTable,
    DeltaTableBuilder,
    IdentityGenerator,
)
from deltaplane.write import WriteResult

if TYPE_CHECKING:
    from deltaplane.spark_names import disable, enable, sql

__all__ = [
    "DeltaMergeBuilder",
    "DeltaOptimizeBuilder",
    "DeltaTable",
    "DeltaTableBuilder",
    "IdentityGenerator",
    "WriteResult",
    "create_or_replace_temp_view",
    "disable",
    "enable",
    "foreach_batch",
    "plan",
    "read",
    "read_changes",
    "read_stream",
    "register",
    "session",
    "sql",
    "write",
    "write_stream",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # They stand above statements, which stand above this room.
        if name not in ("disable", "enable", "sql"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module("deltaplane.spark_names"), name)
