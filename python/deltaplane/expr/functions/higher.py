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


def _typed_arguments(name: str, kind: str, args: list[Typed], count: int = 1) -> list[Typed]:
    if len(args) != count or any(a.type.name != kind for a in args):
        mistyped(name, args)
    return args


def _single(name: str, functions: Sequence[Function]) -> Function:
    if len(functions) != 1:
        refuse(f"`{name}` with {len(functions)} lambda functions")
    return functions[0]


def _typed(name: str, value: Typed) -> Typed:
    if value.type == VOID:
        refuse(f"`{name}` with a function that gives nothing but null")
    return value


def _over_elements(element_type: SparkType, function: Function) -> Typed:
    """A function's body over an element and, if it takes two parameters, its index from 0 on."""
    values = [Typed(element_type, function.names[0])]
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
    (items,), function = _typed_arguments("transform", "array", args), _single("transform", functions)
    body = _typed("transform", _over_elements(items.type.parts[0], function))
    return made(array(body.type), f"list_transform({items.sql}, {_lambda(function, body.sql)})", items, body)


@admit_higher(_FAMILY, "filter")
def _filter(_: Context, args: list[Typed], functions: list[Function]) -> Typed:
    (items,), function = _typed_arguments("filter", "array", args), _single("filter", functions)
    body = _condition("filter", _over_elements(items.type.parts[0], function))
    retained = f"list_filter({items.sql}, {_lambda(function, f'coalesce({body.sql}, false)')})"
    return made(items.type, retained, items, body)


def _quantifier(name: str, decides: str, otherwise: str) -> None:
    @admit_higher(_FAMILY, name)
    def lower(_: Context, args: list[Typed], functions: list[Function]) -> Typed:
        (items,), function = _typed_arguments(name, "array", args), _single(name, functions)
        body = _condition(name, function(Typed(items.type.parts[0], function.names[0])))
        tested = f"list_transform({items.sql}, {_lambda(function, body.sql)})"
        outcomes = function.names[0]
        decided = (
            f"CASE WHEN {outcomes} IS NULL THEN NULL WHEN list_contains({outcomes}, {decides}) THEN {decides} "
            f"WHEN list_count({outcomes}) < len({outcomes}) THEN NULL ELSE {otherwise} END"
        )
        # Bound to a name, since it is used three times.
        sql = f"list_transform([{tested}], lambda {outcomes}: {decided})[1]"
        return made(BOOLEAN, sql, items, body, partial=body.throws)


_quantifier("exists", "true", "false")
_quantifier("forall", "false", "true")


@admit_higher(_FAMILY, "aggregate", "reduce")
def _aggregate(_: Context, args: list[Typed], functions: list[Function]) -> Typed:
    if len(args) != 2 or args[0].type.name != "array" or len(functions) not in (1, 2):
        mistyped("aggregate", args)
    items, start, merge = args[0], _typed("aggregate", args[1]), functions[0]
    to, element = start.type, items.type.parts[0]
    if len(merge.names) != 2:
        mistyped("aggregate", args)
    so_far, element_name = merge.names
    body = merge(Typed(to, f"{so_far}.a"), Typed(element, f"{element_name}.x"))
    if body.type != to:
        mistyped("the function of aggregate", [start, body])
    # Both kinds of values in one struct, since DuckDB reduces elements to their own type.
    nothing, no_element = f"CAST(NULL AS {to.duck})", f"CAST(NULL AS {element.duck})"
    steps = f"list_transform({items.sql}, lambda {element_name}: {{'a': {nothing}, 'x': {element_name}}})"
    step = f"{{'a': CAST({body.sql} AS {to.duck}), 'x': {no_element}}}"
    begin = f"{{'a': CAST({start.sql} AS {to.duck}), 'x': {no_element}}}"
    reduced = made(to, f"list_reduce({steps}, {_lambda(merge, step)}, {begin}).a", items, start, body)
    if len(functions) == 1:
        return reduced
    finish = functions[1]
    (last,) = finish.names if len(finish.names) == 1 else (mistyped("the last function of aggregate", args),)
    ended = _typed("aggregate", finish(Typed(to, last)))
    sql = f"CASE WHEN {items.sql} IS NULL THEN NULL ELSE list_transform([{reduced.sql}], {_lambda(finish, ended.sql)})[1] END"
    return made(ended.type, sql, reduced, ended)


