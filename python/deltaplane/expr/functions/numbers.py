"""Arithmetic with Spark's result types, and functions of numbers that are exact on every machine.

Overflow and division by zero are errors. Functions whose last digit depends on a mathematical
library are excluded.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from deltaplane.expr.casts import cast
from deltaplane.expr.coerce import as_decimal, common_of
from deltaplane.expr.functions import intervals
from deltaplane.expr.functions.decimals import operation, sized
from deltaplane.expr.java_float import over_digits, plain
from deltaplane.expr.registry import Form, admit, forms, trying
from deltaplane.expr.typed import (
    IN_64_BITS,
    Bounds,
    Context,
    Typed,
    bounds_of,
    difference,
    fits,
    guarded,
    made,
    mistyped,
    narrow_of,
    product,
    refuse,
)
from deltaplane.expr.types import (
    DOUBLE,
    INT,
    LONG,
    MAX_PRECISION,
    STRING,
    VOID,
    SparkType,
    decimal,
)

_FAMILY = "numbers"
_MINUS_ONE = (Fraction(-1), Fraction(-1))
_ZERO = ("DIVIDE_BY_ZERO", "division by zero")


def _pair(name: str, args: list[Typed]) -> tuple[Typed, Typed]:
    if len(args) != 2:
        mistyped(name, args)
    return args[0], args[1]


def _decimals(a: Typed, b: Typed) -> bool:
    types = (a.type, b.type)
    exact = all(t.integral or t.name == "decimal" or t == VOID for t in types)
    return exact and any(t.name == "decimal" for t in types)


def _as_decimals(context: Context, a: Typed, b: Typed) -> tuple[Typed, Typed]:
    def converted(x: Typed, other: Typed) -> Typed:
        if x.type == VOID:
            return cast(context, x, other.type)
        if x.type.integral and x.literal is not None and not x.is_cast:
            return cast(context, x, decimal(len(x.literal.lstrip("-")), 0))
        return cast(context, x, as_decimal(x.type))

    return converted(a, b), converted(b, a)


def _alike(context: Context, name: str, a: Typed, b: Typed) -> tuple[Typed, Typed]:
    to = common_of(name, [a, b])
    if not to.numeric or to == VOID:
        mistyped(name, [a, b])
    return cast(context, a, to), cast(context, b, to)


def _sized(precision: int, scale: int, name: str) -> SparkType:
    if precision > MAX_PRECISION:
        refuse(f"`{name}` on decimals whose result needs {precision} digits")
    return decimal(precision, scale)


def _sum(name: str) -> None:
    @admit(_FAMILY, name)
    def lower(context: Context, args: list[Typed]) -> Typed:
        a, b = _pair(name, args)
        if (moved := intervals.sum_of(context, name, a, b)) is not None:
            return moved
        if _decimals(a, b):
            a, b = _as_decimals(context, a, b)
            scale = max(a.type.scale, b.type.scale)
            whole = max(a.type.precision - a.type.scale, b.type.precision - b.type.scale)
            to = sized(whole + scale + 1, scale)
            known = _bounds(name, a, b)
            if whole + scale + 1 > MAX_PRECISION and not (to.scale == scale and _all_fit(to, known, a, b)):
                return made(to, operation(name, a, b, to), a, b, throws=True)
            if to.precision > IN_64_BITS >= max(a.type.precision, b.type.precision) or to.precision <= whole + scale:
                # DuckDB adds decimals of 64 bits each in 64 bits; otherwise its result has the same
                # type as Spark's, and converting the operands would take one more pass for each.
                a, b = cast(context, a, to), cast(context, b, to)
            return _narrowed(made(to, f"CAST(({a.sql} {name} {b.sql}) AS {to.duck})", a, b), name, known, a, b)
        a, b = _alike(context, name, a, b)
        if not a.type.integral:
            return made(a.type, f"({a.sql} {name} {b.sql})", a, b)
        known = _bounds(name, a, b)
        sum_of_both = made(a.type, f"({a.sql} {name} {b.sql})", a, b, throws=not fits(known, a.type))
        return replace(sum_of_both, bounds=lambda: known)


def _bounds(name: str, a: Typed, b: Typed) -> Bounds:
    """The bounds of a sum, difference or product."""
    x, y = bounds_of(a), bounds_of(b)
    if name == "*":
        return product(x, y)
    return difference(x, y if name == "-" else (-y[1], -y[0]))


def _all_fit(to: SparkType, known: Bounds, *values: Typed) -> bool:
    """Whether a decimal type holds values and what is within bounds."""
    return fits(known, to) and all(fits(bounds_of(value), to) for value in values)


def _narrowed(value: Typed, name: str, known: Bounds, a: Typed, b: Typed) -> Typed:
    """The result of an operator of two decimals, with its bounds, and computed in 64 bits if it and
    its operands fit."""
    value = replace(value, bounds=lambda: known)
    held = decimal(IN_64_BITS, value.type.scale)
    left, right = narrow_of(a), narrow_of(b)
    if value.type.precision <= IN_64_BITS or held.scale >= held.precision or left is None or right is None:
        return value
    if not fits(known, held):
        return value
    # DuckDB adds and multiplies decimals of at most 18 digits in 64 bits, and checks the result.
    narrow = f"({left} {name} {right})"
    return replace(value, sql=f"CAST({narrow} AS {value.type.duck})", narrow=narrow)


_sum("+")
_sum("-")


@admit(_FAMILY, "*")
def _product(context: Context, args: list[Typed]) -> Typed:
    a, b = _pair("*", args)
    if a.type.interval or b.type.interval:
        return intervals.product(context, a, b)
    if _decimals(a, b):
        a, b = _as_decimals(context, a, b)
        precision, scale = a.type.precision + b.type.precision + 1, a.type.scale + b.type.scale
        to, known = sized(precision, scale), _bounds("*", a, b)
        if to.scale < scale:
            if scale > MAX_PRECISION or not fits(known, decimal(MAX_PRECISION, scale)):
                return made(to, operation("*", a, b, to), a, b, throws=True)
            unit = Fraction(1, 10**to.scale)
            rounded = made(to, f"CAST(({a.sql} * {b.sql}) AS {to.duck})", a, b)
            return replace(rounded, bounds=lambda: (known[0] - unit, known[1] + unit))
        left = a.sql
        if a.type.precision <= IN_64_BITS < precision:
            # DuckDB multiplies decimals of 64 bits each in 64 bits.
            left = f"CAST({left} AS DECIMAL({min(precision, MAX_PRECISION)},{a.type.scale}))"
        throws = precision > MAX_PRECISION and not fits(known, to)
        exact = made(to, f"CAST(({left} * {b.sql}) AS {to.duck})", a, b, throws=throws)
        return _narrowed(exact, "*", known, a, b)
    a, b = _alike(context, "*", a, b)
    if not a.type.integral:
        return made(a.type, f"({a.sql} * {b.sql})", a, b)
    known = _bounds("*", a, b)
    whole = made(a.type, f"({a.sql} * {b.sql})", a, b, throws=not fits(known, a.type))
    return replace(whole, bounds=lambda: known)


def _divided(a: Typed, b: Typed, to: SparkType, sql: str) -> Typed:
    """Guards against a divisor of zero, which is no error if the dividend is null; nor is a null
    divisor."""
    checked = guarded(f"{b.sql} = 0 AND {a.sql} IS NOT NULL", *_ZERO, sql, to)
    return made(to, f"CASE WHEN {b.sql} IS NOT NULL THEN {checked} END", a, b, throws=True)


@admit(_FAMILY, "/")
def _quotient(context: Context, args: list[Typed]) -> Typed:
    a, b = _pair("/", args)
    # In Spark a bare NULL divided by anything is a double.
    if _decimals(a, b) and a.type != VOID:
        a, b = _as_decimals(context, a, b)
        scale = max(6, a.type.scale + b.type.precision + 1)
        precision = a.type.precision - a.type.scale + b.type.scale + scale
        to = sized(precision, scale)
        fits = precision <= MAX_PRECISION
        exact = _decimal_quotient(a, b, to) if fits else operation("/", a, b, to)
        if not context.divisor_is_zero:
            return made(to, exact, a, b, throws=not fits)
        return _divided(a, b, to, exact)
    a, b = _alike(context, "/", a, b)
    a, b = cast(context, a, DOUBLE), cast(context, b, DOUBLE)
    quotient = f"({a.sql} / nullif({b.sql}, 0))"
    return _divided(a, b, DOUBLE, quotient) if context.divisor_is_zero else made(DOUBLE, quotient, a, b)


def unscaled(value: Typed) -> str:
    """A decimal's digits as an integer."""
    precision, scale = value.type.precision, value.type.scale
    # Left to DuckDB, products of decimals of 64 bits would have 64 bits.
    wide = max(precision, IN_64_BITS + 1)
    if wide + scale + 1 > MAX_PRECISION:
        return f"CAST(replace(CAST({value.sql} AS VARCHAR), '.', '') AS HUGEINT)"
    power = f"CAST('1{'0' * scale}' AS DECIMAL({scale + 1},0))"
    return f"CAST(CAST({value.sql} AS DECIMAL({wide},{scale})) * {power} AS HUGEINT)"


