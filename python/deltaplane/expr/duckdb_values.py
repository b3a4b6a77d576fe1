"""Evaluation in DuckDB: a connection, values in and out, constants, and its errors converted to
Spark's.

Uses no table.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import re
import threading
import weakref
from collections.abc import Collection
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from deltaplane.exceptions import InvalidArgumentError, UnsupportedExpressionError
from deltaplane.expr.arrow_compat import plain
from deltaplane.expr.typed import END, Typed
from deltaplane.expr.types import SparkType, quoted, text

if TYPE_CHECKING:
    import pyarrow as pa

# The text that `failing` raises is in the first line, after DuckDB's own words; the statement's
# excerpt after it may look similar.
_RAISED = re.compile(rf"[^!\n]*!([A-Z_]+)! ([^{END}]*){END}")
# DuckDB appends an excerpt of the generated statement after this text.
_STATEMENT = re.compile(r"\n\nLINE \d+:")
# Column names are generated as well.
_COLUMN = re.compile(r" when casting from source column .*", re.DOTALL)
_NAMES = {
    "INT8": "byte",
    "INT16": "short",
    "INT32": "integer",
    "INT64": "long",
    "BOOL": "boolean",
    "VARCHAR": "string",
    **{name: name.lower() for name in ("FLOAT", "DOUBLE", "DATE", "TIMESTAMP")},
}
_KIND = re.compile(r"[A-Z][A-Za-z -]* Error: ")
_INTEGER = re.compile(r"\bU?INT\d+\b")
_TYPE = r"(?P<to>[A-Z]+\d*(?:\(\d+,\d+\))?)"
# Maximum number of characters of a value in an error.
_SHOWN = 200
_OF_NUMBER = "[NUMERIC_VALUE_OUT_OF_RANGE] the value {value} is out of range for {to}"
_OVERFLOW = "[ARITHMETIC_OVERFLOW] Overflow in {value}{of}"
# DuckDB's message for rows for which Spark fails too, and the text of the error. `of` and `to` are
# types.
_FAILURES = [
    (re.compile(pattern, re.DOTALL), message)
    for pattern, message in (
        (
            r"Overflow in \w+ of (?P<of>[A-Z]+\d*) \(0 - (?P<value>-\d+)\)",
            "[ARITHMETIC_OVERFLOW] Overflow in -({value}){of}",
        ),
        (r"Overflow in \w+ of (?P<of>[A-Z]+\d*)(?:\(\d+\))? \((?P<value>[^)]*)\)", _OVERFLOW),
        (r"Overflow in \w+ of (?P<value>\S+ . \S+)", _OVERFLOW),
        (r"Overflow in (?P<of>[A-Z]+) \w+: (?P<value>.*)", _OVERFLOW),
        (r"Overflow on (?P<value>abs\(.*\))", _OVERFLOW),
        ("Overflow", "[ARITHMETIC_OVERFLOW] Overflow"),
        # No column has the type: it only occurs in computations.
        (
            rf"Type INT128 with value (?P<value>.*) can't be cast because .* type {_TYPE}",
            "[ARITHMETIC_OVERFLOW] Overflow: the value {value} is out of range for {to}",
        ),
        (
            rf"Type (?P<of>[A-Z]+\d*) with value (?P<value>.*) can't be cast because .* type {_TYPE}",
            "[CAST_OVERFLOW] the value {value}{of} is out of range for {to}",
        ),
        (
            rf"Failed to cast decimal value (?P<value>\S+) to type {_TYPE}",
            "[CAST_OVERFLOW] the value {value} is out of range for {to}",
        ),
        (rf'Casting value "(?P<value>.*)" to type {_TYPE} failed', _OF_NUMBER),
        (rf"Could not cast value (?P<value>.*) to {_TYPE}", _OF_NUMBER),
        (rf'Could not convert string "(?P<value>.*)" to {_TYPE}', _OF_NUMBER),
        (
            rf"Could not convert string '(?P<value>.*)' to {_TYPE}",
            "[CAST_INVALID_INPUT] '{value}' is no {to}",
        ),
        ("Date out of range: (?P<value>.*)", "[DATETIME_FIELD_OUT_OF_BOUNDS] there is no date {value}"),
        ("Date and time not in timestamp range", "[DATETIME_OVERFLOW] a time is out of range"),
        ("Map keys must be unique", "[DUPLICATED_MAP_KEY] a map has a key twice"),
        ("Map keys can not be NULL", "[NULL_MAP_KEY] a map has null as a key"),
        (
            "The map key list does not align",
            "[INVALID_PARAMETER_VALUE] a map is made of lists of keys and values that aren't of one length",
        ),
        (
            "More than one row returned by a subquery",
            "[SCALAR_SUBQUERY_TOO_MANY_ROWS] More than one row is what a subquery gives that stands for one value",
        ),
    )
]
# DuckDB's message where Spark returns a value, or has more range.
_LIMITS = {
    "convert blob to UTF8": "a row has bytes as text that aren't UTF-8, which only the Spark engine carries on",
    "Date out of range": "a row has a date that is too far away for the embedded engine: use the Spark engine for it",
    "expression depth limit": "the expression is nested too deeply for the embedded engine: compute parts of it in columns of "
    "their own, or use the Spark engine for it",
    "maximum total string size": "a result has more than 2 GiB of text at once, which is too much for the embedded engine: take "
    "fewer rows or shorter texts, or use the Spark engine for it",
}

# Types with years, and the text of a value of a year from 1 to 9999.
_WITH_YEARS = ("date", "timestamp", "timestamp_ntz")
_OF_YEARS = r"\d{4}-\d\d-\d\d(?!.*BC)"

# A constant is computed on a connection of its thread.
_connections = threading.local()
# The open connections of this process.
_open: weakref.WeakSet[Any] = weakref.WeakSet()


def require_duckdb() -> None:
    """Checks that DuckDB can be imported.

    Raises:
        UnsupportedExpressionError: DuckDB isn't installed.
    """
    try:
        importlib.import_module("duckdb")
    except ImportError as e:
        raise UnsupportedExpressionError(
            "evaluating expressions needs DuckDB: pip install 'deltaplane[local]', or write with Spark"
        ) from e


def connect(**config: str | bool | int | float | list[str]) -> Any:
    """A database in memory.

    Raises:
        UnsupportedExpressionError: DuckDB isn't installed.
    """
    require_duckdb()
    import duckdb

    connection = left_to_parent(duckdb.connect(":memory:", config=config))
    # Otherwise DuckDB writes how far a long statement is to the process's standard output.
    connection.execute("SET enable_progress_bar = false")
    return connection


def left_to_parent(connection: Any) -> Any:
    """The same connection, which processes that are forked from now on don't free."""
    _open.add(connection)
    return connection


