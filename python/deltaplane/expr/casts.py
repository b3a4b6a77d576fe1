"""CAST between primitive types as in Spark's ANSI mode: one translation per pair, other pairs are
refused by name.

Covers the pairs only; functions and implicit conversions are elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.expr.duckdb_values import computed
from deltaplane.expr.java_float import over_digits, plain, varying, written
from deltaplane.expr.typed import (
    Context,
    Typed,
    bounded,
    bounds_of,
    failing,
    fits,
    guarded,
    is_exact,
    made,
    narrowed,
    refuse,
)
from deltaplane.expr.types import DOUBLE, LONG, STRING, TIMESTAMP, TIMESTAMP_NTZ, SparkType, decimal, text

# Characters that Spark strips around the text of a number, date or boolean.
_BLANK = text("".join(map(chr, [*range(33), 127])))
_BLANK_OF_JAVA = text("".join(map(chr, range(33))))
_INVALID = "CAST_INVALID_INPUT"
_OVERFLOW = "CAST_OVERFLOW"
_UNSUPPORTED = "UNSUPPORTED_VALUE"
_OF_ANY_JAVA = "a number that versions of Java write with different digits"

# Digits of a decimal that Spark stores in 64 bits.
_IN_A_LONG = 18

Lowering = Callable[[Context, Typed, SparkType], Typed]
_INTEGRAL = ("byte", "short", "integer", "long")
# Digits of the largest number of a type.
_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 19}
_NUMERIC = (*_INTEGRAL, "float", "double", "decimal")
_TIMES = ("timestamp", "timestamp_ntz")
CASTS: dict[tuple[str, str], Lowering] = {}


def cast(context: Context, value: Typed, to: SparkType) -> Typed:
    """The value converted.

    Raises:
        InvalidArgumentError: Spark's ANSI mode has no such cast.
        UnsupportedExpressionError: the cast exists, but no exact translation is known.
    """
    if value.type == to:
        return value
    if value.type.name == "void":
        return null(to)
    if value.type.interval and value.type.name == to.name:
        return replace(value, type=to)
    lowering = CASTS.get((value.type.name, to.name))
    if lowering is None:
        if value.type.parts or to.parts or value.type.interval:
            refuse(f"CAST({value.type} AS {to})")
        raise InvalidArgumentError(f"Spark's ANSI mode has no cast from {value.type} to {to}")
    return computed(lowering(context, value, to))


def null(to: SparkType) -> Typed:
    """Null of a type."""
    zero = Fraction(0)
    held = decimal(_IN_A_LONG, to.scale)
    narrow = f"CAST(NULL AS {held.duck})" if to.name == "decimal" and to.scale < _IN_A_LONG else None
    result = Typed(to, f"CAST(NULL AS {to.duck})", constant=True, narrow=narrow)
    return replace(result, bounds=lambda: (zero, zero)) if is_exact(to) else result


def _pair(sources: tuple[str, ...], targets: tuple[str, ...]) -> Callable[[Lowering], Lowering]:
    def register(lowering: Lowering) -> Lowering:
        CASTS.update({(s, t): lowering for s in sources for t in targets if s != t or s == "decimal"})
        return lowering

    return register


def _plain(value: Typed, to: SparkType, throws: bool = False) -> Typed:
    return made(to, f"CAST({value.sql} AS {to.duck})", value, throws=throws)


@_pair(_INTEGRAL, ("double", "float", "string"))
def _of_integral(_: Context, value: Typed, to: SparkType) -> Typed:
    return _plain(value, to)


@_pair(_INTEGRAL, (*_INTEGRAL, "decimal"))
def _integral(_: Context, value: Typed, to: SparkType) -> Typed:
    if to.name == "decimal":
        room = to.precision - to.scale >= _DIGITS[value.type.name]
        narrow = narrowed(value, to) if to.precision > _IN_A_LONG else None
    else:
        room, narrow = to.bits > value.type.bits, None
    result = bounded(_plain(value, to, throws=not room and not _has_room(value, to)), value)
    return replace(result, narrow=narrow)


@_pair(("boolean",), (*_NUMERIC, "string"))
def _of_boolean(_: Context, value: Typed, to: SparkType) -> Typed:
    if to.name == "decimal":
        return made(to, f"CAST(CAST({value.sql} AS INTEGER) AS {to.duck})", value, throws=True)
    return _plain(value, to)


@_pair(_NUMERIC, ("boolean",))
def _to_boolean(_: Context, value: Typed, to: SparkType) -> Typed:
    return made(to, f"({value.sql} <> 0)", value)


@_pair(("float",), ("double",))
def _to_double(_: Context, value: Typed, to: SparkType) -> Typed:
    return _plain(value, to)


@_pair(("double",), ("float",))
def _to_float(_: Context, value: Typed, to: SparkType) -> Typed:
    # Beyond the largest float Java returns infinity. The bound is halfway to the next power of two.
    x, bound = value.sql, "CAST(3.4028235677973366e38 AS DOUBLE)"
    sql = (
        f"CASE WHEN isfinite({x}) AND abs({x}) >= {bound} THEN CAST(CASE WHEN {x} > 0 THEN 'inf' ELSE '-inf' END "
        f"AS FLOAT) ELSE CAST({x} AS FLOAT) END"
    )
    return made(to, sql, value)


@_pair(("float", "double"), _INTEGRAL)
def _truncated(_: Context, value: Typed, to: SparkType) -> Typed:
    x = f"CAST({value.sql} AS DOUBLE)"
    # Spark compares with the bound of a long as a floating-point number, which is greater by one.
    sql = f"CAST(trunc({x}) AS {to.duck})"
    if to == LONG:
        bound = 1 << 63
        sql = f"CASE WHEN {x} = {bound} THEN CAST({bound - 1} AS {to.duck}) ELSE {sql} END"
    return made(to, sql, value, throws=True)


@_pair(("decimal",), ("decimal",))
def _rescaled(_: Context, value: Typed, to: SparkType) -> Typed:
    # Rounding may need one more digit before the point.
    rounds = to.scale < value.type.scale
    room = to.precision - to.scale >= value.type.precision - value.type.scale + rounds
    result = bounded(_plain(value, to, throws=not room and not _has_room(value, to)), value)
    return replace(result, narrow=narrowed(value, to) if to.precision > _IN_A_LONG and not rounds else None)


def _has_room(value: Typed, to: SparkType) -> bool:
    """Whether a number's bounds show that another type holds it once it is rounded."""
    low, high = bounds_of(value)
    unit = Fraction(1, 10**to.scale) if to.scale < value.type.scale else 0
    return fits((low - unit, high + unit), to)


