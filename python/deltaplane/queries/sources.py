"""Locates a statement's tables, and reads their rows for a query: a version of a Delta table, or
Arrow data.

Only the requested columns are read, and files without relevant rows stay unread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Protocol

from deltaplane import _native
from deltaplane.exceptions import (
    InvalidArgumentError,
    SchemaMismatchError,
    TableNotFoundError,
    UnsupportedExpressionError,
)
from deltaplane.expr.row_filter import scan_filter
from deltaplane.expr.typed import Bounds
from deltaplane.expr.types import SparkType, of_json
from deltaplane.io.arrow import as_reader, in_table_types
from deltaplane.io.storage_options import StorageOptions, VersionLike, location_text, storage_options_text
from deltaplane.queries.column_bounds import ColumnBounds
from deltaplane.queries.syntax import TableName
from deltaplane.table.delta_table import DeltaTable

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ArrowSource", "Catalog", "DeltaSource", "Names", "SourceRows"]


class Names(Protocol):
    """A catalog whose names a statement may use."""

    @property
    def storage_options(self) -> dict[str, str]:
        """What its tables' locations are opened with."""

    def location(self, name: str) -> str:
        """The location of a table, existing or not."""

    def exists(self, name: str) -> bool:
        """Whether there is a table of this name."""

    def register(self, name: str, location: str) -> object:
        """Gives the table at a location a name."""


