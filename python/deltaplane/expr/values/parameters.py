"""Replaces the parameters of a statement, `:name` and `?`, by SQL literals of values of Python."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from deltaplane.exceptions import InvalidArgumentError, InvalidTypeError
from deltaplane.expr.values import Moment, is_missing, plain_value, text_literal

__all__ = ["PARAMETER", "parameters_in", "replaced", "sql_literal", "with_arguments"]

# Matches quoted text and comments, and parameters; a colon directly behind a column begins a path
# into it.
PARAMETER = re.compile(
    r"""[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`]|``)*`|--(?:\\\n|[^\n])*|/\*.*?\*/"""
    r"""|(?<![\w`:)\]]):(?P<name>\w+)|\?""",
    re.DOTALL,
)
_INT, _LONG = 2**31, 2**63


def with_arguments(text: str, args: Mapping[str, Any] | Sequence[Any]) -> str:
    """A statement with a value in place of each parameter: of a mapping for `:name`, of a sequence
    for `?`, in their order. Text within quotes, comments and names isn't searched.

    Raises:
        InvalidArgumentError: a parameter without a value, a value without a parameter `?`, or both
            kinds of parameters in one statement.
        InvalidTypeError: a value that has no literal in SQL.

    >>> with_arguments("DELETE FROM t WHERE x = ? OR y = ?", [1, "it's"])
    "DELETE FROM t WHERE x = 1 OR y = 'it\\\\'s'"
    >>> with_arguments("SELECT :n, ':n' FROM t LIMIT :n", {"n": 3})
    "SELECT 3, ':n' FROM t LIMIT 3"
    """
    matches, named = parameters_in(text)
    if isinstance(args, Mapping):
        missing = next((match[0] for match in matches if match["name"] not in args), None)
        if missing is not None:
            raise InvalidArgumentError(
                f"no value is given for the parameter {missing}: args has "
                f"{', '.join(map(str, args)) or 'no names'} (UNBOUND_SQL_PARAMETER)"
            )
        return replaced(text, matches, [sql_literal(args[match["name"]]) for match in matches])
    if named:
        raise InvalidArgumentError(
            f"the parameter :{named[0]} has a name: give args as a dict of names and values (UNBOUND_SQL_PARAMETER)"
        )
    if len(matches) != len(args):
        raise InvalidArgumentError(
            f"the statement has {len(matches)} parameters `?`, and args has {len(args)} values: give one for each (UNBOUND_SQL_PARAMETER)"
        )
    return replaced(text, matches, [sql_literal(value) for value in args])


def parameters_in(text: str) -> tuple[list[re.Match[str]], list[str]]:
    """The parameters of a statement, and their names: none for `?`.

    Raises:
        InvalidArgumentError: both kinds of parameters in one statement.
    """
    matches = [match for match in PARAMETER.finditer(text) if match[0] == "?" or match["name"] is not None]
    named = [match["name"] for match in matches if match["name"] is not None]
    if named and len(named) < len(matches):
        raise InvalidArgumentError(
            "the statement has parameters with names and others without: use one kind (INVALID_QUERY_MIXED_QUERY_PARAMETERS)"
        )
    return matches, named


def replaced(text: str, matches: Sequence[re.Match[str]], values: Sequence[str]) -> str:
    """A text with the values, as SQL, in place of the matches."""
    shown, position = "", 0
    for match, value in zip(matches, values, strict=True):
        # A literal is a single word for its neighbours, as in INTERVAL '1' DAY, unlike a sign or a
        # call.
        plain = re.fullmatch(r"\w+|'(?:[^'\\]|\\.)*'", value, re.DOTALL)
        shown += text[position : match.start()] + (value if plain else f"({value})")
        position = match.end()
    return shown + text[position:]


def sql_literal(value: Any) -> str:
    """A value as a literal of Spark SQL: scalars of Python, NumPy, pandas and Arrow, lists and
    dicts of them.

    Raises:
        InvalidArgumentError: a number or a time that no type of Spark's holds.
        InvalidTypeError: a value of any other type.

    >>> sql_literal(-1), sql_literal(2**40), sql_literal(Decimal("1.50")), sql_literal(None)
    ('CAST(-1 AS INT)', '1099511627776L', "CAST('1.50' AS DECIMAL(3,2))", 'NULL')
    >>> sql_literal(datetime.date(2024, 1, 31)), sql_literal([1, 2]), sql_literal(b"a")
    ("DATE '2024-01-31'", 'array(1, 2)', "X'61'")
    """
    if is_missing(value):
        return "NULL"
    value = plain_value(value)
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case int():
            return _whole(value)
        case float():
            return f"{value!r}D" if math.isfinite(value) and value >= 0 else f"CAST('{value!r}' AS DOUBLE)"
        case Decimal():
            return _decimal(value)
        case str():
            return text_literal(value)
        case bytes() | bytearray() | memoryview():
            return f"X'{bytes(value).hex()}'"
        case Moment():
            return _moment(value)
        case datetime.timedelta():
            return _interval(value)
        case list() | tuple():
            return f"array({', '.join(map(sql_literal, value))})"
        case dict():
            return f"map({', '.join(sql_literal(part) for pair in value.items() for part in pair)})"
    raise InvalidTypeError(
        f"a parameter has a value of type {type(value).__name__}, which has no literal in SQL: give a number, text, bytes, a bool, a "
        "date, a time, a list or a dict"
    )


def _whole(value: int) -> str:
    if -_INT <= value < _INT:
        return str(value) if value >= 0 else f"CAST({value} AS INT)"
    if -_LONG <= value < _LONG:
        return f"{value}L" if value >= 0 else f"CAST('{value}' AS BIGINT)"
    return _decimal(Decimal(value))


def _decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise InvalidArgumentError(f"a parameter has the value {value}, which no decimal type holds: give a float")
    _, digits, exponent = value.as_tuple()
    scale = max(-int(exponent), 0)
    precision = max(len(digits) + max(int(exponent), 0), scale)
    if precision > 38:
        raise InvalidArgumentError(
            f"a parameter's value has {precision} digits, and decimals hold 38: give text or a float"
        )
    return f"CAST('{value:f}' AS DECIMAL({precision},{scale}))"


def _interval(value: datetime.timedelta) -> str:
    sign, size = ("-", -value) if value < datetime.timedelta() else ("", value)
    minutes, seconds = divmod(size.seconds, 60)
    time = f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}.{size.microseconds:06}"
    return f"INTERVAL '{sign}{size.days} {time}' DAY TO SECOND"


def _moment(value: Moment) -> str:
    below = re.search(r"\.\d{6}(\d*)$", value.text)
    if below is not None and below[1].strip("0"):
        raise InvalidArgumentError(
            f"a parameter has the time {value.text}, and Spark's times end at the microsecond: round it first"
        )
    match value.type:
        case "date":
            return f"DATE '{value.text}'"
        case "timestamp":
            return f"TIMESTAMP '{value.text} UTC'"
    return f"TIMESTAMP_NTZ '{value.text}'"
