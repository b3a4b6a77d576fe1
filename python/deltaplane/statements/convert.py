"""CONVERT TO DELTA parquet.`directory` | table [NO STATISTICS] [PARTITIONED BY (column type, …)]
[DRY RUN]."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from deltaplane.exceptions import UnsupportedFeatureError
from deltaplane.queries.grammar import Grammar
from deltaplane.schema import Schema
from deltaplane.statements.common.columns import Declaration, declaration
from deltaplane.statements.common.statement import Session, Statement, one_row, runs_tasks
from deltaplane.table.delta_table import DeltaTable
from deltaplane.write.convert import convert_to_deltalake

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["STATEMENT"]

_HIVE: Literal["hive"] = "hive"


@dataclass
class Convert:
    """The directory or the table, and its partition columns."""

    parts: tuple[str, ...]
    columns: list[Declaration] = field(default_factory=list)
    statistics: bool = True
    dry_run: bool = False

    def run(self, session: Session) -> pa.Table:
        """Commits the existing files; a dry run returns their number and the table's columns."""
        options = session.catalog.storage_options
        columns = Schema([column.field for column in self.columns]) if self.columns else None
        if session.spark is not None and runs_tasks(session.spark):
            from deltaplane.spark.delta_api.parquet_tables import convert

            location, would = convert(
                session.spark,
                self.parts,
                columns,
                statistics=self.statistics,
                dry_run=self.dry_run,
                options=None if options is None else dict(options),
            )
        else:
            location, strategy = self._path(), None if columns is None else _HIVE
            would = convert_to_deltalake(
                location,
                partition_by=columns,
                partition_strategy=strategy,
                storage_options=options,
                collect_stats=self.statistics,
                dry_run=self.dry_run,
            )
        if would is not None:
            columns_text = ", ".join(field.name for field in would.schema.fields)
            return one_row(operation="CONVERT", files=would.files, columns=columns_text)
        return one_row(operation="CONVERT", version=DeltaTable(location, storage_options=options).version())

    def _path(self) -> str:
        """The directory, if no session's catalog resolves names."""
        if not _is_path(self.parts):
            raise UnsupportedFeatureError(
                f"{'.'.join(self.parts)} is a name, which only a classic Spark session's catalog knows: give the files' path as "
                "parquet.`path`"
            )
        return self.parts[1]


def _is_path(parts: tuple[str, ...]) -> bool:
    return len(parts) == 2 and parts[0].lower() == "parquet"


def _read(cursor: Grammar) -> Convert:
    cursor.expect("to", "delta")
    what = "a directory: parquet.`path`"
    if cursor.own_queries and cursor.peek() != "parquet":
        cursor.expected(what)
    made = Convert(cursor.names(what))
    if cursor.own_queries and not _is_path(made.parts):
        cursor.expected(what)
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
