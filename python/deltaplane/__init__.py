"""Delta tables for PySpark and Python, with Spark or without it.

`DeltaTable` reads, `write_deltalake` writes, `deltaplane.spark` does both on Spark. Importing this package imports no
other library: pyarrow, pandas, Polars, DuckDB and PySpark come in when they are used, and so do its own rooms.
"""

from typing import TYPE_CHECKING

from deltaplane._native import __version__
from deltaplane.exceptions import DeltaError
from deltaplane.names import late_names
from deltaplane.table import DeltaTable

if TYPE_CHECKING:
    from deltaplane.alter import AlterPlan, TableAlterer
    from deltaplane.convert import convert_to_deltalake
    from deltaplane.dry_run import DryRun
    from deltaplane.explanation import PlanExplanation
    from deltaplane.group_commit import GroupWriter
    from deltaplane.loading import CopyResult, copy_into
    from deltaplane.log_store import LogStore, StoredObject, register_log_store
    from deltaplane.once_writer import OnceWriter
    from deltaplane.properties import (
        BloomFilterProperties,
        ColumnProperties,
        CommitProperties,
        PostCommitHookProperties,
        Transaction,
        WriterProperties,
    )
    from deltaplane.query import QueryBuilder
    from deltaplane.schema import DataType, Field, Schema
    from deltaplane.statements import sql
    from deltaplane.table_facts import Metadata, ProtocolVersions, TableFeatures
    from deltaplane.tail import NewRows
    from deltaplane.write import WriteResult, write_deltalake

__all__ = [
    "AlterPlan",
    "BloomFilterProperties",
    "ColumnProperties",
    "CommitProperties",
    "CopyResult",
    "DataType",
    "DeltaError",
    "DeltaTable",
    "DryRun",
    "Field",
    "GroupWriter",
    "LogStore",
    "Metadata",
    "NewRows",
    "OnceWriter",
    "PlanExplanation",
    "PostCommitHookProperties",
    "ProtocolVersions",
    "QueryBuilder",
    "Schema",
    "StoredObject",
    "TableAlterer",
    "TableFeatures",
    "Transaction",
    "WriteResult",
    "WriterProperties",
    "__version__",
    "convert_to_deltalake",
    "copy_into",
    "register_log_store",
    "sql",
    "write_deltalake",
]

# Where the names are that come in when they are used.
_LATER = {
    "AlterPlan": "alter",
    "BloomFilterProperties": "properties",
    "ColumnProperties": "properties",
    "CommitProperties": "properties",
    "CopyResult": "loading",
    "DataType": "schema",
    "DryRun": "dry_run",
    "Field": "schema",
    "GroupWriter": "group_commit",
    "LogStore": "log_store",
    "Metadata": "table_facts",
    "NewRows": "tail",
    "OnceWriter": "once_writer",
    "PlanExplanation": "explanation",
    "PostCommitHookProperties": "properties",
    "ProtocolVersions": "table_facts",
    "QueryBuilder": "query",
    "Schema": "schema",
    "StoredObject": "log_store",
    "TableAlterer": "alter",
    "TableFeatures": "table_facts",
    "Transaction": "properties",
    "WriteResult": "write",
    "WriterProperties": "properties",
    "convert_to_deltalake": "convert",
    "copy_into": "loading",
    "register_log_store": "log_store",
    "sql": "statements",
    "write_deltalake": "write",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = late_names(globals(), _LATER)
