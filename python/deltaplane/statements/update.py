"""UPDATE table SET column = value, … [WHERE condition]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaplane.commands.assignments import Assignments
from deltaplane.commands.condition import Which
from deltaplane.commands.rewriting import Done, Settings, Target
from deltaplane.commands.update import update
from deltaplane.dml import COMMON_METRICS
from deltaplane.dry_run import DryRun
from deltaplane.exceptions import SchemaMismatchError, UnsupportedExpressionError
from deltaplane.expr import Predicate
from deltaplane.queries.cursor import quoted
from deltaplane.queries.grammar import Grammar
from deltaplane.queries.syntax import TableName
from deltaplane.statements.statement import (
    Clause,
    Session,
    Statement,
    counted,
    default_of,
    field_named,
    runs_tasks,
    settings_of,
)
from deltaplane.statements.subqueries import run_where

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from deltaplane.spark._conditions import Subqueried
    from deltaplane.spark._rewriting import SparkTarget
    from deltaplane.table import DeltaTable

__all__ = ["STATEMENT", "Assignment", "assignment", "column_below"]

_ALWAYS = ("num_updated_rows", *COMMON_METRICS)


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
        metrics = self._on(table, session, dry_run=False)
        assert isinstance(metrics, dict)
        return counted(metrics["num_updated_rows"], metrics, table.version() if table.version() != before else None)

    def rehearse(self, session: Session) -> DryRun:
        """What that would do."""
        told = self._on(session.catalog.target(self.table), session, dry_run=True)
        assert isinstance(told, DryRun)
        return told

    def _on(self, table: DeltaTable, session: Session, *, dry_run: bool) -> dict[str, Any] | DryRun:
        updates, where = self._updates(table), self.where
        settings = settings_of(session, dry_run=dry_run)
        first = self.assignments[0]
        with first.cursor.located(first.token):
            try:
                assigned = Assignments(table.schema().to_json(), updates, {})
            except (SchemaMismatchError, UnsupportedExpressionError):
                # What DuckDB isn't asked for, Spark may do.
                if (
                    session.spark is None
                    or not runs_tasks(session.spark)
                    or (where is not None and where.has_subqueries)
                ):
                    raise
                return self._on_spark(table, session.spark, updates, settings)

            def here(target: Target, which: Predicate | Which | None) -> Done:
                return update(target, assigned, which, settings)

            if where is None or not where.has_subqueries:
                condition = None if where is None else where.over(table, self.table)
                return table.run_command(lambda target: here(target, condition), _ALWAYS)

        def by_tasks(target: SparkTarget, which: Subqueried) -> Done:
            from deltaplane.spark import _update

            return _update.update(target, updates, which, settings)

        with where.cursor.located(where.token):
            return run_where(session, where, self.table, table, (here, by_tasks), _ALWAYS)

    def _on_spark(
        self, table: DeltaTable, spark: SparkSession, updates: dict[str, str], settings: Settings
    ) -> dict[str, Any] | DryRun:
        """By Spark's tasks, as it is without a subquery."""
        from deltaplane.spark import _update
        from deltaplane.spark._rewriting import SparkTarget

        condition = None if self.where is None else self.where.over(table, self.table)

        def run(target: Target) -> Done:
            of = SparkTarget(target.location, target.snapshot, spark, table.storage_options)
            return _update.update(of, updates, condition, settings)

        return table.run_command(run, _ALWAYS)

    def _updates(self, table: DeltaTable) -> dict[str, str]:
        """The new values' texts by column."""
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
        return updates


def _read(cursor: Grammar) -> Update:
    table = cursor.table(version=False)
    cursor.expect("set")
    assignments = [assignment(cursor)]
    while cursor.take(","):
        assignments.append(assignment(cursor))
    return Update(table, assignments, Clause.read(cursor, subqueries=True) if cursor.take("where") else None)


STATEMENT = Statement(("update",), _read)
