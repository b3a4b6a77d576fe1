"""Instants and local times; the session's time zone applies if one is needed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from deltaplane.expr.casts import cast, in_calendar, in_years, seconds
from deltaplane.expr.coerce import takes
from deltaplane.expr.registry import ENTRIES, Form, admit, forms
from deltaplane.expr.typed import Context, Typed, failing, guarded, made, mistyped, refuse
from deltaplane.expr.types import (
    DATE,
    DOUBLE,
    INT,
    LONG,
    MAX_PRECISION,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    SparkType,
    decimal,
    text,
)

_FAMILY = "times"


def local(context: Context, name: str, value: Typed) -> Typed:
    """A local time: a timestamp without time zone is one, other values are converted in the
    session's zone."""
    if value.type == TIMESTAMP_NTZ:
        return value
    if not takes(TIMESTAMP, value.type):
        mistyped(name, [value])
    return cast(context, cast(context, value, TIMESTAMP), TIMESTAMP_NTZ)


def _clock(name: str) -> None:
    @admit(_FAMILY, name)
    def lower(context: Context, args: list[Typed]) -> Typed:
        if len(args) != 1:
            mistyped(name, args)
        moment = local(context, name, args[0])
        return made(INT, f"CAST({name}({moment.sql}) AS INTEGER)", moment)


for _name in ("hour", "minute", "second"):
    _clock(_name)

_DATE_FIELDS = {
    **dict.fromkeys(("year", "y", "years", "yr", "yrs"), "year"),
    **dict.fromkeys(("quarter", "qtr"), "quarter"),
    **dict.fromkeys(("month", "mon", "mons", "months"), "month"),
    **dict.fromkeys(("week", "w", "weeks"), "weekofyear"),
    **dict.fromkeys(("day", "d", "days"), "day"),
    **dict.fromkeys(("dayofweek", "dow"), "dayofweek"),
    "doy": "dayofyear",
}
_CLOCK_FIELDS = {
    **dict.fromkeys(("hour", "h", "hours", "hr", "hrs"), "hour"),
    **dict.fromkeys(("minute", "m", "min", "mins", "minutes"), "minute"),
}


@admit(_FAMILY, "extract", "date_part", "datepart")
def _extract(context: Context, args: list[Typed]) -> Typed:
    if len(args) != 2 or args[0].literal is None:
        mistyped("extract", args)
    field = args[0].literal.lower()
    if field in _DATE_FIELDS:
        return ENTRIES[_DATE_FIELDS[field]].lower(context, args[1:])
    if field in _CLOCK_FIELDS and args[1].type != DATE:
        return ENTRIES[_CLOCK_FIELDS[field]].lower(context, args[1:])
    if field in ("second", "s", "sec", "seconds", "secs") and args[1].type != DATE:
        moment = local(context, "extract", args[1])
        us = f"((epoch_us({moment.sql}) % 60000000 + 60000000) % 60000000)"
        to = decimal(8, 6)
        exact = f"(CAST({us} AS DECIMAL(8,0)) * CAST(0.000001 AS DECIMAL(6,6)))"
        return made(to, f"CAST({exact} AS {to.duck})", moment)
    refuse(f"the field {field} of {args[1].type}")


def _floored(us: str, unit: int) -> str:
    return f"(({us} - (({us} % {unit} + {unit}) % {unit})) // {unit})"


forms(_FAMILY, "unix_seconds", Form([TIMESTAMP], LONG, seconds("{0}")))
forms(_FAMILY, "unix_millis", Form([TIMESTAMP], LONG, _floored("epoch_us({0})", 1000)))
forms(_FAMILY, "unix_micros", Form([TIMESTAMP], LONG, "epoch_us({0})"))


@admit(_FAMILY, "unix_timestamp", "to_unix_timestamp")
def _unix_timestamp(context: Context, args: list[Typed]) -> Typed:
    if len(args) != 1 or args[0].type not in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
        refuse("`unix_timestamp` of text or of the current time")
    moment = cast(context, args[0], TIMESTAMP)
    # Unlike unix_seconds it rounds towards zero.
    return made(LONG, f"(epoch_us({moment.sql}) // 1000000)", moment)


