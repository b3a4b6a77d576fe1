"""Java's text of a binary floating-point number, computed from DuckDB's digits.

Java 17 and Java 19 or newer differ in rare numbers; Spark runs on both, so rows with such a number
are refused.
"""

from __future__ import annotations

import math

from deltaplane.expr.types import DOUBLE, SparkType

__all__ = ["over_digits", "plain", "varying", "written"]

# Bits of the fraction, including the leading one.
_BITS = {"float": 24, "double": 53}
# With at least this many digits, both Java versions may write numbers between 2^82 and 2^86
# differently.
_LONG = {"float": 8, "double": 17}
# Below this number Java 19 writes two digits where one is enough, and Java 17 writes the nearest
# number.
_TINY = {"float": "CAST(2e-43 AS FLOAT)", "double": "CAST(1e-321 AS DOUBLE)"}
# Below this number (subnormals) fewer digits may identify a number.
_SUBNORMAL = "CAST(1.17549435e-38 AS FLOAT)"
_SIZE = "abs(n)"
_DIGITS = "trim(replace(split_part(t, 'e', 1), '.', ''), '0')"
# The decimal exponent of the first digit.
_EXPONENT = (
    "CASE WHEN contains(t, 'e') THEN CAST(split_part(t, 'e', 2) AS INTEGER) "
    "WHEN abs(n) >= 1 THEN CAST(strpos(t, '.') AS INTEGER) - 2 "
    "ELSE 1 - CAST(length(t) - length(ltrim(replace(t, '.', ''), '0')) AS INTEGER) END"
)


def over_digits(value: str, data_type: SparkType, body: str) -> str:
    """`body` over the number as `n` and its absolute value in the fewest digits as `t`; each is
    computed once."""
    return f"list_transform([{value}], lambda n: list_transform([{_shortest(data_type)}], lambda t: {body})[1])[1]"


def _shortest(data_type: SparkType) -> str:
    if data_type == DOUBLE:
        return "CAST(abs(n) AS VARCHAR)"
    # DuckDB's text of the narrower type has too many digits: the first rounding that yields the
    # same number has the right ones.
    rounded = [f"format('{{:.{digits - 1}e}}', CAST(abs(n) AS DOUBLE))" for digits in range(2, 10)]
    small, normal = (
        " ".join(f"WHEN CAST({text} AS FLOAT) = abs(n) THEN {text}" for text in texts)
        for texts in (rounded[:4], rounded[4:-1])
    )
    few = f"CASE {small} END"
    return (
        f"CASE WHEN NOT isfinite(n) THEN '' ELSE coalesce(CASE WHEN abs(n) < {_SUBNORMAL} THEN {few} END, "
        f"CASE {normal} ELSE {rounded[-1]} END) END"
    )


def written(data_type: SparkType) -> str:
    """The text of a finite number."""
    return (
        f"CASE WHEN n = 0 THEN CAST(n AS VARCHAR) ELSE CASE WHEN n < 0 THEN '-' ELSE '' END || "
        f"CASE WHEN {_SIZE} >= CAST(0.001 AS {data_type.duck}) AND {_SIZE} < 10000000 "
        f"THEN CASE WHEN contains(t, 'e') THEN {_pointed(_unsigned())} ELSE t END "
        f"ELSE left({_DIGITS}, 1) || '.' || CASE WHEN length({_DIGITS}) > 1 THEN substring({_DIGITS}, 2) ELSE '0' END "
        f"|| 'E' || {_EXPONENT} END END"
    )


def _pointed(text: str) -> str:
    return f"{text} || CASE WHEN length({_DIGITS}) <= {_EXPONENT} + 1 THEN '.0' ELSE '' END"


def plain() -> str:
    """A finite number without an exponent."""
    return f"CASE WHEN n = 0 THEN '0' ELSE CASE WHEN n < 0 THEN '-' ELSE '' END || {_unsigned()} END"


def _unsigned() -> str:
    return (
        f"CASE WHEN {_SIZE} < 1 THEN '0.' || repeat('0', -({_EXPONENT}) - 1) || {_DIGITS} "
        f"WHEN length({_DIGITS}) <= {_EXPONENT} + 1 THEN rpad({_DIGITS}, {_EXPONENT} + 1, '0') "
        f"ELSE left({_DIGITS}, {_EXPONENT} + 1) || '.' || substring({_DIGITS}, {_EXPONENT} + 2) END"
    )


def varying(data_type: SparkType) -> str:
    """Whether the text of a finite number depends on the version of Java; true for some other rare
    numbers as well.

    Java 17 drops digits of integers by their size alone, rejects a text half-way to the neighbour,
    writes powers of two with a digit too many, and rounds wrongly between 2^82 and 2^86.
    """
    bits = _BITS[data_type.name]
    steps = " ".join(f"WHEN {_SIZE} < {_power(bits + 2 + i)} THEN {_dropped(i)}" for i in range(61 - bits))
    apart = f"abs(CAST({_WRITTEN} - {_WHOLE} AS DOUBLE))"
    scale = f"floor(log2(CAST({_SIZE} AS DOUBLE)))"
    halfway = f"{apart} IN (pow(2, {scale} - {bits}), pow(2, {scale} - {bits + 1}))"
    power = f"CAST({_SIZE} AS DOUBLE) = pow(2, round(log2(CAST({_SIZE} AS DOUBLE))))"
    return (
        f"CASE WHEN {_SIZE} < {_TINY[data_type.name]} THEN {_SIZE} > 0 "
        f"WHEN {_SIZE} < 0.000001 THEN {power} WHEN {_SIZE} >= {_power(63)} AND {power} THEN true "
        f"WHEN {_SIZE} < {_power(bits)} OR {_SIZE} >= {_power(91)} THEN false "
        f"WHEN {_SIZE} < {_power(63)} THEN {_WRITTEN} <> CASE {steps} ELSE {_dropped(61 - bits)} END "
        f"WHEN {_SIZE} >= {_power(82)} AND {_SIZE} < {_power(86)} AND length({_DIGITS}) >= {_LONG[data_type.name]} THEN true "
        f"ELSE {halfway} END"
    )


# An integer, and the one that its digits denote.
_WHOLE = "CAST(abs(n) AS HUGEINT)"
_WRITTEN = "CAST(CAST(t AS DECIMAL(38,0)) AS HUGEINT)"


def _power(exponent: int) -> str:
    return f"CAST('{1 << exponent}' AS DOUBLE)"


def _dropped(beyond: int) -> str:
    """An integer as Java 17 writes it, which has `beyond` more bits than the type's precision."""
    unit = 10 ** math.floor(beyond * math.log10(2))
    return _WHOLE if unit == 1 else f"({_WHOLE} + {unit // 2}) // {unit} * {unit}"
