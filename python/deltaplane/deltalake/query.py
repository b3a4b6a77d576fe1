"""deltalake's `QueryBuilder`: queries in its SQL, over deltaplane's SELECT."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from deltaplane.deltalake._errors import deltalake_errors

if TYPE_CHECKING:
    import pyarrow as pa
    from arro3.core import RecordBatchReader

    from deltaplane.deltalake._raw_table import RawDeltaTable
    from deltaplane.deltalake.table import DeltaTable

__all__ = ["PyQueryBuilder", "QueryBuilder"]

_ITEM = r"""(?:\w+\.)?(?:\*|\w+|"[^"]+"|`[^`]+`)"""
# A query whose result has columns of one table and nothing else: names without aliases, no join.
_PLAIN = re.compile(
    rf"\s*SELECT\s+{_ITEM}(?:\s*,\s*{_ITEM})*\s+FROM\s+\w+\s*(?:WHERE\b|ORDER\b|LIMIT\b|;|$)", re.IGNORECASE
)
_SEVERAL = re.compile(r"\b(?:UNION|INTERSECT|EXCEPT|MINUS)\b", re.IGNORECASE)


class PyQueryBuilder:
    """Tables by name, and queries over them."""

    def __init__(self, session_config: dict[str, str] | None = None) -> None:
        from deltaplane.query import QueryBuilder as Own

        # Settings of DataFusion have no meaning for deltaplane's engine.
        self._tables = Own()
        self._registered: dict[str, RawDeltaTable] = {}

    def register(self, table_name: str, delta_table: RawDeltaTable) -> None:
        """Registers a table under a name."""
        self._tables.register(table_name, delta_table.inner)
        self._registered[table_name] = delta_table

    def execute(self, sql: str) -> RecordBatchReader:
        """Runs a query."""
        from deltaplane.deltalake._arrow import as_arro3_reader, with_views
        from deltaplane.deltalake._dialect import spark_query

        with deltalake_errors():
            reader = self._tables.execute(_with_names(spark_query(sql, self._types())))
        return as_arro3_reader(reader, with_views(self._declared(sql, reader.schema)))

    def _types(self) -> dict[str, str]:
        """Column → name of its type, for names that have one type in all tables."""
        from deltaplane.deltalake._filters import types_of

        merged: dict[str, str] = {}
        unclear = set()
        for table in self._registered.values():
            for name, kind in types_of(table.inner.schema()).items():
                if merged.setdefault(name, kind) != kind:
                    unclear.add(name)
        return {name: kind for name, kind in merged.items() if name not in unclear}

    def _declared(self, sql: str, schema: pa.Schema) -> pa.Schema:
        """The result's schema; columns that a query takes from one table unchanged are NOT NULL and
        have metadata as the table declares."""
        import pyarrow as pa

        from deltaplane.deltalake._arrow import declared

        if len(self._registered) != 1 or not _PLAIN.match(sql) or _SEVERAL.search(sql):
            return schema
        (table,) = self._registered.values()
        return declared(schema, pa.schema(table.schema))


def _with_names(sql: str) -> str:
    """A query whose unnamed columns have DataFusion's names: `count(*)`, where Spark has
    `count(1)`."""
    from deltaplane.deltalake._dialect import unnamed_columns

    for _, end, name in reversed(unnamed_columns(sql)):
        quoted = name.replace("`", "``")
        sql = f"{sql[:end]} AS `{quoted}`{sql[end:]}"
    return sql


class QueryBuilder:
    """Registers tables by name and runs queries over them.

    `session_config` has settings of DataFusion, which have no effect here.
    """

    def __init__(self, session_config: dict[str, str] | None = None) -> None:
        self._query_builder = PyQueryBuilder(session_config)

    def register(self, table_name: str, delta_table: DeltaTable) -> QueryBuilder:
        """Registers a table at its current version; returns this object."""
        self._query_builder.register(table_name=table_name, delta_table=delta_table._table)
        return self

    def execute(self, sql: str) -> RecordBatchReader:
        """Runs a query; the result is read once."""
        return self._query_builder.execute(sql)
