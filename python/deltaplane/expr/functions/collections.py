"""Arrays, maps and structs."""

from __future__ import annotations

from dataclasses import replace

from deltaplane.expr.casts import cast
from deltaplane.expr.coerce import convert, takes, unified
from deltaplane.expr.registry import admit
from deltaplane.expr.typed import Context, Typed, failing, guarded, made, mistyped, refuse
from deltaplane.expr.types import BOOLEAN, INT, LONG, STRING, VOID, SparkType, array, text

_FAMILY = "collections"


def _array(name: str, args: list[Typed], count: int) -> Typed:
    if len(args) != count or args[0].type.name != "array":
        mistyped(name, args)
    return args[0]


def _element(context: Context, name: str, args: list[Typed]) -> tuple[Typed, Typed]:
    """An array and a value of its elements' type."""
    items, value = _array(name, args, 2), args[1]
    if value.type != items.type.parts[0] and not (value.type.integral and items.type.parts[0].integral):
        mistyped(name, args)
    if not items.type.parts[0].atomic:
        refuse(f"`{name}` on {items.type}")
    return items, convert(context, value, items.type.parts[0]) if takes(items.type.parts[0], value.type) else mistyped(
        name, args
    )


@admit(_FAMILY, "size", "cardinality")
def _size(_: Context, args: list[Typed]) -> Typed:
    if len(args) != 1 or args[0].type.name not in ("array", "map"):
        mistyped("size", args)
    sql = f"len({args[0].sql})" if args[0].type.name == "array" else f"cardinality({args[0].sql})"
    return made(INT, f"CAST({sql} AS INTEGER)", args[0])


@admit(_FAMILY, "array_size")
def _array_size(_: Context, args: list[Typed]) -> Typed:
    return made(INT, f"CAST(len({_array('array_size', args, 1).sql}) AS INTEGER)", args[0])


@admit(_FAMILY, "array")
def _make(context: Context, args: list[Typed]) -> Typed:
    if not args:
        refuse("an empty array, which has no type")
    values = unified(context, "array", args)
    if values[0].type == VOID:
        refuse("an array of nothing but null, which has no type")
    to = array(values[0].type)
    return made(to, f"CAST([{', '.join(v.sql for v in values)}] AS {to.duck})", *values)


def _index(items: Typed, index: Typed, name: str) -> tuple[str, str]:
    if index.type.name not in ("byte", "short", "integer"):
        mistyped(name, [items, index])
    return items.sql, index.sql


@admit(_FAMILY, "get")
def _get(_: Context, args: list[Typed]) -> Typed:
    a, i = _index(_array("get", args, 2), args[1], "get")
    sql = f"CASE WHEN {i} >= 0 THEN list_extract({a}, CAST({i} AS BIGINT) + 1) END"
    return made(args[0].type.parts[0], sql, *args)


@admit(_FAMILY, "[]")
def _subscript(context: Context, args: list[Typed]) -> Typed:
    value, index = args
    if value.type.name == "map":
        return _of_key(context, "[]", value, index)
    if value.type.name == "struct" and index.literal is not None:
        refuse("a struct's field in brackets")
    a, i = _index(_array("[]", args, 2), index, "[]")
    to = value.type.parts[0]
    bad = failing("INVALID_ARRAY_INDEX", "the array has no such element", to)
    sql = (
        f"CASE WHEN {a} IS NULL OR {i} IS NULL THEN NULL WHEN {i} < 0 OR {i} >= len({a}) THEN {bad} "
        f"ELSE list_extract({a}, CAST({i} AS BIGINT) + 1) END"
    )
    return made(to, sql, value, index, throws=True)


def _of_key(context: Context, name: str, mapping: Typed, key: Typed) -> Typed:
    if not mapping.type.parts[0].atomic or not takes(mapping.type.parts[0], key.type):
        mistyped(name, [mapping, key])
    k = cast(context, key, mapping.type.parts[0])
    return made(mapping.type.parts[1], f"list_extract(map_extract({mapping.sql}, {k.sql}), 1)", mapping, k)


