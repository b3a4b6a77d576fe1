"""Delta tables for PySpark and Python, with Spark or without it.

`DeltaTable` reads, `write_deltalake` writes, `deltaplane.spark` does both on Spark. Importing this
package imports no other library: pyarrow, pandas, Polars, DuckDB, PySpark and the package's own
modules are imported at their first use.
"""

import atexit
from os import environ
from typing import TYPE_CHECKING

from deltaplane._native import __version__, finish_background
from deltaplane.exceptions import DeltaError
from deltaplane.names import late_names
from deltaplane.table.delta_table import DeltaTable

if TYPE_CHECKING:
    from deltaplane.catalogs import Catalog
    from deltaplane.commands.dry_run import DryRun
    from deltaplane.commands.erasure import ErasureReport, prove_erased
    from deltaplane.commands.plan_explanation import PlanExplanation
    from deltaplane.copying import CopyResult, copy_into
    from deltaplane.io.log_store import LogStore, StoredObject, register_log_store
    from deltaplane.properties import (
        BloomFilterProperties,
        ColumnProperties,
        CommitProperties,
        PostCommitHookProperties,
        Transaction,
        WriterProperties,
    )
    from deltaplane.queries.results.query_result import QueryResult
    from deltaplane.query import QueryBuilder
    from deltaplane.report.table_facts import Metadata, ProtocolVersions, TableFeatures
    from deltaplane.schema import DataType, Field, Schema
    from deltaplane.statements import sql
    from deltaplane.statements.common.table_transaction import TableTransaction, transaction
    from deltaplane.table.alter import TableAlterer
    from deltaplane.table.alter_plan import AlterPlan
    from deltaplane.table.follow import NewRows
    from deltaplane.telemetry import disable_opentelemetry, enable_opentelemetry, observe_tables
    from deltaplane.write.api import WriteResult, write_deltalake
    from deltaplane.write.convert import convert_to_deltalake
    from deltaplane.write.group_writer import GroupWriter
    from deltaplane.write.once_writer import OnceWriter

__all__ = [
    "AlterPlan",
    "BloomFilterProperties",
    "Catalog",
    "ColumnProperties",
    "CommitProperties",
    "CopyResult",
    "DataType",
    "DeltaError",
    "DeltaTable",
    "DryRun",
    "ErasureReport",
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
    "QueryResult",
    "Schema",
    "StoredObject",
    "TableAlterer",
    "TableFeatures",
    "TableTransaction",
    "Transaction",
    "WriteResult",
    "WriterProperties",
    "__version__",
    "convert_to_deltalake",
    "copy_into",
    "disable_opentelemetry",
    "enable_opentelemetry",
    "observe_tables",
    "prove_erased",
    "register_log_store",
    "sql",
    "transaction",
    "write_deltalake",
]

# Maps each public name to its module, which is imported at first use.
_LATER = {
    "AlterPlan": "table.alter_plan",
    "BloomFilterProperties": "properties",
    "Catalog": "catalogs",
    "ColumnProperties": "properties",
    "CommitProperties": "properties",
    "CopyResult": "copying",
    "DataType": "schema",
    "DryRun": "commands.dry_run",
    "ErasureReport": "commands.erasure",
    "Field": "schema",
    "GroupWriter": "write.group_writer",
    "LogStore": "io.log_store",
    "Metadata": "report.table_facts",
    "NewRows": "table.follow",
    "OnceWriter": "write.once_writer",
    "PlanExplanation": "commands.plan_explanation",
    "PostCommitHookProperties": "properties",
    "ProtocolVersions": "report.table_facts",
    "QueryBuilder": "query",
    "QueryResult": "queries.results.query_result",
    "Schema": "schema",
    "StoredObject": "io.log_store",
    "TableAlterer": "table.alter",
    "TableFeatures": "report.table_facts",
    "TableTransaction": "statements.common.table_transaction",
    "Transaction": "properties",
    "WriteResult": "write.api",
    "WriterProperties": "properties",
    "convert_to_deltalake": "write.convert",
    "copy_into": "copying",
    "disable_opentelemetry": "telemetry",
    "enable_opentelemetry": "telemetry",
    "observe_tables": "telemetry",
    "prove_erased": "commands.erasure",
    "register_log_store": "io.log_store",
    "sql": "statements",
    "transaction": "statements.common.table_transaction",
    "write_deltalake": "write.api",
}

# Commits to object stores return before their checksum is stored.
atexit.register(finish_background, 5.0)

if not TYPE_CHECKING:
    __getattr__, __dir__ = late_names(globals(), _LATER)

if environ.get("DELTAPLANE_OPENTELEMETRY"):
    from deltaplane.telemetry import enable_by_environment

    enable_by_environment(environ["DELTAPLANE_OPENTELEMETRY"])