def _of_epoch(factor: int) -> Form:
    return Form([LONG], TIMESTAMP, in_years(f"(CAST({{0}} AS HUGEINT) * {factor})"), throws=True, partial=True)


forms(_FAMILY, "timestamp_millis", _of_epoch(1000))
forms(_FAMILY, "timestamp_micros", _of_epoch(1))


@admit(_FAMILY, "timestamp_seconds")
def _of_seconds(context: Context, args: list[Typed]) -> Typed:
    if len(args) != 1 or not (args[0].type.numeric or args[0].type == VOID):
        mistyped("timestamp_seconds", args)
    (value,) = args
    data_type = value.type
    if data_type.fractional:
        us = f"trunc(CAST({value.sql} AS DOUBLE) * CAST(1000000 AS DOUBLE))"
        return made(
            TIMESTAMP, f"CASE WHEN isfinite({value.sql}) THEN {in_years(us)} END", value, throws=True, partial=True
        )
    if data_type.name != "decimal":
        return _of_epoch(1_000_000).apply(context, args)
    if data_type.precision > MAX_PRECISION - 7:
        refuse(f"`timestamp_seconds` of {data_type}")
    exact = f"({value.sql} * CAST(1000000 AS DECIMAL(7,0)))"
    rounded = f"{exact} <> trunc({exact})"
    whole = in_years(f"CAST(trunc({exact}) AS HUGEINT)")
    sql = guarded(
        rounded, "INVALID_PARAMETER_VALUE", "the seconds have more than 6 digits behind the point", whole, TIMESTAMP
    )
    return made(TIMESTAMP, sql, value, throws=True, partial=True)


_UNITS = {
    **dict.fromkeys(("year", "yyyy", "yy"), "year"),
    **dict.fromkeys(("month", "mon", "mm"), "month"),
    **dict.fromkeys(("day", "dd"), "day"),
    **{u: u for u in ("quarter", "week", "hour", "minute", "second", "millisecond", "microsecond")},
}


@admit(_FAMILY, "date_trunc")
def _date_trunc(context: Context, args: list[Typed]) -> Typed:
    if len(args) != 2 or not takes(TIMESTAMP, args[1].type):
        mistyped("date_trunc", args)
    unit = _UNITS.get((args[0].literal or "").lower())
    if unit is None:
        refuse("`date_trunc` to something else than a unit's name")
    moment = local(context, "date_trunc", args[1])
    cut = made(TIMESTAMP_NTZ, f"CAST(date_trunc('{unit}', {moment.sql}) AS TIMESTAMP)", moment)
    return cut if args[1].type == TIMESTAMP_NTZ else cast(context, cut, TIMESTAMP)


# Pattern letters with one meaning in English everywhere.
_LETTERS = {
    "yyyy": "%Y",
    "MM": "%m",
    "M": "%-m",
    "dd": "%d",
    "d": "%-d",
    "HH": "%H",
    "H": "%-H",
    "mm": "%M",
    "m": "%-M",
    "ss": "%S",
    "s": "%-S",
    "SSS": "%g",
    "SSSSSS": "%f",
    "MMM": "%b",
    "MMMM": "%B",
    "EEE": "%a",
    "E": "%a",
    "EEEE": "%A",
    "hh": "%I",
    "h": "%-I",
    "a": "%p",
    "EE": "%a",
}
_PIECE = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']")


def _pieces(pattern: str) -> Iterator[tuple[str, str]]:
    """The pattern's letters with a meaning, or else literal text, one after the other."""
    position = 0
    while position < len(pattern):
        match = _PIECE.match(pattern, position)
        if match is None:
            refuse(f"the date pattern {pattern!r}")
        piece = match.group()
        if match.group(2):
            yield piece, ""
        elif piece in "[]#{}":
            refuse(f"{piece} in the date pattern {pattern!r}")
        else:
            yield "", piece if match.group(1) is None else match.group(1).replace("''", "'") or "'"
        position = match.end()


def strftime(pattern: str) -> str:
    """DuckDB's equivalent of a Spark pattern; refused if a letter isn't known to be equivalent."""
    made_of = []
    for letters, plain in _pieces(pattern):
        if letters and letters not in _LETTERS:
            refuse(f"the letters {letters} in the date pattern {pattern!r}")
        made_of.append(_LETTERS[letters] if letters else plain.replace("%", "%%"))
    return "".join(made_of)


