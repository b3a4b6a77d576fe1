"""A typed expression during its translation to DuckDB, and helpers of translations: raising,
guarding, null, and bounds of exact numbers.

Bounds show that an operation can't fail, and that a decimal fits in 64 bits. DuckDB checks each
operation nevertheless, so that wrong statistics of a column lead to an error, never to a wrong
value. Contains no function of Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import NoReturn

from deltaplane.exceptions import InvalidArgumentError, UnsupportedExpressionError
from deltaplane.expr.types import SparkType, decimal, text

_ADVICE = "use the Spark engine for it"
# Maximum number of characters of a translation: a translation may use an argument several times, so
# nesting multiplies its size.
MAX_SQL = 1 << 20
# Ends the text of `failing`, since DuckDB appends words: a private-use character, as texts contain
# any other.
END = "\ue002"
# Maximum number of characters of a value in an error.
_SHOWN = 100
# Digits of a decimal that DuckDB holds in 64 bits.
IN_64_BITS = 18
# More rows than a machine reads in one query.
_MOST_ROWS = 10**10
# The least and the greatest of some numbers.
Bounds = tuple[Fraction, Fraction]


@dataclass(frozen=True)
class Typed:
    """A value: its Spark type and the DuckDB text that computes it.

    `throws`: a row may raise Spark's error, so guards must be evaluated first. `partial`: a row may
    be refused although Spark has a value for it. `literal`: the original text of a constant.
    `name`: the name of a column or field. `bounds` computes bounds of its numbers, as far as they
    are known. `narrow`: text that computes a decimal of more digits as one of at most 18.
    `is_cast`: a constant with an explicit cast, whose type therefore doesn't follow its digits.
    """

    type: SparkType
    sql: str
    throws: bool = False
    partial: bool = False
    literal: str | None = None
    constant: bool = False
    name: str | None = None
    bounds: Callable[[], Bounds | None] | None = field(default=None, compare=False, repr=False)
    narrow: str | None = field(default=None, compare=False, repr=False)
    is_cast: bool = field(default=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.sql) > MAX_SQL:
            raise UnsupportedExpressionError(f"the expression is too large for the embedded engine: {_ADVICE}")


@dataclass
class Context:
    """Session facts for translations. `offset_us`: the zone's distance from UTC, None for a zone
    with rules.

    `intervals` tells whether two dates or times were subtracted, `divisor_is_zero` whether the
    divisor of a quotient may be zero.
    """

    zone: str = "UTC"
    offset_us: int | None = 0
    now_us: int | None = None
    intervals: bool = False
    divisor_is_zero: bool = True

    def shifted(self, sql: str, to_local: bool) -> str:
        """A UTC timestamp as the session's local one, or back."""
        if self.offset_us is None:
            raise UnsupportedExpressionError(
                f"the expression depends on the session's time zone {self.zone}, whose rules the embedded engine "
                f"doesn't have as Spark does: use UTC or a fixed offset such as +02:00, or {_ADVICE}"
            )
        if self.offset_us == 0:
            return sql
        return f"({sql} {'+' if to_local else '-'} to_microseconds({self.offset_us}))"


def refuse(what: str) -> NoReturn:
    """Raises that there is no exact translation."""
    raise UnsupportedExpressionError(
        f"the expression uses {what.rstrip(',')}, which the embedded engine doesn't evaluate as Spark does: {_ADVICE}"
    )


def mistyped(name: str, args: list[Typed]) -> NoReturn:
    """Raises that arguments aren't permitted by Spark's rules, or aren't admitted here."""
    shown = ", ".join(str(a.type) for a in args)
    if any(a.type.name in ("binary", "void") or a.type.interval for a in args):
        # Spark accepts or converts these in more cases than are known here.
        refuse(f"`{name}` of ({shown})")
    raise InvalidArgumentError(
        f"`{name}` doesn't take ({shown}) in the embedded engine: cast the arguments, or {_ADVICE} if Spark takes them"
    )


def failing(code: str, why: str, to: SparkType, shown: str = "") -> str:
    """DuckDB text that raises when it is evaluated. A failing cast, since `error()` is volatile and
    TRY doesn't catch it.

    `shown` is DuckDB text whose value precedes `why` in the error.
    """
    message = text(f"!{code}! {why}{END}")
    if shown:
        begin, end = text(f"!{code}! '"), text(f"' {why}{END}")
        message = f"({begin} || left({shown}, {_SHOWN}) || {end})"
    if to.name in ("string", "binary"):
        raised = f"CAST(CAST({message} AS INTEGER) AS VARCHAR)"
        return f"encode({raised})" if to.name == "binary" else raised
    return f"CAST({message} AS {to.duck})"


