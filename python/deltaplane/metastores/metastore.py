"""What the catalogs of Hive's kind have in common: names of tables, which are at locations, and
entries that follow the tables' logs.

The log decides what a table is; an entry may be older. Knows no wire.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deltaplane import _native
from deltaplane.exceptions import InvalidArgumentError, TableNotFoundError, VersionNotFoundError
from deltaplane.metastores import entry as entries
from deltaplane.metastores.entry import TableFacts
from deltaplane.metastores.options import of_store
from deltaplane.metastores.table_names import join_name, split_name

__all__ = ["Entry", "Metastore", "facts_of", "without_version"]


@dataclass(frozen=True)
class Entry:
    """A table as a catalog stores it. `native` is the catalog's own form of it."""

    parameters: Mapping[str, str]
    path: str | None
    location: str | None
    table_type: str | None
    native: Any

    @property
    def where(self) -> str | None:
        """The table's location, a local one as a path."""
        return entries.location_of(self.path, self.location)


class Metastore(ABC):
    """A catalog whose entries are names for locations of Delta tables.

    Names are texts such as `sales.orders`, with a part that has a dot in backticks. Every method
    that asks the catalog raises StoreUnavailableError if it gives no answer in time, and
    StoreDeniedError if it refuses the credentials.
    """

    # The address without credentials.
    uri: str

    @abstractmethod
    def schemas(self) -> list[str]:
        """The names of the schemas (databases), sorted."""

    @abstractmethod
    def tables(self, schema: str) -> list[str]:
        """The names of a schema's Delta tables, sorted; other tables and views are left out.

        Raises:
            TableNotFoundError: there is no such schema.
        """

    @abstractmethod
    def create_schema(self, schema: str, location: str | None = None, comment: str | None = None) -> None:
        """Creates a schema; without a location the catalog chooses one, or has none.

        Raises:
            TableAlreadyExistsError: the schema exists.
        """

    @abstractmethod
    def drop_schema(self, schema: str, force: bool = False) -> None:
        """Drops a schema, with `force` also all entries in it, of any format. Files stay.

        Raises:
            TableNotFoundError: there is no such schema.
            InvalidArgumentError: the schema isn't empty.
        """

    @abstractmethod
    def _entry(self, schema: str, table: str) -> Entry | None:
        """The entry of a name, whatever it is; None if there is none."""

    @abstractmethod
    def _add(self, schema: str, table: str, location: str, facts: TableFacts) -> None:
        """Makes an entry.

        Raises:
            TableAlreadyExistsError: the name is taken.
            TableNotFoundError: there is no such schema.
        """

    @abstractmethod
    def _update(self, schema: str, table: str, entry: Entry, parameters: Mapping[str, str], facts: TableFacts) -> None:
        """Replaces what an entry says of the table."""

    @abstractmethod
    def _remove(self, schema: str, table: str) -> None:
        """Removes an entry; the table's files stay."""

    @abstractmethod
    def _rename(self, old: tuple[str, str], new: tuple[str, str], entry: Entry) -> None:
        """Gives an entry another name.

        Raises:
            TableAlreadyExistsError: the new name is taken.
        """

    @abstractmethod
    def _schema_location(self, schema: str) -> str | None:
        """The location of a schema, under which tables are by default.

        Raises:
            TableNotFoundError: there is no such schema.
        """

    def has_schema(self, schema: str) -> bool:
        """Whether there is a schema of this name."""
        try:
            self._schema_location(schema)
        except TableNotFoundError:
            return False
        return True

    # --- tables -------------------------------------------------------------------------------------------------------

    def exists(self, name: str) -> bool:
        """Whether the name is taken, by a Delta table or by anything else."""
        return self._entry(*self._split(name)) is not None

    def location(self, name: str) -> str:
        """The location of a Delta table; a local one as a path.

        Raises:
            TableNotFoundError: there is no such table.
            InvalidArgumentError: the name is something else's than a Delta table's, or the
                entry has no location.
        """
        where = self._delta_entry(*self._split(name)).where
        if where is None:
            raise InvalidArgumentError(f"the entry {name} of {self.uri} has no location", table=name)
        return where

    def default_location(self, name: str) -> str:
        """Where a new table of this name is without a location of its own: below its schema's.

        Raises:
            TableNotFoundError: there is no such schema.
            InvalidArgumentError: the schema has no location.
        """
        schema, table = self._split(name)
        where = entries.location_of(None, self._schema_location(schema))
        if where is None:
            raise InvalidArgumentError(
                f"the schema {schema} of {self.uri} has no location: create the table {table} with one of its own"
            )
        if table in (".", "..") or "/" in table or "\\" in table:
            raise InvalidArgumentError(
                f"the name {table!r} is no directory's: create the table with a location of its own"
            )
        return f"{where}/{table.lower()}"

    def info(self, name: str) -> dict[str, Any]:
        """What the entry of a name says: `full_name`, `table_type`, `format`, `location` and
        `properties`. The entry may be of any format, and older than the table.

        Raises:
            TableNotFoundError: there is no such table.
        """
        schema, table = self._split(name)
        entry = self._entry(schema, table)
        if entry is None:
            raise TableNotFoundError(f"there is no table {name} in {self.uri}", table=name)
        said = entry.parameters.get(entries.PROVIDER) or entry.parameters.get("table_type")
        return {
            "full_name": join_name(schema, table),
            "table_type": entry.table_type,
            "format": "delta" if entries.is_delta(entry.parameters) else said and said.lower(),
            "location": entry.where,
            "properties": dict(entry.parameters),
        }

    def create(
        self,
        name: str,
        location: str,
        schema: str,
        partition_columns: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Makes an entry for a table that exists, or is about to exist, at a location.

        The entry is of an external table: dropping it leaves the files. `schema` is the JSON of a
        table's `schemaString`.

        Raises:
            TableAlreadyExistsError: the name is taken.
            TableNotFoundError: there is no such schema.
            InvalidArgumentError: a name that the catalog can't have, or a location in memory.
        """
        self.register(name, location, TableFacts(schema, tuple(partition_columns), dict(properties or {})))

    def register(self, name: str, location: str, facts: TableFacts) -> None:
        """Makes an entry as `create` does, with all facts of a version."""
        self._add(*self._split(name), entries.stored_location(location), facts)

    def drop(self, name: str) -> None:
        """Removes the entry. The table's files and its log stay, also those of a table that Spark
        calls managed.

        Raises:
            TableNotFoundError: there is no such table.
            InvalidArgumentError: the name is something else's than a Delta table's.
        """
        schema, table = self._split(name)
        self._delta_entry(schema, table)
        self._remove(schema, table)

    def rename(self, name: str, new: str) -> None:
        """Gives the table another name, in the same or another schema; its files stay where they
        are.

        Raises:
            TableNotFoundError: there is no such table, or no such schema.
            TableAlreadyExistsError: the new name is taken.
            InvalidArgumentError: the name is something else's than a Delta table's, or the
                catalog would move the files of the table.
        """
        old, other = self._split(name), self._split(new)
        entry = self._delta_entry(*old)
        self._rename(old, other, entry)

    def refresh(
        self, name: str, storage_options: Mapping[str, str] | None = None, snapshot: _native.Snapshot | None = None
    ) -> bool:
        """Updates the entry's schema, partition columns and properties from the table's newest
        version. An entry that is newer than that, or the same, stays; so does one of
        `deltaplane.spark`, which has a form of its own.

        Args:
            name: the table.
            storage_options: access to the table's store.
            snapshot: the newest version, if it is open.

        Returns:
            Whether the entry was changed.

        Raises:
            TableNotFoundError: there is no such entry, or its location has no table.
            InvalidArgumentError: the name is something else's than a Delta table's.
        """
        schema, table = self._split(name)
        entry = self._delta_entry(schema, table)
        if entries.is_of_data_source(entry.parameters):
            return False
        if snapshot is None:
            if entry.where is None:
                raise InvalidArgumentError(f"the entry {name} of {self.uri} has no location", table=name)
            snapshot = _native.Snapshot.open(entry.where, of_store(storage_options))
        facts = facts_of(snapshot)
        written = entries.version_in(entry.parameters)
        if written is not None and facts.version is not None and written > facts.version:
            return False
        parameters = entries.updated(entry.parameters, facts, _properties_at(snapshot, written))
        if entries.same_parameters(entry.parameters, parameters) and self._same_columns(entry, facts):
            return False
        self._update(schema, table, entry, parameters, facts)
        return True

    def _same_columns(self, entry: Entry, facts: TableFacts) -> bool:
        """Whether the entry's own columns need no update."""
        return True

    def _split(self, name: str) -> tuple[str, str]:
        schema, table = split_name(name)
        return schema, table

    def _delta_entry(self, schema: str, table: str) -> Entry:
        name = join_name(schema, table)
        entry = self._entry(schema, table)
        if entry is None:
            raise TableNotFoundError(f"there is no table {name} in {self.uri}", table=name)
        if not entries.is_delta(entry.parameters):
            raise InvalidArgumentError(
                f"{name} in {self.uri} isn't a Delta table: its entry has neither {entries.PROVIDER}=delta nor "
                "table_type=delta",
                table=name,
            )
        return entry


def facts_of(snapshot: _native.Snapshot) -> TableFacts:
    """The metadata of a version."""
    info, protocol = snapshot.info, snapshot.protocol
    listed = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    return TableFacts(
        schema=snapshot.schema.to_json(),
        partition_columns=tuple(info.partition_columns),
        properties=dict(info.configuration),
        description=info.description,
        reader=protocol.min_reader_version,
        writer=protocol.min_writer_version,
        features=tuple(sorted(listed)),
        version=snapshot.version,
        timestamp_ms=snapshot.timestamp_ms,
    )


def _properties_at(snapshot: _native.Snapshot, version: int | None) -> Mapping[str, str]:
    """The properties of an older version, so that those that are gone since leave the entry too;
    none if the log has no such version any more."""
    if version is None or version == snapshot.version:
        return {}
    try:
        return snapshot.at(version).info.configuration
    except VersionNotFoundError:
        return {}


def without_version(facts: TableFacts) -> TableFacts:
    """The facts that two versions with the same metadata share."""
    return replace(facts, version=None, timestamp_ms=None)
