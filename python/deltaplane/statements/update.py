"""UPDATE table SET column = value, … [WHERE condition]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from deltaplane.queries.cursor import quoted
from deltaplane.queries.grammar import Grammar
from deltaplane.queries.syntax import TableName
from deltaplane.statements.statement import Clause, Session, Statement, counted, default_of, field_named

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaplane.dry_run import DryRun
    from deltaplane.table import DeltaTable

__all__ = ["STATEMENT", "Assignment", "assignment", "column_below"]

T = TypeVar("T")


@dataclass(frozen=True)
class Assignment:
    """A column, by the parts of its name, and its new value; None is its default."""

    column: tuple[str, ...]
    value: Clause | None
    cursor: Grammar
    token: int

    def text(self, table: DeltaTable, name: TableName) -> str:
        """The new value's text over the table's columns."""
        if self.value is not None:
            return self.value.over(table, name)
        parts = column_below(self.column, name.qualifiers, table)
        # A field of a struct has no default.
        return default_of(field_named(table, parts[0])) if len(parts) == 1 else "NULL"


def assignment(cursor: Grammar) -> Assignment:
    """One `column = value` or `column = DEFAULT`."""
    token = cursor.at
    column = cursor.names("a column's name")
    cursor.expect("=")
    if cursor.peek() == "default" and cursor.peek(1) not in ("(", "."):
        cursor.at += 1
        return Assignment(column, None, cursor, token)
    return Assignment(column, Clause.read(cursor), cursor, token)


def column_below(parts: tuple[str, ...], qualifiers: tuple[str, ...], table: DeltaTable) -> tuple[str, ...]:
    """A column's name without the table's before it, where the table has such a column."""
    n = len(qualifiers)
    columns = {field.name.lower() for field in table.schema().fields}
    begins = [p.lower() for p in parts[:n]] == [q.lower() for q in qualifiers]
    return parts[n:] if n and len(parts) > n and begins and parts[n].lower() in columns else parts


@dataclass(frozen=True)
class Update:
    """The table, the new values, and for which rows; all of them without a condition."""

    table: TableName
    assignments: list[Assignment]
    where: Clause | None

    def run(self, session: Session) -> pa.Table:
        """Updates the rows in one commit."""
        table = session.catalog.target(self.table)
        before = table.version()
        metrics = self._on(table, lambda updates, where: table.update(updates, predicate=where))
        return counted(metrics["num_updated_rows"], metrics, table.version() if table.version() != before else None)

    def rehearse(self, session: Session) -> DryRun:
        """What that would do."""
        table = session.catalog.target(self.table)
        return self._on(table, lambda updates, where: table.update(updates, predicate=where, dry_run=True))

    def _on(self, table: DeltaTable, update: Callable[[dict[str, str], str | None], T]) -> T:
        updates: dict[str, str] = {}
        for one in self.assignments:
            column = ".".join(map(quoted, column_below(one.column, self.table.qualifiers, table)))
            if column.lower() in map(str.lower, updates):
                one.cursor.wrong(
                    f"expected one value for each column: {column} is assigned twice",
                    one.cursor.tokens[one.token].start,
                )
            with one.cursor.located(one.token):
                updates[column] = one.text(table, self.table)
        where = None if self.where is None else self.where.over(table, self.table)
        first = self.assignments[0]
        with first.cursor.located(first.token):
            return update(updates, where)


def _read(cursor: Grammar) -> Update:
    table = cursor.table(version=False)
    cursor.expect("set")
    assignments = [assignment(cursor)]
    while cursor.take(","):
        assignments.append(assignment(cursor))
    return Update(table, assignments, Clause.read(cursor) if cursor.take("where") else None)


STATEMENT = Statement(("update",), _read)
