"""RESTORE [TABLE] table [TO] VERSION AS OF n | TIMESTAMP AS OF timestamp."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from deltaplane.io.storage_options import VersionLike
from deltaplane.queries.grammar import Grammar
from deltaplane.queries.syntax import TableName
from deltaplane.report.describe import RESTORED
from deltaplane.statements.common.statement import Session, Statement, one_row

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["STATEMENT"]


@dataclass(frozen=True)
class Restore:
    """The table and its target version."""

    table: TableName
    target: VersionLike

    def run(self, session: Session) -> pa.Table:
        """Restores the table; returns one row with delta-spark's columns."""
        table = session.catalog.target(self.table)
        if session.spark is not None and not isinstance(self.target, int):
            from deltaplane.spark.datasource.time_travel import version_at

            version_at(table.location, table.storage_options, self.target, doing="RESTORE")
        metrics: Mapping[str, Any] = table.restore(self.target)
        return one_row(**{name: metrics[metric] for name, metric in RESTORED.items()})


def _read(cursor: Grammar) -> Restore:
    cursor.take("table")
    table = cursor.table(alias=False)
    if table.version is not None:
        # Without TO, the version is parsed as a part of the table's name.
        return Restore(replace(table, version=None), table.version)
    cursor.take("to")
    target = cursor.version()
    if target is None:
        cursor.expected("VERSION AS OF or TIMESTAMP AS OF")
    return Restore(table, target)


STATEMENT = Statement(("restore",), _read)
