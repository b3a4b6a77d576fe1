"""OPTIMIZE table [FULL] [WHERE partitions] [ZORDER BY (columns)]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaplane.commands.optimize import Layout
from deltaplane.exceptions import UnsupportedExpressionError
from deltaplane.queries.grammar import Grammar
from deltaplane.queries.syntax import TableName
from deltaplane.report.describe import clustering_columns
from deltaplane.statements.common.statement import Clause, Session, Statement, one_row, runs_tasks
from deltaplane.table.delta_table import DeltaTable

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["STATEMENT", "Optimize"]


@dataclass(frozen=True)
class Optimize:
    """The table, the condition on its partitions, and the columns by which rows are ordered."""

    table: TableName
    full: bool
    where: Clause | None
    columns: tuple[str, ...]

    def run(self, session: Session) -> pa.Table:
        """Rewrites files; no row changes."""
        _, done = self.carried_out(session)
        return one_row(**self.counts(done))

    def carried_out(self, session: Session) -> tuple[DeltaTable, Mapping[str, Any]]:
        """Rewrites files as `run` does; returns the table and all metrics."""
        table = session.catalog.target(self.table)
        if self.where is None:
            return table, self._on(session, table, None)
        with self.where.cursor.located(self.where.token):
            return table, self._on(session, table, self.where.over(table, self.table))

    @staticmethod
    def counts(done: Mapping[str, Any]) -> dict[str, int | None]:
        """The result columns of the statement."""
        return {
            "num_added_files": done["numFilesAdded"],
            "num_removed_files": done["numFilesRemoved"],
            "num_partitions_optimized": done["partitionsOptimized"],
            "num_considered_files": done["totalConsideredFiles"],
            "num_skipped_files": done["totalFilesSkipped"],
            "version": max(done["versions"], default=None),
        }

    def _on(self, session: Session, table: DeltaTable, where: str | None) -> Mapping[str, Any]:
        if where is not None and clustering_columns(table):
            raise UnsupportedExpressionError(
                f"a clustered table is arranged as a whole, without partitions: leave WHERE {where} out",
                table=table.table_uri,
            )
        if session.spark is not None and runs_tasks(session.spark):
            from deltaplane.spark.dml.optimize import optimize_table

            what = Layout(where, self.columns, "zorder" if self.columns else None, self.full)
            return optimize_table(session.spark, table, what)
        if self.columns:
            return table.optimize.z_order(self.columns, where, full=self.full)
        return table.optimize.compact(where, full=self.full)


def _read(cursor: Grammar) -> Optimize:
    table = cursor.table(alias=False, version=False)
    full = cursor.take("full")
    where = Clause.read(cursor) if cursor.take("where") else None
    columns: tuple[str, ...] = ()
    if cursor.take("zorder"):
        cursor.expect("by")
        columns = tuple(_columns(cursor))
    return Optimize(table, full, where, columns)


def _columns(cursor: Grammar) -> list[str]:
    def read_column() -> str:
        return cursor.dotted("a column's name")

    if cursor.peek() == "(":
        return cursor.listed(read_column)
    columns = [read_column()]
    while cursor.take(","):
        columns.append(read_column())
    return columns


STATEMENT = Statement(("optimize",), _read)