def _leave_to_parent() -> None:
    """Keeps the parent's connections for ever, in a forked child: DuckDB waits for the threads of
    what it frees, which the child doesn't have."""
    for connection in list(_open):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)


def arrow_reader(relation: Any, rows: int) -> pa.RecordBatchReader:
    """Streams the rows of a relation, in batches of about `rows`."""
    reader: pa.RecordBatchReader = relation.to_arrow_reader(rows)
    return reader


@lru_cache(maxsize=1)
def bounds_hold_floats() -> bool:
    """Whether DuckDB keeps every row with NaN or a zero where it gives conditions on floating
    numbers to a scan: of files, of Arrow data, or of a join's larger side by the keys of the
    smaller one. Before 2.0 scans compare as if NaN weren't the greatest number and as if -0.0 and
    0.0 were different.
    """
    import duckdb

    return int(duckdb.__version__.partition(".")[0]) >= 2


def disable_optimizers(connection: Any, names: Collection[str]) -> None:
    """Disables rules of DuckDB's optimizer, and the one that loses rows in some versions."""
    losing = () if bounds_hold_floats() else ("join_filter_pushdown",)
    connection.execute(f"SET disabled_optimizers = '{','.join([*names, *losing])}'")


def register_rows(connection: Any, name: str, rows: object, schema: pa.Schema) -> None:
    """Makes Arrow data of this schema a relation, whose conditions are evaluated as those on other
    rows are."""
    if bounds_hold_floats():
        connection.register(name, rows)
        return
    # A view for every schema: registered rows can't take the place of another relation's view.
    values = [f"{_opaque(quoted(f.name), f.type)} AS {quoted(f.name)}" for f in schema]
    connection.register(f"{name}_scanned", rows)
    connection.execute(
        f"CREATE OR REPLACE TEMP VIEW {quoted(name)} AS SELECT {', '.join(values)} FROM {quoted(name + '_scanned')}"
    )


