"""FSCK REPAIR TABLE table [DRY RUN]: removes missing files from the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltaplane.queries.grammar import Grammar
from deltaplane.queries.syntax import TableName
from deltaplane.statements.common.statement import Session, Statement, listed

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["STATEMENT"]


@dataclass(frozen=True)
class Repair:
    """The table, and whether it is a dry run."""

    table: TableName
    dry_run: bool

    def run(self, session: Session) -> pa.Table:
        """Removes missing files; returns their paths."""
        done = session.catalog.target(self.table).repair(self.dry_run)
        return listed("dataFilePath", done["files_removed"])


def _read(cursor: Grammar) -> Repair:
    cursor.expect("repair", "table")
    table = cursor.table(alias=False, version=False)
    dry_run = cursor.take("dry")
    if dry_run:
        cursor.expect("run")
    return Repair(table, dry_run)


STATEMENT = Statement(("fsck",), _read)
