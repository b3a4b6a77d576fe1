"""Generators: `explode` and other functions that turn one row into several, planned as lists of
equal length."""

from __future__ import annotations

from deltaplane.expr.syntax import Call, Syntax
from deltaplane.expr.typed import Typed, mistyped
from deltaplane.expr.types import INT, SparkType

__all__ = ["GENERATORS", "TABLE_FUNCTIONS", "generated", "generates"]

GENERATORS = ("explode", "explode_outer", "posexplode", "posexplode_outer")
# Functions that are a relation.
TABLE_FUNCTIONS = (*GENERATORS, "range")


def generates(node: Syntax) -> bool:
    """Whether an expression is a call of a generator."""
    return type(node) is Call and node.name in GENERATORS


def generated(name: str, value: Typed, whole: str, outer: bool) -> list[tuple[str, SparkType, str]]:
    """The columns of a generator's rows: name, type, and the list of values, computed from the
    column `whole`.

    With `outer`, null or an empty list gives one row of nulls.
    """
    if value.type.name not in ("array", "map"):
        mistyped(name, [value])
    outer |= name.endswith("_outer")
    parts = value.type.parts
    if value.type.name == "array":
        lists = [("col", parts[0], whole)]
    else:
        lists = [("key", parts[0], f"map_keys({whole})"), ("value", parts[1], f"map_values({whole})")]
    counted = lists[0][2]
    if name.startswith("pos"):
        lists.insert(0, ("pos", INT, f"CAST(generate_series(0, len({counted}) - 1) AS INTEGER[])"))
    if not outer:
        return lists
    none = f"coalesce(len({counted}), 0) = 0"
    return [
        (title, data_type, f"CASE WHEN {none} THEN CAST([NULL] AS {data_type.duck}[]) ELSE {sql} END")
        for title, data_type, sql in lists
    ]