@admit(_FAMILY, "element_at")
def _element_at(context: Context, args: list[Typed]) -> Typed:
    if len(args) == 2 and args[0].type.name == "map":
        return _of_key(context, "element_at", *args)
    a, i = _index(_array("element_at", args, 2), args[1], "element_at")
    to = args[0].type.parts[0]
    bad = failing("INVALID_ARRAY_INDEX_IN_ELEMENT_AT", "the array has no such element", to)
    sql = (
        f"CASE WHEN {a} IS NULL OR {i} IS NULL THEN NULL WHEN {i} = 0 OR abs(CAST({i} AS BIGINT)) > len({a}) THEN {bad} "
        f"ELSE list_extract({a}, {i}) END"
    )
    return made(to, sql, *args, throws=True)


@admit(_FAMILY, "try_element_at")
def _try_element_at(context: Context, args: list[Typed]) -> Typed:
    """Null for an element that isn't there; an index of 0 is an error all the same."""
    if len(args) == 2 and args[0].type.name == "map":
        return _of_key(context, "try_element_at", *args)
    a, i = _index(_array("try_element_at", args, 2), args[1], "try_element_at")
    to = args[0].type.parts[0]
    sql = guarded(
        f"{i} = 0 AND {a} IS NOT NULL",
        "INVALID_INDEX_OF_ZERO",
        "elements are counted from 1",
        f"list_extract({a}, {i})",
        to,
    )
    return made(to, sql, *args, throws=True)


@admit(_FAMILY, ".")
def _field(_: Context, args: list[Typed]) -> Typed:
    name = args[1].literal or ""
    return replace(field_of(args[0], name), name=name)


def field_of(struct: Typed, name: str) -> Typed:
    """A struct's field, found ignoring case."""
    matches = [i for i, n in enumerate(struct.type.fields) if n.lower() == name.lower()]
    if len(matches) != 1:
        mistyped(f"the field {name}", [struct])
    field = struct.type.fields[matches[0]]
    return made(struct.type.parts[matches[0]], f"struct_extract({struct.sql}, {text(field)})", struct)


@admit(_FAMILY, "named_struct")
def _named_struct(_: Context, args: list[Typed]) -> Typed:
    names = [a.literal for a in args[::2]]
    if not args or len(args) % 2 or any(n is None for n in names):
        mistyped("named_struct", args)
    return struct_of([n or "" for n in names], args[1::2])


def struct_of(names: list[str], values: list[Typed]) -> Typed:
    """A struct of these fields."""
    if len({n.lower() for n in names}) != len(names):
        refuse("a struct with two fields of one name")
    to = SparkType("struct", parts=tuple(v.type for v in values), fields=tuple(names))
    inner = ", ".join('"' + n.replace('"', '""') + f'" := {v.sql}' for n, v in zip(names, values, strict=True))
    return made(to, f"struct_pack({inner})", *values)


@admit(_FAMILY, "array_contains")
def _contains(context: Context, args: list[Typed]) -> Typed:
    items, value = _element(context, "array_contains", args)
    sql = (
        f"CASE WHEN {items.sql} IS NULL OR {value.sql} IS NULL THEN NULL WHEN list_contains({items.sql}, {value.sql}) THEN true "
        f"WHEN list_count({items.sql}) < len({items.sql}) THEN NULL ELSE false END"
    )
    return made(BOOLEAN, sql, items, value)


@admit(_FAMILY, "array_position")
def _position(context: Context, args: list[Typed]) -> Typed:
    items, value = _element(context, "array_position", args)
    position = f"coalesce(CAST(list_position({items.sql}, {value.sql}) AS BIGINT), 0)"
    return made(
        LONG, f"CASE WHEN {items.sql} IS NULL OR {value.sql} IS NULL THEN NULL ELSE {position} END", items, value
    )


@admit(_FAMILY, "array_remove")
def _remove(context: Context, args: list[Typed]) -> Typed:
    items, value = _element(context, "array_remove", args)
    retained = f"list_filter({items.sql}, lambda x: x IS NULL OR x <> {value.sql})"
    return made(items.type, f"CASE WHEN {value.sql} IS NULL THEN NULL ELSE {retained} END", items, value)


def _extreme(name: str, duck: str) -> None:
    @admit(_FAMILY, name)
    def lower(_: Context, args: list[Typed]) -> Typed:
        items = _array(name, args, 1)
        if not items.type.parts[0].atomic:
            refuse(f"`{name}` on {items.type}")
        return made(items.type.parts[0], f"{duck}({items.sql})", items)


