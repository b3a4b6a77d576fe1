"""Estimates which share of the rows of some files meets a condition, from the bounds in the log."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deltaplane.expr.tree import Node

__all__ = ["matching_share"]

# The share of a comparison about which the bounds say nothing: of one value, and of a range.
_OF_ONE_VALUE = 0.1
_OF_A_RANGE = 1.0


def matching_share(
    node: Node, lowest: Sequence[Mapping[str, Any] | None], highest: Sequence[Mapping[str, Any] | None]
) -> float:
    """The estimated share, 0 to 1, if values are spread evenly between a file's bounds.

    Args:
        node: a condition of comparisons of columns with constants, combined by AND and OR.
        lowest: each file's lower bounds, by column.
        highest: the upper ones, of the same files.

    >>> from deltaplane.expr import tree
    >>> lowest, highest = [{"x": 0}], [{"x": 100}]
    >>> x = tree.column(["x"])
    >>> at_least, below = (tree.compare(cmp, x, tree.literal(v, "long")) for cmp, v in ((">=", "40"), ("<", "45")))
    >>> round(matching_share(at_least, lowest, highest), 2)
    0.6
    >>> round(matching_share(tree.all_of([at_least, below]), lowest, highest), 2)
    0.05
    """
    shares = [_share(node, low or {}, high or {}) for low, high in zip(lowest, highest, strict=True)]
    return sum(shares) / len(shares) if shares else _OF_A_RANGE


def _share(node: Node, low: Mapping[str, Any], high: Mapping[str, Any]) -> float:
    match node:
        case {"op": "and", "args": args}:
            return _of_all(args, low, high)
        case {"op": "or", "args": args}:
            return min(1.0, sum(_share(arg, low, high) for arg in args))
        case {"op": "compare", "cmp": cmp, "left": {"op": "column", "name": [name]}, "right": right}:
            return _of_comparison(cmp, _number(right), _ordered(low.get(name)), _ordered(high.get(name)))
        case {"op": "in" | "like" | "is_null"}:
            return _OF_ONE_VALUE
    return _OF_A_RANGE


def _of_all(args: Sequence[Node], low: Mapping[str, Any], high: Mapping[str, Any]) -> float:
    """Comparisons of one column select what their ranges have in common; columns are taken as
    independent of each other."""
    by_column: dict[str, list[float]] = {}
    for number, arg in enumerate(args):
        match arg:
            case {"op": "compare", "left": {"op": "column", "name": [name]}}:
                key = str(name)
            case _:
                key = f"{number} "
        by_column.setdefault(key, []).append(_share(arg, low, high))
    return prod(max(0.0, sum(shares) - (len(shares) - 1)) for shares in by_column.values())


def _of_comparison(cmp: str, value: float | None, low: float | None, high: float | None) -> float:
    if cmp == "=":
        return 1.0 if low is not None and low == high == value else _OF_ONE_VALUE
    if cmp == "!=" or value is None or low is None or high is None or not low < high:
        return _OF_A_RANGE
    below = min(1.0, max(0.0, (value - low) / (high - low)))
    return below if cmp in ("<", "<=") else 1.0 - below


def _number(constant: Node) -> float | None:
    """A constant's place on its type's line of numbers; None for texts and others."""
    text, kind = constant.get("value"), str(constant.get("type"))
    if not isinstance(text, str):
        return None
    try:
        if kind == "date":
            return _ordered(dt.date.fromisoformat(text))
        if kind.startswith("timestamp"):
            return _ordered(dt.datetime.fromisoformat(text))
        return None if kind in ("string", "binary", "boolean") else float(text)
    except ValueError:
        return None


def _ordered(value: Any) -> float | None:
    """The same for a value of the statistics. Zones are left out: an estimate may be hours off."""
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=dt.timezone.utc).timestamp()
    if isinstance(value, dt.date):
        return dt.datetime(value.year, value.month, value.day, tzinfo=dt.timezone.utc).timestamp()
    if isinstance(value, (str, bytes)) or value is None:
        return None
    return float(value)
