"""Casts values to the types of the columns that store them; casts fail for values out of range.

Translates structs, arrays and maps. Uses no row and no table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from deltaplane.exceptions import DeltaError, SchemaMismatchError, UnsupportedExpressionError
from deltaplane.expr.casts import CASTS, cast
from deltaplane.expr.typed import Context, Typed
from deltaplane.expr.types import SparkType, as_json, of_json, quoted, text

__all__ = ["Shape", "Stored", "in_columns", "stored", "stored_value", "stores"]

# The fields of a stored struct: those of the value, or all of its column's, matched by name or by
# position.
Shape = Literal["value", "by_name", "by_position"]
# The names of parts of arrays and maps in errors.
_PARTS = {"elementType": "element", "keyType": "key", "valueType": "value"}
# Errors for values that can't be cast to their column's type.
_UNFIT = ("[CAST_", "[NUMERIC_VALUE_OUT_OF_RANGE]")


def stores(source: SparkType, to: SparkType) -> bool:
    """Whether a statement implicitly stores values of a primitive type in a column of another one:
    delta-spark does if Spark's ANSI mode has a cast, which fails for values out of range.

    >>> from deltaplane.expr.types import DATE, INT, STRING
    >>> stores(INT, STRING), stores(STRING, INT), stores(DATE, INT)
    (True, True, False)
    """
    return source == to or source.name == "void" or (source.name, to.name) in CASTS


@dataclass(frozen=True)
class Stored:
    """DuckDB text for a value in its column's form, its type as JSON, and the paths of parts whose
    cast can fail."""

    sql: str
    type: Any
    failing: Sequence[str] = ()
    partial: bool = False


def stored(context: Context, column: str, sql: str, source: Any, to: Any, shape: Shape = "value") -> Stored:
    """A value, as DuckDB text, in the column's types for the value's parts.

    Args:
        context: the session.
        column: the column's path, as errors show it.
        sql: the value.
        source, to: the types of value and column, as JSON.
        shape: the fields of a stored struct. With `value`, fields that the column lacks stay as
            they are.

    Raises:
        SchemaMismatchError: a part whose type can't be stored in the column's part, or a struct
            with another number of fields if they are matched by position; names the part.
        UnsupportedExpressionError: a cast without an exact translation.
    """
    casts = _Casts(context, shape)
    made, stored_type = casts.part(column, sql, source, to, 0)
    return Stored(made, stored_type, tuple(casts.failing), casts.partial)


def stored_value(context: Context, column: str, value: Typed, to: SparkType, shape: Shape, failing: list[str]) -> Typed:
    """A typed value in the type of its column, with all fields of structs; raises as `stored`.
    `failing` collects the parts' paths."""
    if value.type == to:
        return value
    result = stored(context, column, value.sql, as_json(value.type), as_json(to), shape)
    failing += result.failing
    throws, partial = value.throws or bool(result.failing), value.partial or result.partial
    return Typed(to, result.sql, throws=throws, partial=partial, constant=value.constant)


def in_columns(error: DeltaError, columns: Sequence[str]) -> DeltaError:
    """The error; if it is about a value out of range, with the columns that it may concern."""
    if not columns or not str(error).startswith(_UNFIT):
        return error
    named = ", ".join(f"`{column}`" for column in dict.fromkeys(columns))
    return type(error)(f"{error}, stored in {'one of the columns ' if len(set(columns)) > 1 else 'the column '}{named}")


