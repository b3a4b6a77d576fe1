"""DESCRIBE HISTORY, DESCRIBE DETAIL and DESCRIBE [TABLE] [EXTENDED]: describes a table and its
commits, under delta-spark's names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaplane.queries.grammar import Grammar
from deltaplane.queries.syntax import TableName
from deltaplane.report.describe import detail_row, history_rows, shown_properties
from deltaplane.statements.common.statement import Session, Statement, field_named, rows, runs_tasks
from deltaplane.table.ddl_types import type_text
from deltaplane.table.delta_table import DeltaTable

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["STATEMENTS", "History"]


@dataclass(frozen=True)
class History:
    """DESCRIBE HISTORY: the table, and the number of its newest commits."""

    table: TableName
    limit: int | None

    def run(self, session: Session) -> pa.Table:
        """Returns a row for each commit, newest first."""
        return history_rows(session.catalog.table(self.table), self.limit)


@dataclass(frozen=True)
class Detail:
    """DESCRIBE DETAIL: the table."""

    table: TableName

    def run(self, session: Session) -> pa.Table:
        """Returns one row."""
        return detail_row(session.catalog.table(self.table))


@dataclass(frozen=True)
class Columns:
    """DESCRIBE: the table, and whether EXTENDED is set."""

    table: TableName
    extended: bool = False

    def run(self, session: Session) -> pa.Table:
        """Returns a row for each column, then the partition columns, then the table's details."""
        table = session.catalog.table(self.table)
        fields = table.schema().fields
        table_rows: list[list[Any]] = [[f.name, type_text(f.type), f.metadata.get("comment")] for f in fields]
        partitions = table.metadata().partition_columns
        if partitions:
            table_rows += [["# Partition Information", "", ""], ["# col_name", "data_type", "comment"]]
            table_rows += [row for name in partitions for row in table_rows[: len(fields)] if row[0] == name]
        if self.extended:
            table_rows += [["", "", ""], ["# Detailed Table Information", "", ""], *self._details(session, table)]
        return rows(("col_name", "data_type", "comment"), table_rows, {})

    def _details(self, session: Session, table: DeltaTable) -> list[list[str]]:
        details: dict[str, str | None] = {"Name": self.table.shown}
        location, managed = table.table_uri, False
        if session.spark is not None and runs_tasks(session.spark):
            from deltaplane.spark.jvm.names import catalog_facts, hadoop_path

            details, managed = catalog_facts(session.spark, self.table.shown)
            location = self.table.path or hadoop_path(location)
        details |= {"Comment": table.metadata().description, "Location": location, "Provider": "delta"}
        if managed:
            details["Is_managed_location"] = "true"
        details["Table Properties"] = f"[{','.join(f'{k}={v}' for k, v in shown_properties(table).items())}]"
        return [[name, value, ""] for name, value in details.items() if value]


@dataclass(frozen=True)
class OneColumn:
    """DESCRIBE of a column: the table and the column."""

    table: TableName
    column: str

    def run(self, session: Session) -> pa.Table:
        """Returns a row for each property of the column."""
        field = field_named(session.catalog.table(self.table), self.column)
        details = {
            "col_name": field.name,
            "data_type": type_text(field.type),
            "comment": field.metadata.get("comment", "NULL"),
        }
        return rows(("info_name", "info_value"), [list(pair) for pair in details.items()], {})


def _history(cursor: Grammar) -> History:
    table = cursor.table(alias=False)
    return History(table, cursor.whole_number("a number of commits") if cursor.take("limit") else None)


def _columns(cursor: Grammar) -> Columns | OneColumn:
    cursor.take("table")
    extended = cursor.peek() in ("extended", "formatted") and cursor.kind(1) in ("name", "quoted")
    if extended:
        cursor.at += 1
    table = cursor.table(alias=False)
    if cursor.kind() in ("name", "quoted"):
        return OneColumn(table, cursor.name("a column's name"))
    return Columns(table, extended)


STATEMENTS = tuple(
    Statement((word, *more), read)
    for word in ("describe", "desc")
    for more, read in (
        (("history",), _history),
        (("detail",), lambda cursor: Detail(cursor.table(alias=False))),
        ((), _columns),
    )
)