_extreme("array_max", "list_max")
_extreme("array_min", "list_min")


@admit(_FAMILY, "sort_array")
def _sort(_: Context, args: list[Typed]) -> Typed:
    if len(args) not in (1, 2) or args[0].type.name != "array" or not args[0].type.parts[0].atomic:
        mistyped("sort_array", args)
    descending = len(args) == 2 and args[1].literal == "false"
    if len(args) == 2 and args[1].literal not in ("true", "false"):
        refuse("`sort_array` with an order that isn't a constant")
    order = "'DESC', 'NULLS LAST'" if descending else "'ASC', 'NULLS FIRST'"
    return made(args[0].type, f"list_sort({args[0].sql}, {order})", args[0])


@admit(_FAMILY, "slice")
def _slice(_: Context, args: list[Typed]) -> Typed:
    if len(args) != 3 or args[0].type.name != "array" or any(a.type != INT for a in args[1:]):
        mistyped("slice", args)
    a, start, length = (x.sql for x in args)
    to = args[0].type
    begin = f"CASE WHEN {start} > 0 THEN CAST({start} AS BIGINT) ELSE len({a}) + {start} + 1 END"
    cut = f"CASE WHEN ({begin}) < 1 OR {length} = 0 THEN list_slice({a}, 1, 0) ELSE list_slice({a}, ({begin}), ({begin}) + {length} - 1) END"
    sql = (
        f"CASE WHEN {a} IS NULL OR {start} IS NULL OR {length} IS NULL THEN NULL WHEN {start} = 0 THEN "
        f"{failing('INVALID_PARAMETER_VALUE', 'slices count from 1', to)} WHEN {length} < 0 THEN "
        f"{failing('INVALID_PARAMETER_VALUE', 'a length below 0', to)} ELSE {cut} END"
    )
    return made(to, sql, *args, throws=True)


@admit(_FAMILY, "array_join")
def _join(context: Context, args: list[Typed]) -> Typed:
    if len(args) not in (2, 3) or args[0].type.name != "array":
        mistyped("array_join", args)
    if args[0].type != array(STRING):
        refuse(f"`array_join` of {args[0].type}")
    if args[1].literal is None:
        refuse("`array_join` with a delimiter that isn't a constant")
    if not all(takes(STRING, a.type) for a in args[1:]):
        mistyped("array_join", args)
    words, delimiter, *instead = args[0], *(cast(context, a, STRING) for a in args[1:])
    # A null is left out, or replaced by the third text, which mustn't be null itself.
    items = f"list_transform({words.sql}, lambda x: coalesce(x, {instead[0].sql}))" if instead else words.sql
    joined = f"coalesce(array_to_string({items}, {delimiter.sql}), '')"
    nulls = " OR ".join(f"{x.sql} IS NULL" for x in (words, *instead))
    return made(STRING, f"CASE WHEN {nulls} THEN NULL ELSE {joined} END", words, delimiter, *instead)


@admit(_FAMILY, "map_keys")
def _keys(_: Context, args: list[Typed]) -> Typed:
    return _of_map("map_keys", args, 0)


@admit(_FAMILY, "map_values")
def _values(_: Context, args: list[Typed]) -> Typed:
    return _of_map("map_values", args, 1)


def _of_map(name: str, args: list[Typed], part: int) -> Typed:
    if len(args) != 1 or args[0].type.name != "map":
        mistyped(name, args)
    return made(array(args[0].type.parts[part]), f"{name}({args[0].sql})", args[0])


@admit(_FAMILY, "map_contains_key")
def _has_key(context: Context, args: list[Typed]) -> Typed:
    if len(args) != 2 or args[0].type.name != "map" or not takes(args[0].type.parts[0], args[1].type):
        mistyped("map_contains_key", args)
    # Spark converts no text to the type of the keys here, and no key to text.
    if STRING in (args[1].type, args[0].type.parts[0]) and args[1].type not in (args[0].type.parts[0], VOID):
        mistyped("map_contains_key", args)
    key = cast(context, args[1], args[0].type.parts[0])
    return made(BOOLEAN, f"list_contains(map_keys({args[0].sql}), {key.sql})", args[0], key)
