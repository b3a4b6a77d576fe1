"""Messages for failing rows: Spark's condition, the value and the types, without details of
DuckDB."""

from __future__ import annotations

import re

import duckdb
import pyarrow as pa
import pytest

from deltaplane.exceptions import InvalidArgumentError, UnsupportedExpressionError
from deltaplane.expr.duckdb_values import explained
from deltaplane.expr.program import compile_expressions
from deltaplane.expr.typed import failing
from deltaplane.expr.types import SparkType, array, decimal
from deltaplane.schema import Field, Schema

NAMES = ("byte", "short", "integer", "long", "float", "double", "string", "boolean", "binary", "date", "timestamp")
TYPES = [
    *(SparkType(name) for name in (*NAMES, "timestamp_ntz", "void", "ym_interval", "dt_interval")),
    *(decimal(5, 2), decimal(38, 38), array(SparkType("date")), array(array(SparkType("string")))),
    SparkType("map", parts=(SparkType("string"), decimal(3, 0))),
    SparkType("struct", parts=(SparkType("date"), SparkType("long")), fields=("a", "b c")),
]
OURS = re.compile(r"LINE \d|INT\d|SET |CAST\(|![A-Z]|VARCHAR|DECIMAL|\ue002|:=|\bc\d")
SCHEMA = Schema(
    [Field(n, t) for n, t in (("s", "string"), ("i", "integer"), ("l", "long"), ("d", "double"), ("x", "binary"))]
)
LEAST, MOST = -(1 << 63), (1 << 63) - 1


def failure(sql: str, **columns: object) -> Exception:
    arrays = {name: pa.array([value]) for name, value in columns.items()} or {"i": pa.array([1])}
    with pytest.raises((InvalidArgumentError, UnsupportedExpressionError)) as raised:
        compile_expressions([sql], SCHEMA).evaluate(pa.record_batch(arrays))
    assert not OURS.search(str(raised.value)), raised.value
    return raised.value


@pytest.mark.parametrize("to", TYPES, ids=str)
@pytest.mark.parametrize("shown", ["", "'it''s \"x\"\n\nLINE 1: [y] !A! z'"])
def test_what_a_lowering_says_comes_out_whole(to: SparkType, shown: str) -> None:
    said = "isn't \"a\" thing, of (YYYY)' to INT32\n\nLINE 3: x"
    with pytest.raises(duckdb.Error) as raised:
        duckdb.sql(f"SELECT\n1,\n{failing('SOME_CODE', said, to, shown)}").fetchall()
    value = "'it's \"x\"\n\nLINE 1: [y] !A! z' " if shown else ""
    assert str(explained(raised.value)) == f"[SOME_CODE] {value}{said}"