@_pair(("decimal",), _INTEGRAL)
def _whole(_: Context, value: Typed, to: SparkType) -> Typed:
    sql = f"CAST(trunc({value.sql}) AS {to.duck})"
    if to == LONG or value.type.scale == 0 or value.type.precision <= _IN_A_LONG:
        return made(to, sql, value, throws=True)
    # Spark converts longer ones through a double, unless they came from a shorter type, which isn't
    # known here.
    double = _as_double(value.sql, DOUBLE)
    moved = f"CAST(trunc({value.sql}) AS BIGINT) <> CAST(trunc({double}) AS BIGINT)"
    bad = f"CASE WHEN abs({double}) <= CAST({1 << 31} AS DOUBLE) THEN {moved} END"
    why = "a decimal that is a whole number as a double"
    return made(to, guarded(bad, _UNSUPPORTED, why, sql, to), value, throws=True, partial=True)


@_pair(("decimal",), ("float", "double"))
def _inexact(_: Context, value: Typed, to: SparkType) -> Typed:
    return made(to, _as_double(value.sql, to), value)


def _as_double(decimal: str, to: SparkType) -> str:
    # Through text, which rounds once; DuckDB divides and rounds twice.
    return f"CAST(CAST({decimal} AS VARCHAR) AS {to.duck})"


@_pair(("decimal",), ("string",))
def _plain_text(_: Context, value: Typed, to: SparkType) -> Typed:
    source = value.type
    if source.scale < source.precision:
        return _plain(value, to)
    # If no digit is left for it, DuckDB writes no zero before the point.
    return made(to, rf"regexp_replace(CAST({value.sql} AS VARCHAR), '^(-?)\.', '\10.')", value)


