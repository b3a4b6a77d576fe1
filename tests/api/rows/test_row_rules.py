"""Constraints, invariants, generated columns and defaults on write, without Spark (P101, P103,
P104, P105, P107)."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import (
    ConstraintViolationError,
    InvalidArgumentError,
    SchemaMismatchError,
    UnsupportedExpressionError,
    UnsupportedFeatureError,
)
from deltaplane.schema import ArrayType, Field, MapType, Schema
from unchecked_tables import constrained

Table = Callable[[], str]
UTC = dt.timezone.utc


def made(path: str, *fields: Field, **constraints: str) -> str:
    configuration = {f"delta.constraints.{name}": sql for name, sql in constraints.items()}
    DeltaTable.create(path, Schema(list(fields)), configuration=configuration)
    return path


def invariant(sql: str) -> dict[str, Any]:
    return {"delta.invariants": json.dumps({"expression": {"expression": sql}})}


def append(path: str, data: Mapping[str, Any] | pa.Table) -> None:
    write_deltalake(path, data if isinstance(data, pa.Table) else pa.table(dict(data)), mode="append")


def rows(path: str) -> dict[str, list[Any]]:
    return DeltaTable(path).scan().to_arrow().to_pydict()


def files(path: str) -> int:
    return sum(1 for _ in Path(path).rglob("*.parquet"))


def test_a_row_that_breaks_a_constraint_stops_the_write(tmp_table: Table) -> None:
    # P103: false and null fail; the message shows the columns of the condition
    path = made(tmp_table(), Field("a", "long"), Field("b", "string"), positive="A > 0")
    append(path, {"a": [1, 2], "b": ["x", None]})
    for bad, shown in ((-5, "-5"), (None, "null")):
        with pytest.raises(ConstraintViolationError) as broken:
            append(path, {"a": pa.array([3, bad], pa.int64()), "b": ["x", "y"]})
        assert "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES" in str(broken.value)
        assert str(broken.value).endswith(
            f"CHECK constraint positive (A > 0) violated by row with values:\n - a : {shown}"
        )
        assert broken.value.table is not None
    assert DeltaTable(path).version() == 1
    assert rows(path)["a"] == [1, 2]
    assert files(path) == 1
    assert DeltaTable(path).protocol().min_writer_version in (3, 7)


def test_overwrites_and_merges_are_checked_too(tmp_table: Table) -> None:
    path = made(tmp_table(), Field("a", "long"), low="a < 10")
    for options in ({"mode": "overwrite"}, {"mode": "append", "schema_mode": "merge"}):
        with pytest.raises(ConstraintViolationError):
            write_deltalake(path, pa.table({"a": [10]}), **options)
    write_deltalake(path, pa.table({"a": [9], "new": [1]}), mode="append", schema_mode="merge")
    with pytest.raises(ConstraintViolationError):
        append(path, {"a": [11], "new": [1]})


def test_a_missing_column_is_null_to_a_constraint(tmp_table: Table) -> None:
    path = made(tmp_table(), Field("a", "integer"), Field("b", "integer"), both="b IS NULL OR b > a")
    append(path, {"a": pa.array([1], pa.int8())})
    assert rows(path) == {"a": [1], "b": [None]}


def test_invariants_are_checked(tmp_table: Table) -> None:
    # P101
    path = made(tmp_table(), Field("a", "long", metadata=invariant("a % 2 = 0")))
    append(path, {"a": [2, 4]})
    for bad in ([2, 3], [None, 2]):
        with pytest.raises(ConstraintViolationError, match="DELTA_VIOLATE_CONSTRAINT"):
            append(path, {"a": pa.array(bad, pa.int64())})
    with pytest.raises(UnsupportedFeatureError, match="invariant of column `a`"):
        append(made(tmp_table(), Field("a", "long", metadata={"delta.invariants": "a > 0"})), {"a": [1]})


def test_an_expression_that_is_not_exact_refuses_the_write(tmp_table: Table) -> None:
    # P104
    path = constrained(tmp_table(), Field("a", "string"), odd="soundex(a) = 'A100'")
    with pytest.raises(UnsupportedExpressionError, match="soundex") as refused:
        append(path, {"a": ["a"]})
    assert refused.value.table is not None
    assert files(path) == 0
    with pytest.raises(InvalidArgumentError, match="gone"):
        append(constrained(tmp_table(), Field("a", "string"), odd="gone = 1"), {"a": ["a"]})


A, B = Field("a", "integer"), Field("b", "long", metadata={"delta.generationExpression": "CAST(a AS BIGINT)"})


def generated(data_type: str, sql: str) -> list[Field]:
    return [A, B, Field("s", "string"), Field("g", data_type, metadata={"delta.generationExpression": sql})]


def default(data_type: Any, sql: str) -> list[Field]:
    return [A, Field("g", data_type, metadata={"CURRENT_DEFAULT": sql})]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (generated("long", "a * 2"), "integer, the column is long"),
        (generated("integer", "b + 1"), "`b`, which is generated itself"),
        (generated("integer", "g"), "`g`, which is generated itself"),
        (generated("integer", "nope"), "nope"),
        (generated("integer", "null"), "void, the column is integer"),
        (generated("double", "rand()"), "rand"),
        (generated("date", "current_date()"), "current"),
        (generated("long", "sum(a)"), "sum"),
        (generated("integer", "(select 1)"), "subquery"),
        (generated("integer", "row_number() over (order by a)"), "row_number|window"),
        (generated("boolean", "contains(s, 'x')"), "`contains` can't be used in a generated column"),
        (generated("date", "DATE'2024-01-01' + interval 1 day"), "`interval` can't be used in a generated column"),
        (default("integer", "a"), "`a`"),
        (default("byte", "300"), "no value as byte"),
        (default("boolean", "1"), "doesn't go into boolean"),
        (default("boolean", "'true'"), "doesn't go into boolean"),
        (default("integer", "DATE'2024-01-01'"), "doesn't go into integer"),
        (default("integer", "TIMESTAMP'1900-01-01 00:00:00'"), "no value as integer"),
        (default("integer", "CAST(NULL AS string)"), "no value as integer"),
        (default("binary", "1.5"), "doesn't go into binary"),
        (default(ArrayType("integer", True), "array(1L)"), "doesn't go into array<integer>"),
        (default("integer", "'x'"), "no value as integer"),
        (default("double", "rand()"), "rand"),
        (default("integer", "(select 1)"), "subquery"),
    ],
)
def test_what_can_not_be_declared(tmp_table: Table, fields: list[Field], why: str) -> None:
    # P104, P105, P107: refused by delta-spark 4.4.0 as well, as measured
    path = tmp_table()
    with pytest.raises((InvalidArgumentError, UnsupportedExpressionError), match=why) as refused:
        DeltaTable.create(path, Schema(fields))
    assert "`g` can't be declared" in str(refused.value)
    assert refused.value.table is not None
    with pytest.raises((InvalidArgumentError, UnsupportedExpressionError), match=why):
        DeltaTable.plan_create(path, Schema(fields))
    assert not DeltaTable.is_deltatable(path)


def test_what_can_be_declared(tmp_table: Table) -> None:
    for fields in (
        generated("integer", "a * 2"),
        generated("string", "md5(s)"),
        *(default("integer", sql) for sql in ("1L", "'1'", "1.5", "NULL", "1 + 1")),
        default("string", "1"),
        default("string", "CAST(NULL AS integer)"),
        default("date", "'2020-01-01'"),
        default("timestamp", "DATE'2020-01-01'"),
    ):
        DeltaTable.create(tmp_table(), Schema(fields))


def test_defaults_of_another_type_are_converted(tmp_table: Table) -> None:
    # P107: each value is that of Spark's cast to the column's type.
    cases: list[tuple[Any, str, object]] = [
        ("integer", "TIMESTAMP'1970-01-01 00:01:40Z'", 100),
        ("long", "TIMESTAMP'1900-01-01 00:00:00Z'", -2208988800),
        ("timestamp", "100", dt.datetime(1970, 1, 1, 0, 1, 40, tzinfo=dt.timezone.utc)),
        ("date", "TIMESTAMP'2024-02-29 12:30:00Z'", dt.date(2024, 2, 29)),
        ("binary", "5", b"\0\0\0\5"),
        ("binary", "-2Y", b"\xfe"),
        ("binary", "'a'", b"a"),
        ("byte", "1.9", 1),
        ("string", "true", "true"),
        ("decimal(5,2)", "'1.5'", Decimal("1.50")),
        (ArrayType("long", True), "array(1, NULL)", [1, None]),
        (MapType("string", "string", True), "map('k', 1)", [("k", "1")]),
    ]
    fields = [Field(f"c{n}", kind, metadata={"CURRENT_DEFAULT": sql}) for n, (kind, sql, _) in enumerate(cases)]
    path = tmp_table()
    DeltaTable.create(path, Schema([Field("id", "integer"), *fields]))
    append(path, {"id": pa.array([1], pa.int32())})
    (row,) = DeltaTable(path).to_pyarrow_table().to_pylist()
    assert row == {"id": 1, **{f"c{n}": value for n, (_, _, value) in enumerate(cases)}}


@pytest.mark.parametrize("kind", ["char(3)", "varchar(3)"])
def test_defaults_longer_than_their_column(tmp_table: Table, kind: str) -> None:
    # P102, P107
    for sql, fits in (("'abc'", True), ("'ab '", True), ("'abcd'", False), ("1234", False)):
        column = Field("c", "string", metadata={"__CHAR_VARCHAR_TYPE_STRING": kind, "CURRENT_DEFAULT": sql})
        if fits:
            DeltaTable.create(tmp_table(), Schema([A, column]))
            continue
        with pytest.raises(InvalidArgumentError, match="it is longer"):
            DeltaTable.create(tmp_table(), Schema([A, column]))


@pytest.mark.parametrize(("sql", "why"), [("a", "no condition"), ("nope > 1", "nope"), ("sum(a) > 1", "sum")])
def test_constraints_that_can_not_be_declared(tmp_table: Table, sql: str, why: str) -> None:
    # P103
    configuration = {"delta.constraints.c": sql}
    for call in (
        lambda path: DeltaTable.create(path, Schema([A]), configuration=configuration),
        lambda path: write_deltalake(path, pa.table({"a": [1]}), configuration=configuration),
    ):
        path = tmp_table()
        with pytest.raises((InvalidArgumentError, UnsupportedExpressionError), match=f"`c` can't be declared.*{why}"):
            call(path)
        assert not DeltaTable.is_deltatable(path)


def test_a_new_schema_must_fit_the_constraints_that_stay(tmp_table: Table) -> None:
    # P104
    path = made(tmp_table(), A, c="a > 0")
    with pytest.raises(InvalidArgumentError, match="`c` can't be declared"):
        write_deltalake(path, pa.table({"x": [1]}), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(InvalidArgumentError, match="`c` can't be declared"):
        DeltaTable.create(path, Schema([Field("x", "long")]), mode="overwrite")
    assert DeltaTable(path).version() == 0


def test_rules_over_identity_values_are_refused(tmp_table: Table) -> None:
    # P103, P108: identity values are allocated later, so a check would see null
    identity = {f"delta.identity.{k}": v for k, v in (("start", 1), ("step", 1), ("allowExplicitInsert", True))}
    path = made(tmp_table(), A, Field("id", "long", metadata=identity), few="id < 3")
    with pytest.raises(UnsupportedFeatureError, match=r"`id < 3` uses the identity column `id`"):
        append(path, {"a": pa.array([1], pa.int32())})
    append(path, {"a": pa.array([1], pa.int32()), "id": [2]})
    with pytest.raises(ConstraintViolationError, match="few"):
        append(path, {"a": pa.array([1], pa.int32()), "id": [3]})


def test_an_error_in_a_condition_stops_the_write(tmp_table: Table) -> None:
    path = made(tmp_table(), Field("a", "integer"), ratio="10 / a > 1")
    with pytest.raises(ConstraintViolationError, match="DIVIDE_BY_ZERO"):
        append(path, {"a": pa.array([1, 0], pa.int32())})


def test_nan_is_above_all(tmp_table: Table) -> None:
    # deltalake treats NaN as less than a bound.
    path = made(tmp_table(), Field("d", "double"), small="d < 100")
    with pytest.raises(ConstraintViolationError, match="nan"):
        append(path, {"d": [math.nan]})
    append(made(tmp_table(), Field("d", "double"), large="d > 100"), {"d": [math.nan]})


GENERATED = (
    Field("at", "timestamp"),
    Field("day", "date", metadata={"delta.generationExpression": "CAST(at AS DATE)"}),
    Field("twice", "long", metadata={"delta.generationExpression": "CAST(n * 2 AS BIGINT)"}),
    Field("n", "integer"),
)


def test_generated_columns_are_computed(tmp_table: Table) -> None:
    # P105. deltalake stores the data's value, or a literal, without a check.
    path = made(tmp_table(), *GENERATED)
    late = dt.datetime(2024, 1, 1, 23, 30, tzinfo=UTC)
    append(path, {"at": [late, None], "n": pa.array([3, None], pa.int32())})
    assert rows(path) == {"at": [late, None], "day": [late.date(), None], "twice": [6, None], "n": [3, None]}


def test_given_generated_columns_are_compared(tmp_table: Table) -> None:
    # P105: null-safe
    path = made(tmp_table(), *GENERATED)
    append(path, {"n": pa.array([1, None], pa.int32()), "TWICE": pa.array([2, None], pa.int64())})
    for n, twice in ((1, 3), (1, None), (None, 2)):
        with pytest.raises(ConstraintViolationError, match="Generated column twice"):
            append(path, {"n": pa.array([n], pa.int32()), "twice": pa.array([twice], pa.int64())})
    assert sorted(rows(path)["twice"], key=str) == [2, None]


def test_a_generated_value_that_overflows_stops_the_write(tmp_table: Table) -> None:
    path = made(tmp_table(), *GENERATED)
    with pytest.raises(ConstraintViolationError, match=r"`twice` can't be computed.*Overflow"):
        append(path, {"n": pa.array([2147483647], pa.int32())})


def test_zone_less_data_is_utc_to_a_generated_column(tmp_table: Table) -> None:
    path = made(tmp_table(), *GENERATED)
    local = (
        pa.array([dt.datetime(2024, 1, 2, 0, 30)]).cast(pa.timestamp("us")).cast(pa.timestamp("us", "Europe/Berlin"))
    )
    append(path, pa.table({"at": local}))
    assert rows(path)["day"] == [dt.date(2024, 1, 2)]
    early = pa.compute.local_timestamp(local).cast(pa.timestamp("us"))
    berlin = pa.compute.assume_timezone(early, "Europe/Berlin")
    append(path, pa.table({"at": berlin}))
    values = DeltaTable(path).scan().to_arrow().select(["at", "day"]).to_pylist()
    assert all(row["at"].astimezone(UTC).date() == row["day"] for row in values)


def test_partitions_of_generated_columns(tmp_table: Table) -> None:
    path = tmp_table()
    DeltaTable.create(path, Schema(list(GENERATED)), partition_by="day")
    append(path, {"at": [dt.datetime(2024, 1, 1, tzinfo=UTC), dt.datetime(2024, 1, 2, tzinfo=UTC)]})
    assert sorted(p.name for p in Path(path).glob("day=*")) == ["day=2024-01-01", "day=2024-01-02"]


DEFAULTS = (
    Field("id", "long", nullable=False, metadata={"CURRENT_DEFAULT": "7"}),
    Field("name", "string", metadata={"CURRENT_DEFAULT": "'none' || '!'"}),
    Field("made", "timestamp", metadata={"CURRENT_DEFAULT": "current_timestamp()"}),
    Field("x", "integer"),
)


def test_defaults_fill_absent_columns_only(tmp_table: Table) -> None:
    # P107: never for an explicit null
    path = made(tmp_table(), *DEFAULTS)
    before = dt.datetime.now(UTC)
    append(path, {"x": pa.array([1, 2], pa.int32())})
    append(path, {"x": pa.array([3], pa.int32()), "name": pa.array([None], pa.string()), "id": [1]})
    columns = DeltaTable(path).scan().to_arrow().sort_by("x").to_pydict()
    assert columns["id"] == [7, 7, 1]
    assert columns["name"] == ["none!", "none!", None]
    assert all(before <= m <= dt.datetime.now(UTC) for m in columns["made"])
    with pytest.raises(ConstraintViolationError):
        append(path, {"id": pa.array([None], pa.int64())})
    features = DeltaTable(path).protocol().writer_features
    assert features is not None
    assert "allowColumnDefaults" in features


def test_a_column_without_value_is_still_missed(tmp_table: Table) -> None:
    path = made(tmp_table(), Field("a", "long", nullable=False), Field("b", "long", metadata={"CURRENT_DEFAULT": "1"}))
    with pytest.raises(SchemaMismatchError, match="`a`"):
        append(path, {"b": [1]})


def test_rules_build_on_each_other(tmp_table: Table) -> None:
    path = made(
        tmp_table(),
        Field("a", "integer", metadata={"CURRENT_DEFAULT": "5"}),
        Field("b", "integer", metadata={"delta.generationExpression": "a + 1"}),
        Field("c", "integer"),
        total="a + b < 20",
    )
    append(path, {"c": pa.array([1], pa.int32())})
    assert rows(path) == {"a": [5], "b": [6], "c": [1]}
    with pytest.raises(ConstraintViolationError, match="total"):
        append(path, {"a": pa.array([10], pa.int32())})


def test_many_batches_and_no_rows(tmp_table: Table) -> None:
    path = made(
        tmp_table(), Field("a", "integer"), Field("b", "integer", metadata={"delta.generationExpression": "a + 1"})
    )
    batches = [pa.record_batch({"a": pa.array(range(i, i + 1000), pa.int32())}) for i in range(0, 5000, 1000)]
    write_deltalake(path, iter(batches), mode="append")
    append(path, pa.table({"a": pa.array([], pa.int32())}))
    columns = rows(path)
    assert sorted(columns["b"]) == list(range(1, 5001))
    assert all(b == a + 1 for a, b in zip(columns["a"], columns["b"], strict=True))


def test_without_duckdb_the_write_says_what_to_install(tmp_table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    path = made(tmp_table(), Field("a", "integer"), positive="a > 0")
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(UnsupportedExpressionError, match=r"deltaplane\[local\]"):
        append(path, {"a": pa.array([1], pa.int32())})
