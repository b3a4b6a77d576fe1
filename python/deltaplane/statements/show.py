"""SHOW TBLPROPERTIES, SHOW COLUMNS and SHOW PARTITIONS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.queries.grammar import Grammar
from deltaplane.queries.syntax import TableName
from deltaplane.statements.columns import property_key
from deltaplane.statements.partition import PartitionSpec, read_partition
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


@dataclass(frozen=True)
class Partitions:
    """The table, and values that its partitions are to have."""

    table: TableName
    of: PartitionSpec | None

    def run(self, session: Session) -> pa.Table:
        """A row for each partition that holds files, with its values."""
        import pyarrow.compute as pc

        table = session.catalog.table(self.table)
        names = table.metadata().partition_columns
        if not names:
            raise InvalidArgumentError("the table isn't partitioned", table=table.table_uri)
        found = table._partition_values(names)
        for one in [] if self.of is None else self.of.fixed(table):
            column = found[one.field.name]
            kept = pc.equal(column, one.value.cast(column.type)) if one.value.is_valid else column.is_null()
            found = found.filter(kept)
        return found


def _partitions(cursor: Grammar) -> Partitions:
    return Partitions(cursor.table(alias=False), read_partition(cursor))


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


STATEMENTS = (
    Statement(("show", "tblproperties"), _properties),
    Statement(("show", "columns"), _columns),
    Statement(("show", "partitions"), _partitions),
)