def _opaque(value: str, data_type: pa.DataType) -> str:
    """A value as an expression that no condition on it gets through to a scan, if it has floating
    numbers."""
    import pyarrow as pa

    if pa.types.is_floating(data_type):
        return f"-(-{value})"
    return f"[{value}][1]" if _has_floats(data_type) else value


def _has_floats(data_type: pa.DataType) -> bool:
    import pyarrow as pa

    parts = [data_type.field(i).type for i in range(data_type.num_fields)]
    return pa.types.is_floating(data_type) or any(_has_floats(part) for part in parts)


def zoneless(data_type: pa.DataType) -> pa.DataType:
    """A type with instants as timestamps without time zone, the form for DuckDB."""
    import pyarrow as pa

    if pa.types.is_timestamp(data_type):
        return pa.timestamp("us")
    if pa.types.is_struct(data_type):
        return pa.struct([pa.field(f.name, zoneless(f.type)) for f in data_type])
    if pa.types.is_map(data_type):
        if pa.types.is_null(data_type.key_type):
            raise _of_no_keys()
        return pa.map_(zoneless(data_type.key_type), zoneless(data_type.item_type))
    if pa.types.is_list(data_type):
        return pa.list_(zoneless(data_type.value_type))
    return data_type


def _of_no_keys() -> UnsupportedExpressionError:
    """The error for maps with keys of the type void, of which pyarrow makes no type."""
    return UnsupportedExpressionError(
        "a map with keys of the type void has no form in the embedded engine: leave its column out, drop it, or use the "
        "Spark engine"
    )


def values_for_duckdb(values: pa.Array, to: pa.DataType) -> pa.Array:
    """Users' values in a type for DuckDB.

    Raises:
        InvalidArgumentError: a value outside of the type's range.
    """
    import pyarrow as pa

    values = plain(values)
    if pa.types.is_timestamp(values.type) and values.type.tz is not None:
        # The same instant, whatever the data's time zone.
        values = values.cast(pa.timestamp(values.type.unit, "UTC"))
        values = values.view(pa.timestamp(values.type.unit))
    if values.type == to:
        return values
    try:
        return values.cast(to)
    except pa.ArrowException as e:
        raise InvalidArgumentError(f"values of {values.type} can't be taken as {to}: {e}") from e


