"""A typed expression during its translation to DuckDB, and helpers of translations: raising,
guarding, null.

Contains no function.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from deltaplane.exceptions import InvalidArgumentError, UnsupportedExpressionError
from deltaplane.expr.types import SparkType, text

_ADVICE = "use the Spark engine for it"
# Maximum number of characters of a translation: a translation may use an argument several times, so
# nesting multiplies its size.
MAX_SQL = 1 << 20
# Ends the text of `failing`, since DuckDB appends words: a private-use character, as texts contain
# any other.
END = "\ue002"
# Maximum number of characters of a value in an error.
_SHOWN = 100


@dataclass(frozen=True)
class Typed:
    """A value: its Spark type and the DuckDB text that computes it.

    `throws`: a row may raise Spark's error, so guards must be evaluated first. `partial`: a row may
    be refused although Spark has a value for it. `literal`: the original text of a constant.
    `name`: the name of a column or field.
    """

    type: SparkType
    sql: str
    throws: bool = False
    partial: bool = False
    literal: str | None = None
    constant: bool = False
    name: str | None = None

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