# Texts that a pattern of these letters reads; a year has a sign if it has more digits, or is
# negative.
_READ = {"yyyy": "([0-9]{4}|-[0-9]{4,6}|[+][0-9]{5,6})", "HH": "([01][0-9]|2[0-3])", "mm": "([0-5][0-9])"}
_READ |= {"MM": "([0-9]{2})", "dd": "([0-9]{2})", "ss": _READ["mm"]}


def parsed(context: Context, name: str, args: list[Typed], to: SparkType) -> Typed:
    """Parses a text by a pattern as a date or time; a date or time is returned unchanged."""
    value, pattern = args
    if VOID in (value.type, pattern.type):
        return cast(context, Typed(VOID, "NULL", constant=True), to)
    if pattern.literal is None or pattern.type != STRING:
        refuse(f"`{name}` with a pattern that isn't a constant")
    if value.type in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
        return cast(context, value, to)
    if value.type != STRING:
        mistyped(name, args)
    fields, form = [], ""
    for letters, plain in _pieces(pattern.literal):
        if letters in fields or (letters and letters not in _READ) or not plain.isascii():
            refuse(f"{letters or plain} in the pattern {pattern.literal!r} of `{name}`")
        fields += [letters] if letters else []
        # Literal letters match both cases.
        form += _READ[letters] if letters else f"(?i:{re.escape(plain)})"
    if not fields:
        refuse(f"the pattern {pattern.literal!r} of `{name}`")

    def part(letters: str, absent: int) -> str:
        if letters not in fields:
            return str(absent)
        return f"CAST(regexp_extract(t, {text(f'^{form}$')}, {fields.index(letters) + 1}) AS INTEGER)"

    day = f"make_date({part('yyyy', 1970)}, {part('MM', 1)}, {part('dd', 1)})"
    clock = f"(({part('HH', 0)} * 3600 + {part('mm', 0)} * 60 + {part('ss', 0)}) * CAST(1000000 AS BIGINT))"
    moment = f"(CAST({day} AS TIMESTAMP) + to_microseconds({clock}))"
    if "yyyy" in fields:
        year = f"regexp_extract(t, {text(f'^{form}$')}, {fields.index('yyyy') + 1})"
        moment = f"CASE WHEN NOT regexp_full_match({year}, '-0+') THEN {moment} END"
    moment = context.shifted(moment, to_local=False) if to == TIMESTAMP else f"CAST({moment} AS {to.duck})"
    other = failing("CANNOT_PARSE_TIMESTAMP", f"isn't of the form {pattern.literal}", to, "t")
    body = f"CASE WHEN regexp_full_match(t, {text(form)}) THEN coalesce(TRY({moment}), {other}) ELSE {other} END"
    sql = f"list_transform([{value.sql}], lambda t: CASE WHEN t IS NOT NULL THEN {body} END)[1]"
    return made(to, sql, value, throws=True)


def _formatted(moment: Typed, pattern: str) -> Typed:
    if not pattern:
        refuse("an empty date pattern")
    sql = in_calendar(moment.sql, f"strftime({moment.sql}, {text(strftime(pattern))})", STRING)
    return made(STRING, sql, moment, partial=True)


@admit(_FAMILY, "date_format")
def _date_format(context: Context, args: list[Typed]) -> Typed:
    if len(args) != 2 or args[1].literal is None or args[1].type != STRING:
        refuse("`date_format` with a pattern that isn't a constant")
    return _formatted(local(context, "date_format", args[0]), args[1].literal)


@admit(_FAMILY, "from_unixtime")
def _from_unixtime(context: Context, args: list[Typed]) -> Typed:
    if len(args) not in (1, 2):
        mistyped("from_unixtime", args)
    if not args[0].type.integral or (len(args) == 2 and args[1].literal is None):
        refuse(f"`from_unixtime` of {args[0].type}, or by a pattern that isn't a constant")
    moment = ENTRIES["timestamp_seconds"].lower(context, args[:1])
    pattern = args[1].literal if len(args) == 2 else "yyyy-MM-dd HH:mm:ss"
    return _formatted(cast(context, moment, TIMESTAMP_NTZ), pattern or "")


