"""SHOW TBLPROPERTIES, SHOW COLUMNS and SHOW PARTITIONS."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.queries.grammar import Grammar
from deltaplane.queries.syntax import TableName
from deltaplane.report.describe import shown_properties
from deltaplane.statements.common.columns import property_key
from deltaplane.statements.common.partition import PartitionSpec, read_partition
from deltaplane.statements.common.statement import Session, Statement, listed, rows, runs_tasks
from deltaplane.statements.common.types import LENGTHS

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaplane.table.delta_table import DeltaTable

__all__ = ["STATEMENTS"]


@dataclass(frozen=True)
class Properties:
    """The table, and the name of one of its properties if the statement has one."""

    table: TableName
    key: str | None

    def run(self, session: Session) -> pa.Table:
        """Returns a row for each property, ordered by name. For an unknown property the value is a
        message, as in Spark."""
        properties = shown_properties(session.catalog.table(self.table))
        if self.key is not None:
            name = self.table.shown
            if session.spark is not None and runs_tasks(session.spark) and self.table.path is None:
                from deltaplane.spark.jvm.names import qualified_name

                name = qualified_name(session.spark, name)
            properties = {self.key: properties.get(self.key, f"Table {name} does not have property: {self.key}")}
        return rows(("key", "value"), [list(pair) for pair in properties.items()], {})


@dataclass(frozen=True)
class ColumnNames:
    """The table."""

    table: TableName

    def run(self, session: Session) -> pa.Table:
        """Returns a row for each column, in the table's order."""
        return listed("col_name", [f.name for f in session.catalog.table(self.table).schema().fields])


@dataclass(frozen=True)
class Partitions:
    """The table, and values that select partitions."""

    table: TableName
    partition: PartitionSpec | None

    def run(self, session: Session) -> pa.Table:
        """Returns a row for each partition with files, with its values."""
        import pyarrow.compute as pc

        table = session.catalog.table(self.table)
        names = table.metadata().partition_columns
        if not names:
            raise InvalidArgumentError("the table isn't partitioned", table=table.table_uri)
        partitions = table._partition_values(names)
        for fixed_value in [] if self.partition is None else self.partition.fixed(table):
            column = partitions[fixed_value.field.name]
            matches = (
                pc.equal(column, fixed_value.value.cast(column.type))
                if fixed_value.value.is_valid
                else column.is_null()
            )
            partitions = partitions.filter(matches)
        return partitions if session.spark is None else _padded(partitions, table)


def _padded(partitions: pa.Table, table: DeltaTable) -> pa.Table:
    """The same with the blanks at the end of CHAR columns, which Spark's scans add."""
    import pyarrow.compute as pc

    for field in table.schema().fields:
        length = re.fullmatch(r"char\((\d+)\)", field.metadata.get(LENGTHS, ""))
        if length is not None and (place := partitions.schema.get_field_index(field.name)) >= 0:
            values = pc.utf8_rpad(partitions.column(place), int(length[1]))
            partitions = partitions.set_column(place, field.name, values)
    return partitions


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
    table = cursor.table(alias=False)
    if cursor.take("in") or cursor.take("from"):
        database = cursor.names("a database's name")
        if len(table.parts) > 1 and table.parts[:-1] != database[-len(table.parts) + 1 :]:
            cursor.wrong(f"expected one database: the table's name has {'.'.join(table.parts[:-1])}")
        table = replace(table, parts=(*database, table.parts[-1]))
    return ColumnNames(table)


STATEMENTS = (
    Statement(("show", "tblproperties"), _properties),
    Statement(("show", "columns"), _columns),
    Statement(("show", "partitions"), _partitions),
)
