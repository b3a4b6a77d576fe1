"""DELETE FROM table [WHERE condition]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaplane.commands.condition import RowSelection
from deltaplane.commands.delete import delete
from deltaplane.commands.dry_run import DryRun
from deltaplane.commands.rewriting import CommandResult, Settings, Target
from deltaplane.queries.grammar import Grammar
from deltaplane.queries.syntax import TableName
from deltaplane.statements.common.statement import Clause, Session, Statement, counted, judges_rows, settings_of
from deltaplane.statements.common.subqueries import run_where
from deltaplane.table.row_commands import COMMON_METRICS

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaplane.spark.dml.conditions import Subqueried
    from deltaplane.spark.dml.rewriting import SparkTarget
    from deltaplane.table.delta_table import DeltaTable

__all__ = ["STATEMENT", "Delete"]

_ALWAYS = ("num_deleted_rows", *COMMON_METRICS)


@dataclass(frozen=True)
class Delete:
    """The table and the condition for deleted rows; all rows without a condition."""

    table: TableName
    where: Clause | None

    def run(self, session: Session) -> pa.Table:
        """Deletes the rows in one commit."""
        table = session.catalog.target(self.table)
        before = table.version()
        metrics = self._on(table, session, dry_run=False)
        assert isinstance(metrics, dict)
        done = table.version() != before
        # A commit without a number of rows removed whole files, whose rows weren't counted.
        deleted = metrics["num_deleted_rows"] or (None if done else 0)
        return counted(deleted, {**metrics, "num_deleted_rows": deleted}, table.version() if done else None)

    def run_dry(self, session: Session) -> DryRun:
        """Plans the deletion without writing."""
        result = self._on(session.catalog.target(self.table), session, dry_run=True)
        assert isinstance(result, DryRun)
        return result

    def _on(self, table: DeltaTable, session: Session, *, dry_run: bool) -> dict[str, Any] | DryRun:
        where, settings = self.where, settings_of(session, dry_run=dry_run)
        if where is None:
            return table.run_command(lambda target: delete(target, None, settings), _ALWAYS)
        with where.cursor.located(where.token):
            if where.has_subqueries or judges_rows(session.spark):
                return run_where(session, where, self.table, table, (_here(settings), _by_tasks(settings)), _ALWAYS)
            condition = where.over(table, self.table)
            return table.run_command(lambda target: delete(target, condition, settings), _ALWAYS)


def _here(settings: Settings) -> Callable[[Target, RowSelection], CommandResult]:
    return lambda target, which: delete(target, which, settings)


def _by_tasks(settings: Settings) -> Callable[[SparkTarget, Subqueried], CommandResult]:
    def run(target: SparkTarget, which: Subqueried) -> CommandResult:
        from deltaplane.spark.dml import delete as _delete

        return _delete.delete(target, which, settings)

    return run


def _read(cursor: Grammar) -> Delete:
    cursor.expect("from")
    table = cursor.table(version=False)
    return Delete(table, Clause.of_rows(cursor, subqueries=True) if cursor.take("where") else None)


STATEMENT = Statement(("delete",), _read)
