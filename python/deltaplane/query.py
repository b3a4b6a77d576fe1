"""Queries over tables under names that the caller chooses, compatible with deltalake's
`QueryBuilder`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from deltaplane.arguments import checked
from deltaplane.exceptions import UnsupportedFeatureError
from deltaplane.statements import sql as run
from deltaplane.table.delta_table import DeltaTable

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["QueryBuilder"]


@checked()
class QueryBuilder:
    """Registers tables by name and runs Spark SQL queries over them, as `deltaplane.sql` does.

    >>> import pyarrow as pa
    >>> from deltaplane import DeltaTable, write_deltalake
    >>> _ = write_deltalake("memory://doc-query/t", pa.table({"x": [1, 2, 3]}))
    >>> tables = QueryBuilder().register("numbers", DeltaTable("memory://doc-query/t"))
    >>> tables.execute("SELECT sum(x) AS total FROM numbers").read_all().to_pylist()
    [{'total': 6}]
    """

    def __init__(self, session_config: Mapping[str, str] | None = None) -> None:
        """Creates a builder without tables.

        Raises:
            UnsupportedFeatureError: settings of DataFusion, since another engine runs the queries.
        """
        if session_config:
            raise UnsupportedFeatureError(
                f"queries are DuckDB's here, which has no setting {next(iter(session_config))}: leave session_config out"
            )
        self._tables: dict[str, DeltaTable] = {}

    def register(self, table_name: str, delta_table: DeltaTable) -> QueryBuilder:
        """Registers a table, at its current version, under a name for queries; returns this
        object."""
        self._tables[table_name] = delta_table
        return self

    def execute(self, sql: str) -> pa.RecordBatchReader:
        """Runs a query.

        Raises:
            SqlSyntaxError, InvalidArgumentError, UnsupportedExpressionError, DeltaError: as
                `deltaplane.sql`.
        """
        return run(sql, tables=self._tables).to_reader()
