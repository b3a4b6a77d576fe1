"""Compiling and evaluating without Spark: refusals, streams, checks, zones, the published list."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from deltaplane.exceptions import ConstraintViolationError, InvalidArgumentError, UnsupportedExpressionError
from deltaplane.expr.program import compile_boolean, compile_expressions, violations
from deltaplane.schema import Field, Schema
from expr import listing
from structure import repo

SCHEMA = Schema(
    [
        Field("Id", "long"),
        Field("name", "string"),
        Field("d", "double"),
        Field("at", "timestamp"),
        Field("clock", "timestamp_ntz"),
    ]
)


def value_of(sql: str, zone: str = "UTC", **columns: pa.Array) -> object:
    rows = pa.record_batch(columns or {"Id": pa.array([1])})
    return compile_expressions([sql], SCHEMA, zone=zone).evaluate(rows)[0][0].as_py()


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("soundex(name) = 'a'", "`soundex`"),
        ("name rlike '(?i)a'", "`(?i`"),
        ("rand() > 0.5", "`rand`"),
        ("my_udf(id)", "`my_udf`"),
        ("size(array_sort(array(1), (a, b) -> a - b)) > 1", "`array_sort` with a lambda function"),
        ("id in (select 1)", "a subquery"),
        ("sum(id) over (order by id) > 1", "`sum`"),
        ("at > current_timestamp()", "the current time"),
        ("name collate UNICODE", "COLLATE"),
        ("regexp_replace(name, 'a*', 'b') = 'a'", "may be nothing"),
        ("regexp_replace(name, 'a', '${x}') = 'a'", "`${`"),
        ("regexp_extract(name, name, 0) = 'a'", "isn't a constant"),
        ("format_string('%.2f', d) = 'a'", "`%.2f"),
        ("format_string('%s', at) = 'a'", "%s for timestamp"),
        ("format_string('%2$s', name, name) = 'a'", "`%2$s"),
        ("to_json(struct(cast(d as decimal(10,8)))) = 'a'", "`to_json` of decimal(10,8)"),
        ("from_json(name, 'a int').a = 1", "`from_json`"),
        ("name ilike 'é%'", "ILIKE"),
        ("at + make_interval(0, 1, 0, 1) > at", "`make_interval`"),
        ("at + interval 1 day * 1.5 > at", "`*` on interval day and decimal(2,1)"),
        ("cast(interval 1 day as string) > ''", "CAST(interval day AS string)"),
    ],
)
def test_what_is_not_exact_is_refused_by_name(sql: str, named: str) -> None:
    # P104
    with pytest.raises(UnsupportedExpressionError) as refused:
        compile_expressions([sql], SCHEMA)
    assert named in str(refused.value) or "a window" in str(refused.value)
    assert sql in str(refused.value)


@pytest.mark.parametrize(
    "sql", ["", "id >", "id = ", "nope = 1", "1 +* 2", "case end", "id id", "'a", "length(at, 1)", "d[0]"]
)
def test_what_is_no_expression_is_refused(sql: str) -> None:
    with pytest.raises(InvalidArgumentError):
        compile_expressions([sql], SCHEMA)


def test_a_condition_must_be_boolean() -> None:
    with pytest.raises(InvalidArgumentError, match="its type is long"):
        compile_boolean("id + 1", SCHEMA)


def test_names_are_found_ignoring_case_and_other_types_are_taken() -> None:
    assert value_of("ID + 1", iD=pa.array([41], pa.int8())) == 42
    assert value_of("`NAME` || '!'", name=pa.array(["a"]).dictionary_encode()) == "a!"


def test_strings_are_read_as_spark_reads_them() -> None:
    assert value_of(r"'a\'b' 'c\tA' || r'\n'") == "a'bc\tA\\n"
    assert value_of("'--no comment' /* one */ -- two") == "--no comment"


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("-2147483648", -2147483648),
        ("1 + 2 * 3 % 2", 1),
        ("not true = false", True),
        ("1 | 6 ^ 2 & 3", 5),
        ("2 > 1 = true", True),
        ("'a' || 1 + 1", None),
        ("5 div 2 * 2", 4),
        ("- - 3", 3),
    ],
)
def test_precedence_is_sparks(sql: str, value: object) -> None:
    if value is None:
        with pytest.raises(InvalidArgumentError):
            value_of(sql)
    else:
        assert value_of(sql) == value


def test_errors_of_rows_are_raised() -> None:
    with pytest.raises(InvalidArgumentError, match="DIVIDE_BY_ZERO"):
        value_of("1 / (id - 1)")
    with pytest.raises(InvalidArgumentError, match="CAST_INVALID_INPUT"):
        value_of("int(name)", name=pa.array(["x"]))
    with pytest.raises(InvalidArgumentError, match="Overflow"):
        value_of("id + 9223372036854775807")


def test_a_guard_keeps_an_error_away() -> None:
    assert value_of("id = 1 or 1 / (id - 1) > 0") is True
    assert value_of("if(id = 1, 0, 1 / (id - 1))") == 0


def test_nan_and_zero_are_sparks() -> None:
    # deltalake ignores NaN, or treats it as less than all numbers.
    nan = pa.array([float("nan")])
    assert value_of("d > 1e308", d=nan) is True
    assert value_of("d = double('NaN')", d=nan) is True
    assert value_of("d = 0.0D", d=pa.array([-0.0])) is True


def test_zones() -> None:
    # Timestamps without a zone stay unchanged in any session zone; instants are shown in it.
    instant = pa.array([dt.datetime(2024, 1, 1, 23, 30, tzinfo=dt.timezone.utc)], pa.timestamp("us", "UTC"))
    clock = pa.array([dt.datetime(2024, 1, 1, 23, 30)], pa.timestamp("us"))
    assert value_of("date(at)", at=instant) == dt.date(2024, 1, 1)
    assert value_of("date(at)", zone="+02:00", at=instant) == dt.date(2024, 1, 2)
    assert value_of("date(clock)", zone="+02:00", clock=clock) == dt.date(2024, 1, 1)
    assert value_of("hour(at)", zone="-01:30", at=instant) == 22
    berlin = (
        pa.array([dt.datetime(2024, 1, 2, 0, 30)]).cast(pa.timestamp("us")).cast(pa.timestamp("us", "Europe/Berlin"))
    )
    assert value_of("at", at=berlin) == dt.datetime(2024, 1, 2, 0, 30, tzinfo=dt.timezone.utc)
    with pytest.raises(UnsupportedExpressionError, match="Europe/Berlin"):
        value_of("date(at)", zone="Europe/Berlin", at=instant)
    assert value_of("unix_micros(at) > 0", zone="Europe/Berlin", at=instant) is True


def test_the_current_time_is_given() -> None:
    program = compile_expressions(
        ["current_timestamp()", "current_date()", "localtimestamp", "now()", "curdate()"], SCHEMA, now_us=86_400_000_001
    )
    values = [a[0].as_py() for a in program.evaluate(pa.record_batch({"Id": [1]}))]
    assert values[0] == values[3] == dt.datetime(1970, 1, 2, 0, 0, 0, 1, tzinfo=dt.timezone.utc)
    assert values[1] == values[4] == dt.date(1970, 1, 2)
    assert values[2] == dt.datetime(1970, 1, 2, 0, 0, 0, 1)


def test_false_and_null_break_a_check() -> None:
    # P101, P103
    check = compile_boolean("id > 0", SCHEMA)
    batches = list(violations(check, iter([pa.record_batch({"Id": [1, 2]}), pa.record_batch({"Id": [3, 0, None]})])))
    assert [b["Id"].to_pylist() for b in batches] == [[0, None]]
    assert check.shown(batches[0].slice(1)) == "\n - Id : null"
    with pytest.raises(ConstraintViolationError, match="can't be computed"):
        compile_boolean("1 / id > 0", SCHEMA).broken(pa.record_batch({"Id": [0]}))


def test_the_published_list_is_the_registrys() -> None:
    assert (repo.ROOT / "docs/expressions.md").read_text() == listing.page(), (
        "python tests/expr/listing.py > docs/expressions.md"
    )


def test_a_lambda_function_sees_what_is_around_it() -> None:
    texts = [
        "transform(l, x -> x + 1)",
        "transform(l, e -> e + x)",
        "transform(l, e -> aggregate(l, 0, (a, e) -> a + e) + e)",
    ]
    batch = pa.record_batch({"l": pa.array([[1, 2]], pa.list_(pa.int32())), "x": pa.array([10], pa.int32())})
    program = compile_expressions(texts, Schema.from_arrow(batch.schema))
    assert [v.to_pylist() for v in program.evaluate(batch)] == [[[2, 3]], [[11, 12]], [[4, 5]]]


@pytest.mark.parametrize(
    "sql", ["transform(l, (x, x) -> x)", "transform(l, x, y -> x)", "transform(l, (a, b, c) -> a)", "exists(l, x -> 1)"]
)
def test_a_wrong_lambda_function_is_refused(sql: str) -> None:
    with pytest.raises((InvalidArgumentError, UnsupportedExpressionError)):
        compile_expressions([sql], Schema.from_arrow(pa.schema([("l", pa.list_(pa.int32()))])))
