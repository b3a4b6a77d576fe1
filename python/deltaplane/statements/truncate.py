"""TRUNCATE TABLE table: removes all rows of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaplane.commands.delete import truncate
from deltaplane.commands.dry_run import DryRun
from deltaplane.queries.grammar import Grammar
from deltaplane.queries.syntax import TableName
from deltaplane.statements.common.statement import Session, Statement, one_row, settings_of
from deltaplane.table.row_commands import COMMON_METRICS

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["STATEMENT", "Truncate"]

_OPERATION = "TRUNCATE"


@dataclass(frozen=True)
class Truncate:
    """The table to empty."""

    table: TableName

    def run(self, session: Session) -> pa.Table:
        """Removes all files in one commit, or commits nothing if there are none; reads no file and
        counts no row."""
        metrics = self._on(session, dry_run=False)
        assert isinstance(metrics, dict)
        return one_row(operation=_OPERATION, version=metrics.get("version"))

    def run_dry(self, session: Session) -> DryRun:
        """Plans the removal without writing."""
        result = self._on(session, dry_run=True)
        assert isinstance(result, DryRun)
        return result

    def _on(self, session: Session, *, dry_run: bool) -> dict[str, Any] | DryRun:
        settings = settings_of(session, dry_run=dry_run)
        table = session.catalog.target(self.table)
        return table.run_command(lambda target: truncate(target, settings), COMMON_METRICS)


def _read(cursor: Grammar) -> Truncate:
    cursor.expect("table")
    return Truncate(cursor.table(alias=False, version=False))


STATEMENT = Statement(("truncate",), _read)
