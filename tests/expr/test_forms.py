"""Unusual forms of calls: supported ones have Spark's value, the others are refused by name."""

from __future__ import annotations

import datetime as dt
from contextlib import suppress
from decimal import Decimal

import pyarrow as pa
import pytest

import deltaplane.expr.functions  # noqa: F401 - fills the list
from deltaplane.exceptions import InvalidArgumentError, UnsupportedExpressionError
from deltaplane.expr.program import compile_expressions
from deltaplane.expr.registry import ENTRIES
from deltaplane.expr.syntax import Parser, Syntax
from deltaplane.schema import Field, Schema

SCHEMA = Schema([Field("s", "string"), Field("i", "integer"), Field("m", "decimal(38,38)"), Field("a", "timestamp")])
UTC = dt.timezone.utc


def value_of(sql: str, zone: str = "UTC", **columns: object) -> object:
    rows = pa.record_batch({name: pa.array([value]) for name, value in columns.items()} or {"i": pa.array([1])})
    return compile_expressions([sql], SCHEMA, zone=zone).evaluate(rows)[0][0].as_py()


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("to_date('2024-01-05', 'yyyy-MM-dd')", dt.date(2024, 1, 5)),
        ("to_date('05.01.2024', 'dd.MM.yyyy')", dt.date(2024, 1, 5)),
        ("to_date('10:11', 'HH:mm')", dt.date(1970, 1, 1)),
        ("to_date(date'2024-01-05', 'yyyy')", dt.date(2024, 1, 5)),
        ("to_date('2024-01-05', null)", None),
        ("to_timestamp('20240105101112', 'yyyyMMddHHmmss')", dt.datetime(2024, 1, 5, 10, 11, 12, tzinfo=UTC)),
        ("to_timestamp('2024-01-05t10:11', \"yyyy-MM-dd'T'HH:mm\")", dt.datetime(2024, 1, 5, 10, 11, tzinfo=UTC)),
        ("to_timestamp_ntz('2024', 'yyyy')", dt.datetime(2024, 1, 1)),
        ("year(to_date('-2024', 'yyyy'))", -2024),
        ("year(to_date('+12024', 'yyyy'))", 12024),
        ("try_to_date('2024-02-30', 'yyyy-MM-dd')", None),
        ("locate('a', 'banana', 3)", 4),
        ("locate('a', 'banana', 7)", 0),
        ("locate('', 'banana', 9)", 1),
        ("locate('', 'banana', 0)", 0),
        ("locate('a', 'banana', null)", 0),
        ("locate(null, 'banana', 1)", None),
        ("position('b', '😀b', 2)", 2),
        ("split('a,b,c,,', ',', 3)", ["a", "b", "c,,"]),
        ("split('a,b', ',', 1)", ["a,b"]),
        ("split('a,b,,', ',', 0)", ["a", "b", "", ""]),
        ("split('', ',', 2)", [""]),
        ("split('a', ',', null)", None),
        ("unix_micros(timestamp_seconds(1.5))", 1500000),
        ("unix_micros(timestamp_seconds(-1.1234567D))", -1123456),
        ("unix_micros(timestamp_seconds(0.1F))", 100000),
        ("timestamp_seconds(double('NaN'))", None),
        ("nanvl(double('NaN'), 2)", 2.0),
        ("nanvl(1F, 2.5)", 1.0),
        ("nanvl(double('NaN'), null)", None),
        ("initcap('  a\tb c')", "  A\tb C"),
        ("array_join(array('a', null, 'b'), ',', 'x')", "a,x,b"),
        ("array_join(array('a', null), ',', null)", None),
    ],
)
def test_what_a_further_argument_means(sql: str, value: object) -> None:
    assert value_of(sql) == value


