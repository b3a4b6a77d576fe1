"""Catalogs with Unity's open APIs: a server, or deltaplane's own in SQLite or PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deltaplane import _native
from deltaplane.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from deltaplane.io.records import CatalogEntry
    from deltaplane.table.delta_table import DeltaTable

__all__ = ["Unity"]


class Unity:
    """A catalog whose tables have three-part names; the core connects at the first use."""

    def __init__(self, options: dict[str, str]) -> None:
        self.names = _native.CatalogNames.open(options)

    def describe(self) -> str:
        """The catalog without credentials."""
        return self.names.describe()

    def catalogs(self) -> list[str]:
        """The names of its catalogs."""
        return [entry.name for entry in self.names.list()]

    def schemas(self, catalog: str | None) -> list[str]:
        """Full names of the schemas of one catalog, or of all."""
        return [
            e.full_name for name in (self.catalogs() if catalog is None else [catalog]) for e in self.names.list(name)
        ]

    def tables(self, schema: str) -> list[str]:
        """Full names of the tables of `catalog.schema`."""
        return [entry.full_name for entry in self.names.list(_parts(schema, 2))]

    def entry(self, name: str) -> CatalogEntry:
        """What the catalog says of a table."""
        return self.names.list(_parts(name, 3))[0]

    def location(self, name: str) -> str:
        """The table's name as a location."""
        return f"uc://{_parts(name, 3)}"

    def exists(self, name: str) -> bool:
        """Whether there is a catalog, schema or table of this name."""
        return self.names.exists(name)

    def create_catalog(self, name: str, comment: str | None, storage_root: str | None) -> None:
        """Creates a catalog."""
        self.names.create(_parts(name, 1), comment, storage_root)

    def create_schema(self, name: str, comment: str | None, storage_root: str | None) -> None:
        """Creates `catalog.schema`."""
        self.names.create(_parts(name, 2), comment, storage_root)

    def register(self, name: str, table: DeltaTable) -> None:
        """Registers an external table."""
        self.names.register(_parts(name, 3), table._snapshot)

    def drop(self, name: str, force: bool) -> None:
        """Drops a catalog, schema or table."""
        self.names.drop(name, force)

    def rename(self, name: str, new_name: str) -> None:
        """Renames a table."""
        self.names.rename(_parts(name, 3), _parts(new_name, 1))

    def info(self, name: str) -> dict[str, Any]:
        """What the catalog says of a table."""
        return self.entry(name).to_dict()

    def volumes(self, schema: str) -> list[str]:
        """Full names of the volumes of `catalog.schema`."""
        return [entry.full_name for entry in self.names.volumes(_parts(schema, 2))]

    def volume(self, name: str) -> dict[str, Any]:
        """What the catalog says of a volume."""
        return self.names.volumes(_parts(name, 3))[0].to_dict()

    def create_volume(self, name: str, location: str | None, comment: str | None) -> None:
        """Creates a volume."""
        self.names.create_volume(_parts(name, 3), location, comment)

    def drop_volume(self, name: str) -> None:
        """Drops a volume."""
        self.names.drop_volume(_parts(name, 3))


def _parts(name: str, count: int) -> str:
    if len(name.split(".")) != count:
        shape = ".".join(("catalog", "schema", "table")[:count])
        raise InvalidArgumentError(f"{name!r} isn't a name of the form {shape}")
    return name