class SourceRows(Protocol):
    """Rows of one relation."""

    @property
    def schema_json(self) -> str:
        """Its columns, as a table's schema."""

    def batches(self, columns: Sequence[str], conditions: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows with these columns; may leave out rows for which a condition isn't true."""


class DeltaSource:
    """A version of a Delta table."""

    def __init__(self, table: DeltaTable) -> None:
        # The caller's object may move to another version while the rows are read.
        self.table = copy(table)
        self.schema_json = table._snapshot.schema.to_json()

    def batches(self, columns: Sequence[str], conditions: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of files, row groups and pages that may be relevant."""
        return self.table.scan(list(columns), self._pruning(conditions)).batches()

    def files(self, conditions: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The log's facts about relevant files, as from `DeltaTable.plan`."""
        return iter(self.table.plan(self._pruning(conditions)))

    def uris(self, conditions: Sequence[str]) -> list[str]:
        """The relevant files, as absolute paths or URLs."""
        snapshot = self.table._snapshot
        # `file_uris` of a table refuses conditions that only filter the rows of files, not files.
        return snapshot.file_uris(scan_filter(snapshot, self._pruning(conditions)).tree)

    def deciding(self, conditions: Sequence[str]) -> tuple[list[str], list[str]]:
        """The conditions that may leave out files, and the others."""
        used = [condition for condition in conditions if self._prunes(condition)]
        return used, [condition for condition in conditions if condition not in used]

    def row_groups(self, conditions: Sequence[str], most_files: int) -> tuple[int, int]:
        """How many row groups the first relevant files have, and how many of these may have a
        relevant row by the statistics in the footers."""
        snapshot = self.table._snapshot
        return snapshot.row_groups(scan_filter(snapshot, self._pruning(conditions)).tree, most_files)

    def _pruning(self, conditions: Sequence[str]) -> str | None:
        return " AND ".join(f"({c})" for c in self.deciding(conditions)[0]) or None

    def _prunes(self, condition: str) -> bool:
        try:
            self.table.scan([], condition)
        except (InvalidArgumentError, UnsupportedExpressionError):
            # The query evaluates this condition with Spark's result, or has refused it already.
            return False
        return True


class ArrowSource:
    """The caller's data in memory."""

    def __init__(self, data: pa.Table) -> None:
        names = data.column_names
        if len({name.lower() for name in names}) < len(names):
            raise InvalidArgumentError(f"two columns of the data have one name: {', '.join(names)[:300]}")
        self.schema_json = _native.TableSchema.of_arrow(data.schema).to_json()
        try:
            self._data = in_table_types(data.to_reader()).read_all()
        except SchemaMismatchError as e:
            raise InvalidArgumentError(f"the data has values that no column of a table holds: {e}") from e

    def batches(self, columns: Sequence[str], conditions: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Returns all rows; conditions aren't used."""
        return iter(self._data.select(list(columns)).to_batches())


class Catalog:
    """The tables that a statement may use: by location, or by the caller's names.

    Args:
        tables: name → location, `DeltaTable` or Arrow data.
        storage_options: access to the stores.
        version_at: location, the store's options and a time → version, if a time is interpreted
            differently than by `DeltaTable`.
        by_session: whether a Spark session finds the same tables by the same names, also in parts
            that only Spark parses.
        names: a catalog with further tables.
    """

    def __init__(
        self,
        tables: Mapping[str, Any] | None = None,
        storage_options: StorageOptions | None = None,
        version_at: Callable[[str, dict[str, str] | None, VersionLike], int] | None = None,
        *,
        by_session: bool = False,
        names: Names | None = None,
    ) -> None:
        self.by_session = by_session
        self._tables = {str(name).lower(): value for name, value in (tables or {}).items()}
        self.names = names
        options = storage_options_text(storage_options)
        self.storage_options = options if names is None else {**names.storage_options, **(options or {})}
        self._version_at = version_at
        self._read: dict[str, pa.Table] = {}
        self._tables_open: dict[tuple[str, str], DeltaTable] = {}
        self.opened: dict[str, SourceRows] = {}
        # Bounds of columns by a table's location and version.
        self._bounds: dict[tuple[str, int], ColumnBounds] = {}
        self._held: DeltaTable | None = None

    def inside(self, names: Names) -> Catalog:
        """The tables of a transaction: those of its catalog, and the caller's data in memory. Names
        for other tables, which wouldn't be part of it, are left out."""
        data = {name: value for name, value in self._tables.items() if self._is_data(value)}
        return Catalog(data, self.storage_options, names=names)

    def hold(self, table: DeltaTable) -> None:
        """Makes statements read this table at this object's version, unless they name a version."""
        self._held = table

    def knows(self, parts: Sequence[str]) -> bool:
        """Whether the caller defined a name."""
        return ".".join(parts).lower() in self._tables

    def location(self, name: TableName) -> str:
        """The location of an existing or new table.

        Raises:
            InvalidArgumentError: the name is unknown.
        """
        if name.path is not None:
            return name.path
        source = self._named_source(name)
        return source.location if isinstance(source, DeltaTable) else location_text(source)

    def table(self, name: TableName) -> DeltaTable:
        """Opens the table of this name at the requested version. A name for a `DeltaTable` yields
        that object.

        Raises:
            InvalidArgumentError: the name is unknown, or isn't a Delta table.
            TableNotFoundError, VersionNotFoundError: it doesn't exist.
        """
        if name.path is not None:
            return self._at_path(name)
        source = self._named_source(name)
        if isinstance(source, DeltaTable):
            if name.version is None:
                return source
            return self._opened(source.location, name.version, source.storage_options)
        if self._is_data(source):
            raise InvalidArgumentError(f"`{name.shown}` is data in memory, not a Delta table")
        return self._open(location_text(source), name.version)

    def target(self, name: TableName) -> DeltaTable:
        """Opens the table that a statement changes: the newest version, or the caller's own object.

        Raises:
            InvalidArgumentError: the name is unknown, or isn't a Delta table.
            TableNotFoundError: no such table, or the name contains a version.
        """
        source = name.path if name.path is not None else self._named_source(name)
        if self._is_data(source):
            raise InvalidArgumentError(f"`{name.shown}` is data in memory, not a Delta table")
        return source if isinstance(source, DeltaTable) else DeltaTable(source, storage_options=self.storage_options)

    def source(self, name: TableName, number: int) -> tuple[str, list[tuple[str, SparkType | None]]]:
        """Opens a relation by number; returns its name for DuckDB and its columns."""
        rows: SourceRows
        if name.path is None and self._is_data(self._named_source(name)):
            if name.version is not None:
                raise InvalidArgumentError(f"`{name.shown}` is data in memory, which has no versions")
            rows = ArrowSource(self._data(name))
        else:
            rows = DeltaSource(self.table(name))
        alias = f"s{number}"
        self.opened[alias] = rows
        fields = _native.TableSchema(rows.schema_json).to_value()["fields"]
        return alias, [(f["name"], of_json(f["type"])) for f in fields]

    def bounds(self, relation: str, column: str) -> Bounds | None:
        """Bounds of the numbers in a column of an opened relation; None if they are unknown."""
        rows = self.opened[relation]
        if not isinstance(rows, DeltaSource):
            return None
        version = rows.table.table_uri, rows.table.version()
        if version not in self._bounds:
            self._bounds[version] = ColumnBounds(rows.table)
        return self._bounds[version].of(column)

    def data(self, name: TableName) -> pa.Table | None:
        """The caller's data of this name; None if the name is a table's."""
        if name.path is not None or not self._is_data(self._named_source(name)):
            return None
        return self._data(name)

    def _data(self, name: TableName) -> pa.Table:
        key = ".".join(name.parts).lower()
        if key not in self._read:
            # A stream can be read once, but a statement may use it twice, so its rows are stored.
            self._read[key] = as_reader(self._tables[key]).read_all()
        return self._read[key]

    def _named_source(self, name: TableName) -> Any:
        source = self._tables.get(".".join(name.parts).lower())
        if source is None and self.names is not None:
            return self.names.location(".".join(name.parts))
        if source is None:
            known = f" (there are {', '.join(self._tables)})" if self._tables else ""
            raise InvalidArgumentError(
                f"no table is called `{name.shown}`{known}: write delta.`its location`, or say where it is with "
                f"tables={{{name.shown!r}: location}}"
            )
        return source

    @staticmethod
    def _is_data(source: object) -> bool:
        """Whether an object is data rather than a table or its location."""
        return not isinstance(source, DeltaTable) and not hasattr(source, "__fspath__") and not isinstance(source, str)

    def _at_path(self, name: TableName) -> DeltaTable:
        path = name.parts[1]
        try:
            return self._open(path, name.version)
        except TableNotFoundError:
            from deltaplane.queries.versions import version_of_path

            short, version = version_of_path(path)
            if version is None:
                raise
            if name.version is not None:
                raise InvalidArgumentError(f"`{path}` names a version, and AS OF another one: give one") from None
            return self._open(short, version)

    def _open(self, location: str, version: VersionLike | None) -> DeltaTable:
        """Opens one version of a table for all parts of a statement, so that concurrent writes
        don't change it."""
        key = (location, repr(version))
        if key not in self._tables_open:
            table, held = self._opened(location, version, self.storage_options), self._held
            if version is None and held is not None and held.table_uri == table.table_uri:
                table = held
            self._tables_open[key] = table
        return self._tables_open[key]

    def _opened(self, location: str, version: VersionLike | None, options: dict[str, str] | None) -> DeltaTable:
        if self._version_at is not None and version is not None and not isinstance(version, int):
            version = self._version_at(location, options, version)
        return DeltaTable(location, version, options)
