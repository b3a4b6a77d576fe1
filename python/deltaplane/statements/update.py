"""UPDATE table SET column = value, … [WHERE condition]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaplane.commands.condition import RowSelection
from deltaplane.commands.dry_run import DryRun
from deltaplane.commands.merge.assignments import Assignments
from deltaplane.commands.rewriting import CommandResult, Settings, Target
from deltaplane.commands.update import update
from deltaplane.expr import Predicate
from deltaplane.queries.cursor import quoted
from deltaplane.queries.grammar import Grammar
from deltaplane.queries.syntax import TableName
from deltaplane.statements.common.on_spark import values_on_spark
from deltaplane.statements.common.statement import (
    Clause,
    Session,
    Statement,
    counted,
    default_of,
    field_named,
    judges_rows,
    settings_of,
)
from deltaplane.statements.common.subqueries import run_where, target_on_spark
from deltaplane.table.row_commands import COMMON_METRICS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from deltaplane.spark.dml.conditions import Subqueried
    from deltaplane.spark.dml.rewriting import SparkTarget
    from deltaplane.table.delta_table import DeltaTable

__all__ = ["STATEMENT", "Assignment", "Update", "assignment", "column_below"]

_ALWAYS = ("num_updated_rows", *COMMON_METRICS)


@dataclass(frozen=True)
class Assignment:
    """A column, by the parts of its name, and its new value; None means its default."""

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
    """Parses one `column = value` or `column = DEFAULT`."""
    token = cursor.at
    column = cursor.names("a column's name")
    cursor.expect("=")
    if cursor.peek() == "default" and cursor.peek(1) not in ("(", "."):
        cursor.at += 1
        return Assignment(column, None, cursor, token)
    return Assignment(column, Clause.of_rows(cursor), cursor, token)


def column_below(parts: tuple[str, ...], qualifiers: tuple[str, ...], table: DeltaTable) -> tuple[str, ...]:
    """A column's name without the table's qualifier, if the table has such a column."""
    columns = {field.name.lower() for field in table.schema().fields}
    said = [part.lower() for part in ("spark_catalog", *qualifiers)]
    # As in Spark, the last parts of a table's name also qualify.
    for n in range(min(len(said), len(parts) - 1), 0, -1):
        if [part.lower() for part in parts[:n]] == said[-n:] and parts[n].lower() in columns:
            return parts[n:]
    return parts


@dataclass(frozen=True)
class Update:
    """The table, the new values, and the condition for the updated rows; all rows without a
    condition."""

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

    def run_dry(self, session: Session) -> DryRun:
        """Plans the update without writing."""
        result = self._on(session.catalog.target(self.table), session, dry_run=True)
        assert isinstance(result, DryRun)
        return result

    def _on(self, table: DeltaTable, session: Session, *, dry_run: bool) -> dict[str, Any] | DryRun:
        where, settings = self.where, settings_of(session, dry_run=dry_run)
        if session.spark is not None and judges_rows(session.spark):
            return self._by_tasks(table, session, session.spark, settings)
        updates, first = self._updates(table), self.assignments[0]
        with first.cursor.located(first.token):
            assigned = Assignments(table._snapshot.schema, updates, {})

            def here(target: Target, which: Predicate | RowSelection | None) -> CommandResult:
                return update(target, assigned, which, settings)

            if where is None or not where.has_subqueries:
                condition = None if where is None else where.over(table, self.table)
                return table.run_command(lambda target: here(target, condition), _ALWAYS)

        def never(target: SparkTarget, which: Subqueried) -> CommandResult:
            raise AssertionError("no session's tasks are at hand")

        with where.cursor.located(where.token):
            return run_where(session, where, self.table, table, (here, never), _ALWAYS)

    def _by_tasks(
        self, table: DeltaTable, session: Session, spark: SparkSession, settings: Settings
    ) -> dict[str, Any] | DryRun:
        """Runs the update by Spark's tasks, which evaluate condition and values."""
        from deltaplane.spark.dml import update as _update

        columns = list(self._updates(table))
        values = [
            assignment.value if assignment.value is not None else assignment.text(table, self.table)
            for assignment in self.assignments
        ]
        first, catalog = self.assignments[0], session.catalog
        with values_on_spark(spark, values, table, catalog) as (texts, others):
            updates = dict(zip(columns, texts, strict=True))

            def by_tasks(target: SparkTarget, which: Subqueried | None) -> CommandResult:
                return _update.update(target, updates, which, settings, reads_others=others)

            if self.where is None:

                def run(target: Target) -> CommandResult:
                    return by_tasks(target_on_spark(target, spark, self.table, table, catalog), None)

                with first.cursor.located(first.token):
                    return table.run_command(run, _ALWAYS)

            def never(target: Target, which: RowSelection) -> CommandResult:
                raise AssertionError("a session's tasks are at hand")

            with self.where.cursor.located(self.where.token):
                return run_where(session, self.where, self.table, table, (never, by_tasks), _ALWAYS)

    def _updates(self, table: DeltaTable) -> dict[str, str]:
        """The new values' texts by column."""
        updates: dict[str, str] = {}
        for assignment in self.assignments:
            column = ".".join(map(quoted, column_below(assignment.column, self.table.qualifiers, table)))
            if column.lower() in map(str.lower, updates):
                assignment.cursor.wrong(
                    f"expected one value for each column: {column} is assigned twice",
                    assignment.cursor.tokens[assignment.token].start,
                )
            with assignment.cursor.located(assignment.token):
                updates[column] = assignment.text(table, self.table)
        return updates


def _read(cursor: Grammar) -> Update:
    table = cursor.table(version=False)
    cursor.expect("set")
    assignments = [assignment(cursor)]
    while cursor.take(","):
        assignments.append(assignment(cursor))
    return Update(table, assignments, Clause.of_rows(cursor, subqueries=True) if cursor.take("where") else None)


STATEMENT = Statement(("update",), _read)
