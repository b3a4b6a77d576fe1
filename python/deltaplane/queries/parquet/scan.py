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

from deltaplane.expr.arrow_compat import integers
from deltaplane.expr.duckdb_values import bounds_hold_floats
from deltaplane.expr.types import SparkType, of_json, quoted, text
from deltaplane.queries.parquet.files import FileGroup, file_groups
from deltaplane.queries.parquet.types import FoundColumn, StoredColumn, found_columns, is_int96, is_readable
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
    if not groups or any(_PATTERN.search(path) for group in groups for path in group.paths):
        return None
    selects = []
    for number, group in enumerate(groups):
        reading = _reading(connection, group.paths, columns.stored)
        if reading is None:
            return None
        selects.append(_select(connection, f"{source.name}_{number}", source.needed, columns, reading, group))
    return " UNION ALL ".join(selects)


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
        if data_type.fractional and not bounds_hold_floats():
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
    """How DuckDB reads the stored columns: their values by id, and the options of its reader."""

    values: Mapping[str, str]
    options: str


def _reading(connection: Any, files: Sequence[str], stored: Mapping[str, StoredColumn]) -> _Reading | None:
    """How DuckDB reads these columns; None if it reads other values than deltaplane's reader."""
    options = ["hive_partitioning = false"]
    columns_in_files = found_columns(connection, files, stored) if stored else {}
    if columns_in_files is None:
        return None
    for id, column in columns_in_files.items():
        if not all(is_readable(footer, stored[id].type) for footer in column.footers):
            return None
    if any(
        column.name is not None and (len(column.footers) > 1 or not column.everywhere)
        for column in columns_in_files.values()
    ):
        # Reads all footers before the query runs.
        options.append("union_by_name = true")
    if any(column.type.fractional for column in stored.values()):
        # DuckDB skips row groups by bounds, which leave NaN out in many writers' files.
        options.append("can_have_nan = true")
    values = {id: _value(connection, column, stored[id].type) for id, column in columns_in_files.items()}
    return _Reading(values, ", ".join(options))


def _value(connection: Any, column: FoundColumn, data_type: SparkType) -> str:
    if column.name is None:
        return f"CAST(NULL AS {data_type.duck})"
    name = f"f.{quoted(column.name)}"
    if data_type.name == "timestamp":
        int96 = [is_int96(footer) for footer in column.footers]
        if any(int96) and not all(int96):
            # DuckDB converts INT96 to an instant by the session's time zone.
            connection.execute("SET TimeZone = 'UTC'")
        return name if all(int96) else f"make_timestamp(epoch_us({name}))"
    return f"CAST({name} AS {data_type.duck})"


def _select(
    connection: Any, name: str, needed: Sequence[str], columns: _Columns, reading: _Reading, group: FileGroup
) -> str:
    """Reads files with the same kinds of values from the log."""
    values = dict(reading.values)
    for id, (_, data_type) in columns.partitions.items():
        values[id] = _by_file(connection, f"{name}_{id}", group.partitions[id], data_type)
    outputs = ", ".join(["CAST(NULL AS TINYINT) AS r", *(f"{values[id]} AS {id}" for id in needed)])
    listed = ", ".join(map(text, group.paths))
    select = f"SELECT {outputs} FROM read_parquet([{listed}], {reading.options}) AS f"
    if group.deleted is None:
        return select
    connection.register(f"{name}_deleted", group.deleted)
    return f"{select} ANTI JOIN {name}_deleted AS d ON d.file = f.file_index AND d.position = f.file_row_number"


def _by_file(connection: Any, name: str, values: pa.ChunkedArray, data_type: SparkType) -> str:
    """A value for each file, as an expression over the file's number.

    The values are in a variable, which is a constant for DuckDB's optimizer.
    """
    import pyarrow as pa

    connection.register(name, pa.Table.from_arrays([integers(range(len(values))), values], ["file", "value"]))
    same = len(values.unique()) == 1
    made = "first(value)" if same else "list(value ORDER BY file)"
    connection.execute(f"SET VARIABLE {name} = (SELECT {made} FROM {name})")
    connection.unregister(name)
    variable = f"getvariable({text(name)})"
    return f"CAST({variable if same else f'{variable}[CAST(f.file_index AS BIGINT) + 1]'} AS {data_type.duck})"