def guarded(bad: str, code: str, why: str, value: str, to: SparkType, shown: str = "") -> str:
    """`value`, but raises where `bad` is true."""
    return f"CASE WHEN {bad} THEN {failing(code, why, to, shown)} ELSE {value} END"


def made(to: SparkType, sql: str, *args: Typed, throws: bool = False, partial: bool = False) -> Typed:
    """The value of a function of these arguments, which fails where they fail."""
    return Typed(
        to,
        sql,
        throws=throws or any(a.throws for a in args),
        partial=partial or any(a.partial for a in args),
        constant=bool(args) and all(a.constant for a in args),
    )


def attempted(value: Typed, *args: Typed) -> Typed:
    """Null instead of Spark's error in computing `value`; errors of its arguments must not be
    swallowed."""
    if value.partial or any(a.throws for a in args):
        refuse("a try_ function over something that can fail itself")
    return Typed(value.type, f"TRY({value.sql})", constant=value.constant)


# --- bounds ---


def is_exact(data_type: SparkType) -> bool:
    """Whether values of a type have bounds: whole numbers and decimals."""
    return data_type.integral or data_type.name == "decimal"


def bounds_of(value: Typed) -> Bounds:
    """The bounds of a value's numbers, at least those of its type; null has none.

    >>> from deltaplane.expr.types import BYTE
    >>> [int(n) for n in bounds_of(Typed(BYTE, "c0"))]
    [-128, 127]
    """
    if value.literal is not None:
        number = Fraction(value.literal)
        return number, number
    low, high = _of_type(value.type)
    known = value.bounds() if value.bounds is not None else None
    return (low, high) if known is None else (max(low, known[0]), min(high, known[1]))


def _of_type(data_type: SparkType) -> Bounds:
    if data_type.integral:
        limit = 1 << (data_type.bits - 1)
        return Fraction(-limit), Fraction(limit - 1)
    top = Fraction(10**data_type.precision - 1, 10**data_type.scale)
    return -top, top


def bounded(value: Typed, source: Typed) -> Typed:
    """A value with the bounds of another one, from which it differs by less than a unit of its last
    digit, by rounding."""
    if not (is_exact(value.type) and is_exact(source.type)):
        return value
    unit = Fraction(1, 10**value.type.scale)
    rounds = source.type.scale > value.type.scale

    def known() -> Bounds:
        low, high = bounds_of(source)
        return (low - unit, high + unit) if rounds else (low, high)

    return replace(value, bounds=known)


def carried(value: Typed) -> Callable[[], Bounds | None] | None:
    """What computes a value's bounds, for a column with that value."""
    if value.literal is not None and is_exact(value.type):
        return partial(bounds_of, value)
    return value.bounds


def bounds_of_all(values: list[Typed]) -> Bounds:
    """The bounds of all values."""
    every = [bounds_of(value) for value in values]
    return min(low for low, _ in every), max(high for _, high in every)


def difference(a: Bounds, b: Bounds) -> Bounds:
    """The bounds of one number minus another one."""
    return a[0] - b[1], a[1] - b[0]


def product(a: Bounds, b: Bounds) -> Bounds:
    """The bounds of a product."""
    corners = [x * y for x in a for y in b]
    return min(corners), max(corners)


def total(bounds: Bounds) -> Bounds:
    """The bounds of a sum of any number of rows that a machine reads."""
    low, high = bounds
    return min(low, Fraction(0)) * _MOST_ROWS, max(high, Fraction(0)) * _MOST_ROWS


def fits(bounds: Bounds, to: SparkType) -> bool:
    """Whether a type holds all numbers within bounds, once they have its scale."""
    low, high = _of_type(to)
    return low <= bounds[0] and bounds[1] <= high


def narrow_of(value: Typed) -> str | None:
    """The value as a decimal of its scale and at most 18 digits, which DuckDB holds in 64 bits;
    None if it may have more."""
    if value.type.name != "decimal":
        return None
    return value.sql if value.type.precision <= IN_64_BITS else value.narrow


def narrowed(value: Typed, to: SparkType) -> str | None:
    """As `narrow_of`, with the scale of another decimal type, which isn't smaller."""
    narrow = narrow_of(value)
    if not is_exact(value.type) or (narrow is None and value.type.name == "decimal"):
        return None
    if narrow is not None and value.type.scale == to.scale:
        return narrow
    held = decimal(IN_64_BITS, to.scale)
    if to.scale >= IN_64_BITS or not fits(bounds_of(value), held):
        return None
    return f"CAST({narrow or value.sql} AS {held.duck})"
