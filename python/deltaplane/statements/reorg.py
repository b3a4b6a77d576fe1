"""REORG TABLE table [WHERE partitions] APPLY (PURGE)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltaplane.queries.grammar import Grammar
from deltaplane.queries.syntax import TableName
from deltaplane.statements.statement import Clause, Session, Statement, counted

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["STATEMENT"]


@dataclass(frozen=True)
class Purge:
    """The table, and which of its partitions."""

    table: TableName
    where: Clause | None

    def run(self, session: Session) -> pa.Table:
        """Writes files anew that hold what the table has no more; no row changes."""
        table = session.catalog.target(self.table)
        before = table.version()
        if self.where is None:
            metrics = table.purge()
        else:
            with self.where.cursor.located(self.where.token):
                metrics = table.purge(self.where.over(table, self.table))
        return counted(0, metrics, table.version() if table.version() != before else None)


def _read(cursor: Grammar) -> Purge:
    cursor.expect("table")
    table = cursor.table(alias=False, version=False)
    where = Clause.read(cursor) if cursor.take("where") else None
    cursor.expect("apply", "(", "purge", ")")
    return Purge(table, where)


STATEMENT = Statement(("reorg",), _read)
