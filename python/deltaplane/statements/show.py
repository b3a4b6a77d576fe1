"""SHOW TBLPROPERTIES and SHOW COLUMNS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.queries.grammar import Grammar
from deltaplane.queries.syntax import TableName
from deltaplane.statements.columns import property_key
from deltaplane.statements.statement import Session, Statement, listed, rows

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["STATEMENTS"]


@dataclass(frozen=True)
class Properties:
    """The table, and one of its properties where it was named."""

    table: TableName
    key: str | None

    def run(self, session: Session) -> pa.Table:
        """A row for each property, by name."""
        table = session.catalog.table(self.table)
        found = table.metadata().configuration
        if self.key is not None and self.key not in found:
            raise InvalidArgumentError(f"the table has no property {self.key!r}", table=table.table_uri)
        kept = {k: v for k, v in sorted(found.items()) if self.key in (None, k)}
        return rows(("key", "value"), [list(pair) for pair in kept.items()], {})


@dataclass(frozen=True)
class ColumnNames:
    """The table."""

    table: TableName

    def run(self, session: Session) -> pa.Table:
        """A row for each column, in the table's order."""
        return listed("col_name", [f.name for f in session.catalog.table(self.table).schema().fields])


def _properties(cursor: Grammar) -> Properties:
    table = cursor.table(alias=False)
    key = None
    if cursor.take("("):
        key = property_key(cursor)
        cursor.expect(")")
    return Properties(table, key)


def _columns(cursor: Grammar) -> ColumnNames:
    if not (cursor.take("in") or cursor.take("from")):
        cursor.expected("IN or FROM")
    return ColumnNames(cursor.table(alias=False))


STATEMENTS = (Statement(("show", "tblproperties"), _properties), Statement(("show", "columns"), _columns))
