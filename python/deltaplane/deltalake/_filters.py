"""deltalake's filters of files: tuples whose values are texts, or a condition in its SQL."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from deltaplane.deltalake._dialect import spark_sql
from deltaplane.deltalake._util import encode_partition_value
from deltaplane.exceptions import DeltaError

if TYPE_CHECKING:
    from deltaplane.expr import Predicate
    from deltaplane.schema import Schema

_OPERATORS = {"=", "!=", ">", ">=", "<", "<=", "in", "not in"}


def conjunctions(filters: Any) -> list[list[tuple[str, str, Any]]] | None:
    """A list of tuples, or of lists of tuples, as a list of lists with encoded values.

    Raises:
        ValueError: a mixture of both, an empty list, or a value without a text.
    """
    if not filters:
        return None
    if all(isinstance(part, list) for part in filters):
        lists = list(filters)
    elif all(isinstance(part, tuple) for part in filters):
        lists = [filters]
    else:
        raise ValueError(
            "filters must be a list of (column, op, value) tuples (a conjunction), or a list of such lists (an OR "
            "across conjunctions), not a mix of both"
        )
    if not all(lists):
        raise ValueError("empty conjunction in filters; pass no filter to match all files")
    return [encoded(part) for part in lists]


def encoded(conjunction: Sequence[tuple[str, str, Any]]) -> list[tuple[str, str, Any]]:
    """The tuples with each value as a partition's text."""
    return [
        (
            column,
            operator,
            [encode_partition_value(v) for v in value]
            if isinstance(value, (list, tuple))
            else encode_partition_value(value),
        )
        for column, operator, value in conjunction
    ]


def own_predicate(filters: Any, schema: Schema) -> Predicate | None:
    """A filter as deltaplane takes it.

    Raises:
        DeltaError: an operator that doesn't exist or doesn't fit the value, or an unknown column.
    """
    if filters is None:
        return None
    if isinstance(filters, str):
        return spark_sql(filters, types_of(schema))
    types = types_of(schema)
    return [[_typed(part, types) for part in conjunction] for conjunction in filters]


def types_of(schema: Schema) -> dict[str, str]:
    """Column → name of its type, for columns of primitive types."""
    return {field.name: field.type.type for field in schema.fields}


def _typed(part: tuple[str, str, Any], types: Mapping[str, str]) -> tuple[str, str, Any]:
    column, operator, value = part
    is_list = isinstance(value, list)
    if operator not in _OPERATORS or is_list != operator.endswith("in"):
        raise DeltaError(
            f'Invalid partition filter found: ("{column}", "{operator}", {json.dumps(value, ensure_ascii=False)}).'
        )
    if column not in types:
        raise DeltaError(
            f"Data does not match the schema or partitions of the table: Field '{column}' is not a root table field."
        )
    convert = _value_of(types[column])
    try:
        return column, operator, [convert(v) for v in value] if is_list else convert(value)
    except (ValueError, ArithmeticError):
        raise DeltaError(f"the filter's value {value!r} isn't one of the column {column}") from None


def _value_of(kind: str) -> Callable[[str], Any]:
    """How a value of a type is read from a partition's text."""
    if kind in ("byte", "short", "integer", "long"):
        return int
    if kind in ("float", "double"):
        return float
    if kind == "boolean":
        return lambda text: {"true": True, "false": False}[text.lower()]
    if kind == "date":
        return date.fromisoformat
    if kind == "timestamp":
        return _moment
    if kind == "timestamp_ntz":
        return datetime.fromisoformat
    if kind.startswith("decimal"):
        return Decimal
    return str


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
