"""DESCRIBE HISTORY, DESCRIBE DETAIL and DESCRIBE [TABLE]: what a table is and was, under delta-spark's names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltaplane.described import detail_row, history_rows
from deltaplane.queries.grammar import Grammar
from deltaplane.queries.syntax import TableName
from deltaplane.statements.statement import Session, Statement, rows
from deltaplane.statements.types import type_text

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["STATEMENTS", "History"]


@dataclass(frozen=True)
class History:
    """The table, and how many of its newest commits."""

    table: TableName
    limit: int | None

    def run(self, session: Session) -> pa.Table:
        """A row for each commit, newest first."""
        return history_rows(session.catalog.table(self.table), self.limit)


@dataclass(frozen=True)
class Detail:
    """The table."""

    table: TableName

    def run(self, session: Session) -> pa.Table:
        """One row."""
        return detail_row(session.catalog.table(self.table))


@dataclass(frozen=True)
class Columns:
    """The table."""

    table: TableName

    def run(self, session: Session) -> pa.Table:
        """A row for each column, then those that the table is partitioned by."""
        table = session.catalog.table(self.table)
        fields = table.schema().fields
        found = [[f.name, type_text(f.type), f.metadata.get("comment")] for f in fields]
        partitions = table.metadata().partition_columns
        if partitions:
            found += [["# Partition Information", "", ""], ["# col_name", "data_type", "comment"]]
            found += [row for name in partitions for row in found[: len(fields)] if row[0] == name]
        return rows(("col_name", "data_type", "comment"), found, {})


def _history(cursor: Grammar) -> History:
    table = cursor.table(alias=False)
    return History(table, cursor.whole_number("a number of commits") if cursor.take("limit") else None)


def _columns(cursor: Grammar) -> Columns:
    cursor.take("table")
    if cursor.peek() in ("extended", "formatted") and cursor.kind(1) in ("name", "quoted"):
        cursor.expected("a table: DESCRIBE DETAIL tells more of one")
    return Columns(cursor.table(alias=False))


STATEMENTS = tuple(
    Statement((word, *more), read)
    for word in ("describe", "desc")
    for more, read in (
        (("history",), _history),
        (("detail",), lambda cursor: Detail(cursor.table(alias=False))),
        ((), _columns),
    )
)
