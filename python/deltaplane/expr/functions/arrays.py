"""Arrays as sets, joining arrays, and maps made of arrays."""

from __future__ import annotations

from deltaplane.expr.casts import cast
from deltaplane.expr.coerce import convert, takes, unified
from deltaplane.expr.functions.collections import struct_of
from deltaplane.expr.registry import admit
from deltaplane.expr.typed import Context, Typed, made, mistyped, refuse
from deltaplane.expr.types import BOOLEAN, INT, VOID, SparkType, array

_FAMILY = "collections"


def _compared(name: str, args: list[Typed], count: int) -> list[Typed]:
    """Arrays of one type, normalised so that elements are equal where Spark treats them as
    equal."""
    if len(args) != count or any(a.type.name != "array" or a.type != args[0].type for a in args):
        mistyped(name, args)
    element = args[0].type.parts[0]
    if not element.atomic or element.fractional or element.interval or element.name == "binary":
        refuse(f"`{name}` on {args[0].type}")
    return args


def _distinct(items: str) -> str:
    """Each element at its first occurrence; null counts as one element."""
    nulls = f"list_position(list_transform({items}, lambda z: z IS NULL), true)"
    first = f"CASE WHEN x IS NULL THEN {nulls} ELSE list_position({items}, x) END"
    return f"list_filter({items}, lambda x, i: i = {first})"


def _has(items: str) -> str:
    """Whether an array has the element `x`, which may be null."""
    return f"CASE WHEN x IS NULL THEN list_count({items}) < len({items}) ELSE list_contains({items}, x) END"


def _unless_null(args: list[Typed], sql: str) -> str:
    nulls = " OR ".join(f"{a.sql} IS NULL" for a in args)
    return f"CASE WHEN {nulls} THEN NULL ELSE {sql} END"


@admit(_FAMILY, "array_distinct")
def _array_distinct(_: Context, args: list[Typed]) -> Typed:
    (items,) = _compared("array_distinct", args, 1)
    return made(items.type, _distinct(items.sql), items)


def _of_both(name: str, sql: str) -> None:
    @admit(_FAMILY, name)
    def lower(_: Context, args: list[Typed]) -> Typed:
        a, b = _compared(name, args, 2)
        # Bound to a name, since each is used several times.
        retained = sql.format(distinct=_distinct("pair.p"), joined=_distinct("pair.q"), has=_has("pair.r"))
        values = f"{{'p': {a.sql}, 'q': list_concat({a.sql}, {b.sql}), 'r': {b.sql}}}"
        return made(a.type, _unless_null(args, f"list_transform([{values}], lambda pair: {retained})[1]"), a, b)


_of_both("array_union", "{joined}")
_of_both("array_intersect", "list_filter({distinct}, lambda x: {has})")
_of_both("array_except", "list_filter({distinct}, lambda x: NOT ({has}))")


@admit(_FAMILY, "arrays_overlap")
def _overlap(_: Context, args: list[Typed]) -> Typed:
    a, b = _compared("arrays_overlap", args, 2)
    unknown = " OR ".join(f"list_count({x.sql}) < len({x.sql})" for x in (a, b))
    sql = (
        f"CASE WHEN list_has_any(list_filter({a.sql}, lambda x: x IS NOT NULL), {b.sql}) THEN true "
        f"WHEN len({a.sql}) > 0 AND len({b.sql}) > 0 AND ({unknown}) THEN NULL ELSE false END"
    )
    return made(BOOLEAN, _unless_null(args, sql), a, b)


def _with_one(name: str, front: bool) -> None:
    @admit(_FAMILY, name)
    def lower(context: Context, args: list[Typed]) -> Typed:
        if len(args) != 2 or args[0].type.name != "array":
            mistyped(name, args)
        items, element = args[0], args[0].type.parts[0]
        if args[1].type not in (element, VOID):
            mistyped(name, args)
        single = f"CAST([{convert(context, args[1], element).sql}] AS {items.type.duck})"
        joined = f"list_concat({single}, {items.sql})" if front else f"list_concat({items.sql}, {single})"
        return made(items.type, _unless_null([items], joined), items, args[1])


_with_one("array_append", front=False)
_with_one("array_prepend", front=True)