def rescaled(digits: str, to: SparkType) -> str:
    """The decimal of these digits."""
    if to.scale == 0:
        return f"CAST({digits} AS {to.duck})"
    if to.precision + to.scale <= MAX_PRECISION:
        unit = f"CAST('0.{'0' * (to.scale - 1)}1' AS DECIMAL({to.scale},{to.scale}))"
        return f"CAST(CAST({digits} AS DECIMAL({MAX_PRECISION - to.scale},0)) * {unit} AS {to.duck})"
    text = f"CAST(abs({digits}) AS VARCHAR)"
    padded = f"repeat('0', {to.scale + 1} - length({text})) || {text}"
    sign = f"CASE WHEN {digits} < 0 THEN '-' ELSE '' END"
    return f"CAST({sign} || left({padded}, -{to.scale}) || '.' || right({padded}, {to.scale}) AS {to.duck})"


def half_up(top: str, bottom: str, digits: int) -> str:
    """The quotient of two positive integers, rounded half up; both are HUGEINT, and have at most
    `digits` digits."""
    if digits < MAX_PRECISION:
        return f"((2 * {top} + {bottom}) // (2 * {bottom}))"
    # Twice the dividend could exceed 128 bits.
    return f"({top} // {bottom} + CASE WHEN {top} % {bottom} >= {bottom} - {top} % {bottom} THEN 1 ELSE 0 END)"


