"""DESCRIBE HISTORY, DESCRIBE DETAIL and DESCRIBE [TABLE]: what a table is and was, under delta-spark's names."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaplane.queries.grammar import Grammar
from deltaplane.queries.syntax import TableName
from deltaplane.statements.clustering import clustering_columns
from deltaplane.statements.statement import Session, Statement, rows
from deltaplane.statements.types import type_text

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["STATEMENTS"]

_HISTORY = (
    *("version", "timestamp", "userId", "userName", "operation", "operationParameters", "job", "notebook", "clusterId"),
    *("readVersion", "isolationLevel", "isBlindAppend", "operationMetrics", "userMetadata", "engineInfo"),
)
_DETAIL = (
    *("format", "id", "name", "description", "location", "createdAt", "lastModified", "partitionColumns"),
    *("clusteringColumns", "numFiles", "sizeInBytes", "properties", "minReaderVersion", "minWriterVersion"),
    "tableFeatures",
)


def _texts(given: Any) -> dict[str, str]:
    """Values as text; what isn't is shown as JSON."""
    return {str(k): v if isinstance(v, str) else json.dumps(v) for k, v in (given or {}).items()}


@dataclass(frozen=True)
class History:
    """The table, and how many of its newest commits."""

    table: TableName
    limit: int | None

    def run(self, session: Session) -> pa.Table:
        """A row for each commit, newest first."""
        import pyarrow as pa

        text_map, moment = pa.map_(pa.string(), pa.string()), pa.timestamp("ms", "UTC")
        types = {"version": pa.int64(), "timestamp": moment, "readVersion": pa.int64(), "isBlindAppend": pa.bool_()}
        types |= dict.fromkeys(("operationParameters", "operationMetrics", "job", "notebook"), text_map)
        found = [] if self.limit == 0 else session.catalog.table(self.table).history(self.limit)
        return rows(_HISTORY, [[_told(entry, name, types) for name in _HISTORY] for entry in found], types)


def _told(entry: dict[str, Any], name: str, types: dict[str, Any]) -> Any:
    import pyarrow as pa

    value = entry.get(name)
    if value is None:
        return None
    of = types.get(name, pa.string())
    if pa.types.is_map(of):
        return list(_texts(value).items()) if isinstance(value, dict) else None
    # Other writers put what they like under these names.
    if pa.types.is_integer(of):
        return value if isinstance(value, int) and not isinstance(value, bool) else None
    if pa.types.is_boolean(of):
        return value if isinstance(value, bool) else None
    return value if not pa.types.is_string(of) or isinstance(value, str) else json.dumps(value)


@dataclass(frozen=True)
class Detail:
    """The table."""

    table: TableName

    def run(self, session: Session) -> pa.Table:
        """One row."""
        import pyarrow as pa

        table = session.catalog.table(self.table)
        metadata, protocol = table.metadata(), table.protocol()
        files = table._files()
        newest = table.history(1)
        values = {
            "format": "delta",
            "id": metadata.id,
            "name": metadata.name,
            "description": metadata.description,
            "location": table.table_uri,
            "createdAt": metadata.created_time,
            "lastModified": newest[0].get("timestamp") if newest else None,
            "partitionColumns": metadata.partition_columns,
            "clusteringColumns": clustering_columns(table),
            "numFiles": files.num_rows,
            "sizeInBytes": sum(files["size_bytes"].to_pylist()),
            "properties": list(metadata.configuration.items()),
            "minReaderVersion": protocol.min_reader_version,
            "minWriterVersion": protocol.min_writer_version,
            "tableFeatures": sorted({*(protocol.reader_features or ()), *(protocol.writer_features or ())}),
        }
        texts, moment = pa.list_(pa.string()), pa.timestamp("ms", "UTC")
        types = dict.fromkeys(("partitionColumns", "clusteringColumns", "tableFeatures"), texts)
        types |= {"createdAt": moment, "lastModified": moment, "properties": pa.map_(pa.string(), pa.string())}
        types |= {"numFiles": pa.int64(), "sizeInBytes": pa.int64()}
        types |= {"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32()}
        return rows(_DETAIL, [[values[name] for name in _DETAIL]], types)


@dataclass(frozen=True)
class Columns:
    """The table."""

    table: TableName

    def run(self, session: Session) -> pa.Table:
        """A row for each column, then those that the table is partitioned by."""
        table = session.catalog.table(self.table)
        fields = table.schema().fields
        found = [[f.name, type_text(f.type), f.metadata.get("comment")] for f in fields]
        partitions = table.metadata().partition_columns
        if partitions:
            found += [["# Partition Information", "", ""], ["# col_name", "data_type", "comment"]]
            found += [row for name in partitions for row in found[: len(fields)] if row[0] == name]
        return rows(("col_name", "data_type", "comment"), found, {})


def _history(cursor: Grammar) -> History:
    table = cursor.table(alias=False)
    return History(table, cursor.whole_number("a number of commits") if cursor.take("limit") else None)


def _columns(cursor: Grammar) -> Columns:
    cursor.take("table")
    if cursor.peek() in ("extended", "formatted") and cursor.kind(1) in ("name", "quoted"):
        cursor.expected("a table: DESCRIBE DETAIL tells more of one")
    return Columns(cursor.table(alias=False))


STATEMENTS = tuple(
    Statement((word, *more), read)
    for word in ("describe", "desc")
    for more, read in (
        (("history",), _history),
        (("detail",), lambda cursor: Detail(cursor.table(alias=False))),
        ((), _columns),
    )
)
