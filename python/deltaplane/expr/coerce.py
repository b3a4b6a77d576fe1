"""Implicit conversions of Spark's ANSI mode: the common type of several values, and the types that
a parameter accepts.

Contains no function. Arguments that Spark would convert in another way are refused.
"""

from __future__ import annotations

from deltaplane.expr.casts import cast, parsed_number
from deltaplane.expr.typed import Context, Typed, mistyped
from deltaplane.expr.types import (
    BOOLEAN,
    DOUBLE,
    FLOAT,
    LONG,
    MAX_PRECISION,
    STRING,
    VOID,
    SparkType,
    decimal,
)

_ORDER = ("byte", "short", "integer", "long", "float", "double")
_TIMES = ("date", "timestamp_ntz", "timestamp")
_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}


def as_decimal(data_type: SparkType) -> SparkType:
    """The decimal type that covers all values of an integer type."""
    return data_type if data_type.name == "decimal" else decimal(_DIGITS[data_type.name], 0)


def common(a: SparkType, b: SparkType) -> SparkType | None:
    """The common type of two values, for comparisons, branches and collections."""
    if a == b or b == VOID:
        return a
    if a == VOID:
        return b
    if a.numeric and b.numeric:
        return _common_number(a, b)
    if a.name in _TIMES and b.name in _TIMES:
        return max(a, b, key=lambda t: _TIMES.index(t.name))
    if a.interval and a.name == b.name:
        return SparkType(a.name, min(a.precision, b.precision), max(a.scale, b.scale))
    if STRING in (a, b):
        return _common_with_text(b if a == STRING else a)
    if a.name == b.name == "array":
        element = common(a.parts[0], b.parts[0])
        return element and SparkType("array", parts=(element,))
    return None


def _common_number(a: SparkType, b: SparkType) -> SparkType | None:
    if "decimal" in (a.name, b.name):
        if a.fractional or b.fractional:
            return DOUBLE
        x, y = as_decimal(a), as_decimal(b)
        scale = max(x.scale, y.scale)
        precision = max(x.precision - x.scale, y.precision - y.scale) + scale
        # Above 38 digits Spark rounds to fewer digits behind the point.
        return decimal(min(precision, MAX_PRECISION), max(scale - max(precision - MAX_PRECISION, 0), 0))
    wider = max(a, b, key=lambda t: _ORDER.index(t.name))
    return DOUBLE if wider == FLOAT else wider


def _common_with_text(other: SparkType) -> SparkType | None:
    if other.integral:
        return LONG
    if other.numeric:
        return DOUBLE
    return other if other.atomic and not other.interval else None


def common_of(name: str, args: list[Typed]) -> SparkType:
    """The common type of a function's arguments; refused if there is none."""
    if STRING in [a.type for a in args] and len({a.type for a in args} - {STRING, VOID}) > 1:
        mistyped(name, args)
    result: SparkType | None = VOID
    # Strings come last, as in Spark: a string takes the type of the other operand.
    for arg in sorted(args, key=lambda a: a.type == STRING):
        result = common(result, arg.type) if result is not None else None
    if result is None:
        mistyped(name, args)
    return result


def unified(context: Context, name: str, args: list[Typed]) -> list[Typed]:
    """The arguments in their common type."""
    to = common_of(name, args)
    decimals = [a.type for a in args if a.type.name == "decimal"]
    if decimals and to == DOUBLE:
        # Spark then compares doubles, which the error explains.
        why = f"is no number, as {decimals[0]} beside it is"
        return [parsed_number(a, to, why) if a.type == STRING else convert(context, a, to) for a in args]
    return [convert(context, a, to) for a in args]


def convert(context: Context, value: Typed, to: SparkType) -> Typed:
    """A value in a type that `common` found."""
    if value.type == to:
        return value
    if value.type == VOID or not to.parts:
        return cast(context, value, to)
    if any(t.parts for t in (value.type.parts[0], to.parts[0])):
        mistyped("array", [value])
    element = cast(context, Typed(value.type.parts[0], "x", throws=False), to.parts[0])
    return Typed(to, f"list_transform({value.sql}, lambda x: {element.sql})", value.throws or element.throws)


def takes(parameter: SparkType, argument: SparkType) -> bool:
    """Whether Spark converts an argument implicitly to the type of a function's parameter."""
    if argument in (parameter, VOID):
        return True
    if argument.numeric and parameter.numeric:
        if "decimal" in (argument.name, parameter.name):
            return argument.integral or parameter == DOUBLE
        return _ORDER.index(argument.name) <= _ORDER.index(parameter.name)
    if argument == STRING:
        return parameter.atomic
    if argument.interval:
        return argument.name == parameter.name
    if parameter == STRING:
        return argument.numeric or argument.name in ("boolean", "date", "timestamp", "timestamp_ntz")
    return argument.name in _TIMES and parameter.name in _TIMES


def boolean(context: Context, name: str, value: Typed) -> Typed:
    """Checks that a value is a condition."""
    if value.type not in (BOOLEAN, VOID, STRING):
        mistyped(name, [value])
    return cast(context, value, BOOLEAN)