def _decimal_quotient(a: Typed, b: Typed, to: SparkType) -> str:
    # On integers: the dividend's digits with as many zeros as the scale needs.
    zeros = to.scale - a.type.scale + b.type.scale
    top = f"abs({unscaled(a)} * CAST('1{'0' * zeros}' AS HUGEINT))"
    bottom = f"abs(nullif({unscaled(b)}, 0))"
    quotient = half_up(top, bottom, max(a.type.precision + zeros, b.type.precision))
    sign = f"CASE WHEN ({a.sql} < 0) = ({b.sql} < 0) THEN 1 ELSE -1 END"
    return rescaled(f"({quotient} * {sign})", to)


@admit(_FAMILY, "div")
def _div(context: Context, args: list[Typed]) -> Typed:
    a, b = _pair("div", args)
    if not (a.type.integral and b.type.integral):
        refuse(f"`div` on {a.type} and {b.type}")
    a, b = cast(context, a, LONG), cast(context, b, LONG)
    return _divided(a, b, LONG, f"({a.sql} // nullif({b.sql}, 0))")


def remainder(a: Typed, b: Typed) -> str:
    """The remainder with the dividend's sign."""
    plain = f"({a.sql} % nullif({b.sql}, 0))"
    if not a.type.integral:
        return plain
    # The least number divided by -1 overflows, but the remainder is 0.
    return f"CASE WHEN {b.sql} = -1 THEN CASE WHEN {a.sql} IS NULL THEN NULL ELSE CAST(0 AS {a.type.duck}) END ELSE {plain} END"


