"""Widened types, variants, identity columns, NOT NULL and lengths: delta-spark and deltaplane write one table in turn."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, Field, Schema, write_deltalake
from deltaplane.exceptions import ConstraintViolationError
from interop.delta_spark import DeltaSpark, DeltaSparkError
from interop.same import assert_same
from interop.verifier import verify

PARTS = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])


def ours(table: str) -> pa.Table:
    return DeltaTable(table).to_pyarrow_table()


def test_widened_types(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    """P153: delta-spark widens and we append; we widen, and delta-spark reads and goes on."""
    theirs = tmp_table()
    delta_spark.sql(
        f"CREATE TABLE delta.`{theirs}` (b TINYINT, i INT, f FLOAT, d DATE, s STRUCT<x: SMALLINT>) USING delta "
        "TBLPROPERTIES ('delta.enableTypeWidening' = 'true', 'delta.feature.timestampNtz' = 'supported')"
    )
    delta_spark.sql(f"INSERT INTO delta.`{theirs}` VALUES (1Y, 2, 1.1F, DATE'2024-01-31', struct(3S))")
    for column, kind in {
        "b": "INT",
        "i": "DECIMAL(12,2)",
        "f": "DOUBLE",
        "d": "TIMESTAMP_NTZ",
        "s.x": "BIGINT",
    }.items():
        delta_spark.sql(f"ALTER TABLE delta.`{theirs}` ALTER COLUMN {column} TYPE {kind}")
    assert_same(ours(theirs), delta_spark.read(theirs))
    write_deltalake(theirs, ours(theirs), mode="append")
    assert_same(ours(theirs), delta_spark.read(theirs))
    verify(theirs)

    own = tmp_table()
    write_deltalake(
        own,
        pa.table({"i": pa.array([1], pa.int16()), "f": pa.array([1.1], pa.float32())}),
        configuration={"delta.enableTypeWidening": "true"},
    )
    wide = pa.table({"i": pa.array([2**40], pa.int64()), "f": pa.array([0.1], pa.float64())})
    write_deltalake(own, wide, mode="append", schema_mode="merge")
    assert_same(delta_spark.read(own), ours(own))
    conditions = ["f > 1.1", "f = 1.1", "i = 1", "i > 70000"]
    assert delta_spark.counts(own, conditions) == [
        DeltaTable(own).scan(predicate=c).to_arrow().num_rows for c in conditions
    ]
    delta_spark.write(own, wide)
    assert_same(delta_spark.read(own), ours(own))
    verify(own)


def test_variants(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    """P154: what delta-spark wrote, shredded or not, is copied by us and read by it as the same JSON."""
    for properties in ("", "TBLPROPERTIES ('delta.enableVariantShredding' = 'true')"):
        table = tmp_table()
        delta_spark.sql(f"CREATE TABLE delta.`{table}` (i INT, v VARIANT) USING delta {properties}")
        delta_spark.sql(
            f"""INSERT INTO delta.`{table}` SELECT i, parse_json(t) FROM VALUES
            (1, '{{"a": 1, "b": {{"c": [1.5, "x", null]}}}}'), (2, '"text"'), (3, '12345678901234567890.5'), (4, NULL)
            AS rows(i, t)"""
        )
        copy = ours(table)
        write_deltalake(table, copy, mode="append")
        found = delta_spark.sql(f"SELECT i, to_json(v) AS v FROM delta.`{table}`").to_pylist()
        texts = sorted((r["i"], r["v"]) for r in found if r["v"])
        assert texts[::2] == texts[1::2]
        assert len(found) == 8
        assert ours(table).num_rows == 8
        verify(table)

    own = tmp_table()
    DeltaTable.create(own, Schema([Field("v", "variant")]))
    write_deltalake(
        own, pa.table({"v": pa.array([{"metadata": b"\x01\x00\x00", "value": b"\x0c\x07"}], PARTS)}), mode="append"
    )
    delta_spark.sql(f"INSERT INTO delta.`{own}` SELECT parse_json('[true]')")
    assert sorted(delta_spark.sql(f"SELECT to_json(v) AS v FROM delta.`{own}`")["v"].to_pylist()) == ["7", "[true]"]
    assert ours(own).num_rows == 2
    verify(own)


def test_identity_columns(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    """P108, P109: values stay distinct and on their series whoever hands them out."""
    metadata: dict[str, Any] = {
        "delta.identity.start": 10,
        "delta.identity.step": -5,
        "delta.identity.allowExplicitInsert": False,
    }
    table = tmp_table()
    DeltaTable.create(table, Schema([Field("id", "long", metadata=metadata), Field("v", "string")]))
    for round_number in range(2):
        write_deltalake(table, pa.table({"v": [f"ours {round_number}", "x"]}), mode="append")
        delta_spark.sql(f"INSERT INTO delta.`{table}` (v) VALUES ('theirs {round_number}'), ('y')")
    with pytest.raises(DeltaSparkError, match="IDENTITY"):
        delta_spark.sql(f"INSERT INTO delta.`{table}` VALUES (1, 'z')")
    ids = ours(table)["id"].to_pylist()
    assert len(set(ids)) == len(ids) == 8
    assert all(i <= 10 and (10 - i) % 5 == 0 for i in ids)
    mark = json.loads(DeltaTable(table).schema().to_json())["fields"][0]["metadata"]["delta.identity.highWaterMark"]
    assert mark == min(ids)
    assert_same(delta_spark.read(table), ours(table))
    verify(table)


def test_not_null_and_lengths(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    """P102: both refuse the same rows of a table that delta-spark declared."""
    table = tmp_table()
    delta_spark.sql(
        f"CREATE TABLE delta.`{table}` (s STRUCT<x: INT NOT NULL, y: INT>, p STRING NOT NULL, c CHAR(3), v VARCHAR(4)) "
        "USING delta PARTITIONED BY (p)"
    )
    kind = pa.struct([("x", pa.int32()), ("y", pa.int32())])

    def row(s: Any, p: str | None, c: str | None, v: str | None) -> pa.Table:
        return pa.table(
            {
                "s": pa.array([s], kind),
                "p": pa.array([p], pa.string()),
                "c": pa.array([c], pa.string()),
                "v": pa.array([v], pa.string()),
            }
        )

    write_deltalake(table, row({"x": 1, "y": None}, "p", "äöü", "1234"), mode="append")
    for bad in (
        row({"x": None, "y": 1}, "p", "c", "v"),
        row(None, "p", "c", "v"),
        row({"x": 1, "y": 1}, None, "c", "v"),
        row({"x": 1, "y": 1}, "p", "long", "v"),
        row({"x": 1, "y": 1}, "p", "c", "12345"),
    ):
        with pytest.raises(ConstraintViolationError, match="DELTA_"):
            write_deltalake(table, bad, mode="append")
        with pytest.raises(DeltaSparkError, match=r"DELTA_|CONSTRAINT|LIMIT"):
            delta_spark.write(table, bad)
    assert delta_spark.read(table).num_rows == ours(table).num_rows == 1
    verify(table)
