"""Generators: `explode` and other functions that turn one row into several, planned as lists of
equal length."""

from __future__ import annotations

from collections.abc import Sequence

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.expr.casts import cast
from deltaplane.expr.functions.collections import struct_of
from deltaplane.expr.syntax import Call, Syntax
from deltaplane.expr.typed import Context, Typed, made, mistyped, refuse
from deltaplane.expr.types import INT, VOID, SparkType, array, text

__all__ = ["GENERATORS", "TABLE_FUNCTIONS", "generated", "generates", "stacked"]

GENERATORS = ("explode", "explode_outer", "inline", "inline_outer", "posexplode", "posexplode_outer", "stack")
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
    of_structs = name in ("inline", "inline_outer", "stack")
    if value.type.name not in ("array", "map") or (of_structs and not _has_structs(value.type)):
        mistyped(name, [value])
    outer |= name.endswith("_outer")
    parts = value.type.parts
    if of_structs:
        lists = [
            (field, data_type, f"list_transform({whole}, lambda e: struct_extract(e, {text(field)}))")
            for field, data_type in zip(parts[0].fields, parts[0].parts, strict=True)
        ]
    elif value.type.name == "array":
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


def _has_structs(data_type: SparkType) -> bool:
    return data_type.name == "array" and data_type.parts[0].name == "struct"


def stacked(context: Context, args: Sequence[Typed]) -> Typed:
    """The rows of STACK as an array of structs: a number of rows, then their values from left to
    right; missing ones at the end are null.

    Raises:
        InvalidArgumentError: another number of rows, or values of several types in one column, as
            in Spark.
    """
    count = int(args[0].literal) if args and args[0].type == INT and args[0].literal else 0
    if count < 1 or len(args) < 2:
        raise InvalidArgumentError("`stack` takes a number of rows that is a constant, then the values of the rows")
    cells = list(args[1:])
    width = -(-len(cells) // count)
    cells += [Typed(VOID, "NULL", constant=True)] * (count * width - len(cells))
    columns = [_of_one_type(context, cells[i::width], i) for i in range(width)]
    rows = [struct_of([f"col{i}" for i in range(width)], list(row)) for row in zip(*columns, strict=True)]
    return made(array(rows[0].type), f"[{', '.join(row.sql for row in rows)}]", *rows)


def _of_one_type(context: Context, cells: Sequence[Typed], number: int) -> list[Typed]:
    """The values of one column of STACK; nulls have its type."""
    types = dict.fromkeys(cell.type for cell in cells if cell.type != VOID)
    if not types:
        refuse("a column of `stack` that has only nulls")
    if len(types) > 1:
        shown = " and ".join(map(str, types))
        raise InvalidArgumentError(f"column {number + 1} of `stack` has values of {shown}: cast them")
    (to,) = types
    return [cell if cell.type != VOID else _null(context, cell, to) for cell in cells]


def _null(context: Context, cell: Typed, to: SparkType) -> Typed:
    return cast(context, cell, to) if to.atomic else Typed(to, f"CAST(NULL AS {to.duck})", constant=True)
