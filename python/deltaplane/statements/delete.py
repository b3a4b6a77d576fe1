"""DELETE FROM table [WHERE condition]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from deltaplane.queries.grammar import Grammar
from deltaplane.queries.syntax import TableName
from deltaplane.statements.statement import Clause, Session, Statement, counted

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaplane.dry_run import DryRun
    from deltaplane.table import DeltaTable

__all__ = ["STATEMENT"]

T = TypeVar("T")


@dataclass(frozen=True)
class Delete:
    """The table, and which rows go; all of them without a condition."""

    table: TableName
    where: Clause | None

    def run(self, session: Session) -> pa.Table:
        """Deletes the rows in one commit."""
        table = session.catalog.target(self.table)
        before = table.version()
        metrics = self._on(table, lambda where: table.delete(where))
        done = table.version() != before
        # A commit without a number took files whose rows nobody counted.
        deleted = metrics["num_deleted_rows"] or (None if done else 0)
        return counted(deleted, {**metrics, "num_deleted_rows": deleted}, table.version() if done else None)

    def rehearse(self, session: Session) -> DryRun:
        """What that would do."""
        table = session.catalog.target(self.table)
        return self._on(table, lambda where: table.delete(where, dry_run=True))

    def _on(self, table: DeltaTable, delete: Callable[[str | None], T]) -> T:
        if self.where is None:
            return delete(None)
        with self.where.cursor.located(self.where.token):
            return delete(self.where.over(table, self.table))


def _read(cursor: Grammar) -> Delete:
    cursor.expect("from")
    table = cursor.table(version=False)
    return Delete(table, Clause.read(cursor) if cursor.take("where") else None)


STATEMENT = Statement(("delete",), _read)