# --- text ---


@_pair(("float", "double"), ("string",))
def _java_text(_: Context, value: Typed, to: SparkType) -> Typed:
    finite = guarded(varying(value.type), _UNSUPPORTED, _OF_ANY_JAVA, written(value.type), STRING)
    special = "WHEN isnan(n) THEN 'NaN' WHEN isinf(n) THEN CASE WHEN n > 0 THEN 'Infinity' ELSE '-Infinity' END"
    return made(to, over_digits(value.sql, value.type, f"CASE {special} ELSE {finite} END"), value, partial=True)


@_pair(("float", "double"), ("decimal",))
def _through_text(_: Context, value: Typed, to: SparkType) -> Typed:
    # As in Spark: Java's digits of a double, rounded half up.
    large = "NOT isfinite(n) OR abs(n) >= CAST(1e38 AS DOUBLE)"
    number = guarded(varying(DOUBLE), _UNSUPPORTED, _OF_ANY_JAVA, f"CAST({plain()} AS {to.duck})", to)
    body = guarded(large, _OVERFLOW, f"the number is no {to}", number, to)
    return made(to, over_digits(f"CAST({value.sql} AS DOUBLE)", DOUBLE, body), value, throws=True, partial=True)


@_pair(("string",), _INTEGRAL)
def _parsed_whole(_: Context, value: Typed, to: SparkType) -> Typed:
    trimmed = f"trim({value.sql}, {_BLANK})"
    bad = f"NOT regexp_full_match({trimmed}, '[+-]?[0-9]+')"
    sql = guarded(bad, _INVALID, f"is no {to}", f"CAST({trimmed} AS {to.duck})", to, value.sql)
    return made(to, sql, value, throws=True)


@_pair(("string",), ("float", "double"))
def _parsed_float(_: Context, value: Typed, to: SparkType) -> Typed:
    return parsed_number(value, to, f"is no {to}")


def parsed_number(value: Typed, to: SparkType, why: str) -> Typed:
    """A text as a float or double; `why` explains the error for a text that isn't a number."""
    trimmed = f"trim({value.sql}, {_BLANK_OF_JAVA})"
    number = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
    digits = f"regexp_extract({trimmed}, '^{number}')"
    lower = f"lower({trimmed})"
    sql = (
        f"CASE WHEN regexp_full_match({trimmed}, '{number}[fFdD]?') THEN {_finite(digits, to)} "
        f"WHEN {lower} IN ('inf', '+inf', 'infinity', '+infinity') THEN CAST('inf' AS {to.duck}) "
        f"WHEN {lower} IN ('-inf', '-infinity') THEN CAST('-inf' AS {to.duck}) "
        f"WHEN {lower} = 'nan' OR {trimmed} IN ('+NaN', '-NaN') THEN CAST('nan' AS {to.duck}) "
        f"WHEN regexp_matches({trimmed}, '^[+-]?0[xX]') THEN {failing(_UNSUPPORTED, 'hexadecimal number', to)} "
        f"WHEN {value.sql} IS NULL THEN NULL ELSE {failing(_INVALID, why, to, value.sql)} END"
    )
    return made(to, sql, value, throws=True, partial=True)


def _finite(digits: str, to: SparkType) -> str:
    # DuckDB refuses numbers that are too large, where Java returns infinity.
    infinite = f"CASE WHEN starts_with({digits}, '-') THEN CAST('-inf' AS {to.duck}) ELSE CAST('inf' AS {to.duck}) END"
    return f"coalesce(TRY_CAST({digits} AS {to.duck}), {infinite})"


@_pair(("string",), ("decimal",))
def _parsed_decimal(_: Context, value: Typed, to: SparkType) -> Typed:
    trimmed = f"trim({value.sql}, {_BLANK_OF_JAVA})"
    sql = (
        f"CASE WHEN regexp_full_match({trimmed}, '[+-]?([0-9]+\\.?[0-9]*|\\.[0-9]+)') THEN CAST({trimmed} AS {to.duck}) "
        f"WHEN regexp_full_match({trimmed}, '[+-]?([0-9]+\\.?[0-9]*|\\.[0-9]+)[eE][+-]?[0-9]+') "
        f"THEN {failing(_UNSUPPORTED, 'a decimal with an exponent', to)} "
        f"WHEN {value.sql} IS NULL THEN NULL ELSE {failing(_INVALID, f'is no {to}', to, value.sql)} END"
    )
    return made(to, sql, value, throws=True, partial=True)


