"""A metastore as `deltaplane.Catalog` uses its catalogs: full names, and the locations and options
by which tables are opened.

Knows no catalog in particular.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from deltaplane import _native
from deltaplane.exceptions import InvalidArgumentError
from deltaplane.metastores.metastore import Metastore, facts_of
from deltaplane.metastores.options import CATALOG
from deltaplane.metastores.table_names import join_name, split_name

__all__ = ["Front"]


class _Open(Protocol):
    """An open table; `DeltaTable` itself is in a layer above this module."""

    _snapshot: _native.Snapshot

    @property
    def location(self) -> str: ...


class Front:
    """One metastore behind `Catalog`.

    Args:
        scheme: the scheme of names as locations.
        metastore: the catalog.
        options: the storage options of the catalog and its tables.
    """

    def __init__(self, scheme: str, metastore: Metastore, options: Mapping[str, str] | None) -> None:
        self._scheme, self._metastore = scheme, metastore
        self._options = {**(options or {}), CATALOG: metastore.uri}

    def describe(self) -> str:
        """The catalog as messages name it, without credentials."""
        return self._metastore.uri

    def schemas(self, catalog: str | None = None) -> list[str]:
        """The full names of the schemas.

        Raises:
            InvalidArgumentError: a catalog is named: this one has schemas only.
        """
        if catalog is not None:
            raise InvalidArgumentError(f"{self.describe()} has schemas, and no catalogs within it")
        return [join_name(schema) for schema in self._metastore.schemas()]

    def tables(self, schema: str) -> list[str]:
        """The full names of a schema's Delta tables."""
        (part,) = split_name(schema, 1)
        return [join_name(part, table) for table in self._metastore.tables(part)]

    def location(self, name: str) -> str:
        """The name as a location."""
        return f"{self._scheme}://{join_name(*split_name(name))}"

    def options(self, name: str) -> dict[str, str]:
        """The storage options that belong to this location."""
        return dict(self._options)

    def exists(self, name: str) -> bool:
        """Whether there is a table or a schema of this name."""
        schema = _schema(name)
        return self._metastore.exists(name) if schema is None else self._metastore.has_schema(schema)

    def create_schema(self, name: str, comment: str | None, storage_root: str | None) -> None:
        """Creates a schema; its tables are below `storage_root` unless they have own locations."""
        (schema,) = split_name(name, 1)
        self._metastore.create_schema(schema, storage_root, comment)

    def register(self, name: str, table: _Open) -> None:
        """Makes an entry for an existing table."""
        self._metastore.register(name, table.location, facts_of(table._snapshot))

    def drop(self, name: str, force: bool) -> None:
        """Drops a table's entry or a schema; with `force` a schema with its entries."""
        schema = _schema(name)
        if schema is None:
            self._metastore.drop(name)
        else:
            self._metastore.drop_schema(schema, force)

    def rename(self, name: str, new_name: str) -> None:
        """Renames a table within its schema; the new name has one part."""
        schema, _ = split_name(name)
        (table,) = split_name(new_name, 1)
        self._metastore.rename(name, join_name(schema, table))

    def info(self, name: str) -> dict[str, Any]:
        """What the entry says of a table."""
        return self._metastore.info(name)

    def refresh(self, name: str) -> bool:
        """Updates the entry from the table's newest version; whether it was changed."""
        return self._metastore.refresh(name, self._options)


def _schema(name: str) -> str | None:
    """The schema, if a name has one part; None otherwise."""
    try:
        return split_name(name, 1)[0]
    except InvalidArgumentError:
        return None
