"""What each kind of catalog offers to `Catalog`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from deltaplane.table.delta_table import DeltaTable

__all__ = ["Backend"]


class Backend(Protocol):
    """One catalog. Names of tables have as many parts as the catalog has levels."""

    def describe(self) -> str:
        """The catalog as messages name it, without credentials."""

    def schemas(self, catalog: str | None) -> list[str]:
        """Full names of the schemas, in the named catalog if there are several."""

    def tables(self, schema: str) -> list[str]:
        """Full names of the tables of a schema."""

    def location(self, name: str) -> str:
        """The location by which `DeltaTable` opens a table, existing or not."""

    def exists(self, name: str) -> bool:
        """Whether there is a table or a schema of this name."""

    def create_schema(self, name: str, comment: str | None, storage_root: str | None) -> None:
        """Creates a schema; `storage_root` is where its managed tables are."""

    def register(self, name: str, table: DeltaTable) -> None:
        """Gives an existing table a name, as an external one."""

    def drop(self, name: str, force: bool) -> None:
        """Drops a table or a schema; with `force` a schema with its tables."""

    def rename(self, name: str, new_name: str) -> None:
        """Renames a table within its schema; the new name has one part."""

    def info(self, name: str) -> dict[str, Any]:
        """What the catalog says of a table."""
