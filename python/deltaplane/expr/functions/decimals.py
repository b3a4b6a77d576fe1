"""Decimals whose results have more than 38 digits before they are rounded: their types by Spark's
rule, and functions of the core that DuckDB calls, since its own decimals end there.
"""

from __future__ import annotations

import re
from typing import Any

from deltaplane.expr.typed import Typed, failing
from deltaplane.expr.types import MAX_PRECISION, SparkType, decimal

__all__ = ["operation", "register", "sized"]

# Digits behind the point that a result keeps, if it has them.
_LEAST_SCALE = 6
_NAMES = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide"}
_NAME = re.compile(r"decimal_[a-z]+_(\d+)_(\d+)_(\d+)_(\d+)_(\d+)_(\d+)")


def sized(precision: int, scale: int) -> SparkType:
    """The type of a result: above 38 digits, the scale is cut to leave room for whole digits.

    Source: `DecimalType.adjustPrecisionScale` of Apache Spark, with
    `spark.sql.decimalOperations.allowPrecisionLoss`, its default.

    >>> str(sized(10, 2)), str(sized(49, 6)), str(sized(81, 43)), str(sized(45, 20))
    ('decimal(10,2)', 'decimal(38,6)', 'decimal(38,6)', 'decimal(38,13)')
    """
    if precision <= MAX_PRECISION:
        return decimal(precision, scale)
    return decimal(MAX_PRECISION, max(MAX_PRECISION - (precision - scale), min(scale, _LEAST_SCALE)))


def operation(sign: str, a: Typed, b: Typed, to: SparkType) -> str:
    """DuckDB text of an operator of two decimals, which raises Spark's error where the result
    doesn't fit."""
    sizes = (a.type.precision, a.type.scale, b.type.precision, b.type.scale, to.precision, to.scale)
    name = f"decimal_{_NAMES[sign]}_{'_'.join(map(str, sizes))}"
    # Operands may be subqueries, which DuckDB refuses inside of a lambda function.
    both = f"{a.sql} IS NOT NULL AND {b.sql} IS NOT NULL"
    error = failing("NUMERIC_VALUE_OUT_OF_RANGE", f"a result is out of range for {to}", to)
    checked = f"CASE WHEN v.result IS NULL AND v.given THEN {error} ELSE v.result END"
    made = f"{{'result': {name}({a.sql}, {b.sql}), 'given': {both}}}"
    return f"list_transform([{made}], lambda v: {checked})[1]"


def register(connection: Any, sql: str, known: set[str]) -> None:
    """Makes the functions of `operation` known that a statement calls, as
    `core_functions.register`."""
    for match in _NAME.finditer(sql):
        name, *digits = match[0], *match.groups()
        if name in known:
            continue
        known.add(name)
        sizes = list(map(int, digits))
        left, right, to = (decimal(*sizes[i : i + 2]) for i in (0, 2, 4))
        connection.create_function(
            name,
            _function(name, left, right),
            [left.duck, right.duck],
            to.duck,
            type="arrow",
            null_handling="special",
        )


def _function(name: str, left: SparkType, right: SparkType) -> Any:
    import pyarrow as pa

    from deltaplane import _native
    from deltaplane.io.arrow import Scan

    types = [pa.decimal128(t.precision, t.scale) for t in (left, right)]

    def run(left_values: Any, right_values: Any) -> Any:
        # DuckDB gives small decimals in fewer bits.
        columns = [values.cast(t) for values, t in zip((left_values, right_values), types, strict=True)]
        rows = pa.table(columns, ["a", "b"])
        values = Scan(_native.function_values(rows, name)).to_arrow().column(0)
        return values.combine_chunks()

    return run
