"""Delta tables for PySpark and Python, with Spark or without it.

`DeltaTable` reads, `write_deltalake` writes, `deltaplane.spark` does both on Spark. Importing this package imports no
other library: pyarrow, pandas, Polars, DuckDB and PySpark come in when they are used.
"""

from deltaplane._native import __version__
from deltaplane.alter import AlterPlan, TableAlterer
from deltaplane.exceptions import DeltaError
from deltaplane.explanation import PlanExplanation
from deltaplane.group_commit import GroupWriter
from deltaplane.log_store import LogStore, StoredObject, register_log_store
from deltaplane.properties import CommitProperties, PostCommitHookProperties, Transaction, WriterProperties
from deltaplane.schema import Field, Schema
from deltaplane.table import DeltaTable, Metadata, ProtocolVersions
from deltaplane.write import WriteResult, write_deltalake

__all__ = [
    "AlterPlan",
    "CommitProperties",
    "DeltaError",
    "DeltaTable",
    "Field",
    "GroupWriter",
    "LogStore",
    "Metadata",
    "PlanExplanation",
    "PostCommitHookProperties",
    "ProtocolVersions",
    "Schema",
    "StoredObject",
    "TableAlterer",
    "Transaction",
    "WriteResult",
    "WriterProperties",
    "__version__",
    "register_log_store",
    "write_deltalake",
]
