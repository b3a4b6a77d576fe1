"""Tables of delta-spark with constraints, generated columns and defaults: both engines write them,
refuse the same rows and read the same (P103, P105, P107)."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import ConstraintViolationError, InvalidArgumentError, UnsupportedExpressionError
from deltaplane.schema import ArrayType, Field, Schema
from interop.delta_spark import DeltaSpark, DeltaSparkError
from interop.verifier import verify

UTC = dt.timezone.utc

# Rows, and whether the table takes them.
CASES: list[tuple[dict[str, Any], bool]] = [
    ({"id": 1, "at": dt.datetime(2024, 2, 29, 23, 59, tzinfo=UTC), "amount": 5}, True),
    ({"id": 2, "at": None, "amount": 0}, True),
    ({"id": 3, "at": None, "amount": -1}, False),
    ({"id": None, "at": None, "amount": 1}, False),
    ({"id": 4, "at": dt.datetime(1969, 12, 31, 23, tzinfo=UTC), "amount": 5, "day": dt.date(1969, 12, 31)}, True),
    ({"id": 5, "at": dt.datetime(2024, 1, 1, tzinfo=UTC), "amount": 5, "day": dt.date(2024, 1, 2)}, False),
    ({"id": 6, "at": None, "amount": 5, "day": None, "note": None}, True),
    ({"id": 7, "at": None, "amount": 5, "note": "given"}, True),
]
TYPES = {
    "id": pa.int64(),
    "at": pa.timestamp("us", "UTC"),
    "amount": pa.int32(),
    "day": pa.date32(),
    "note": pa.string(),
}


def data(row: dict[str, Any]) -> pa.Table:
    return pa.table({name: pa.array([value], TYPES[name]) for name, value in row.items()})


def by_id(rows: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows.select(list(TYPES)).to_pylist(), key=lambda row: row["id"])


def theirs(delta_spark: DeltaSpark, path: str) -> None:
    delta_spark.sql(
        f"""CREATE TABLE delta.`{path}` (id BIGINT, at TIMESTAMP, amount INT, day DATE GENERATED ALWAYS AS (CAST(at AS DATE)),
        note STRING DEFAULT 'none') USING delta TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"""
    )
    delta_spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT Amounts CHECK (amount >= 0 AND id IS NOT NULL)")


def ours(path: str) -> None:
    DeltaTable.create(
        path,
        Schema(
            [
                Field("id", "long"),
                Field("at", "timestamp"),
                Field("amount", "integer"),
                Field("day", "date", metadata={"delta.generationExpression": "CAST(at AS DATE)"}),
                Field("note", "string", metadata={"CURRENT_DEFAULT": "'none'"}),
            ]
        ),
        configuration={"delta.constraints.amounts": "amount >= 0 AND id IS NOT NULL"},
    )


@pytest.mark.parametrize("maker", ["delta-spark", "deltaplane"])
def test_both_take_and_refuse_the_same_rows(delta_spark: DeltaSpark, tmp_path: Path, maker: str) -> None:
    path, mirror = str(tmp_path / "t"), str(tmp_path / "mirror")
    for place in (path, mirror):
        theirs(delta_spark, place) if maker == "delta-spark" else ours(place)
    for row, taken in CASES:
        if taken:
            write_deltalake(path, data(row), mode="append")
            delta_spark.write(mirror, data(row))
            continue
        with pytest.raises(ConstraintViolationError, match="DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"):
            write_deltalake(path, data(row), mode="append")
        with pytest.raises(DeltaSparkError, match="DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"):
            delta_spark.write(mirror, data(row))
    expected = by_id(delta_spark.read(mirror))
    assert by_id(delta_spark.read(path)) == expected == by_id(DeltaTable(path).scan().to_arrow())
    # delta-spark continues after deltaplane's write.
    delta_spark.write(path, data({"id": 8, "at": None, "amount": 1}))
    assert by_id(DeltaTable(path).scan().to_arrow())[-1] == {
        **dict.fromkeys(TYPES),
        "id": 8,
        "amount": 1,
        "note": "none",
    }
    verify(path)


# Column, and whether delta-spark 4.4.0 and deltaplane accept it.
DECLARED = [
    ("g INT GENERATED ALWAYS AS (a + 1)", True),
    ("g BIGINT GENERATED ALWAYS AS (a + 1)", False),
    ("g INT GENERATED ALWAYS AS (b + 1)", False),
    ("g INT GENERATED ALWAYS AS (nope)", False),
    ("g DOUBLE GENERATED ALWAYS AS (rand())", False),
    ("g DATE GENERATED ALWAYS AS (current_date())", False),
    ("g BOOLEAN GENERATED ALWAYS AS (startswith(s, 'x'))", False),
    ("g STRING GENERATED ALWAYS AS (upper(s))", True),
    ("g STRING GENERATED ALWAYS AS (concat(regexp_replace(initcap(s), 'A+', 'x'), to_json(struct(a)), hash(s)))", True),
    ("g BOOLEAN GENERATED ALWAYS AS (ilike(s, 'a%'))", False),
    ("g BOOLEAN GENERATED ALWAYS AS (exists(array(a), x -> x > 1))", False),
    ("g INT GENERATED ALWAYS AS (size(array_compact(array(a))))", False),
    ("g DATE GENERATED ALWAYS AS (CAST(s AS DATE) + INTERVAL 1 DAY)", False),
    ("g DATE GENERATED ALWAYS AS (CAST(s AS DATE) + 1)", True),
    ("g TIMESTAMP GENERATED ALWAYS AS (timestampadd(MONTH, a, CAST(s AS TIMESTAMP)))", True),
    ("g BIGINT GENERATED ALWAYS AS (timestampdiff(DAY, CAST(s AS TIMESTAMP), CAST(s AS TIMESTAMP)))", True),
    ("g BOOLEAN GENERATED ALWAYS AS ((CAST(s AS DATE) - DATE'2024-01-01') IS NULL)", False),
    ("g BOOLEAN GENERATED ALWAYS AS ((CAST(s AS TIMESTAMP) - TIMESTAMP'2024-01-01') IS NULL)", False),
    ("g DATE DEFAULT current_date()", True),
    ("g INT DEFAULT '1'", True),
    ("g TINYINT DEFAULT 300", False),
    ("g BOOLEAN DEFAULT 1", False),
    ("g INT DEFAULT a", False),
]


def test_both_declare_the_same(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    keys = {"GENERATED": "delta.generationExpression", "DEFAULT": "CURRENT_DEFAULT"}
    names = {"INT": "integer", "BIGINT": "long", "TINYINT": "byte"}
    base = [Field("a", "integer"), Field("b", "integer", metadata={keys["GENERATED"]: "a"}), Field("s", "string")]
    for i, (text, taken) in enumerate(DECLARED):
        _, type_name, kind, expression = text.replace("GENERATED ALWAYS AS", "GENERATED").split(" ", 3)
        rule = {keys[kind]: expression.removeprefix("(").removesuffix(")") if kind == "GENERATED" else expression}
        columns = "a INT, b INT GENERATED ALWAYS AS (a), s STRING"
        sql = (
            f"CREATE TABLE delta.`{tmp_path}/{i}` ({columns}, {text}) USING delta "
            "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
        )
        fields = [*base, Field("g", names.get(type_name, type_name.lower()), metadata=rule)]
        if taken:
            delta_spark.execute(sql)
            DeltaTable.create(str(tmp_path / f"{i}-ours"), Schema(fields))
            continue
        with pytest.raises(DeltaSparkError):
            delta_spark.execute(sql)
        with pytest.raises((InvalidArgumentError, UnsupportedExpressionError)):
            DeltaTable.create(str(tmp_path / f"{i}-ours"), Schema(fields))


# Constraints with intervals and lambda functions, with a valid and an invalid row.
_AT = dt.datetime(2024, 1, 31, 10, tzinfo=UTC)
TIMED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("at <= day + INTERVAL '1 12:00' DAY TO MINUTE", {"day": _AT.date()}, {"day": dt.date(2024, 1, 29)}),
    ("day + INTERVAL '0-1' YEAR TO MONTH > at", {"day": _AT.date()}, {"day": dt.date(2023, 12, 31)}),
    ("at - day < INTERVAL 1 DAY", {"day": _AT.date()}, {"day": dt.date(2024, 1, 30)}),
    ("day + make_ym_interval(0, id) > at", {"day": _AT.date(), "id": 1}, {"day": _AT.date(), "id": 0}),
    ("timestampadd(HOUR, id, at) > at", {"id": 1}, {"id": -1}),
    ("forall(list, x -> x > 0)", {"list": [1, 2]}, {"list": [1, -2]}),
    ("aggregate(list, 0, (a, x) -> a + x) = id", {"list": [1, 2], "id": 3}, {"list": [1, 2], "id": 2}),
    ("exists(transform(list, (x, i) -> x * i), y -> y = 7)", {"list": [5, 7]}, {"list": [7, 5]}),
]
_TIMED_TYPES = {
    "id": pa.int32(),
    "at": pa.timestamp("us", "UTC"),
    "day": pa.date32(),
    "list": pa.list_(pa.int32()),
}


# Conditions with a column in a lambda function, also in a nested one.
CAPTURED = ["exists(list, y -> y = id)", "forall(list, x -> exists(list, y -> y >= x))"]


@pytest.mark.parametrize(("check", "good", "bad"), TIMED, ids=[check for check, *_ in TIMED])
def test_both_hold_constraints_with_intervals_and_lambdas(
    delta_spark: DeltaSpark, tmp_path: Path, check: str, good: dict[str, Any], bad: dict[str, Any]
) -> None:
    """P103: delta-spark's own ALTER TABLE can't parse a lambda function, but it enforces a
    constraint with one."""
    path = str(tmp_path)
    fields = [("id", "integer"), ("at", "timestamp"), ("day", "date")]
    DeltaTable.create(
        path,
        Schema([*(Field(n, t) for n, t in fields), Field("list", ArrayType("integer"))]),
        configuration={"delta.constraints.timed": check},
    )

    def row_with(values: dict[str, Any]) -> pa.Table:
        columns = {"id": 1, "at": _AT, "day": None, "list": None} | values
        return pa.table({name: pa.array([columns[name]], kind) for name, kind in _TIMED_TYPES.items()})

    for write in (lambda rows: write_deltalake(path, rows, mode="append"), lambda rows: delta_spark.write(path, rows)):
        write(row_with(good))
        with pytest.raises((ConstraintViolationError, DeltaSparkError), match="DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"):
            write(row_with(bad))
    assert DeltaTable(path).to_pyarrow_table().num_rows == 2


@pytest.mark.parametrize("check", CAPTURED)
def test_columns_in_lambdas_are_refused_since_delta_spark_fails_with_them(
    delta_spark: DeltaSpark, tmp_path: Path, check: str
) -> None:
    """P103: deltaplane still enforces such a constraint of an existing table."""
    path = str(tmp_path)
    schema = Schema([Field("id", "integer"), Field("list", ArrayType("integer"))])
    with pytest.raises(UnsupportedExpressionError, match="names the column"):
        DeltaTable.create(path, schema, configuration={"delta.constraints.c": check})
    DeltaTable.create(path, schema, configuration={"delta.constraints.c": "id = 7"})
    with pytest.raises(UnsupportedExpressionError, match="names the column"):
        DeltaTable(path).alter.add_constraint({"d": check})
    log = tmp_path / "_delta_log" / f"{0:020d}.json"
    log.write_text(log.read_text().replace("id = 7", check))
    for checksum in log.parent.glob("*.crc"):
        checksum.unlink()
    good, bad = (
        pa.table({"id": pa.array([7], pa.int32()), "list": pa.array([items], pa.list_(pa.int32()))})
        for items in ([5, 7], [None])
    )
    with pytest.raises(DeltaSparkError, match="INTERNAL_ERROR"):
        delta_spark.write(path, good)
    write_deltalake(path, good, mode="append")
    with pytest.raises(ConstraintViolationError):
        write_deltalake(path, bad, mode="append")
