"""CONVERT TO DELTA parquet.`directory` [NO STATISTICS] [PARTITIONED BY (column type, …)] [DRY RUN]."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from deltaplane.convert import Conversion, convert_to_deltalake
from deltaplane.queries.grammar import Grammar
from deltaplane.schema import Schema
from deltaplane.statements.columns import Declaration, declaration
from deltaplane.statements.statement import Session, Statement, one_row, runs_tasks
from deltaplane.table import DeltaTable

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["STATEMENT"]


@dataclass
class Convert:
    """The directory, and its partition columns."""

    path: str
    columns: list[Declaration] = field(default_factory=list)
    statistics: bool = True
    dry_run: bool = False

    def run(self, session: Session) -> pa.Table:
        """Commits the files that are there; a dry run tells how many they are, and the table's columns."""
        options = session.catalog.storage_options
        columns = Schema([column.field for column in self.columns]) if self.columns else None
        strategy: Literal["hive"] | None = None if columns is None else "hive"
        if session.spark is not None and runs_tasks(session.spark):
            from deltaplane.spark._layout import convert_by_tasks
            from deltaplane.spark._location import absolute_location

            location = absolute_location(self.path)
            what = Conversion(location, dict(options or {}) or None, "error", columns, strategy, self.statistics)
            would = convert_by_tasks(session.spark, what, dry_run=self.dry_run)
        else:
            would = convert_to_deltalake(
                self.path,
                partition_by=columns,
                partition_strategy=strategy,
                storage_options=options,
                collect_stats=self.statistics,
                dry_run=self.dry_run,
            )
        if would is not None:
            columns_text = ", ".join(field.name for field in would.schema.fields)
            return one_row(operation="CONVERT", files=would.files, columns=columns_text)
        return one_row(operation="CONVERT", version=DeltaTable(self.path, storage_options=options).version())


def _read(cursor: Grammar) -> Convert:
    cursor.expect("to", "delta")
    what = "a directory: parquet.`path`"
    if cursor.peek() != "parquet":
        cursor.expected(what)
    parts = cursor.names(what)
    if len(parts) != 2:
        cursor.expected(what)
    made = Convert(parts[1])
    if cursor.take("no"):
        cursor.expect("statistics")
        made.statistics = False
    if cursor.take("partitioned"):
        cursor.expect("by")
        made.columns = cursor.listed(lambda: declaration(cursor))
    if cursor.take("dry"):
        cursor.expect("run")
        made.dry_run = True
    return made


STATEMENT = Statement(("convert",), _read)