@admit_higher(_FAMILY, "zip_with")
def _zip_with(_: Context, args: list[Typed], functions: list[Function]) -> Typed:
    (left, right), function = _typed_arguments("zip_with", "array", args, 2), _single("zip_with", functions)
    if len(function.names) != 2:
        mistyped("zip_with", args)
    pair = function.names[0]
    values = [
        Typed(mapping.type.parts[0], f"struct_extract({pair}, {i})") for i, mapping in enumerate((left, right), 1)
    ]
    body = _typed("zip_with", function(*values))
    zipped = f"list_transform(list_zip({left.sql}, {right.sql}), lambda {pair}: {body.sql})"
    nulls = f"{left.sql} IS NULL OR {right.sql} IS NULL"
    return made(array(body.type), f"CASE WHEN {nulls} THEN NULL ELSE {zipped} END", left, right, body)


def _entries(name: str, args: list[Typed], functions: Sequence[Function]) -> tuple[Typed, str, Typed]:
    """A map, the name of one of its entries, and the function's body over it."""
    (mapping,), function = _typed_arguments(name, "map", args), _single(name, functions)
    if len(function.names) != 2:
        mistyped(name, args)
    entry = function.names[0]
    key, value = mapping.type.parts
    return mapping, entry, function(Typed(key, f"{entry}.key"), Typed(value, f"{entry}.value"))


@admit_higher(_FAMILY, "map_filter")
def _map_filter(_: Context, args: list[Typed], functions: list[Function]) -> Typed:
    mapping, entry, body = _entries("map_filter", args, functions)
    body = _condition("map_filter", body)
    retained = f"list_filter(map_entries({mapping.sql}), lambda {entry}: coalesce({body.sql}, false))"
    return made(
        mapping.type, f"CASE WHEN {mapping.sql} IS NOT NULL THEN map_from_entries({retained}) END", mapping, body
    )


@admit_higher(_FAMILY, "transform_values")
def _transform_values(_: Context, args: list[Typed], functions: list[Function]) -> Typed:
    mapping, entry, body = _entries("transform_values", args, functions)
    to = SparkType("map", parts=(mapping.type.parts[0], _typed("transform_values", body).type))
    values = f"list_transform(map_entries({mapping.sql}), lambda {entry}: {body.sql})"
    return made(
        to, f"CASE WHEN {mapping.sql} IS NOT NULL THEN map(map_keys({mapping.sql}), {values}) END", mapping, body
    )


@admit_higher(_FAMILY, "transform_keys")
def _transform_keys(_: Context, args: list[Typed], functions: list[Function]) -> Typed:
    mapping, entry, body = _entries("transform_keys", args, functions)
    if not body.type.atomic or body.type.fractional or body.type.interval:
        refuse(f"`transform_keys` to keys of type {body.type}")
    to = SparkType("map", parts=(body.type, mapping.type.parts[1]))
    keys = f"list_transform(map_entries({mapping.sql}), lambda {entry}: {body.sql})"
    # A null key or a repeated key is an error in both.
    sql = f"CASE WHEN {mapping.sql} IS NOT NULL THEN map({keys}, map_values({mapping.sql})) END"
    return made(to, sql, mapping, body, throws=True)


@admit_higher(_FAMILY, "map_zip_with")
def _map_zip_with(_: Context, args: list[Typed], functions: list[Function]) -> Typed:
    (left, right), function = _typed_arguments("map_zip_with", "map", args, 2), _single("map_zip_with", functions)
    key = left.type.parts[0]
    if len(function.names) != 3 or right.type.parts[0] != key:
        mistyped("map_zip_with", args)
    if not key.atomic or key.fractional:
        refuse(f"`map_zip_with` on keys of type {key}")
    name = function.names[0]
    lookups = [
        Typed(mapping.type.parts[1], f"list_extract(map_extract({mapping.sql}, {name}), 1)")
        for mapping in (left, right)
    ]
    body = _typed("map_zip_with", function(Typed(key, name), *lookups))
    first = f"map_keys({left.sql})"
    others = f"list_filter(map_keys({right.sql}), lambda {name}: NOT list_contains({first}, {name}))"
    keys = f"list_concat({first}, {others})"
    values = f"list_transform({keys}, lambda {name}: {body.sql})"
    to = SparkType("map", parts=(key, body.type))
    nulls = f"{left.sql} IS NULL OR {right.sql} IS NULL"
    return made(to, f"CASE WHEN {nulls} THEN NULL ELSE map({keys}, {values}) END", left, right, body)


@admit(_FAMILY, "array_sort")
def _array_sort(_: Context, args: list[Typed]) -> Typed:
    (items,) = _typed_arguments("array_sort", "array", args)
    if not items.type.parts[0].atomic:
        refuse(f"`array_sort` on {items.type}")
    return made(items.type, f"list_sort({items.sql}, 'ASC', 'NULLS LAST')", items)
