"""Compares the physical types of a table's columns in Parquet files with the types that DuckDB
reads as deltaplane's own reader does.

Only facts of footers decide. A file may have a narrower type than the table (type widening).
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deltaplane.expr.types import SparkType, text

__all__ = ["FoundColumn", "StoredColumn", "found_columns", "is_int96", "is_readable"]

# Physical and converted type of a column by its table type, as DuckDB's parquet_schema names them.
# Timestamps of other units and strings without annotation are left out.
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
# Types that a table's type may have been widened from. Each of these casts is exact.
_WIDENED: Mapping[str, tuple[str, ...]] = {
    "short": ("byte",),
    "integer": ("byte", "short"),
    "long": ("byte", "short", "integer"),
    "double": ("byte", "short", "integer", "float"),
    "decimal": ("byte", "short", "integer", "long"),
    "timestamp_ntz": ("date",),
}
# Digits before the decimal point that a decimal needs to hold every value of a type.
_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 19}
# Columns that DuckDB adds to those of a file.
_VIRTUAL = {"file_index", "file_row_number", "filename"}
_UTC = "isAdjustedToUTC=1"
_MICROS = "MICROS"


@dataclass(frozen=True)
class StoredColumn:
    """A column in files: `key` is its name there, or its field id."""

    key: str | int
    type: SparkType


@dataclass(frozen=True)
class Footer:
    """A column without parts in a footer, as DuckDB's parquet_schema describes it."""

    name: str
    field_id: int | None
    physical: str
    converted: str
    logical: str
    scale: int | None
    precision: int | None


# A footer's columns by the file's path, with the file's state when it was read. Files of one
# schema share the columns. The number of files is bounded.
_read: dict[str, tuple[tuple[int, int, int], tuple[Footer, ...]]] = {}
_shared: dict[tuple[Footer, ...], tuple[Footer, ...]] = {}
_lock = threading.Lock()
_MOST_FILES = 100_000


@dataclass(frozen=True)
class FoundColumn:
    """A column in files: its name there, None if no file has it; its different types; and whether
    every file has it."""

    name: str | None
    footers: frozenset[Footer]
    everywhere: bool


def found_columns(
    connection: Any, files: Sequence[str], columns: Mapping[str, StoredColumn]
) -> dict[str, FoundColumn] | None:
    """Finds these columns, by id, in the files' footers; None if DuckDB would find others.

    Footers of unchanged files are read once in a process.
    """
    footers = _footers(connection, files)
    names = {footer.name.lower() for of_file in footers for footer in of_file}
    if names & _VIRTUAL:
        return None
    in_files = {}
    for id, column in columns.items():
        if isinstance(column.key, int) and not all(any(f.field_id is not None for f in file) for file in footers):
            return None
        matches = [_matches(of_file, column.key) for of_file in footers]
        spellings = {footer.name for of_file in matches for footer in of_file}
        same = {f.name for of_file in footers for f in of_file if f.name.lower() in {s.lower() for s in spellings}}
        absent = isinstance(column.key, str) and not spellings and column.key.lower() in names
        # DuckDB finds columns by their names alone, in any case.
        if absent or len(spellings) > 1 or same != spellings or not _only_by_id(footers, column.key, spellings):
            return None
        types = frozenset(replace(footer, field_id=None) for of_file in matches for footer in of_file)
        in_files[id] = FoundColumn(next(iter(spellings), None), types, all(matches))
    return in_files


def _matches(of_file: Sequence[Footer], key: str | int) -> list[Footer]:
    return [f for f in of_file if (f.field_id if isinstance(key, int) else f.name) == key]


def _only_by_id(footers: Collection[Sequence[Footer]], key: str | int, names: Collection[str]) -> bool:
    """Whether a column that is found by its field id has its name in no file with another id."""
    return isinstance(key, str) or all(f.field_id == key for of_file in footers for f in of_file if f.name in names)


def _footers(connection: Any, files: Sequence[str]) -> set[tuple[Footer, ...]]:
    """The different lists of columns of these files."""
    states = {file: _state(file) for file in files}
    with _lock:
        known = {file: _read[file][1] for file, state in states.items() if _read.get(file, (None,))[0] == state}
    unknown = [file for file in files if file not in known]
    if unknown:
        rows = connection.execute(
            "SELECT file_name, list((name, field_id, type, coalesce(converted_type, ''), coalesce(logical_type, ''), "
            f"scale, precision)) FROM parquet_schema([{', '.join(map(text, unknown))}]) "
            "WHERE num_children IS NULL GROUP BY file_name"
        ).fetchall()
        with _lock:
            if len(_read) + len(rows) > _MOST_FILES:
                _read.clear()
                _shared.clear()
            for file, columns in rows:
                footer = tuple(Footer(*column) for column in columns)
                known[file] = _shared.setdefault(footer, footer)
                _read[file] = states[file], known[file]
    return set(known.values())


def _state(file: str) -> tuple[int, int, int]:
    """What changes when a file is replaced."""
    stat = os.stat(file)
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def is_readable(footer: Footer, data_type: SparkType) -> bool:
    """Whether both readers give a column of this type the same values."""
    if is_int96(footer):
        return data_type.name == "timestamp"
    if _is(footer, data_type.name):
        return _same_parameters(footer, data_type)
    widened = next((name for name in _WIDENED.get(data_type.name, ()) if _is(footer, name)), None)
    if widened is None:
        return False
    return data_type.name != "decimal" or data_type.precision - data_type.scale >= _DIGITS[widened]


def is_int96(footer: Footer) -> bool:
    """Whether a column has Spark's old form of an instant, which DuckDB takes for a timestamp
    without time zone."""
    return footer.physical == "INT96"


def _is(footer: Footer, name: str) -> bool:
    physical, converted = _STORED[name]
    return bool(re.fullmatch(physical, footer.physical) and re.fullmatch(converted, footer.converted))


def _same_parameters(footer: Footer, data_type: SparkType) -> bool:
    if data_type.name == "decimal":
        if footer.scale is None or footer.precision is None:
            return False
        whole = footer.precision - footer.scale
        return footer.scale <= data_type.scale and whole <= data_type.precision - data_type.scale
    if data_type.name.startswith("timestamp"):
        utc = _UTC in footer.logical or not footer.logical
        return utc == (data_type.name == "timestamp") and (not footer.logical or _MICROS in footer.logical)
    return True
