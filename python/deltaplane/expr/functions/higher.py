"""Functions of arrays and maps that take lambda functions.

A lambda condition that can fail is evaluated for every element here, while Spark stops at the
element that decides the result.
"""

from __future__ import annotations

from collections.abc import Sequence

from deltaplane.expr.registry import Function, admit, admit_higher
from deltaplane.expr.typed import Context, Typed, made, mistyped, refuse
from deltaplane.expr.types import BOOLEAN, INT, VOID, SparkType, array

_FAMILY = "lambda functions"


def _of(name: str, kind: str, args: list[Typed], count: int = 1) -> list[Typed]:
    if len(args) != count or any(a.type.name != kind for a in args):
        mistyped(name, args)
    return args


def _one(name: str, functions: Sequence[Function]) -> Function:
    if len(functions) != 1:
        refuse(f"`{name}` with {len(functions)} lambda functions")
    return functions[0]


def _typed(name: str, value: Typed) -> Typed:
    if value.type == VOID:
        refuse(f"`{name}` with a function that gives nothing but null")
    return value


def _over_elements(of: SparkType, function: Function) -> Typed:
    """A function's body over an element and, if it takes two parameters, its index from 0 on."""
    values = [Typed(of, function.names[0])]
    if len(function.names) == 2:
        values.append(Typed(INT, f"CAST({function.names[1]} - 1 AS INTEGER)"))
    return function(*values)


def _lambda(function: Function, body: str) -> str:
    return f"lambda {', '.join(function.names)}: {body}"


def _condition(name: str, value: Typed) -> Typed:
    if value.type not in (BOOLEAN, VOID):
        mistyped(name, [value])
    return value if value.type == BOOLEAN else Typed(BOOLEAN, "CAST(NULL AS BOOLEAN)")


@admit_higher(_FAMILY, "transform")
def _transform(_: Context, args: list[Typed], functions: list[Function]) -> Typed:
    (of,), function = _of("transform", "array", args), _one("transform", functions)
    body = _typed("transform", _over_elements(of.type.parts[0], function))
    return made(array(body.type), f"list_transform({of.sql}, {_lambda(function, body.sql)})", of, body)


@admit_higher(_FAMILY, "filter")
def _filter(_: Context, args: list[Typed], functions: list[Function]) -> Typed:
    (of,), function = _of("filter", "array", args), _one("filter", functions)
    body = _condition("filter", _over_elements(of.type.parts[0], function))
    kept = f"list_filter({of.sql}, {_lambda(function, f'coalesce({body.sql}, false)')})"
    return made(of.type, kept, of, body)


def _quantifier(name: str, decides: str, otherwise: str) -> None:
    @admit_higher(_FAMILY, name)
    def lower(_: Context, args: list[Typed], functions: list[Function]) -> Typed:
        (of,), function = _of(name, "array", args), _one(name, functions)
        body = _condition(name, function(Typed(of.type.parts[0], function.names[0])))
        tested = f"list_transform({of.sql}, {_lambda(function, body.sql)})"
        found = function.names[0]
        decided = (
            f"CASE WHEN {found} IS NULL THEN NULL WHEN list_contains({found}, {decides}) THEN {decides} "
            f"WHEN list_count({found}) < len({found}) THEN NULL ELSE {otherwise} END"
        )
        # Bound to a name, since it is used three times.
        sql = f"list_transform([{tested}], lambda {found}: {decided})[1]"
        return made(BOOLEAN, sql, of, body, partial=body.throws)


_quantifier("exists", "true", "false")
_quantifier("forall", "false", "true")


@admit_higher(_FAMILY, "aggregate", "reduce")
def _aggregate(_: Context, args: list[Typed], functions: list[Function]) -> Typed:
    if len(args) != 2 or args[0].type.name != "array" or len(functions) not in (1, 2):
        mistyped("aggregate", args)
    of, start, merge = args[0], _typed("aggregate", args[1]), functions[0]
    to, element = start.type, of.type.parts[0]
    if len(merge.names) != 2:
        mistyped("aggregate", args)
    so_far, one = merge.names
    body = merge(Typed(to, f"{so_far}.a"), Typed(element, f"{one}.x"))
    if body.type != to:
        mistyped("the function of aggregate", [start, body])
    # Both kinds of values in one struct, since DuckDB reduces elements to their own type.
    nothing, no_element = f"CAST(NULL AS {to.duck})", f"CAST(NULL AS {element.duck})"
    steps = f"list_transform({of.sql}, lambda {one}: {{'a': {nothing}, 'x': {one}}})"
    step = f"{{'a': CAST({body.sql} AS {to.duck}), 'x': {no_element}}}"
    begin = f"{{'a': CAST({start.sql} AS {to.duck}), 'x': {no_element}}}"
    reduced = made(to, f"list_reduce({steps}, {_lambda(merge, step)}, {begin}).a", of, start, body)
    if len(functions) == 1:
        return reduced
    finish = functions[1]
    (last,) = finish.names if len(finish.names) == 1 else (mistyped("the last function of aggregate", args),)
    ended = _typed("aggregate", finish(Typed(to, last)))
    sql = f"CASE WHEN {of.sql} IS NULL THEN NULL ELSE list_transform([{reduced.sql}], {_lambda(finish, ended.sql)})[1] END"
    return made(ended.type, sql, reduced, ended)


