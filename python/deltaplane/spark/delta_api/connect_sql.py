"""Converts Spark Connect's expressions to Spark SQL: the client has them as trees, and only the
server can render them as text.

Used for conditions and values of commands that run without Spark.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

from deltaplane.exceptions import UnsupportedFeatureError
from deltaplane.expr.values import text_literal
from deltaplane.spark.jvm.schema import quoted

__all__ = ["sql_of"]

# Operators: written between their arguments, before one, or behind one.
_BETWEEN = {
    "==": "=",
    "<=>": "<=>",
    "and": "AND",
    "or": "OR",
    "like": "LIKE",
    **{sign: sign for sign in ("<", "<=", ">", ">=", "+", "-", "*", "/", "%", "&", "|", "^")},
}
_BEFORE = {"!": "NOT", "not": "NOT", "negative": "-", "~": "~"}
_BEHIND = {"isnull": "IS NULL", "isnotnull": "IS NOT NULL"}


def sql_of(expression: Any) -> str:
    """The text of a condition or value; strings are returned unchanged.

    Raises:
        UnsupportedFeatureError: an expression without a text form here.
    """
    return expression if isinstance(expression, str) else _text(expression._expr)


def _text(node: Any) -> str:
    held = vars(node)
    match type(node).__name__:
        case "SQLExpression":
            return f"({held['_expr']})"
        case "ColumnReference":
            return str(held["_unparsed_identifier"])
        case "LiteralExpression":
            return _literal(held["_value"], held["_dataType"])
        case "UnresolvedFunction" if not held.get("_is_distinct"):
            return _call(held["_name"], [_text(part) for part in held["_args"]])
        case "CastExpression" if held.get("_eval_mode") in (None, "try"):
            name = "TRY_CAST" if held.get("_eval_mode") else "CAST"
            kind = held["_data_type"]
            return f"{name}({_text(held['_expr'])} AS {kind if isinstance(kind, str) else kind.simpleString()})"
        case "CaseWhen":
            parts = [f"WHEN {_text(condition)} THEN {_text(value)}" for condition, value in held["_branches"]]
            if held["_else_value"] is not None:
                parts.append(f"ELSE {_text(held['_else_value'])}")
            return f"(CASE {' '.join(parts)} END)"
        case "ColumnAlias":
            return _text(held["_child"])
    raise UnsupportedFeatureError(
        f"on Spark Connect a {type(node).__name__} has no text at hand, which a command without Spark needs: give the condition or "
        f"value as Spark SQL, instead of {node}"
    )


def _call(name: str, arguments: list[str]) -> str:
    known = name.lower()
    if known in _BETWEEN and len(arguments) == 2:
        return f"({arguments[0]} {_BETWEEN[known]} {arguments[1]})"
    if known in _BEFORE and len(arguments) == 1:
        return f"({_BEFORE[known]} {arguments[0]})"
    if known in _BEHIND and len(arguments) == 1:
        return f"({arguments[0]} {_BEHIND[known]})"
    if known == "in":
        return f"({arguments[0]} IN ({', '.join(arguments[1:])}))"
    return f"{quoted(name) if not name.isidentifier() else name}({', '.join(arguments)})"


def _literal(value: Any, kind: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case int() if kind.typeName() in ("date", "timestamp", "timestamp_ntz"):
            return _moment(value, kind.typeName())
        case int():
            return f"CAST({value} AS {kind.simpleString()})"
        case float():
            return f"CAST('{value!r}' AS {kind.simpleString()})"
        case Decimal() if value.is_finite():
            # The client assigns one type to all decimals, which may be too small for the value.
            _, digits, exponent = value.as_tuple()
            scale = max(-int(exponent), 0)
            return f"CAST('{value:f}' AS decimal({max(len(digits) + max(int(exponent), 0), scale)},{scale}))"
        case str():
            return text_literal(value)
        case bytes() | bytearray():
            return f"X'{bytes(value).hex()}'"
    raise UnsupportedFeatureError(
        f"on Spark Connect a literal of type {kind.simpleString()} has no text at hand: give the condition or value as Spark SQL"
    )


def _moment(value: int, kind: str) -> str:
    """The text of Spark's number for a date (days) or a timestamp (microseconds since 1970)."""
    if kind == "date":
        return f"DATE '{dt.date(1970, 1, 1) + dt.timedelta(days=value)}'"
    instant = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=value)
    return f"TIMESTAMP '{instant} UTC'" if kind == "timestamp" else f"TIMESTAMP_NTZ '{instant}'"