@admit(_FAMILY, "array_compact")
def _compact(_: Context, args: list[Typed]) -> Typed:
    if len(args) != 1 or args[0].type.name != "array":
        mistyped("array_compact", args)
    return made(args[0].type, f"list_filter({args[0].sql}, lambda x: x IS NOT NULL)", args[0])


@admit(_FAMILY, "array_repeat")
def _repeat(context: Context, args: list[Typed]) -> Typed:
    if len(args) != 2 or not takes(INT, args[1].type) or args[0].type == VOID:
        mistyped("array_repeat", args)
    value, count = args[0], cast(context, args[1], INT)
    to = array(value.type)
    # The value is computed per element only if it can't fail; otherwise it fails even without
    # elements.
    sql = f"CAST(list_transform(range(greatest({count.sql}, 0)), lambda x: {value.sql}) AS {to.duck})"
    if value.throws:
        refuse("`array_repeat` of a value that can fail")
    return made(to, _unless_null([count], sql), value, count)


@admit(_FAMILY, "flatten")
def _flatten(_: Context, args: list[Typed]) -> Typed:
    if len(args) != 1 or args[0].type.name != "array" or args[0].type.parts[0].name != "array":
        mistyped("flatten", args)
    items, to = args[0], args[0].type.parts[0]
    nulls = f"list_count({items.sql}) < len({items.sql})"
    whole = f"coalesce(flatten({items.sql}), CAST([] AS {to.duck}))"
    return made(to, f"CASE WHEN {items.sql} IS NULL OR {nulls} THEN NULL ELSE {whole} END", items)


# --- maps ---


def _keyed(name: str, key: SparkType) -> None:
    if not key.atomic or key.fractional or key.interval or key.name == "binary":
        refuse(f"`{name}` with keys of type {key}")


@admit(_FAMILY, "map")
def _map(context: Context, args: list[Typed]) -> Typed:
    if not args or len(args) % 2:
        mistyped("map", args)
    keys, values = unified(context, "map", args[::2]), unified(context, "map", args[1::2])
    _keyed("map", keys[0].type)
    to = SparkType("map", parts=(keys[0].type, values[0].type))
    lists = [f"CAST([{', '.join(v.sql for v in items)}] AS {items[0].type.duck}[])" for items in (keys, values)]
    # A null key or a repeated key is an error in both.
    return made(to, f"map({', '.join(lists)})", *keys, *values, throws=True)


@admit(_FAMILY, "map_from_arrays")
def _map_from_arrays(_: Context, args: list[Typed]) -> Typed:
    if len(args) != 2 or any(a.type.name != "array" for a in args):
        mistyped("map_from_arrays", args)
    keys, values = args
    _keyed("map_from_arrays", keys.type.parts[0])
    to = SparkType("map", parts=(keys.type.parts[0], values.type.parts[0]))
    return made(to, _unless_null(args, f"map({keys.sql}, {values.sql})"), keys, values, throws=True)


@admit(_FAMILY, "map_entries")
def _map_entries(_: Context, args: list[Typed]) -> Typed:
    if len(args) != 1 or args[0].type.name != "map":
        mistyped("map_entries", args)
    to = array(SparkType("struct", parts=args[0].type.parts, fields=("key", "value")))
    return made(to, _unless_null(args, f"map_entries({args[0].sql})"), args[0])


@admit(_FAMILY, "map_concat")
def _map_concat(_: Context, args: list[Typed]) -> Typed:
    if not args or any(a.type.name != "map" or a.type != args[0].type for a in args):
        mistyped("map_concat", args)
    _keyed("map_concat", args[0].type.parts[0])
    keys, values = (", ".join(f"map_{part}({a.sql})" for a in args) for part in ("keys", "values"))
    joined = f"map(list_concat({keys}), list_concat({values}))" if len(args) > 1 else args[0].sql
    return made(args[0].type, _unless_null(args, joined), *args, throws=len(args) > 1)


@admit(_FAMILY, "struct")
def _struct(_: Context, args: list[Typed]) -> Typed:
    if not args:
        mistyped("struct", args)
    return struct_of([a.name or f"col{i}" for i, a in enumerate(args, 1)], args)