@admit(_FAMILY, "current_timestamp", "now")
def _now(context: Context, args: list[Typed]) -> Typed:
    if context.now_us is None or args:
        refuse("the current time, which isn't the same each time,")
    return Typed(TIMESTAMP, f"make_timestamp(CAST({context.now_us} AS BIGINT))", constant=True)


@admit(_FAMILY, "current_date", "curdate")
def _today(context: Context, args: list[Typed]) -> Typed:
    return cast(context, _now(context, args), DATE)


@admit(_FAMILY, "localtimestamp")
def _local_now(context: Context, args: list[Typed]) -> Typed:
    return cast(context, _now(context, args), TIMESTAMP_NTZ)


def _made_of_parts(name: str, to: SparkType) -> None:
    @admit(_FAMILY, name)
    def lower(context: Context, args: list[Typed]) -> Typed:
        parts = (INT, INT, INT, INT, INT, decimal(16, 6))
        if len(args) != 6 or not all(
            takes(p, a.type) or (p.name == a.type.name == "decimal") for p, a in zip(parts, args, strict=True)
        ):
            refuse(f"`{name}` of other than six numbers")
        year, month, day, hour, minute, second = (cast(context, a, p) for a, p in zip(args, parts, strict=True))
        us = f"CAST({second.sql} * CAST(1000000 AS DECIMAL(7,0)) AS BIGINT)"
        late = f"{hour.sql} NOT BETWEEN 0 AND 23 OR {minute.sql} NOT BETWEEN 0 AND 59 OR {us} < 0 OR {us} > 60000000"
        clock = f"(({hour.sql} * 60 + {minute.sql}) * CAST(60000000 AS BIGINT) + {us})"
        moment = f"(CAST(make_date({year.sql}, {month.sql}, {day.sql}) AS TIMESTAMP) + to_microseconds({clock}))"
        moment = context.shifted(moment, to_local=False) if to == TIMESTAMP else moment
        checked = guarded(late, "DATETIME_FIELD_OUT_OF_BOUNDS", "a part of the time is out of its range", moment, to)
        values = (year, month, day, hour, minute, second)
        nulls = " OR ".join(f"{v.sql} IS NULL" for v in values)
        return made(to, f"CASE WHEN {nulls} THEN NULL ELSE {checked} END", *values, throws=True)


_made_of_parts("make_timestamp", TIMESTAMP)
_made_of_parts("make_timestamp_ltz", TIMESTAMP)
_made_of_parts("make_timestamp_ntz", TIMESTAMP_NTZ)


@admit(_FAMILY, "months_between")
def _months_between(context: Context, args: list[Typed]) -> Typed:
    if len(args) not in (2, 3) or not all(takes(TIMESTAMP, a.type) for a in args[:2]):
        mistyped("months_between", args)
    if len(args) == 3 and args[2].literal not in ("true", "false"):
        refuse("`months_between` that rounds or not by a row")
    a, b = (cast(context, x, TIMESTAMP) for x in args[:2])
    # Both are bound to names: their dates, months and seconds are used.
    p, q = (context.shifted(f"pair.{x}", to_local=True) for x in "pq")
    months = f"CAST((year({p}) - year({q})) * 12 + month({p}) - month({q}) AS DOUBLE)"
    ends = " AND ".join(f"CAST({x} AS DATE) = last_day({x})" for x in (p, q))
    clock = [f"(epoch_us({x}) - epoch_us(date_trunc('day', {x}))) // 1000000" for x in (p, q)]
    seconds = f"CAST((day({p}) - day({q})) * 86400 + {clock[0]} - {clock[1]} AS DOUBLE)"
    parted = f"({months} + {seconds} / CAST(2678400 AS DOUBLE))"
    if len(args) == 2 or args[2].literal == "true":
        parted = f"(floor({parted} * CAST(100000000 AS DOUBLE) + CAST('0.5' AS DOUBLE)) / CAST(100000000 AS DOUBLE))"
    between = f"CASE WHEN day({p}) = day({q}) OR ({ends}) THEN {months} ELSE {parted} END"
    sql = f"list_transform([{{'p': {a.sql}, 'q': {b.sql}}}], lambda pair: {between})[1]"
    return made(DOUBLE, f"CASE WHEN {a.sql} IS NULL OR {b.sql} IS NULL THEN NULL ELSE {sql} END", a, b)