@pytest.mark.parametrize(
    ("sql", "columns", "said"),
    [
        ("cast(s as int)", {"s": "it's"}, "[CAST_INVALID_INPUT] 'it's' is no integer"),
        ("cast(s as tinyint)", {"s": "1234"}, "[CAST_INVALID_INPUT] '1234' is no byte"),
        ("cast(s as double)", {"s": "x"}, "[CAST_INVALID_INPUT] 'x' is no double"),
        ("1.5 = s", {"s": "x"}, "[CAST_INVALID_INPUT] 'x' is no number, as decimal(2,1) beside it is"),
        ("cast(s as decimal(5,2))", {"s": "x"}, "[CAST_INVALID_INPUT] 'x' is no decimal(5,2)"),
        ("cast(s as boolean)", {"s": "x"}, "[CAST_INVALID_INPUT] 'x' is no boolean"),
        ("cast(s as date)", {"s": "2024-02-30"}, "[CAST_INVALID_INPUT] '2024-02-30' is no date"),
        ("to_timestamp(s)", {"s": "x" * 1000}, f"[CAST_INVALID_INPUT] '{'x' * 100}' is no timestamp"),
        ("cast(d as timestamp)", {"d": float("nan")}, "[CAST_INVALID_INPUT] the number is no timestamp"),
        ("make_date(2024, i, 1)", {"i": 13}, "[DATETIME_FIELD_OUT_OF_BOUNDS] there is no date 2024-13-1"),
        ("l + 1", {"l": MOST}, f"[ARITHMETIC_OVERFLOW] Overflow in {MOST} + 1 of type long"),
        ("i - 2147483647", {"i": -2}, "[ARITHMETIC_OVERFLOW] Overflow in -2 - 2147483647 of type integer"),
        ("cast(i as tinyint) * 100Y", {"i": 2}, "[ARITHMETIC_OVERFLOW] Overflow in 2 * 100 of type byte"),
        ("-l", {"l": LEAST}, f"[ARITHMETIC_OVERFLOW] Overflow in -({LEAST}) of type long"),
        ("abs(l)", {"l": LEAST}, f"[ARITHMETIC_OVERFLOW] Overflow in abs({LEAST})"),
        ("l div -1", {"l": LEAST}, f"[ARITHMETIC_OVERFLOW] Overflow in {LEAST} / -1"),
        (
            "make_dt_interval(i) > interval 1 day",
            {"i": 106751992},
            "[ARITHMETIC_OVERFLOW] Overflow: the value 9223372108800000000 is out of range for long",
        ),
        ("cast(l as tinyint)", {"l": 200}, "[CAST_OVERFLOW] the value 200 of type long is out of range for byte"),
        ("cast(d as int)", {"d": 2e30}, "[CAST_OVERFLOW] the value 2e+30 of type double is out of range for integer"),
        ("cast(12345.255 * i as smallint)", {"i": 9}, "[CAST_OVERFLOW] the value 111107 is out of range for short"),
        *(
            (f"cast({value} as decimal(5,2))", columns, f"[NUMERIC_VALUE_OUT_OF_RANGE] the value {shown} is out of range for decimal(5,2)")
            for value, columns, shown in (
                ("s", {"s": "12345.255"}, "12345.255"),
                ("i", {"i": 12345}, "12345"),
                ("d", {"d": 12345.5}, "12345.5"),
                ("12345.255 * i", {"i": 1}, "12345.255"),
            )
        ),
        ("map(s, 1, s, 2)", {"s": "a"}, "[DUPLICATED_MAP_KEY] a map has a key twice"),
        ("map(s, 1)", {"s": None}, "[NULL_MAP_KEY] a map has null as a key"),
    ],
)  # fmt: skip
def test_a_row_that_spark_fails_for(sql: str, columns: dict[str, object], said: str) -> None:
    error = failure(sql, **{n: v if v is not None else pa.scalar(None, pa.string()) for n, v in columns.items()})
    assert isinstance(error, InvalidArgumentError)
    assert str(error) == said


