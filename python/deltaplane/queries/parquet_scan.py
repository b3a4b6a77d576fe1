"""Lets DuckDB read a table's files itself, where it reads the same rows as deltaplane's reader.

Decided by facts of the log and of the files' footers: local files, and columns whose physical types
mean the same to both readers. Every other table is read as a stream. Values that files lack come
from the log: partition values by the number of the file, deleted rows by file and position.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from deltaplane.expr.types import SparkType, of_json, text
from deltaplane.queries.parquet_files import FileGroup, file_groups
from deltaplane.queries.parquet_types import StoredColumn, footer_types, is_int96, is_readable
from deltaplane.queries.plan import Source
from deltaplane.queries.sources import DeltaSource

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaplane import DeltaTable

__all__ = ["parquet_scan"]

# DuckDB takes these in a file's name for a pattern.
_PATTERN = re.compile(r"[*?\[\]{}]")
# Types that expressions have and DuckDB reads from files.
_SCALARS = frozenset(
    "boolean byte short integer long float double string binary date timestamp timestamp_ntz decimal".split()
)


@dataclass
class _Columns:
    """The needed columns of a source by id: those in files, and those in the log with their names
    and types."""

    stored: dict[str, StoredColumn] = field(default_factory=dict)
    partitions: dict[str, tuple[str, SparkType]] = field(default_factory=dict)


def parquet_scan(connection: Any, source: Source, rows: DeltaSource, conditions: Sequence[str]) -> str | None:
    """The text of a SELECT that gives the source's needed columns under their ids, and the column
    `r`; None if the table has to be read as a stream.

    Registers relations and variables that the text uses, with names that begin with the source's.
    """
    if not rows.table._snapshot.uri.startswith(("file://", "/")):
        return None
    columns = _needed_columns(rows.table, source)
    if columns is None:
        return None
    groups = file_groups(rows, conditions, {id: name for id, (name, _) in columns.partitions.items()})
    paths = [path for group in groups or () for path in group.paths]
    if not groups or any(_PATTERN.search(path) for path in paths):
        return None
    read_as = _read_as(connection, paths, columns.stored)
    if read_as is None:
        return None
    return " UNION ALL ".join(
        _select(connection, f"{source.name}_{number}", source.needed, columns, read_as, group)
        for number, group in enumerate(groups)
    )


def _needed_columns(table: DeltaTable, source: Source) -> _Columns | None:
    """The source's needed columns; None if one has a type that isn't read from files."""
    snapshot = table._snapshot
    in_log = {name.lower() for name in table.metadata().partition_columns}
    fields = {f.name: f for f in snapshot.schema.fields}
    columns = _Columns()
    for id in source.needed:
        table_field = fields[source.fields[id]]
        data_type = of_json(table_field.data_type)
        if data_type is None or data_type.name not in _SCALARS:
            return None
        if table_field.name.lower() in in_log:
            columns.partitions[id] = table_field.name, data_type
            continue
        key: str | int = table_field.name
        if snapshot.column_mapping == "name":
            key = table_field.metadata["delta.columnMapping.physicalName"]
        elif snapshot.column_mapping == "id":
            key = int(table_field.metadata["delta.columnMapping.id"])
        columns.stored[id] = StoredColumn(key, data_type)
    return columns


@dataclass(frozen=True)
class _Reading:
    """How DuckDB reads a stored column: the type for its reader, and its value by id."""

    type: str
    value: str


def _read_as(connection: Any, files: Sequence[str], stored: Mapping[str, StoredColumn]) -> dict[str, _Reading] | None:
    """How DuckDB reads these columns; None if it reads other values than deltaplane's reader."""
    if not stored:
        return {}
    footers = footer_types(connection, files, list(stored.values()))
    if footers is None:
        return None
    readings = {}
    for id, column in stored.items():
        types = footers.get(column.key, [])
        if not all(is_readable(footer, column.type) for footer in types):
            return None
        readings[id] = _reading(connection, id, column.type, [is_int96(footer) for footer in types])
    return readings


def _reading(connection: Any, id: str, data_type: SparkType, int96: Sequence[bool]) -> _Reading:
    if data_type.name != "timestamp" or (int96 and all(int96)):
        return _Reading(data_type.duck, id)
    if any(int96):
        # DuckDB converts INT96 to an instant by the session's time zone.
        connection.execute("SET TimeZone = 'UTC'")
    return _Reading("TIMESTAMP WITH TIME ZONE", f"make_timestamp(epoch_us({id}))")


def _select(
    connection: Any,
    name: str,
    needed: Sequence[str],
    columns: _Columns,
    read_as: Mapping[str, _Reading],
    group: FileGroup,
) -> str:
    """Reads files with the same kinds of values from the log."""
    values = {id: reading.value for id, reading in read_as.items()}
    for id, (_, data_type) in columns.partitions.items():
        values[id] = _by_file(connection, f"{name}_{id}", group.partitions[id], data_type)
    outputs = ", ".join(["CAST(NULL AS TINYINT) AS r", *(f"{values[id]} AS {id}" for id in needed)])
    listed = ", ".join(map(text, group.paths))
    options = ["hive_partitioning = false"]
    if read_as:
        schema = ", ".join(
            f"{_key(column.key)}: {{'name': {text(id)}, 'type': {text(read_as[id].type)}, 'default_value': NULL}}"
            for id, column in columns.stored.items()
        )
        options.append(f"schema = MAP {{{schema}}}")
    if any(column.type.fractional for column in columns.stored.values()):
        # DuckDB skips row groups by bounds, which leave NaN out in many writers' files.
        options.append("can_have_nan = true")
    if group.rows is not None:
        options.append(f"explicit_cardinality = {group.rows}")
    select = f"SELECT {outputs} FROM read_parquet([{listed}], {', '.join(options)})"
    if group.deleted is None:
        return select
    connection.register(f"{name}_deleted", group.deleted)
    return f"{select} ANTI JOIN {name}_deleted AS d ON d.file = file_index AND d.position = file_row_number"


def _key(key: str | int) -> str:
    return text(key) if isinstance(key, str) else str(key)


def _by_file(connection: Any, name: str, values: pa.ChunkedArray, data_type: SparkType) -> str:
    """A value for each file, as an expression over the file's number.

    The values are in a variable, which is a constant for DuckDB's optimizer.
    """
    import pyarrow as pa

    connection.register(name, pa.table({"file": pa.array(range(len(values)), pa.int64()), "value": values}))
    same = len(values.unique()) == 1
    made = "first(value)" if same else "list(value ORDER BY file)"
    connection.execute(f"SET VARIABLE {name} = (SELECT {made} FROM {name})")
    connection.unregister(name)
    variable = f"getvariable({text(name)})"
    return f"CAST({variable if same else f'{variable}[CAST(file_index AS BIGINT) + 1]'} AS {data_type.duck})"
