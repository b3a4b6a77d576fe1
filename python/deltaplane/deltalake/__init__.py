"""The package `deltalake` 1.6 over deltaplane: the same modules, classes, arguments and results,
for
programs and libraries that import `deltalake`.

    import deltaplane.deltalake as deltalake

or, for libraries that import it themselves, once at the start of the program:

    import deltaplane.deltalake
    deltaplane.deltalake.install()

`python -m deltaplane.deltalake SCRIPT` runs a script under the alias. `deltaplane` itself is the
better interface for new programs: docs/deltalake.md lists the differences.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from deltaplane.deltalake.installing import VERSION as __version__
from deltaplane.deltalake.installing import install

if TYPE_CHECKING:
    from deltaplane.deltalake._features import TableFeatures
    from deltaplane.deltalake._internal import init_tracing, rust_core_version
    from deltaplane.deltalake.query import QueryBuilder
    from deltaplane.deltalake.schema import DataType, Field, Schema, VariantType
    from deltaplane.deltalake.table import DeltaTable, Metadata
    from deltaplane.deltalake.transaction import CommitProperties, PostCommitHookProperties, Transaction
    from deltaplane.deltalake.writer import (
        BloomFilterProperties,
        ColumnProperties,
        WriterProperties,
        convert_to_deltalake,
        write_deltalake,
    )

__all__ = [
    "BloomFilterProperties",
    "ColumnProperties",
    "CommitProperties",
    "DataType",
    "DeltaTable",
    "Field",
    "Metadata",
    "PostCommitHookProperties",
    "QueryBuilder",
    "Schema",
    "TableFeatures",
    "Transaction",
    "VariantType",
    "WriterProperties",
    "__version__",
    "convert_to_deltalake",
    "enable_nanosecond_timestamps",
    "init_tracing",
    "install",
    "rust_core_version",
    "write_deltalake",
]

# Maps each public name to its module, which is imported at first use.
_LATER = {
    "BloomFilterProperties": "deltalake.writer.properties",
    "ColumnProperties": "deltalake.writer.properties",
    "CommitProperties": "deltalake.transaction",
    "DataType": "deltalake.schema",
    "DeltaTable": "deltalake.table",
    "Field": "deltalake._schema_types",
    "Metadata": "deltalake.table",
    "PostCommitHookProperties": "deltalake.transaction",
    "QueryBuilder": "deltalake.query",
    "Schema": "deltalake._schema_types",
    "TableFeatures": "deltalake._features",
    "Transaction": "deltalake._commits",
    "VariantType": "deltalake._schema_types",
    "WriterProperties": "deltalake.writer.properties",
    "convert_to_deltalake": "deltalake.writer.convert_to",
    "init_tracing": "deltalake._internal",
    "rust_core_version": "deltalake._internal",
    "write_deltalake": "deltalake.writer.writer",
}
_MODULES = {"exceptions", "fs", "query", "schema", "table", "transaction", "warnings", "writer", "_internal", "_util"}


def enable_nanosecond_timestamps() -> None:
    """deltalake's experimental columns with nanoseconds, which deltaplane doesn't have.

    Raises:
        RuntimeError: always, as in a build of deltalake without the experiment.
    """
    raise RuntimeError("columns with nanoseconds are an experiment of deltalake: deltaplane has no such feature")


def _disable_nanosecond_timestamps() -> None:
    """Does nothing: they are never enabled."""


def _nanosecond_timestamps_enabled() -> bool:
    return False


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f"{__name__}.{name}")
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"deltaplane.{_LATER[name]}"), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LATER, *_MODULES})