@_pair(("string",), ("boolean",))
def _parsed_boolean(_: Context, value: Typed, to: SparkType) -> Typed:
    word = f"lower(trim({value.sql}, {_BLANK}))"
    sql = (
        f"CASE WHEN {word} IN ('t', 'true', 'y', 'yes', '1') THEN true "
        f"WHEN {word} IN ('f', 'false', 'n', 'no', '0') THEN false "
        f"WHEN {value.sql} IS NULL THEN NULL ELSE {failing(_INVALID, 'is no boolean', to, value.sql)} END"
    )
    return made(to, sql, value, throws=True)


@_pair(("string",), ("binary",))
def _encoded(_: Context, value: Typed, to: SparkType) -> Typed:
    return made(to, f"encode({value.sql})", value)


@_pair(("binary",), ("string",))
def _decoded(_: Context, value: Typed, to: SparkType) -> Typed:
    # Bytes that aren't UTF-8 can't become a string here; Spark would pass them on.
    return made(to, f"decode({value.sql})", value, throws=True, partial=True)


# --- dates and times ---

_DATE = r"([+-]?[0-9]{4,%s})(?:-([0-9]{1,2})(?:-([0-9]{1,2})%s)?)?"
_HOUR, _SIXTY = "(?:[01]?[0-9]|2[0-3])", "[0-5]?[0-9]"
# A distance from UTC of at most 18 hours, as Java reads it after Spark has padded single digits.
_FAR = r"[+-](?:H(?::[0-5]?[0-9]|:S:S)?|HHS(?:S)?|18(?::0?0|:00:00|00|0000)?)"
_FAR = _FAR.replace("HH", "(?:0[0-9]|1[0-7])").replace("H", "(?:0?[0-9]|1[0-7])").replace("S", "[0-5][0-9]")
_OFFSET = f"(Z|(?:UTC|GMT|UT)?{_FAR}|UTC|GMT|UT)"
# Zones with rules, which only Java supports.
_WORDS = (
    "[A-Z][A-Za-z_]+/[A-Z][A-Za-z0-9_/+-]*|CET|CST6CDT|Cuba|EET|EST5EDT|Egypt|Eire|GB|GB-Eire|GMT0|Greenwich|Hongkong|Iceland|"
    "Iran|Israel|Jamaica|Japan|Kwajalein|Libya|MET|MST7MDT|NZ|NZ-CHAT|Navajo|PRC|PST8PDT|Poland|Portugal|ROK|Singapore|Turkey|"
    "UCT|Universal|W-SU|WET|Zulu|ACT|AET|AGT|ART|AST|BET|BST|CAT|CNT|CST|CTT|EAT|ECT|EST|HST|IET|IST|JST|MIT|MST|NET|NST|PLT|"
    "PNT|PRT|PST|SST|VST"
)


def _clock(hour: str, zone: str) -> str:
    return rf"({_HOUR}){hour}:({_SIXTY})(?::({_SIXTY})(?:\.([0-9]*))?(?:[\x00-\x20]*{zone})?)?"


# Minutes and seconds are optional, but not the part after a point or colon.
_FULL = rf"^([+-]?[0-9]{{4,6}})-([0-9]{{1,2}})-([0-9]{{1,2}})[ T]{_clock('(?:', _OFFSET)})?$"
_FULL_IN_ZONE = rf"^[+-]?[0-9]{{4,6}}-[0-9]{{1,2}}-[0-9]{{1,2}}[ T]{_clock('', f'(?:{_WORDS})')}$"
_NO_DAY = rf"^(?:T{_clock('(?:', f'(?:{_OFFSET}|{_WORDS})')})?|{_clock('', f'(?:{_OFFSET}|{_WORDS})')})$"