def test_a_text_read_by_a_pattern_is_in_the_sessions_zone() -> None:
    sql = "to_timestamp('2024-01-05 01', 'yyyy-MM-dd HH')"
    assert value_of(sql, zone="+02:00") == dt.datetime(2024, 1, 4, 23, tzinfo=UTC)
    assert value_of("to_date('2024-01-05', 'yyyy-MM-dd')", zone="+02:00") == dt.date(2024, 1, 5)


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        *((text, "yyyy-MM-dd") for text in ("2024-1-5", " 2024-01-05", "2024-01-05 ", "2024-02-30", "12024-01-05", "")),
        *((text, "yyyy") for text in ("+2024", "-0000", "+999999")),
        *(("29.02", "dd.MM"), ("24", "HH"), ("60", "ss"), ("2024-01-05", "yyyy/MM/dd"), ("٢٠٢٤", "yyyy")),
    ],
)
def test_a_text_of_another_form_is_an_error(text: str, pattern: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        value_of(f"to_timestamp(s, '{pattern}')", s=text)
    assert str(raised.value) == f"[CANNOT_PARSE_TIMESTAMP] '{text}' isn't of the form {pattern}"
    assert value_of(f"try_to_date(s, '{pattern}')", s=text) is None


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("to_date(s, 'yyyy-M-d')", "M in the pattern 'yyyy-M-d' of `to_date`"),
        ("to_date(s, 'yyyy-MM-dd yyyy')", "yyyy in the pattern"),
        ("to_timestamp(s, s)", "`to_timestamp` with a pattern that isn't a constant"),
        ("decode(X'61', 'UTF-8')", "`decode` of (binary, string)"),
        ("substring(X'6162', 1, 1)", "`substring` of (binary, integer, integer)"),
        ("upper(X'61')", "`upper` of (binary)"),
        ("interval 1 day / 2", "`/` of (interval day, integer)"),
        ("extract(day from interval 1 day)", "`day` of (interval day)"),
        ("array(null)", "an array of nothing but null"),
        ("size(null)", "`size` of (void)"),
        ("from_unixtime(1.5D)", "`from_unixtime` of double"),
        ("hex(1.5)", "`hex` of decimal(2,1)"),
        ("array_join(array(1), ',')", "`array_join` of array<integer>"),
        ("array_join(array('a'), s)", "`array_join` with a delimiter that isn't a constant"),
        ("current_timestamp()", "uses the current time, which isn't the same each time, which the"),
    ],
)
def test_a_form_that_is_not_known_is_refused_by_name(sql: str, said: str) -> None:
    with pytest.raises(UnsupportedExpressionError) as refused:
        compile_expressions([sql], SCHEMA)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("md5(1)", "`md5` doesn't take (integer) in the embedded engine"),
        ("length(a, 1)", "`length` doesn't take (timestamp, integer) in the embedded engine"),
        ("timestamp_seconds('1')", "`timestamp_seconds` doesn't take (string)"),
    ],
)
def test_what_may_be_wrong_everywhere_is_told_so(sql: str, said: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        compile_expressions([sql], SCHEMA)
    assert said in str(refused.value)
    assert "if Spark takes them" in str(refused.value)


def test_in_needs_a_value() -> None:
    with pytest.raises(InvalidArgumentError):
        compile_expressions(["1 IN ()"], SCHEMA)


def test_a_long_decimal_that_a_double_rounds_up_is_refused() -> None:
    decimals = pa.array([Decimal("0.99999999999999999999")], pa.decimal128(38, 38))
    program = compile_expressions(["cast(m as int)"], SCHEMA)
    with pytest.raises(UnsupportedExpressionError, match="whole number as a double"):
        program.evaluate(pa.record_batch({"m": decimals}))
    decimals = pa.array([Decimal("0.9999")], pa.decimal128(38, 38))
    assert program.evaluate(pa.record_batch({"m": decimals}))[0].to_pylist() == [0]


class _Counting(Parser):
    """Counts the expressions that it parses."""

    expressions = 0

    def expression(self) -> Syntax:
        self.expressions += 1
        return super().expression()


# Calls with words of their own, and a nested call at each place of a value.
_WORDED = ["trim({})", "trim('x' from {})", "trim(both from {})", "position({} in s)", "position('a' in {})"]
_WORDED += ["date_add({}, 1)", "date_add(day, {})", "dateadd(day, 1, {})", "extract(day from {})", "cast({} as int)"]
_WORDED += ["substr({} from 2 for 3)", "overlay({} placing 'x' from 2)", "case when {} then 1 end", "({})"]


@pytest.mark.parametrize("call", [*_WORDED, *(f"{name}({{}})" for name in sorted(ENTRIES) if name.isidentifier())])
def test_each_part_of_nested_calls_is_parsed_once(call: str) -> None:
    counts = []
    for depth in (5, 10):
        text = "s"
        for _ in range(depth):
            text = call.format(text)
        parser = _Counting(text)
        with suppress(InvalidArgumentError, UnsupportedExpressionError):
            parser.whole()
        counts.append(parser.expressions)
    assert counts[1] <= 2 * counts[0] + 1
