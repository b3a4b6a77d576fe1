"""The names that deltalake's native module has, for libraries that import them from there."""

from __future__ import annotations

import warnings

from deltaplane.deltalake._commits import RemoveAction as RemoveAction
from deltaplane.deltalake._commits import Transaction as Transaction
from deltaplane.deltalake._features import TableFeatures as TableFeatures
from deltaplane.deltalake._files import DeltaFileSystemHandler as DeltaFileSystemHandler
from deltaplane.deltalake._files import ObjectInputFile as ObjectInputFile
from deltaplane.deltalake._files import ObjectOutputStream as ObjectOutputStream
from deltaplane.deltalake._merging import PyMergeBuilder as PyMergeBuilder
from deltaplane.deltalake._raw_table import RawDeltaTable as RawDeltaTable
from deltaplane.deltalake._raw_table import RawDeltaTableMetaData as RawDeltaTableMetaData
from deltaplane.deltalake._schema_types import ArrayType as ArrayType
from deltaplane.deltalake._schema_types import Field as Field
from deltaplane.deltalake._schema_types import MapType as MapType
from deltaplane.deltalake._schema_types import PrimitiveType as PrimitiveType
from deltaplane.deltalake._schema_types import Schema as Schema
from deltaplane.deltalake._schema_types import StructType as StructType
from deltaplane.deltalake._schema_types import VariantType as VariantType
from deltaplane.deltalake._writes import create as create_deltalake
from deltaplane.deltalake._writes import create_table_with_files as create_table_with_add_actions
from deltaplane.deltalake.installing import VERSION as __version__
from deltaplane.deltalake.query import PyQueryBuilder as PyQueryBuilder
from deltaplane.exceptions import (
    CommitFailedError,
    DeltaError,
    DeltaProtocolError,
    SchemaMismatchError,
    TableNotFoundError,
)

__all__ = [
    "ArrayType",
    "CommitFailedError",
    "DeltaError",
    "DeltaFileSystemHandler",
    "DeltaProtocolError",
    "Field",
    "MapType",
    "ObjectInputFile",
    "ObjectOutputStream",
    "PrimitiveType",
    "PyMergeBuilder",
    "PyQueryBuilder",
    "RawDeltaTable",
    "RawDeltaTableMetaData",
    "RemoveAction",
    "Schema",
    "SchemaMismatchError",
    "StructType",
    "TableFeatures",
    "TableNotFoundError",
    "Transaction",
    "VariantType",
    "__version__",
    "create_deltalake",
    "create_table_with_add_actions",
    "init_tracing",
    "rust_core_version",
    "shutdown_tracing",
]

# deltaplane has no columns with nanoseconds.
_NANOSECOND_TIMESTAMPS = False


def rust_core_version() -> str:
    """The version of deltaplane's core."""
    from deltaplane import __version__

    return __version__


def init_tracing(endpoint: str | None = None) -> None:
    """Warns that no traces are sent: deltaplane has events and logging instead."""
    where = endpoint or "OpenTelemetry"
    warnings.warn(f"deltaplane sends no traces to {where}: see docs/deltalake.md", RuntimeWarning, stacklevel=2)


def shutdown_tracing() -> None:
    """Does nothing: no traces are sent."""
