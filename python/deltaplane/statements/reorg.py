"""REORG TABLE table [WHERE partitions] APPLY (PURGE)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from deltaplane.queries.grammar import Grammar
from deltaplane.queries.syntax import TableName
from deltaplane.statements.common.statement import Clause, Session, Statement, counted

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaplane.commands.dry_run import DryRun
    from deltaplane.table.delta_table import DeltaTable
    from deltaplane.table.results import PurgedFiles

__all__ = ["STATEMENT"]

T = TypeVar("T")


@dataclass(frozen=True)
class Purged:
    """The table, the number of its examined files, the committed version if any, and the
    statement's result."""

    table: DeltaTable
    considered: int
    version: int | None
    metrics: pa.Table


@dataclass(frozen=True)
class Purge:
    """The table and the condition on its partitions."""

    table: TableName
    where: Clause | None

    def run(self, session: Session) -> pa.Table:
        """Rewrites files that hold removed data; no row changes."""
        return counted(0, *self._purge(session.catalog.target(self.table)))

    def carried_out(self, session: Session) -> Purged:
        """Rewrites files as `run` does; returns also the table and the number of examined files."""
        table = session.catalog.target(self.table)
        considered = self._on(table, lambda where: sum(batch.num_rows for batch in table.plan(where)))
        metrics, version = self._purge(table)
        return Purged(table, considered, version, counted(0, metrics, version))

    def _purge(self, table: DeltaTable) -> tuple[PurgedFiles, int | None]:
        before = table.version()
        metrics = self._on(table, lambda where: table.purge(where))
        return metrics, table.version() if table.version() != before else None

    def run_dry(self, session: Session) -> DryRun:
        """Plans the purge without writing."""
        table = session.catalog.target(self.table)
        return self._on(table, lambda where: table.purge(where, dry_run=True))

    def _on(self, table: DeltaTable, purge: Callable[[str | None], T]) -> T:
        if self.where is None:
            return purge(None)
        with self.where.cursor.located(self.where.token):
            return purge(self.where.over(table, self.table))


def _read(cursor: Grammar) -> Purge:
    cursor.expect("table")
    table = cursor.table(alias=False, version=False)
    where = Clause.read(cursor) if cursor.take("where") else None
    cursor.expect("apply", "(", "purge", ")")
    return Purge(table, where)


STATEMENT = Statement(("reorg",), _read)