def _part(pattern: str, group: int, absent: str = "0", source: str = "t") -> str:
    return f"CAST(coalesce(nullif(regexp_extract({source}, '{pattern}', {group}), ''), '{absent}') AS INTEGER)"


def _day_of(pattern: str) -> str:
    return f"make_date({', '.join(_part(pattern, group, '1') for group in (1, 2, 3))})"


def _over_text(value: Typed, body: str) -> str:
    """`body` over the stripped text as `t`, which is computed once."""
    return f"list_transform([trim({value.sql}, {_BLANK})], lambda t: CASE WHEN t IS NOT NULL THEN {body} END)[1]"


def _there(value: str, otherwise: str) -> str:
    """A date or time from numbers, or `otherwise` if these are invalid."""
    return f"coalesce(TRY({value}), {otherwise})"


@_pair(("string",), ("date",))
def _parsed_date(_: Context, value: Typed, to: SparkType) -> Typed:
    # Text after a complete date and a blank or T is ignored.
    pattern = f"(?s)^{_DATE % (7, '(?:[ T].*)?')}$"
    other = failing(_INVALID, "is no date", to, "t")
    body = f"CASE WHEN regexp_matches(t, '{pattern}') THEN {_there(_day_of(pattern), other)} ELSE {other} END"
    return made(to, _over_text(value, body), value, throws=True)


@_pair(("string",), _TIMES)
def _parsed_timestamp(context: Context, value: Typed, to: SparkType) -> Typed:
    other = failing(_INVALID, f"is no {to}", to, "t")
    day = f"^{_DATE % (6, '')}$"
    midnight = f"CAST({_day_of(day)} AS TIMESTAMP)"
    hour, minute, second = (_part(_FULL, group) for group in (4, 5, 6))
    fraction = f"CAST(rpad(left(regexp_extract(t, '{_FULL}', 7), 6), 6, '0') AS INTEGER)"
    us = f"(({hour} * 3600 + {minute} * 60 + {second}) * CAST(1000000 AS BIGINT) + {fraction})"
    instant = f"(CAST({_day_of(_FULL)} AS TIMESTAMP) + to_microseconds({us}))"
    if to == TIMESTAMP:
        midnight = context.shifted(midnight, to_local=False)
        zone = f"regexp_extract(t, '{_FULL}', 8)"
        away = f"({instant} - to_microseconds({_away(zone)}))"
        instant = f"CASE WHEN {zone} = '' THEN {context.shifted(instant, to_local=False)} ELSE {away} END"
    no_day = failing(_UNSUPPORTED, "a time without a date", to)
    body = (
        f"CASE WHEN regexp_matches(t, '{day}') THEN {_there(midnight, other)} "
        f"WHEN regexp_matches(t, '{_FULL}') THEN {_there(instant, other)} "
        f"WHEN regexp_matches(t, '{_FULL_IN_ZONE}') THEN {failing(_UNSUPPORTED, 'a time zone by its name', to)} "
        f"WHEN regexp_matches(t, '{_NO_DAY}') THEN {no_day if to == TIMESTAMP else other} ELSE {other} END"
    )
    return made(to, _over_text(value, body), value, throws=True, partial=True)


def _away(zone: str) -> str:
    """The distance in microseconds of a zone that is west of UTC."""
    hours, minutes, seconds = (
        _part(pattern, 1, source=zone)
        for pattern in (
            "[+-]([0-9]{1,2})",
            "[+-](?:[0-9]{2}:?|[0-9]:)([0-9]{1,2})",
            "[+-](?:[0-9]{2}:?[0-9]{2}:?|[0-9]:[0-9]{2}:)([0-9]{2})",
        )
    )
    sign = f"CASE WHEN contains({zone}, '-') THEN -1000000 ELSE 1000000 END"
    return f"(({hours} * 3600 + {minutes} * 60 + {seconds}) * CAST({sign} AS BIGINT))"


def in_calendar(sql: str, value: str, to: SparkType) -> str:
    """`value`, refused unless the date is in the years 1 to 9999; other years have another
    format."""
    return guarded(f"year({sql}) NOT BETWEEN 1 AND 9999", _UNSUPPORTED, "a year outside of 1 to 9999", value, to)