@admit(_FAMILY, "%", "mod")
def _mod(context: Context, args: list[Typed]) -> Typed:
    a, b = _pair("%", args)
    if _decimals(a, b):
        return _decimal_remainder(*_as_decimals(context, a, b))
    a, b = _alike(context, "%", a, b)
    return _divided(a, b, a.type, remainder(a, b))


def _decimal_remainder(a: Typed, b: Typed) -> Typed:
    scale = max(a.type.scale, b.type.scale)
    to = _sized(min(x.type.precision - x.type.scale for x in (a, b)) + scale, scale, "%")

    def digits(x: Typed) -> str:
        zeros = scale - x.type.scale
        _sized(x.type.precision + zeros, scale, "%")
        return f"({unscaled(x)} * CAST('1{'0' * zeros}' AS HUGEINT))"

    return _divided(a, b, to, rescaled(f"({digits(a)} % nullif({digits(b)}, 0))", to))


@admit(_FAMILY, "pmod")
def _pmod(context: Context, args: list[Typed]) -> Typed:
    a, b = _pair("pmod", args)
    if _decimals(a, b):
        refuse(f"`pmod` on {a.type if a.type.name == 'decimal' else b.type}")
    a, b = _alike(context, "pmod", a, b)
    if a.type.fractional:
        plain = remainder(a, b)
        positive = remainder(made(a.type, f"({plain} + {b.sql})"), b)
        return _divided(a, b, a.type, f"CASE WHEN {plain} < 0 THEN {positive} ELSE {plain} END")
    r = made(a.type, remainder(a, b), a, b)
    wide = f"(CAST({r.sql} AS HUGEINT) + {b.sql}) % nullif({b.sql}, 0)"
    # Below the least number Spark wraps around.
    sql = (
        f"CASE WHEN {r.sql} < 0 AND {b.sql} < {_least(a.type)} / 2 THEN {r.sql} "
        f"WHEN {r.sql} < 0 THEN CAST({wide} AS {a.type.duck}) ELSE {r.sql} END"
    )
    if a.type.name in ("integer", "long"):
        sql = guarded(
            f"{r.sql} < 0 AND CAST({r.sql} AS HUGEINT) + {b.sql} < {_least(a.type)}",
            "UNSUPPORTED_VALUE",
            "the sum of remainder and divisor wraps around",
            sql,
            a.type,
        )
    return made(a.type, _divided(a, b, a.type, sql).sql, a, b, throws=True, partial=True)


def _least(data_type: SparkType) -> str:
    return f"CAST('-{1 << (data_type.bits - 1)}' AS HUGEINT)"


@admit(_FAMILY, "negative")
def _negative(_: Context, args: list[Typed]) -> Typed:
    (value,) = args
    if not value.type.numeric and not value.type.interval:
        mistyped("negative", args)
    if value.type.interval:
        return made(value.type, f"(CAST(0 AS {value.type.duck}) - {value.sql})", value, throws=True)
    if value.type.fractional:
        return made(value.type, f"CAST(-({value.sql}) AS {value.type.duck})", value)
    known = product(bounds_of(value), _MINUS_ONE)
    sql, throws = f"CAST(-({value.sql}) AS {value.type.duck})", False
    if value.type.integral:
        sql, throws = f"(CAST(0 AS {value.type.duck}) - {value.sql})", not fits(known, value.type)
    return replace(made(value.type, sql, value, throws=throws), bounds=lambda: known)


@admit(_FAMILY, "positive")
def _positive(_: Context, args: list[Typed]) -> Typed:
    if len(args) != 1 or not (args[0].type.numeric or args[0].type.interval):
        mistyped("positive", args)
    return args[0]


