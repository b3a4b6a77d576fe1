"""Lets DuckDB read a table's files itself, where it reads the same rows as deltaplane's reader.

Decided by facts of the log and of the files' footers: local files without deletion vectors, and
columns whose physical types mean the same to both readers. Every other table is read as a stream.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltaplane.expr.types import SparkType, of_json, text
from deltaplane.queries.plan import Source
from deltaplane.queries.sources import DeltaSource

if TYPE_CHECKING:
    from deltaplane import DeltaTable

__all__ = ["parquet_scan"]

# DuckDB takes these in a file's name for a pattern.
_PATTERN = re.compile(r"[*?\[\]{}]")
# Physical, converted and logical type of a column by its table type, as DuckDB's parquet_schema
# names them. Timestamps of other units, INT96 and strings without annotation are left out.
_STORED: Mapping[str, tuple[str, str]] = {
    "boolean": ("BOOLEAN", r""),
    "byte": ("INT32", r"INT_8"),
    "short": ("INT32", r"INT_16"),
    "integer": ("INT32", r"(INT_32)?"),
    "long": ("INT64", r"(INT_64)?"),
    "float": ("FLOAT", r""),
    "double": ("DOUBLE", r""),
    "string": ("BYTE_ARRAY", r"UTF8"),
    "binary": ("BYTE_ARRAY", r""),
    "date": ("INT32", r"DATE"),
    "timestamp": ("INT64", r"TIMESTAMP_MICROS"),
    "timestamp_ntz": ("INT64", r"(TIMESTAMP_MICROS)?"),
    "decimal": ("INT32|INT64|BYTE_ARRAY|FIXED_LEN_BYTE_ARRAY", r"DECIMAL"),
}
_UTC = "isAdjustedToUTC=1"
_MICROS = "MICROS"


def parquet_scan(connection: Any, source: Source, rows: DeltaSource, conditions: Sequence[str]) -> str | None:
    """The text of a SELECT that gives the source's needed columns under their ids, and the column
    `r`; None if the table has to be read as a stream."""
    columns = _stored_columns(rows.table)
    if columns is None or not all(source.fields[id] in columns for id in source.needed):
        return None
    wanted = [(id, *columns[source.fields[id]]) for id in source.needed]
    files = rows.uris(conditions)
    if not files or any(_PATTERN.search(file) for file in files):
        return None
    if not _same_meaning(connection, files, {name: data_type for _, name, data_type in wanted}):
        return None
    schema = ", ".join(
        f"{text(name)}: {{'name': {text(id)}, 'type': {text(_read_as(data_type))}, 'default_value': NULL}}"
        for id, name, data_type in wanted
    )
    listed = ", ".join(map(text, files))
    outputs = ", ".join(["CAST(NULL AS TINYINT) AS r", *(f"{_value(id, t)} AS {id}" for id, _, t in wanted)])
    parameter = f", schema = MAP {{{schema}}}" if wanted else ""
    return f"SELECT {outputs} FROM read_parquet([{listed}]{parameter})"


def _stored_columns(table: DeltaTable) -> dict[str, tuple[str, SparkType]] | None:
    """Names in files and types by the names of the columns whose types both readers have; None if
    the table's files may need more than reading columns by names."""
    snapshot = table._snapshot
    local = snapshot.uri.startswith(("file://", "/"))
    if not local or snapshot.may_have_vectors() or table.metadata().partition_columns:
        return None
    if snapshot.column_mapping == "id":
        return None
    mapped = snapshot.column_mapping == "name"
    columns = {}
    for field in snapshot.schema.fields:
        data_type = of_json(field.data_type)
        if data_type is not None and data_type.name in _STORED:
            stored = field.metadata["delta.columnMapping.physicalName"] if mapped else field.name
            columns[field.name] = stored, data_type
    return columns


def _same_meaning(connection: Any, files: Sequence[str], stored: Mapping[str, SparkType]) -> bool:
    """Whether each of these columns has in every file a type that both readers read alike. Columns
    that a file lacks are null."""
    if not stored:
        return True
    facts = connection.execute(
        "SELECT DISTINCT name, type, coalesce(converted_type, ''), coalesce(logical_type, ''), scale, precision "
        f"FROM parquet_schema([{', '.join(map(text, files))}]) "
        f"WHERE num_children IS NULL AND name IN ({', '.join(map(text, stored))})"
    ).fetchall()
    for name, physical, converted, logical, scale, precision in facts:
        data_type = stored[name]
        types, annotations = _STORED[data_type.name]
        if not re.fullmatch(types, physical) or not re.fullmatch(annotations, converted):
            return False
        if data_type.name == "decimal" and (scale != data_type.scale or precision > data_type.precision):
            return False
        if data_type.name.startswith("timestamp"):
            utc = _UTC in logical or not logical
            if utc != (data_type.name == "timestamp") or (logical and _MICROS not in logical):
                return False
    return True


def _read_as(data_type: SparkType) -> str:
    return "TIMESTAMP WITH TIME ZONE" if data_type.name == "timestamp" else data_type.duck


def _value(id: str, data_type: SparkType) -> str:
    if data_type.name == "timestamp":
        return f"make_timestamp(epoch_us({id}))"
    if data_type.fractional:
        # DuckDB skips row groups by bounds, which leave NaN out in many writers' files. It can't
        # compare bounds with a computed value.
        return f"-(-{id})"
    return id