@_pair(("date",), ("string",))
def _date_text(_: Context, value: Typed, to: SparkType) -> Typed:
    return made(to, in_calendar(value.sql, f"CAST({value.sql} AS VARCHAR)", STRING), value, partial=True)


@_pair(_TIMES, ("string",))
def _timestamp_text(context: Context, value: Typed, to: SparkType) -> Typed:
    local = context.shifted(value.sql, to_local=True) if value.type == TIMESTAMP else value.sql
    return made(to, in_calendar(local, f"CAST({local} AS VARCHAR)", STRING), value, partial=True)


@_pair(("date",), _TIMES)
def _midnight(context: Context, value: Typed, to: SparkType) -> Typed:
    instant = f"CAST({value.sql} AS TIMESTAMP)"
    return made(to, context.shifted(instant, to_local=False) if to == TIMESTAMP else instant, value)


@_pair(_TIMES, ("date",))
def _day(context: Context, value: Typed, to: SparkType) -> Typed:
    local = context.shifted(value.sql, to_local=True) if value.type == TIMESTAMP else value.sql
    return made(to, f"CAST({local} AS DATE)", value)


@_pair(_TIMES, _TIMES)
def _zoned(context: Context, value: Typed, to: SparkType) -> Typed:
    return made(to, context.shifted(value.sql, to_local=to == TIMESTAMP_NTZ), value)


def seconds(sql: str) -> str:
    """Whole seconds since the epoch, rounded down."""
    return f"CAST(((epoch_us({sql}) - ((epoch_us({sql}) % 1000000 + 1000000) % 1000000)) // 1000000) AS BIGINT)"


@_pair(("timestamp",), _INTEGRAL)
def _epoch(_: Context, value: Typed, to: SparkType) -> Typed:
    return made(to, f"CAST({seconds(value.sql)} AS {to.duck})", value, throws=to != LONG)


@_pair(("timestamp",), ("float", "double"))
def _epoch_inexact(_: Context, value: Typed, to: SparkType) -> Typed:
    exact = made(DOUBLE, f"(CAST(epoch_us({value.sql}) AS DOUBLE) / CAST(1000000 AS DOUBLE))", value)
    return _plain(exact, to)


@_pair(("timestamp",), ("decimal",))
def _epoch_exact(_: Context, value: Typed, to: SparkType) -> Typed:
    exact = f"(CAST(epoch_us({value.sql}) AS DECIMAL(20,0)) * CAST(0.000001 AS DECIMAL(6,6)))"
    return made(to, f"CAST({exact} AS {to.duck})", value, throws=True)


@_pair((*_INTEGRAL, "decimal"), ("timestamp",))
def _instant(_: Context, value: Typed, to: SparkType) -> Typed:
    digits, scale = (value.type.precision, value.type.scale) if value.type.name == "decimal" else (19, 0)
    if digits > 30:
        refuse(f"CAST({value.type} AS {to})")
    us = f"CAST(trunc(CAST({value.sql} AS DECIMAL({digits},{scale})) * CAST(1000000 AS DECIMAL(7,0))) AS HUGEINT)"
    return made(to, in_years(us), value, partial=True)


@_pair(("float", "double"), ("timestamp",))
def _instant_inexact(_: Context, value: Typed, to: SparkType) -> Typed:
    us = f"CAST(trunc(CAST({value.sql} AS DOUBLE) * CAST(1000000 AS DOUBLE)) AS BIGINT)"
    sql = guarded(f"NOT isfinite({value.sql})", _INVALID, f"the number is no {to}", in_years(us), to)
    return made(to, sql, value, throws=True, partial=True)


def in_years(us: str) -> str:
    """The instant `us` microseconds after the epoch, if it is in the range of calendar years."""
    # Spark saturates or wraps outside of these years; here such rows are refused. A double
    # represents the upper bound exactly.
    return guarded(
        f"NOT ({us} >= -62135596800000000 AND {us} < 253402300800000000)",
        _UNSUPPORTED,
        "a year outside of 1 to 9999",
        f"make_timestamp(CAST({us} AS BIGINT))",
        TIMESTAMP,
    )
