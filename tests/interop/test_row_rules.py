"""Tables of delta-spark with constraints, generated columns and defaults: both write, both refuse the same rows, both
read the same (P103, P105, P107)."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import ConstraintViolationError, InvalidArgumentError, UnsupportedExpressionError
from deltaplane.schema import Field, Schema
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
    # delta-spark goes on where we wrote.
    delta_spark.write(path, data({"id": 8, "at": None, "amount": 1}))
    assert by_id(DeltaTable(path).scan().to_arrow())[-1] == {
        **dict.fromkeys(TYPES),
        "id": 8,
        "amount": 1,
        "note": "none",
    }
    verify(path)


# Column, and whether delta-spark 4.4.0 and deltaplane take it.
DECLARED = [
    ("g INT GENERATED ALWAYS AS (a + 1)", True),
    ("g BIGINT GENERATED ALWAYS AS (a + 1)", False),
    ("g INT GENERATED ALWAYS AS (b + 1)", False),
    ("g INT GENERATED ALWAYS AS (nope)", False),
    ("g DOUBLE GENERATED ALWAYS AS (rand())", False),
    ("g DATE GENERATED ALWAYS AS (current_date())", False),
    ("g BOOLEAN GENERATED ALWAYS AS (startswith(s, 'x'))", False),
    ("g STRING GENERATED ALWAYS AS (upper(s))", True),
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
        _, of, kind, expression = text.replace("GENERATED ALWAYS AS", "GENERATED").split(" ", 3)
        rule = {keys[kind]: expression.removeprefix("(").removesuffix(")") if kind == "GENERATED" else expression}
        columns = "a INT, b INT GENERATED ALWAYS AS (a), s STRING"
        sql = (
            f"CREATE TABLE delta.`{tmp_path}/{i}` ({columns}, {text}) USING delta "
            "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
        )
        fields = [*base, Field("g", names.get(of, of.lower()), metadata=rule)]
        if taken:
            delta_spark.execute(sql)
            DeltaTable.create(str(tmp_path / f"{i}-ours"), Schema(fields))
            continue
        with pytest.raises(DeltaSparkError):
            delta_spark.execute(sql)
        with pytest.raises((InvalidArgumentError, UnsupportedExpressionError)):
            DeltaTable.create(str(tmp_path / f"{i}-ours"), Schema(fields))
