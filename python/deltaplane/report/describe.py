"""Describes a table under delta-spark's names: history, details, clustering columns, and the result
of a restore."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltaplane import _native
from deltaplane.report.table_facts import clustering_of

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaplane.table.delta_table import DeltaTable

__all__ = [
    "RESTORED",
    "clustering_columns",
    "clustering_columns_of",
    "detail_row",
    "history_rows",
    "rows_of_history",
    "shown_properties",
]

# Columns of the result of RESTORE, and the metric for each.
RESTORED = {
    "table_size_after_restore": "tableSizeAfterRestore",
    "num_of_files_after_restore": "numOfFilesAfterRestore",
    "num_removed_files": "numRemovedFiles",
    "num_restored_files": "numRestoredFiles",
    "removed_files_size": "removedFilesSize",
    "restored_files_size": "restoredFilesSize",
}
_HISTORY = (
    *("version", "timestamp", "userId", "userName", "operation", "operationParameters", "job", "notebook", "clusterId"),
    *("readVersion", "isolationLevel", "isBlindAppend", "operationMetrics", "userMetadata", "engineInfo"),
)
_DETAIL = (
    *("format", "id", "name", "description", "location", "createdAt", "lastModified", "partitionColumns"),
    *("clusteringColumns", "numFiles", "sizeInBytes", "properties", "minReaderVersion", "minWriterVersion"),
    "tableFeatures",
)


def history_rows(table: DeltaTable, limit: int | None) -> pa.Table:
    """One row for each of the newest commits, newest first, with delta-spark's columns."""
    return rows_of_history([] if limit == 0 else table.history(limit))


def rows_of_history(entries: Sequence[Mapping[str, Any]]) -> pa.Table:
    """One row for each of these entries of a history, with delta-spark's columns."""
    import pyarrow as pa

    text_map, moment = pa.map_(pa.string(), pa.string()), pa.timestamp("ms", "UTC")
    types = {"version": pa.int64(), "timestamp": moment, "readVersion": pa.int64(), "isBlindAppend": pa.bool_()}
    types |= dict.fromkeys(("operationParameters", "operationMetrics", "job", "notebook"), text_map)
    return _rows(_HISTORY, [{name: _entry_value(entry, name, types) for name in _HISTORY} for entry in entries], types)


def detail_row(table: DeltaTable) -> pa.Table:
    """One row with the columns of delta-spark's DESCRIBE DETAIL."""
    import pyarrow as pa

    metadata, protocol = table.metadata(), table.protocol()
    # Includes the features that the protocol's versions imply.
    supported = table._snapshot.protocol
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
        "tableFeatures": sorted(supported.features),
    }
    texts, moment = pa.list_(pa.string()), pa.timestamp("ms", "UTC")
    types = dict.fromkeys(("partitionColumns", "clusteringColumns", "tableFeatures"), texts)
    types |= {"createdAt": moment, "lastModified": moment, "properties": pa.map_(pa.string(), pa.string())}
    types |= {"numFiles": pa.int64(), "sizeInBytes": pa.int64()}
    types |= {"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32()}
    return _rows(_DETAIL, [values], types)


def shown_properties(table: DeltaTable) -> dict[str, str]:
    """The table's properties as delta-spark shows them: including clustering columns, protocol
    versions and table features.

    >>> import pyarrow as pa
    >>> from deltaplane import DeltaTable
    >>> table = DeltaTable.create("memory://doc-shown/t", pa.schema({"x": pa.int64()}), configuration={"own": "a"})
    >>> shown_properties(table)
    {'delta.minReaderVersion': '1', 'delta.minWriterVersion': '2', 'own': 'a'}
    """
    protocol, clustered = table.protocol(), clustering_columns(table)
    named = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    properties = {
        **table.metadata().configuration,
        **{f"delta.feature.{name}": "supported" for name in named},
        "delta.minReaderVersion": str(protocol.min_reader_version),
        "delta.minWriterVersion": str(protocol.min_writer_version),
    }
    if clustered:
        properties["clusteringColumns"] = json.dumps([path.split(".") for path in clustered], separators=(",", ":"))
    return dict(sorted(properties.items()))


def clustering_columns(table: DeltaTable) -> list[str]:
    """Dotted paths of the clustering columns; empty if the table isn't clustered.

    >>> import pyarrow as pa
    >>> from deltaplane import DeltaTable
    >>> table = DeltaTable.create("memory://doc-clustering/t", pa.schema({"x": pa.int64()}), cluster_by="x")
    >>> clustering_columns(table)
    ['x']
    """
    return clustering_columns_of(table._snapshot)


def clustering_columns_of(snapshot: _native.Snapshot) -> list[str]:
    """Clustering columns of a snapshot."""
    return clustering_of(snapshot.domains(), snapshot.schema)


def _texts(values: Any) -> dict[str, str | None]:
    """Values as text; other types than text are shown as JSON."""
    return {str(k): v if v is None or isinstance(v, str) else json.dumps(v) for k, v in (values or {}).items()}


def _entry_value(entry: Mapping[str, Any], name: str, types: dict[str, Any]) -> Any:
    import pyarrow as pa

    value = entry.get(name)
    if value is None:
        return None
    data_type = types.get(name, pa.string())
    if pa.types.is_map(data_type):
        return list(_texts(value).items()) if isinstance(value, dict) else None
    # Other writers store values of any type under these names.
    if pa.types.is_integer(data_type):
        return value if isinstance(value, int) and not isinstance(value, bool) else None
    if pa.types.is_boolean(data_type):
        return value if isinstance(value, bool) else None
    return value if not pa.types.is_string(data_type) or isinstance(value, str) else json.dumps(value)


def _rows(names: Sequence[str], values: Sequence[Mapping[str, Any]], types: Mapping[str, pa.DataType]) -> pa.Table:
    import pyarrow as pa

    fields = [pa.field(name, types.get(name, pa.string())) for name in names]
    return pa.Table.from_pylist(list(values), schema=pa.schema(fields))
