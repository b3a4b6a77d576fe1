"""Operators of decimals give Spark's values and types at every size, also where a result has more
than 38 digits before it is rounded."""

from __future__ import annotations

import os
import random
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import deltaplane
from deltaplane.exceptions import InvalidArgumentError
from deltaplane.expr.program import compile_expressions
from deltaplane.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Pairs of types that are drawn; the seed is fixed, so that two runs compare the same.
PAIRS = int(os.environ.get("DELTAPLANE_DECIMAL_PAIRS", "16"))
SEED = int(os.environ.get("DELTAPLANE_DECIMAL_SEED", "1"))
ROWS = 60
OPERATORS = ("try_add(a, b)", "try_subtract(a, b)", "try_multiply(a, b)", "try_divide(a, b)")


def drawn_type(chance: random.Random) -> tuple[int, int]:
    precision = chance.choice((chance.randint(1, 18), chance.randint(19, 38), 38))
    return precision, chance.choice((0, precision, chance.randint(0, precision)))


def drawn_value(chance: random.Random, precision: int, scale: int) -> Decimal | None:
    """A value with any number of digits: zero, the extremes and ties among them."""
    kind = chance.randrange(8)
    if kind == 0:
        return None
    digits = chance.randint(1, precision)
    unscaled = {1: 10**precision - 1, 2: 0, 3: 1, 4: 5 * 10 ** (digits - 1)}.get(kind, chance.randrange(10**digits))
    sign = chance.choice((0, 1))
    return Decimal((sign, tuple(map(int, str(unscaled))), -scale))


def drawn_rows(chance: random.Random) -> pa.Table:
    columns = {}
    for name in ("a", "b"):
        size = drawn_type(chance)
        columns[name] = pa.array([drawn_value(chance, *size) for _ in range(ROWS)], pa.decimal128(*size))
    return pa.table(columns)


@pytest.mark.spark
def test_operators_have_the_values_and_types_of_spark(spark: SparkSession) -> None:
    chance = random.Random(SEED)
    cut = 0
    for _ in range(PAIRS):
        rows = drawn_rows(chance)
        program = compile_expressions(OPERATORS, Schema.from_arrow(rows.schema))
        (batch,) = rows.combine_chunks().to_batches()
        ours = pa.table(program.evaluate(batch), names=list("pqrs"))
        frame = spark.createDataFrame(rows)
        theirs = frame.selectExpr(
            *(f"{text} AS {name}" for text, name in zip(OPERATORS, "pqrs", strict=True))
        ).toArrow()
        assert ours.schema.types == theirs.schema.types, rows.schema
        assert ours.to_pylist() == theirs.to_pylist(), rows.schema
        cut += sum(column.type.precision == 38 for column in ours.columns)
    # Most of the drawn results have a type that Spark's rule cuts.
    assert cut > PAIRS


@pytest.mark.spark
def test_averages_have_the_values_and_types_of_spark(spark: SparkSession) -> None:
    for precision, scale in ((24, 0), (25, 3), (28, 20), (36, 4), (38, 2), (38, 37), (38, 38)):
        # Values whose sum fits, with a quotient that has to be rounded.
        values = [Decimal(n).scaleb(-scale) for n in (1, 2, 2, -7, 10 ** (precision - 6), 5)]
        rows = pa.table({"a": pa.array([*values, None], pa.decimal128(precision, scale))})
        text = "SELECT avg(a) AS every, avg(DISTINCT a) AS once FROM t"
        ours = deltaplane.sql(text, tables={"t": rows})
        spark.createDataFrame(rows).createOrReplaceTempView("t")
        theirs = spark.sql(text).toArrow()
        assert (ours.schema.types, ours.to_pylist()) == (theirs.schema.types, theirs.to_pylist())
    spark.catalog.dropTempView("t")


def test_results_out_of_range_are_errors_of_spark() -> None:
    rows = pa.record_batch({"a": pa.array([Decimal(10**37)], pa.decimal128(38, 0))})
    for text in ("a * 100", "a * 0.00001 / 0.0000000001", "a + a * 10"):
        program = compile_expressions([text], Schema.from_arrow(rows.schema))
        with pytest.raises(InvalidArgumentError, match=r"out of range|OUT_OF_RANGE|OVERFLOW"):
            program.evaluate(rows)
