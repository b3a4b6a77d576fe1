"""CONVERT TO DELTA parquet.`directory` [NO STATISTICS] [PARTITIONED BY (column type, …)]."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deltaplane.convert import convert_to_deltalake
from deltaplane.queries.grammar import Grammar
from deltaplane.schema import Schema
from deltaplane.statements.columns import Declaration, declaration
from deltaplane.statements.statement import Session, Statement, one_row
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

    def run(self, session: Session) -> pa.Table:
        """Commits the files that are there."""
        options = session.catalog.storage_options
        convert_to_deltalake(
            self.path,
            partition_by=Schema([column.field for column in self.columns]) if self.columns else None,
            partition_strategy="hive" if self.columns else None,
            storage_options=options,
            collect_stats=self.statistics,
        )
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
    return made


STATEMENT = Statement(("convert",), _read)