@pytest.mark.parametrize(
    ("sql", "columns", "said"),
    [
        ("upper(s)", {"s": "ﬁ"}, "a letter whose other case isn't one letter"),
        ("string(x)", {"x": b"\xff"}, "aren't UTF-8"),
        ("date_add(date'2024-01-01', i)", {"i": 2147483647}, "a date that is too far away"),
        ("cast(l as timestamp)", {"l": MOST}, "a year outside of 1 to 9999"),
        ("date_format(date'2024-01-01', '')", {}, "an empty date pattern"),
        ("format_string('%s', cast(0.1 as decimal(10,8)))", {}, "`format_string` with %s for decimal(10,8)"),
        ("to_timestamp(s)", {"s": "10:11:12"}, "a time without a date"),
        ("to_timestamp(s)", {"s": "2024-01-05 10:11:12 Europe/Berlin"}, "a time zone by its name"),
    ],
)
def test_a_row_that_only_spark_takes(sql: str, columns: dict[str, object], said: str) -> None:
    error = failure(sql, **columns)
    assert isinstance(error, UnsupportedExpressionError)
    assert said in str(error)


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        (
            'Parser Error: Max expression depth limit of 1000 exceeded. Use "SET max_expression_depth TO x" to increase',
            UnsupportedExpressionError,
            "nested too deeply",
        ),
        (
            "Invalid Input Error: Arrow Appender: The maximum total string size for regular string buffers is 2147483647 but "
            "the offset of 2147483648 exceeds this.\n* SET arrow_large_buffer_size=true to use large string buffers",
            UnsupportedExpressionError,
            "more than 2 GiB of text",
        ),
        (
            'Invalid Input Error: More than one row returned by a subquery used as an expression.\n\nUse "SET a=b" to',
            InvalidArgumentError,
            "[SCALAR_SUBQUERY_TOO_MANY_ROWS] More than one row",
        ),
        ("Conversion Error: Some INT128 of INT64 fails\n\nLINE 3: SELECT CAST(c0", InvalidArgumentError, "Some a number of long fails"),
        ("Conversion Error: x\n\nLINE 1: '!A! y\ue002'", InvalidArgumentError, "x"),
    ],
)  # fmt: skip
def test_what_duckdb_says_itself(text: str, error: type[Exception], said: str) -> None:
    converted = explained(ValueError(text))
    assert type(converted) is error
    assert said in str(converted)
    assert not OURS.search(str(converted))


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("cast(0.5 as string)", "0.5"),
        ("-0.5 || ''", "-0.5"),
        ("cast(cast(0 as decimal(3,3)) as string)", "0.000"),
        ("cast(cast(-0.00 as decimal(38,38)) as string)", "0." + "0" * 38),
        ("to_json(named_struct('a', 0.5))", '{"a":0.5}'),
        ("format_string('%s|%5s', 0.5, -0.25)", "0.5|-0.25"),
        ("concat_ws(',', 0.5, -0.25)", "0.5,-0.25"),
        ("0.5 like '0.5'", True),
        ("hash(0.5) = hash(cast(0.5 as decimal(3,1)))", True),
    ],
)
def test_a_zero_stands_before_the_point(sql: str, value: object) -> None:
    assert compile_expressions([sql], SCHEMA).evaluate(pa.record_batch({"i": [1]}))[0][0].as_py() == value


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("2024-01-05 10:11", 1704449460000000),
        ("2024-01-05 10", 1704448800000000),
        ("2024-01-05T7", 1704438000000000),
        ("2024-01-05 10:11:12.", 1704449472000000),
        ("2024-01-05 10:11:12+0:00", 1704449472000000),
        ("2024-01-05 10:11:12 GMT+1", 1704445872000000),
        ("2024-01-05 10:11:12UTC+2", 1704442272000000),
        ("2024-01-05 10:11:12.5UT-3:00", 1704460272500000),
        ("2024-01-05 10:11:12+013015", 1704444057000000),
        ("2024-01-05 10:11:12-18:00:00", 1704514272000000),
        ("2024-01-05 10:", None),
        ("2024-01-05T", None),
        ("2024-01-05 10:11Z", None),
        ("2024-01-05 10:11:12+18:01", None),
        ("2024-01-05 10:11:12utc", None),
        ("2024-01-05 10:11:12abc", None),
        ("25:00:00", None),
        ("1234567-01-01 00:00:00", None),
        ("294248-01-01 00:00:00", None),
    ],
)
def test_a_timestamp_may_lack_its_end_and_name_a_distance(text: str, us: int | None) -> None:
    if us is None:
        assert "CAST_INVALID_INPUT" in str(failure("to_timestamp(s)", s=text))
        return
    program = compile_expressions(["unix_micros(to_timestamp(s))", "to_timestamp_ntz(s)"], SCHEMA)
    moment, clock = (values[0].as_py() for values in program.evaluate(pa.record_batch({"s": [text]})))
    assert moment == us
    # Without a zone the local time counts.
    assert (clock.day, clock.hour) == (5, 7 if text.endswith("T7") else 10)