@admit_higher(_FAMILY, "zip_with")
def _zip_with(_: Context, args: list[Typed], functions: list[Function]) -> Typed:
    (left, right), function = _of("zip_with", "array", args, 2), _one("zip_with", functions)
    if len(function.names) != 2:
        mistyped("zip_with", args)
    pair = function.names[0]
    values = [Typed(of.type.parts[0], f"struct_extract({pair}, {i})") for i, of in enumerate((left, right), 1)]
    body = _typed("zip_with", function(*values))
    zipped = f"list_transform(list_zip({left.sql}, {right.sql}), lambda {pair}: {body.sql})"
    nulls = f"{left.sql} IS NULL OR {right.sql} IS NULL"
    return made(array(body.type), f"CASE WHEN {nulls} THEN NULL ELSE {zipped} END", left, right, body)


def _entries(name: str, args: list[Typed], functions: Sequence[Function]) -> tuple[Typed, str, Typed]:
    """A map, the name of one of its entries, and the function's body over it."""
    (of,), function = _of(name, "map", args), _one(name, functions)
    if len(function.names) != 2:
        mistyped(name, args)
    entry = function.names[0]
    key, value = of.type.parts
    return of, entry, function(Typed(key, f"{entry}.key"), Typed(value, f"{entry}.value"))


@admit_higher(_FAMILY, "map_filter")
def _map_filter(_: Context, args: list[Typed], functions: list[Function]) -> Typed:
    of, entry, body = _entries("map_filter", args, functions)
    body = _condition("map_filter", body)
    kept = f"list_filter(map_entries({of.sql}), lambda {entry}: coalesce({body.sql}, false))"
    return made(of.type, f"CASE WHEN {of.sql} IS NOT NULL THEN map_from_entries({kept}) END", of, body)


@admit_higher(_FAMILY, "transform_values")
def _transform_values(_: Context, args: list[Typed], functions: list[Function]) -> Typed:
    of, entry, body = _entries("transform_values", args, functions)
    to = SparkType("map", parts=(of.type.parts[0], _typed("transform_values", body).type))
    values = f"list_transform(map_entries({of.sql}), lambda {entry}: {body.sql})"
    return made(to, f"CASE WHEN {of.sql} IS NOT NULL THEN map(map_keys({of.sql}), {values}) END", of, body)


@admit_higher(_FAMILY, "transform_keys")
def _transform_keys(_: Context, args: list[Typed], functions: list[Function]) -> Typed:
    of, entry, body = _entries("transform_keys", args, functions)
    if not body.type.atomic or body.type.fractional or body.type.interval:
        refuse(f"`transform_keys` to keys of type {body.type}")
    to = SparkType("map", parts=(body.type, of.type.parts[1]))
    keys = f"list_transform(map_entries({of.sql}), lambda {entry}: {body.sql})"
    # A null key or a repeated key is an error in both.
    sql = f"CASE WHEN {of.sql} IS NOT NULL THEN map({keys}, map_values({of.sql})) END"
    return made(to, sql, of, body, throws=True)


@admit_higher(_FAMILY, "map_zip_with")
def _map_zip_with(_: Context, args: list[Typed], functions: list[Function]) -> Typed:
    (left, right), function = _of("map_zip_with", "map", args, 2), _one("map_zip_with", functions)
    key = left.type.parts[0]
    if len(function.names) != 3 or right.type.parts[0] != key:
        mistyped("map_zip_with", args)
    if not key.atomic or key.fractional:
        refuse(f"`map_zip_with` on keys of type {key}")
    name = function.names[0]
    found = [Typed(of.type.parts[1], f"list_extract(map_extract({of.sql}, {name}), 1)") for of in (left, right)]
    body = _typed("map_zip_with", function(Typed(key, name), *found))
    first = f"map_keys({left.sql})"
    others = f"list_filter(map_keys({right.sql}), lambda {name}: NOT list_contains({first}, {name}))"
    keys = f"list_concat({first}, {others})"
    values = f"list_transform({keys}, lambda {name}: {body.sql})"
    to = SparkType("map", parts=(key, body.type))
    nulls = f"{left.sql} IS NULL OR {right.sql} IS NULL"
    return made(to, f"CASE WHEN {nulls} THEN NULL ELSE map({keys}, {values}) END", left, right, body)


@admit(_FAMILY, "array_sort")
def _array_sort(_: Context, args: list[Typed]) -> Typed:
    (of,) = _of("array_sort", "array", args)
    if not of.type.parts[0].atomic:
        refuse(f"`array_sort` on {of.type}")
    return made(of.type, f"list_sort({of.sql}, 'ASC', 'NULLS LAST')", of)