@admit(_FAMILY, "abs")
def _abs(_: Context, args: list[Typed]) -> Typed:
    if len(args) != 1 or not args[0].type.numeric:
        mistyped("abs", args)
    value = args[0]
    throws = value.type.integral and not fits(product(bounds_of(value), _MINUS_ONE), value.type)
    return made(value.type, f"CAST(abs({value.sql}) AS {value.type.duck})", value, throws=throws)


@admit(_FAMILY, "sign", "signum")
def _sign(context: Context, args: list[Typed]) -> Typed:
    if len(args) != 1 or not args[0].type.numeric:
        mistyped("sign", args)
    x = cast(context, args[0], DOUBLE)
    unit = "CAST(1 AS DOUBLE)"
    sql = f"CASE WHEN isnan({x.sql}) OR {x.sql} = 0 THEN {x.sql} WHEN {x.sql} > 0 THEN {unit} ELSE -{unit} END"
    return made(DOUBLE, f"CASE WHEN {x.sql} IS NOT NULL THEN {sql} END", x)


def _to_whole(*names: str) -> None:
    duck = "ceil" if names[0].startswith("c") else "floor"

    @admit(_FAMILY, *names)
    def lower(context: Context, args: list[Typed]) -> Typed:
        if len(args) != 1 or not args[0].type.numeric:
            refuse(f"`{names[0]}` with a scale")
        value = args[0]
        if value.type.integral:
            return cast(context, value, LONG)
        if value.type.name == "decimal":
            precision = (
                min(value.type.precision - value.type.scale + 1, MAX_PRECISION)
                if value.type.scale
                else value.type.precision
            )
            to = decimal(precision, 0)
            return made(to, f"CAST({duck}({value.sql}) AS {to.duck})", value)
        # Java's conversion to a long saturates, and takes NaN for 0.
        x = f"{duck}(CAST({value.sql} AS DOUBLE))"
        sql = (
            f"CASE WHEN isnan({x}) THEN CAST(0 AS BIGINT) WHEN {x} >= 9223372036854775807 THEN 9223372036854775807 "
            f"WHEN {x} <= -9223372036854775808 THEN CAST(-9223372036854775808 AS BIGINT) ELSE CAST({x} AS BIGINT) END"
        )
        return made(LONG, sql, value)


_to_whole("ceil", "ceiling")
_to_whole("floor")


@admit(_FAMILY, "round")
def _round(context: Context, args: list[Typed]) -> Typed:
    return _rounded(context, "round", args)


@admit(_FAMILY, "bround")
def _bround(context: Context, args: list[Typed]) -> Typed:
    return _rounded(context, "bround", args)


# Digits after the point of a rounded binary floating-point number; before it there are 16 at most.
_MOST_DIGITS = 18


def _half_up(value: Typed, digits: int) -> Typed:
    """Java's digits, rounded half up, as a number; an integral number is unchanged."""
    data_type = value.type
    # The text of a number depends on the Java version only for large integral numbers, which are
    # returned unchanged, and for tiny ones, which round to zero.
    number = f"CAST(CAST(CAST({plain()} AS DECIMAL(38,{digits})) AS VARCHAR) AS {data_type.duck})"
    whole = f"n IS NULL OR NOT isfinite(n) OR abs(n) >= CAST({1 << 52} AS DOUBLE)"
    nothing = "abs(n) < CAST(1e-20 AS DOUBLE)"
    body = f"CASE WHEN {whole} THEN CAST(n AS {data_type.duck}) WHEN {nothing} THEN CAST(0 AS {data_type.duck}) ELSE {number} END"
    return made(data_type, over_digits(f"CAST({value.sql} AS DOUBLE)", DOUBLE, body), value)


