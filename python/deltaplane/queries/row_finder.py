"""Finds the rows of a table that meet a condition with subqueries, by position, for a command on
rows.

The condition is planned like a query's WHERE, and run by DuckDB over the version that the command
reads.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from deltaplane import _native
from deltaplane.commands.condition import RowSelection, met_by_all
from deltaplane.commands.duckdb_engine import Memory, spilling
from deltaplane.expr.duckdb_values import arrow_reader
from deltaplane.expr.program import context_at
from deltaplane.expr.syntax import Syntax
from deltaplane.expr.typed import Bounds
from deltaplane.expr.types import INT, LONG, SparkType, of_json
from deltaplane.io.arrow import Scan
from deltaplane.io.hidden_columns import PLACE
from deltaplane.queries.cursor import Cursor
from deltaplane.queries.planning import Planner
from deltaplane.queries.running import bounded, opened
from deltaplane.queries.scopes import condition_texts
from deltaplane.queries.sources import Catalog, DeltaSource, SourceRows
from deltaplane.queries.syntax import TableName
from deltaplane.table.delta_table import DeltaTable

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FoundRows", "may_be_same", "may_read"]

_ROWS_AT_ONCE = 1 << 16
# DuckDB gets a number for each file instead of its name.
_PLACED = ((PLACE[0], INT), (PLACE[1], LONG))


class FoundRows(RowSelection):
    """The rows of a table that satisfy a condition.

    Subqueries over the same table see the version that the command reads; in that case any row may
    be relevant, and the command depends on all rows (`reads_others`).

    Raises:
        InvalidArgumentError: a name or a type that Spark would refuse too.
        UnsupportedExpressionError: a construct that the embedded engine doesn't evaluate as Spark
            does, by name.
    """

    def __init__(
        self, cursor: Cursor, catalog: Catalog, name: TableName, table: DeltaTable, where: tuple[Syntax, str, int]
    ) -> None:
        """`where` is the condition's tree and text, and the index of its first token."""
        tree, text, token = where
        super().__init__(text, is_exact=False)
        catalog.hold(table)
        self._catalog = catalog
        self._planner = Planner(cursor, _Tables(catalog, name, table), context_at("UTC", time.time_ns() // 1000))
        with bounded():
            self._planned = self._planner.chosen(name, tree, token, _PLACED)
            self._planned.node.narrow([])
        target, *others = self._planner.sources
        rows = catalog.opened[target.name]
        assert isinstance(rows, _PlacedRows)
        self._rows = rows
        texts = condition_texts(target)
        self.tree = rows.tree = met_by_all(rows.snapshot, " AND ".join(texts))[0] if texts else None
        self.reads_others = may_read((catalog.opened[other.name] for other in others), table)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The positions of the rows, in batches of the columns `PLACE`."""
        import pyarrow as pa

        with bounded():
            text = self._planner.text(self._planned)
        file, row = self._planned.ids
        with (
            spilling(Memory()) as config,
            opened(self._planner, self._catalog, text, preserve_insertion_order=False, **config) as (
                connection,
                _,
            ),
        ):
            # The query is completed before any position is returned: otherwise the consumer could
            # block the readers of the sources.
            connection.execute(f"CREATE TEMP TABLE found AS {text}")
            names = pa.array(list(self._rows.files), pa.string())
            reader = arrow_reader(connection.sql(f"SELECT {file}, {row} FROM found ORDER BY 1, 2"), _ROWS_AT_ONCE)
            for batch in reader:
                named = pa.DictionaryArray.from_arrays(batch.column(0), names)
                yield pa.RecordBatch.from_arrays([named, batch.column(1)], names=list(PLACE))


def may_read(sources: Iterable[SourceRows], table: DeltaTable) -> bool:
    """Whether one of these relations may contain rows of the table that the command changes."""
    return any(isinstance(source, DeltaSource) and may_be_same(source.table, table) for source in sources)


def may_be_same(candidate: DeltaTable, table: DeltaTable) -> bool:
    """Whether an object may read the table that the command changes: the same table, at no older
    version."""
    same = candidate is table or _place(candidate) == _place(table) or candidate.metadata().id == table.metadata().id
    return same and candidate.version() >= table.version()


def _place(table: DeltaTable) -> str:
    uri = table.table_uri
    path = uri.removeprefix("file://")
    return os.path.realpath(path) if path.startswith("/") else uri


class _PlacedRows:
    """The rows of the table to change, with their positions; `files` are the names of files by
    number."""

    def __init__(self, table: DeltaTable) -> None:
        self.snapshot: _native.Snapshot = table._snapshot
        schema = self.snapshot.schema.to_value()
        self.fields: list[tuple[str, SparkType | None]] = [(f["name"], of_json(f["type"])) for f in schema["fields"]]
        placed = [{"name": n, "type": data_type.name, "nullable": False, "metadata": {}} for n, data_type in _PLACED]
        self.schema_json = json.dumps({**schema, "fields": [*schema["fields"], *placed]})
        self.files: dict[str, int] = {}
        self.tree: _native.Predicate | None = None

    def batches(self, columns: Sequence[str], conditions: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of files, row groups and pages that may be relevant."""
        import pyarrow as pa

        for batch in Scan(self.snapshot.scan(list(columns), self.tree, encoded_files=True)):
            index = batch.schema.get_field_index(PLACE[0])
            places = batch.column(index)
            numbers = [self.files.setdefault(file, len(self.files)) for file in places.dictionary.to_pylist()]
            yield batch.set_column(index, PLACE[0], pa.array(numbers, pa.int32()).take(places.indices))


class _Tables:
    """The catalog's tables, and the changed table under its name in the statement."""

    def __init__(self, catalog: Catalog, name: TableName, table: DeltaTable) -> None:
        self._catalog, self._name, self._table = catalog, name, table

    def source(self, name: TableName, number: int) -> tuple[str, list[tuple[str, SparkType | None]]]:
        """Opens a relation by number; returns its name for DuckDB and its columns."""
        if name is not self._name:
            return self._catalog.source(name, number)
        alias, rows = f"s{number}", _PlacedRows(self._table)
        self._catalog.opened[alias] = rows
        return alias, rows.fields

    def bounds(self, relation: str, column: str) -> Bounds | None:
        """Bounds of a column's numbers, for the catalog's tables alone."""
        return self._catalog.bounds(relation, column)
