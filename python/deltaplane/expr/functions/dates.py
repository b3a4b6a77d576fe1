"""Dates. A timestamp used as a date is converted in the session's time zone."""

from __future__ import annotations

from deltaplane.expr.casts import cast
from deltaplane.expr.coerce import takes
from deltaplane.expr.registry import Form, admit, forms
from deltaplane.expr.typed import Context, Typed, made, mistyped, refuse
from deltaplane.expr.types import DATE, INT, STRING

_FAMILY = "dates"


def _field(names: str, sql: str) -> None:
    forms(_FAMILY, names, Form([DATE], INT, f"CAST({sql} AS INTEGER)"))


_field("year", "year({0})")
_field("quarter", "quarter({0})")
_field("month", "month({0})")
_field("day dayofmonth", "day({0})")
_field("dayofyear", "dayofyear({0})")
_field("dayofweek", "dayofweek({0}) + 1")
_field("weekday", "isodow({0}) - 1")
_field("weekofyear", "weekofyear({0})")
_field("unix_date", "({0} - DATE '1970-01-01')")
forms(_FAMILY, "date_add", Form([DATE, INT], DATE, "({0} + {1})", throws=True, partial=True))
forms(_FAMILY, "date_sub", Form([DATE, INT], DATE, "({0} - {1})", throws=True, partial=True))
forms(_FAMILY, "datediff date_diff", Form([DATE, DATE], INT, "CAST(({0} - {1}) AS INTEGER)"))
forms(_FAMILY, "add_months", Form([DATE, INT], DATE, "CAST(({0} + to_months({1})) AS DATE)", throws=True, partial=True))
forms(_FAMILY, "last_day", Form([DATE], DATE, "last_day({0})"))
forms(_FAMILY, "make_date", Form([INT, INT, INT], DATE, "make_date({0}, {1}, {2})", throws=True))
forms(
    _FAMILY,
    "date_from_unix_date",
    Form([INT], DATE, "(DATE '1970-01-01' + {0})", throws=True, partial=True),
)
forms(_FAMILY, "dayname", Form([DATE], STRING, "left(dayname({0}), 3)"))
forms(_FAMILY, "monthname", Form([DATE], STRING, "left(monthname({0}), 3)"))

_DAY_WORDS = {
    word: number
    for name, number in zip(
        ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"), range(7), strict=True
    )
    for word in (name, name[:2], name[:3])
}
_UNITS = {
    **dict.fromkeys(("year", "yyyy", "yy"), "year"),
    **dict.fromkeys(("month", "mon", "mm"), "month"),
    "quarter": "quarter",
    "week": "week",
}


@admit(_FAMILY, "next_day")
def _next_day(context: Context, args: list[Typed]) -> Typed:
    if len(args) != 2 or not takes(DATE, args[0].type):
        mistyped("next_day", args)
    wanted = _DAY_WORDS.get((args[1].literal or "").lower())
    if wanted is None:
        refuse("`next_day` to something else than a day's English name")
    day = cast(context, args[0], DATE)
    ahead = f"((({wanted} - dayofweek({day.sql})) + 6) % 7 + 1)"
    return made(DATE, f"({day.sql} + CAST({ahead} AS INTEGER))", day)


@admit(_FAMILY, "trunc")
def _trunc(context: Context, args: list[Typed]) -> Typed:
    if len(args) != 2 or not takes(DATE, args[0].type):
        mistyped("trunc", args)
    unit = _UNITS.get((args[1].literal or "").lower())
    if unit is None:
        refuse("`trunc` to something else than a year, quarter, month or week")
    day = cast(context, args[0], DATE)
    return made(DATE, f"CAST(date_trunc('{unit}', {day.sql}) AS DATE)", day)
