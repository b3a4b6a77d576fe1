"""Widened types, variants, identity columns, NOT NULL and lengths: delta-spark and deltaplane take
turns writing one table."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
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
    """P153: delta-spark widens and deltaplane appends; deltaplane widens, and delta-spark reads and
    continues."""
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
    """P154: deltaplane copies delta-spark's variants, shredded or not, and delta-spark reads the
    copies as the same JSON."""
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
        rows = delta_spark.sql(f"SELECT i, to_json(v) AS v FROM delta.`{table}`").to_pylist()
        texts = sorted((r["i"], r["v"]) for r in rows if r["v"])
        assert texts[::2] == texts[1::2]
        assert len(rows) == 8
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


# Values of all kinds, most of them objects with the same fields, and values that don't fit the
# typed columns.
VARIANTS = """
    SELECT id AS i, CASE
        WHEN id % 10 = 7 THEN parse_json('"text"')
        WHEN id % 10 = 8 THEN NULL
        WHEN id % 10 = 9 THEN parse_json('[1, {"a": null}, "x"]')
        ELSE to_variant_object(named_struct(
            'n', id, 'tiny', CAST(id % 100 AS TINYINT), 'd', CAST(id AS DECIMAL(12, 3)), 'big', CAST(id AS DECIMAL(30, 5)),
            'f', CAST(id AS FLOAT), 'x', id / 7, 'b', id % 2 = 0, 's', concat('s', id), 'bin', CAST('ab' AS BINARY),
            'day', date_add(DATE'1969-12-31', CAST(id AS INT)), 'at', timestamp_micros(id * 1000003 - 5000000),
            'ntz', timestamp_ntz'0001-01-01 00:00:00.000001', 'list', array(id, NULL, id + 1), 'empty', filter(array(id), e -> false),
            'o', named_struct('p', id, 'q', IF(id % 3 = 0, NULL, 'q')), 'odd', parse_json(IF(id % 2 = 0, '1.50', '"1"'))))
        END AS v FROM range(-20, 60)"""


def test_variants_in_typed_columns(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    """P154: delta-spark and deltaplane read every value, and parts of values, as written."""
    plain, shredded, again = (tmp_table() for _ in range(3))
    delta_spark.sql(f"CREATE TABLE delta.`{plain}` (i BIGINT, v VARIANT) USING delta")
    delta_spark.sql(f"INSERT INTO delta.`{plain}` {VARIANTS}")
    schema = Schema([Field("i", "long"), Field("v", "variant")])
    DeltaTable.create(shredded, schema, configuration={"delta.enableVariantShredding": "true"})
    DeltaTable.create(again, schema)
    write_deltalake(shredded, ours(plain), mode="append")
    write_deltalake(again, ours(shredded), mode="append")

    (file,) = DeltaTable(shredded).file_uris()
    typed = pq.read_schema(file).field("v").type.field("typed_value").type
    assert {"n", "tiny", "d", "big", "f", "x", "b", "s", "bin", "day", "at", "ntz", "list", "o"} <= set(typed.names)
    assert str(typed.field("list").type.field("typed_value").type).startswith("list<element: struct<value: binary")
    assert pq.read_schema(DeltaTable(again).file_uris()[0]).field("v").type.num_fields == 2

    parts = [
        "to_json(v)",
        "schema_of_variant(v)",
        "variant_get(v, '$.n', 'long')",
        "variant_get(v, '$.o.q', 'string')",
        "variant_get(v, '$.d', 'decimal(12,3)')",
        "variant_get(v, '$.at', 'timestamp')",
        "variant_get(v, '$.list[2]', 'long')",
        "try_variant_get(v, '$.odd', 'double')",
        "variant_get(v, '$', 'variant') IS NULL",
    ]
    columns = ", ".join(f"{part} AS p{n}" for n, part in enumerate(parts))
    # Without generated code Spark can't cast values read from a typed column, even in its own
    # files.
    with delta_spark.settings({"spark.sql.codegen.factoryMode": "FALLBACK"}):
        expected, *results = (
            delta_spark.sql(f"SELECT i, {columns} FROM delta.`{table}` ORDER BY i").to_pylist()
            for table in (plain, shredded, again)
        )
        filtered = f"SELECT count(*) AS n FROM delta.`{shredded}` WHERE variant_get(v, '$.n', 'long') > 10"
        assert delta_spark.sql(filtered).to_pylist() == [{"n": 34}]
    assert len(expected) == 80
    assert results == [expected, expected]

    # delta-spark continues in the table and copies deltaplane's shredded values; both engines
    # rewrite a file of deltaplane's.
    delta_spark.sql(f"INSERT INTO delta.`{shredded}` SELECT i + 1000, v FROM delta.`{shredded}`")
    delta_spark.sql(f"DELETE FROM delta.`{shredded}` WHERE i % 2 = 0")
    DeltaTable(shredded).delete("i % 3 = 0")
    left = f"SELECT i, to_json(v) AS v FROM delta.`{shredded}` ORDER BY i"
    expected_rows = [(r["i"], r["p0"]) for r in expected if r["i"] % 2]
    expected_rows = [(i + more, v) for more in (0, 1000) for i, v in expected_rows]
    assert [(r["i"], r["v"]) for r in delta_spark.sql(left).to_pylist()] == [(i, v) for i, v in expected_rows if i % 3]
    verify(shredded)


def test_identity_columns(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    """P108, P109: values stay distinct and in their series, whichever engine allocates them."""
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