def _rounded(context: Context, name: str, args: list[Typed]) -> Typed:
    if len(args) not in (1, 2) or not args[0].type.numeric:
        mistyped(name, args)
    digits = 0
    if len(args) == 2:
        if args[1].type != INT or args[1].literal is None:
            refuse(f"`{name}` with a scale that isn't a number")
        digits = int(args[1].literal)
    value = args[0]
    if value.type.integral and digits >= 0:
        return value
    if name == "round" and value.type.fractional and 0 <= digits <= _MOST_DIGITS:
        return _half_up(value, digits)
    if value.type.name != "decimal" or digits < 0:
        refuse(f"`{name}` of {value.type} to {digits} digits")
    if digits >= value.type.scale:
        return value
    whole = value.type.precision - value.type.scale + 1
    to = decimal(min(whole + digits, MAX_PRECISION), digits)
    if name == "round":
        return made(to, f"CAST({value.sql} AS {to.duck})", value, throws=True)
    u, unit = unscaled(value), 10 ** (value.type.scale - digits)
    q, r = f"(abs({u}) // {unit})", f"(abs({u}) % {unit})"
    up = f"CASE WHEN {r} * 2 > {unit} OR ({r} * 2 = {unit} AND {q} % 2 = 1) THEN 1 ELSE 0 END"
    return made(to, rescaled(f"(({q} + {up}) * CASE WHEN {value.sql} < 0 THEN -1 ELSE 1 END)", to), value, throws=True)


_HALF_EVEN = "CASE WHEN abs({0}) < 4503599627370496 THEN round_even({0}, 0) ELSE {0} END"
forms(_FAMILY, "rint", Form([DOUBLE], DOUBLE, _HALF_EVEN))
forms(_FAMILY, "sqrt", Form([DOUBLE], DOUBLE, "CASE WHEN {0} < 0 THEN CAST('nan' AS DOUBLE) ELSE sqrt({0}) END"))
forms(_FAMILY, "degrees", Form([DOUBLE], DOUBLE, "({0} * CAST('57.29577951308232' AS DOUBLE))"))
forms(_FAMILY, "radians", Form([DOUBLE], DOUBLE, "({0} * CAST('0.017453292519943295' AS DOUBLE))"))
forms(_FAMILY, "pi", Form([], DOUBLE, "CAST('3.141592653589793' AS DOUBLE)"))
forms(_FAMILY, "e", Form([], DOUBLE, "CAST('2.718281828459045' AS DOUBLE)"))
# The number of a bucket among equal ones between two bounds, which may be in either order.
_BUCKET = """CASE WHEN {0} IS NULL OR {1} IS NULL OR {2} IS NULL OR {3} IS NULL OR {3} <= 0 OR {3} = 9223372036854775807
OR isnan({0}) OR {1} = {2} OR NOT isfinite({1}) OR NOT isfinite({2}) THEN NULL
WHEN {1} < {2} AND {0} < {1} OR {1} > {2} AND {0} > {1} THEN 0
WHEN {1} < {2} AND {0} >= {2} OR {1} > {2} AND {0} <= {2} THEN {3} + 1
WHEN {1} < {2} THEN CAST(trunc(CAST({3} AS DOUBLE) * ({0} - {1}) / ({2} - {1})) AS BIGINT) + 1
ELSE CAST(trunc(CAST({3} AS DOUBLE) * ({1} - {0}) / ({1} - {2})) AS BIGINT) + 1 END"""
forms(_FAMILY, "width_bucket", Form([DOUBLE, DOUBLE, DOUBLE, LONG], LONG, " ".join(_BUCKET.split())))
forms(
    _FAMILY,
    "factorial",
    Form([INT], LONG, "CASE WHEN {0} BETWEEN 0 AND 20 THEN CAST(factorial({0}) AS BIGINT) END"),
)
forms(_FAMILY, "bin", Form([LONG], STRING, "bin({0})"))

for _name, _plain in (("add", "+"), ("subtract", "-"), ("multiply", "*"), ("divide", "/"), ("mod", "%")):
    trying(_FAMILY, f"try_{_name}", _plain)
