"""Filters that Spark pushes to a Python data source, as a predicate for the Rust pruner.

What has no counterpart is left out: Spark applies every filter again. Called by `deltaplane.spark._datasource`.
"""

from __future__ import annotations

import datetime
import decimal
import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql import datasource as ds

__all__ = ["predicate_json"]

_COMPARISONS: dict[type[ds.Filter], str] = {
    ds.EqualTo: "=",
    ds.EqualNullSafe: "<=>",
    ds.GreaterThan: ">",
    ds.GreaterThanOrEqual: ">=",
    ds.LessThan: "<",
    ds.LessThanOrEqual: "<=",
}


def predicate_json(filters: Sequence[ds.Filter]) -> str | None:
    """The conjunction of the filters that can be said, as expression JSON; None if there is none."""
    parts = [node for node in map(_node, filters) if node is not None]
    if not parts:
        return None
    return json.dumps(parts[0] if len(parts) == 1 else {"op": "and", "args": parts})


def _node(filter_: ds.Filter) -> dict[str, Any] | None:
    if isinstance(filter_, ds.Not):
        child = _node(filter_.child)
        return None if child is None else {"op": "not", "arg": child}
    column = {"op": "column", "name": list(getattr(filter_, "attribute", ()))}
    if isinstance(filter_, ds.IsNull):
        return {"op": "is_null", "arg": column}
    if isinstance(filter_, ds.IsNotNull):
        return {"op": "is_not_null", "arg": column}
    if isinstance(filter_, ds.StringStartsWith):
        return {"op": "starts_with", "arg": column, "prefix": filter_.value}
    if isinstance(filter_, ds.In):
        values = [_literal(v) for v in filter_.value]
        return None if None in values else {"op": "in", "arg": column, "list": values}
    sign, value = _COMPARISONS.get(type(filter_)), _literal(getattr(filter_, "value", None))
    if sign is None or value is None:
        return None
    return {"op": "compare", "cmp": sign, "left": column, "right": value}


def _literal(value: Any) -> dict[str, Any] | None:
    """A literal of the exact type that the value has; None where the value's text isn't plain."""
    kind: str
    if isinstance(value, bool):
        kind, text = "boolean", str(value).lower()
    elif isinstance(value, int):
        kind, text = "long", str(value)
    elif isinstance(value, str):
        kind, text = "string", value
    elif isinstance(value, datetime.datetime):
        if value.tzinfo is None:
            kind, text = "timestamp_ntz", value.isoformat(" ")
        else:
            kind, text = "timestamp", value.astimezone(datetime.timezone.utc).isoformat().replace("+00:00", "Z")
    elif isinstance(value, datetime.date):
        kind, text = "date", value.isoformat()
    elif isinstance(value, decimal.Decimal) and value.is_finite():
        digits = value.as_tuple()
        scale = max(-int(digits.exponent), 0)
        text = f"{value:f}"
        kind = f"decimal({max(len(digits.digits) + max(int(digits.exponent), 0), scale, 1)},{scale})"
    else:
        return None
    return {"op": "literal", "value": text, "type": kind}