@dataclass
class _Casts:
    context: Context
    shape: Shape
    failing: list[str] = field(default_factory=list)
    partial: bool = False

    def part(self, path: str, sql: str, source: Any, to: Any, depth: int) -> tuple[str, Any]:
        """A part of the value and its type; unchanged if no conversion is needed."""
        if source == to:
            return sql, source
        if source == "void":
            simple = of_json(to)
            return (sql, source) if simple is None else (f"CAST(NULL AS {simple.duck})", to)
        if isinstance(source, str) or isinstance(to, str):
            return self._leaf(path, sql, source, to)
        if source["type"] != to["type"]:
            raise _mismatch(path, source, to)
        if to["type"] == "struct":
            return self._struct(path, sql, source, to, depth)
        return (
            self._array(path, sql, source, to, depth)
            if to["type"] == "array"
            else self._map(path, sql, source, to, depth)
        )

    def _leaf(self, path: str, sql: str, source: Any, to: Any) -> tuple[str, Any]:
        own, simple = of_json(source), of_json(to)
        if own is None or simple is None or not stores(own, simple):
            raise _mismatch(path, source, to)
        if own == simple:
            return sql, source
        made = cast(self.context, Typed(own, sql), simple)
        if made.throws:
            self.failing.append(path)
        self.partial |= made.partial
        return made.sql, to

    def _struct(self, path: str, sql: str, source: Any, to: Any, depth: int) -> tuple[str, Any]:
        fields, names, values = list[dict[str, Any]](), list[str](), list[str]()
        same = True
        for name, own, brought in self._pairs(path, source["fields"], to["fields"]):
            if brought is None:
                data_type = of_json(own["type"])
                if data_type is None:
                    raise UnsupportedExpressionError(
                        f"the value for `{path}` has no field `{own['name']}` of type {own['type']}, of which the embedded engine "
                        "makes no null: give the struct the field, or use the Spark engine for it"
                    )
                part, of_part = f"CAST(NULL AS {data_type.duck})", own["type"]
            else:
                below = f"struct_extract({sql}, {text(brought['name'])})"
                part, of_part = self.part(f"{path}.{name}", below, brought["type"], own["type"], depth)
                same &= part is below
            fields.append({**(brought or own), "name": name, "type": of_part})
            names.append(name)
            values.append(part)
        if same and names == [f["name"] for f in source["fields"]]:
            return sql, source
        packed = ", ".join(f"{quoted(name)} := {value}" for name, value in zip(names, values, strict=True))
        return f"CASE WHEN {sql} IS NOT NULL THEN struct_pack({packed}) END", {**to, "fields": fields}

    def _pairs(
        self, path: str, source: Sequence[Mapping[str, Any]], to: Sequence[Mapping[str, Any]]
    ) -> list[tuple[str, Mapping[str, Any], Mapping[str, Any] | None]]:
        """The fields of a stored struct: the name, the column's field, and the value's, which may
        be missing."""
        if self.shape == "by_position":
            if len(source) != len(to):
                raise SchemaMismatchError(
                    f"the value for `{path}` has {len(source)} of the {len(to)} fields ({_names(source)} for {_names(to)}): "
                    "give one for each, in their order"
                )
            return [(own["name"], own, brought) for own, brought in zip(to, source, strict=True)]
        there = {f["name"].lower(): f for f in source}
        own_fields = {f["name"].lower(): f for f in to}
        if self.shape == "value":
            return [(f["name"], own_fields.get(f["name"].lower(), f), f) for f in source]
        if more := [f["name"] for f in source if f["name"].lower() not in own_fields]:
            raise SchemaMismatchError(
                f"the value for `{path}` has a field `{more[0]}`, which the column lacks (it has {_names(to)}): leave it out, or "
                "add it to the table first"
            )
        return [(f["name"], f, there.get(f["name"].lower())) for f in to]

    def _array(self, path: str, sql: str, source: Any, to: Any, depth: int) -> tuple[str, Any]:
        made = self._each(path, sql, source, to, depth, "elementType")
        return (sql, source) if made is None else (made[0], {**source, "elementType": made[1]})

    def _map(self, path: str, sql: str, source: Any, to: Any, depth: int) -> tuple[str, Any]:
        keys = self._each(path, f"map_keys({sql})", source, to, depth, "keyType")
        values = self._each(path, f"map_values({sql})", source, to, depth, "valueType")
        if keys is None and values is None:
            return sql, source
        (of_keys, key), (of_values, value) = (
            keys or (f"map_keys({sql})", source["keyType"]),
            values or (f"map_values({sql})", source["valueType"]),
        )
        made = f"CASE WHEN {sql} IS NOT NULL THEN map({of_keys}, {of_values}) END"
        return made, {**source, "keyType": key, "valueType": value}

    def _each(self, path: str, listed: str, source: Any, to: Any, depth: int, part: str) -> tuple[str, Any] | None:
        """A list of converted parts, and their type; None if they are unchanged."""
        leaf = f"leaf{depth}"
        made, element_type = self.part(f"{path}.{_PARTS[part]}", leaf, source[part], to[part], depth + 1)
        return None if made is leaf else (f"list_transform({listed}, lambda {leaf}: {made})", element_type)


def _mismatch(path: str, source: Any, to: Any) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"`{path}` of type {_shown_type(to)} doesn't take a value of type {_shown_type(source)}: cast it"
    )


def _shown_type(data_type: Any) -> str:
    simple = of_json(data_type)
    return str(simple) if simple is not None else data_type if isinstance(data_type, str) else data_type["type"]


def _names(fields: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(f["name"] for f in fields)
