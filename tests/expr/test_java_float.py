"""The text of floats and doubles equals Spark's, for numbers drawn by their bits, their digits and
their neighbours."""

from __future__ import annotations

import os
import random
import struct
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from deltaplane.expr.program import compile_expressions
from deltaplane.schema import Schema
from expr import parity

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRAWN = int(os.environ.get("DELTAPLANE_TEXT_NUMBERS", "1000"))
EXPRESSIONS = ["cast(d as string)", "cast(f as string)", "cast(d as decimal(38,6))", "cast(f as decimal(20,3))"]


def numbers(count: int, seed: int = 20240229) -> pa.Table:
    """Doubles and floats: with random bits, with few digits, integral ones, and neighbours of
    powers of two and ten."""
    chance = random.Random(seed)
    doubles: list[float] = [0.0, -0.0, float("nan"), float("inf"), 1e7, 9999999.0, 9999999.999999998, 1e-3, 5e-324]
    doubles += [0.0009999999999999998, 2.2250738585072014e-308, 1.7976931348623157e308, 2e23, 1e23, 123456789.0]
    floats = [1e7, 9999999.0, 1e-3, 2097152.25, 98164304.0, 1.4e-45, 3.4028235e38, 1.17549435e-38]
    for _ in range(count):
        doubles.append(struct.unpack("<d", struct.pack("<Q", chance.getrandbits(64)))[0])
        doubles.append(float(f"{chance.randint(-99999, 99999)}e{chance.randint(-30, 30)}"))
        doubles.append(float(chance.randint(-(10 ** chance.randint(1, 22)), 10**19)))
        doubles.append(_beside(chance.choice((2.0, 10.0)) ** chance.randint(-60, 90), chance.randint(-2, 2)))
        floats.append(struct.unpack("<f", struct.pack("<I", chance.getrandbits(32)))[0])
        floats.append(round(chance.uniform(0, 10 ** chance.randint(1, 12)), chance.randint(0, 3)))
        floats.append(float(f"{chance.randint(-9999, 9999)}e{chance.randint(-30, 30)}"))
        floats.append(2.0 ** chance.randint(-149, 127))
    rows = max(len(doubles), len(floats))
    return pa.table(
        {
            "d": pa.array(doubles + [None] * (rows - len(doubles)), pa.float64()),
            "f": pa.array(floats + [None] * (rows - len(floats)), pa.float32()),
        }
    )


def _beside(value: float, steps: int) -> float:
    return struct.unpack("<d", struct.pack("<q", struct.unpack("<q", struct.pack("<d", value))[0] + steps))[0]


@pytest.mark.spark
def test_the_text_of_a_number_is_that_of_spark(spark: SparkSession) -> None:
    # P104: a row whose text depends on the Java version is refused, so all other rows must be equal
    # for all versions
    table = numbers(DRAWN)
    program = compile_expressions(EXPRESSIONS, Schema.from_arrow(table.schema))
    theirs = parity.by_spark(spark, table, EXPRESSIONS)
    for text, bound in zip(EXPRESSIONS, program.expressions, strict=True):
        ours = _by_row(program, bound.sql, table)
        assert not isinstance(theirs[text], str), theirs[text]
        differ = [
            (a, b) for a, b in zip(ours, theirs[text], strict=True) if a is not parity.FAILED and not parity.same(a, b)
        ]
        assert differ[:10] == []
        refused = sum(a is parity.FAILED and b is not parity.FAILED for a, b in zip(ours, theirs[text], strict=True))
        assert refused < len(ours) * 0.4, (text, refused)


def _by_row(program: Any, sql: str, table: pa.Table) -> list[Any]:
    connection = program._connected()
    connection.register("rows", program._input_table(table.combine_chunks().to_batches()[0]))
    made = connection.sql(f"SELECT TRY([{sql}]) AS v FROM rows").to_arrow_table()
    return parity._unwrapped(made.column(0))


def test_numbers_with_one_text_have_it() -> None:
    table = pa.table({"d": [1e10, 1e-5, float("nan"), float("-inf"), -0.0, 0.001, 9999999.0, 123.5, 1e7, 1.5e300]})
    program = compile_expressions(["cast(d as string)"], Schema.from_arrow(table.schema))
    (texts,) = program.evaluate(table.to_batches()[0])
    wanted = ["1.0E10", "1.0E-5", "NaN", "-Infinity", "-0.0", "0.001", "9999999.0", "123.5", "1.0E7", "1.5E300"]
    assert texts.to_pylist() == wanted
