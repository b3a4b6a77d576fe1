"""Delta tables on PySpark without a jar: a native scan that Catalyst prunes, writes on executors, one commit on the driver.

`read`, `write` and the live view work on classic sessions; the data source `deltaplane` also on Spark Connect.
Importing it needs PySpark, which is imported nowhere else in the package. Called by users.
"""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("pyspark") is None:
    raise ImportError("deltaplane.spark needs PySpark: pip install 'deltaplane[spark]'")

from deltaplane.spark._plan import plan
from deltaplane.spark._read import create_or_replace_temp_view, read, read_changes
from deltaplane.spark._session import register, session
from deltaplane.spark._write import write
from deltaplane.spark.tables import (
    DeltaMergeBuilder,
    DeltaOptimizeBuilder,
    DeltaTable,
    DeltaTableBuilder,
    IdentityGenerator,
)
from deltaplane.write import WriteResult

__all__ = [
    "DeltaMergeBuilder",
    "DeltaOptimizeBuilder",
    "DeltaTable",
    "DeltaTableBuilder",
    "IdentityGenerator",
    "WriteResult",
    "create_or_replace_temp_view",
    "plan",
    "read",
    "read_changes",
    "register",
    "session",
    "write",
]
