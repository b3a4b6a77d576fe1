"""Defaults of columns (P107): which constants a column's type takes, and a default's text in the
column's type, which every writer stores.

Spark converts defaults by rules of their own, which differ from those for stored values.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from typing import Any

from deltaplane.exceptions import InvalidArgumentError, UnsupportedExpressionError
from deltaplane.expr.casts import CASTS
from deltaplane.expr.program import Program, compile_expressions
from deltaplane.expr.types import BINARY, BOOLEAN, SparkType, of_json

__all__ = ["check_default", "default_text"]

_NO_COLUMNS = json.dumps({"type": "struct", "fields": []})
_TIMES = ("timestamp", "timestamp_ntz")
# The widening order of Spark's numbers; decimals have an order of their own.
_ORDER = ("byte", "short", "integer", "long", "float", "double")
# Digits of the decimal that holds every value of a whole number's type.
_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}
# The key of a column's metadata under which Spark stores a type with lengths.
_LENGTHS = "__CHAR_VARCHAR_TYPE_STRING"
_LENGTH = re.compile(r"(?:var)?char\((\d+)\)")


def check_default(sql: str, field: Mapping[str, Any]) -> None:
    """Refuses a default that Spark refuses to declare: one that isn't a constant, or whose value
    the column's type doesn't take.

    A type takes every value of a type that widens to it. Otherwise it takes the values, except for
    null, that an ANSI cast converts; booleans, arrays, maps and structs are excluded from these.

    Args:
        sql: the default, as Spark SQL.
        field: the column, as a schema's JSON has it.

    Raises:
        InvalidArgumentError: a column reference, or an incompatible type or value.
        UnsupportedExpressionError: deltaplane can't evaluate the named expression with Spark's
            result.

    >>> column = {"name": "c", "type": "byte", "nullable": True, "metadata": {}}
    >>> check_default("1 + 1", column)
    >>> check_default("300", column)
    Traceback (most recent call last):
    deltaplane.exceptions.InvalidArgumentError: ...
    """
    actual, to = _constant(sql).types[0], of_json(field["type"])
    if to is None:
        raise InvalidArgumentError(
            f"`{sql}` is {actual}, which doesn't go into a type that expressions have no form of"
        )
    widens = _widens(actual, to)
    if not widens and not _converts(actual, to):
        raise InvalidArgumentError(f"`{sql}` is {actual}, which doesn't go into {to}")
    try:
        value = _value(default_text(sql, field["type"]))
    except InvalidArgumentError as e:
        raise InvalidArgumentError(f"`{sql}` has no value as {to}: {e}") from e
    if value is None and not widens:
        raise InvalidArgumentError(f"`{sql}` has no value as {to}: write NULL for a default of null")
    length = _LENGTH.fullmatch(str(field.get("metadata", {}).get(_LENGTHS, "")))
    # Spark cuts blanks off the end of a longer text; here no write does.
    if length is not None and isinstance(value, str) and len(value) > int(length[1]):
        raise InvalidArgumentError(f"`{sql}` has no value as {length[0]}: it is longer")


def default_text(sql: str, data_type: Any) -> str:
    """A default's text with the value in the column's type; unchanged if the types are equal, if
    they are nested, or if only Spark evaluates the expression.

    Args:
        sql: the default, as Spark SQL.
        data_type: the column's type, as a schema's JSON has it.

    Raises:
        InvalidArgumentError: the default has no value.

    >>> default_text("5", "integer"), default_text("'5'", "integer"), default_text("5", "binary")
    ('5', "CAST(('5') AS integer)", "X'00000005'")
    """
    to = of_json(data_type)
    if to is None or not to.atomic:
        return sql
    try:
        actual = _constant(sql).types[0]
    except (InvalidArgumentError, UnsupportedExpressionError):
        return sql
    if actual == to or actual.parts:
        return sql
    if to == BINARY and actual.integral:
        # Spark stores the bytes of the number, which no cast of its ANSI mode does.
        value = _value(sql)
        return "NULL" if value is None else f"X'{value.to_bytes(actual.bits // 8, 'big', signed=True).hex().upper()}'"
    return f"CAST(({sql}) AS {to})"


def _constant(sql: str) -> Program:
    return compile_expressions([sql], _NO_COLUMNS, now_us=time.time_ns() // 1000)


def _value(sql: str) -> Any:
    """The value of a constant expression, as Python has it."""
    import pyarrow as pa

    (values,) = _constant(sql).evaluate(pa.record_batch({"one": [None]}))
    return values[0].as_py()


def _converts(source: SparkType, to: SparkType) -> bool:
    """Whether Spark tries to convert a default's value to a type that may not hold it."""
    if BOOLEAN in (source, to) or not source.atomic or not to.atomic:
        return False
    return (source.name, to.name) in CASTS or (source.integral and to == BINARY)


def _widens(source: SparkType, to: SparkType) -> bool:
    """Whether every value of a type has one in another type, by Spark's rule for implicit casts
    without loss.

    >>> from deltaplane.expr.types import DATE, DOUBLE, LONG, STRING, TIMESTAMP, decimal
    >>> [_widens(LONG, to) for to in (DOUBLE, STRING, TIMESTAMP, decimal(20, 0), decimal(19, 0), DATE)]
    [True, True, True, True, False, False]
    """
    if source in (to, SparkType("void")):
        return True
    if source.parts or to.parts:
        # Structs store a default's fields by position, so that other names would mislead.
        same = source.name == to.name and len(source.parts) == len(to.parts)
        names = [name.lower() for name in source.fields] == [name.lower() for name in to.fields]
        return same and names and all(map(_widens, source.parts, to.parts))
    if "decimal" in (source.name, to.name) and source.numeric and to.numeric:
        return _decimal_widens(source, to)
    if source.name in _ORDER and to.name in _ORDER:
        return _ORDER.index(source.name) < _ORDER.index(to.name)
    if source.name in ("date", *_TIMES) and to.name in _TIMES:
        return True
    if {source.name, to.name} == {"long", "timestamp"}:
        return True
    return to.name == "string" and source.atomic and not source.interval


def _decimal_widens(source: SparkType, to: SparkType) -> bool:
    """As `_widens` for two numbers of which at least one is a decimal."""
    if source.fractional or to.fractional:
        return False
    digits, scale = _size(source)
    room, places = _size(to)
    return room - places >= digits - scale and places >= scale


def _size(number: SparkType) -> tuple[int, int]:
    return (number.precision, number.scale) if number.name == "decimal" else (_DIGITS[number.name], 0)
