"""Delta tables on PySpark without a jar: a native scan that Catalyst prunes, writes on executors, one commit on the driver.

`read`, `write` and the live view work on classic sessions; the data source `deltaplane` also on Spark Connect.
Importing it needs PySpark, which is imported nowhere else in the package. Called by users.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from deltaplane.names import late_names

if importlib.util.find_spec("pyspark") is None:
    raise ImportError("deltaplane.spark needs PySpark: pip install 'deltaplane[spark]'")

if TYPE_CHECKING:
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
    from deltaplane.spark_names import configure_spark_with_delta_pip, disable, enable, sql
    from deltaplane.write import WriteResult

__all__ = [
    "DeltaMergeBuilder",
    "DeltaOptimizeBuilder",
    "DeltaTable",
    "DeltaTableBuilder",
    "IdentityGenerator",
    "WriteResult",
    "configure_spark_with_delta_pip",
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

# Where the names are, which come in when they are used: tasks import this room too, and need next to nothing of it.
_LATER = {
    "DeltaMergeBuilder": "spark.tables",
    "DeltaOptimizeBuilder": "spark.tables",
    "DeltaTable": "spark.tables",
    "DeltaTableBuilder": "spark.tables",
    "IdentityGenerator": "spark.tables",
    "WriteResult": "write",
    "create_or_replace_temp_view": "spark._read",
    "foreach_batch": "spark._stream_write",
    "plan": "spark._plan",
    "read": "spark._read",
    "read_changes": "spark._read",
    "read_stream": "spark._stream_read",
    "register": "spark._session",
    "session": "spark._session",
    "write": "spark._write",
    "write_stream": "spark._stream_write",
    "configure_spark_with_delta_pip": "spark_names",
    "disable": "spark_names",
    "enable": "spark_names",
    "sql": "spark_names",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = late_names(globals(), _LATER)