def arrow_type(data_type: SparkType) -> pa.DataType:
    """The Arrow type of an expression's values."""
    import pyarrow as pa

    if data_type.name == "array":
        return pa.list_(arrow_type(data_type.parts[0]))
    if data_type.name == "map":
        if data_type.parts[0].name == "void":
            raise _of_no_keys()
        return pa.map_(arrow_type(data_type.parts[0]), arrow_type(data_type.parts[1]))
    if data_type.name == "struct":
        return pa.struct([pa.field(n, arrow_type(t)) for n, t in zip(data_type.fields, data_type.parts, strict=True)])
    if data_type.interval:
        raise UnsupportedExpressionError(
            f"a result of type {data_type} has no form here: add it to a date or timestamp, or use the Spark engine for it"
        )
    if data_type.name == "decimal":
        return pa.decimal128(data_type.precision, data_type.scale)
    return {
        "byte": pa.int8(),
        "short": pa.int16(),
        "integer": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "string": pa.string(),
        "boolean": pa.bool_(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestamp_ntz": pa.timestamp("us"),
        "void": pa.null(),
    }[data_type.name]


def returned(values: pa.Array, data_type: SparkType) -> pa.Array:
    """DuckDB's values in the Arrow type of an expression."""
    import pyarrow as pa

    to = arrow_type(data_type)
    if data_type.name == "void":
        return pa.nulls(len(values))
    return values if values.type == to else values.cast(to)


def is_of_values(e: Exception) -> bool:
    """Whether DuckDB's error is about a value of a row, rather than about a file. An error while a
    result streams has DuckDB's text alone."""
    import duckdb

    if isinstance(e, duckdb.Error):
        return isinstance(e, (duckdb.ConversionException, duckdb.OutOfRangeException, duckdb.OutOfMemoryException))
    return str(e).startswith(("Conversion Error", "Out of Range Error", "Out of Memory Error"))


def is_interrupt(e: Exception) -> bool:
    """Whether DuckDB's error is the answer to an interrupt."""
    import duckdb

    if isinstance(e, duckdb.Error):
        return isinstance(e, duckdb.InterruptException)
    return str(e).startswith("INTERRUPT Error")


def explained(e: Exception) -> Exception:
    """Converts DuckDB's error to the one that Spark would raise, without the text of the DuckDB
    statement."""
    raised = _RAISED.match(str(e))
    if raised and raised[1] == "UNSUPPORTED_VALUE":
        return UnsupportedExpressionError(f"a row has {raised[2]}, which only the Spark engine evaluates")
    if raised:
        return InvalidArgumentError(f"[{raised[1]}] {raised[2]}")
    said = _COLUMN.sub("", _STATEMENT.split(str(e))[0])
    reason = _KIND.sub("", said, count=1)
    for pattern, template in _FAILURES:
        if match := pattern.match(reason):
            return InvalidArgumentError(_filled(template, match.groupdict()))
    if said.startswith("Out of Memory Error"):
        return InvalidArgumentError("the query needs more than memory_limit, also with disk: raise it")
    for words, limit in _LIMITS.items():
        if words in said:
            return UnsupportedExpressionError(limit)
    first = _INTEGER.sub(lambda match: _NAMES.get(match[0], "a number"), said.partition("\n")[0])
    if any(word in first for word in ("Out of Range", "Conversion Error", "Invalid Input")):
        return InvalidArgumentError(first)
    return UnsupportedExpressionError(f"the embedded engine can't run the expression: {first}")


def _filled(template: str, groups: dict[str, str]) -> str:
    type_name, to = groups.get("of", ""), groups.get("to", "")
    return template.format(
        value=groups.get("value", "")[:_SHOWN],
        of=f" of type {_NAMES[type_name]}" if type_name in _NAMES else "",
        # Decimal types have the same name except for case.
        to=_NAMES.get(to, to.lower() if "(" in to else "a number"),
    )


def of_text(to: SparkType, sql: str) -> str:
    """A typed constant from its text, which `sql` computes; binary text is hexadecimal."""
    if to.name == "string":
        return sql
    return f"from_hex({sql})" if to.name == "binary" else f"CAST({sql} AS {to.duck})"


def computed(value: Typed) -> Typed:
    """The value as a literal, if it is a constant whose computation could fail and doesn't.

    A constant that fails stays as it is: it fails only where a row needs it. A constant of which
    some values are refused is computed if it is a date or time of the years that all engines have.
    """
    if not (value.constant and (value.throws or value.partial)):
        return value
    if not (value.type.atomic or value.type.interval) or (value.partial and value.type.name not in _WITH_YEARS):
        return value
    sql = _literal(value.sql, value.type, _OF_YEARS if value.partial else "")
    return value if sql is None else Typed(value.type, sql, constant=True, name=value.name)


@lru_cache(maxsize=1024)
def _literal(sql: str, data_type: SparkType, form: str) -> str | None:
    shown = f"hex({sql})" if data_type.name == "binary" else f"CAST({sql} AS VARCHAR)"
    try:
        result = _connection().execute(f"SELECT {shown}").fetchone()[0]
    except UnsupportedExpressionError:
        return None
    except Exception as e:
        import duckdb

        if not isinstance(e, duckdb.Error):
            raise
        return None
    if form and not re.match(form, result or ""):
        return None
    return f"CAST(NULL AS {data_type.duck})" if result is None else of_text(data_type, text(result))


def constant_numbers(sql: str) -> list[float | None]:
    """The numbers of a constant list, by their decimal digits."""
    (result,) = _connection().execute(f"SELECT list_transform({sql}, lambda x: CAST(x AS VARCHAR))").fetchone()
    return [None if digits is None else float(digits) for digits in result or []]


def _connection() -> Any:
    # A process that was forked must not use its parent's connection.
    if getattr(_connections, "process", None) != os.getpid():
        _connections.process, _connections.connection = os.getpid(), connect()
    return _connections.connection
