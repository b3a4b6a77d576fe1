"""Evaluates expressions row by row, with errors, by Spark and by the embedded engine.

Contains no expression.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deltaplane.expr.program import Program, arrow_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Expressions per query of Spark: planning time grows faster than their number.
AT_ONCE = 120
FAILED = object()


def by_spark(spark: SparkSession, rows: pa.Table, expressions: Sequence[str]) -> dict[str, list[Any] | str]:
    """Each expression's values, `FAILED` for a row that raises; or the message if the whole
    expression is refused.

    Spark's own TryEval returns null for a row that raises; the array around the value distinguishes
    it from a null value.
    """
    frame = spark.createDataFrame(rows)
    # Spark treats all Arrow times as instants; at UTC the local time is the same.
    clocks = {f.name: frame[f.name].cast("timestamp_ntz") for f in rows.schema if _is_clock(f.type)}
    frame = frame.withColumns(clocks)
    results: dict[str, list[Any] | str] = {}
    waiting = [list(expressions[i : i + AT_ONCE]) for i in range(0, len(expressions), AT_ONCE)]
    while waiting:
        part = waiting.pop()
        try:
            query = frame.select(*[_tried(spark, text).alias(f"v{i}") for i, text in enumerate(part)])
        except Exception as e:  # noqa: BLE001 - whatever Spark says is the result
            if len(part) == 1:
                results[part[0]] = str(e).splitlines()[0]
            else:
                waiting += [part[: len(part) // 2], part[len(part) // 2 :]]
            continue
        made = query.toArrow()
        results.update((text, _unwrapped(made.column(i))) for i, text in enumerate(part))
    return results


def _is_clock(data_type: pa.DataType) -> bool:
    return pa.types.is_timestamp(data_type) and data_type.tz is None


def _tried(spark: SparkSession, text: str) -> Any:
    from pyspark.sql import functions as F
    from pyspark.sql.classic.column import Column

    jvm: Any = spark._jvm
    bridge = jvm.org.apache.spark.sql.classic.ExpressionUtils
    inner = bridge.expression(F.expr(f"array({text})")._jc)
    return Column(bridge.column(jvm.org.apache.spark.sql.catalyst.expressions.TryEval(inner)))


def by_engine(program: Program, rows: pa.Table) -> list[list[Any]]:
    """The values by the embedded engine, for every expression of a program."""
    connection = program._connected()
    connection.register("rows", program._input_table(rows.combine_chunks().to_batches()[0]))
    queries = [f"TRY([{e.sql}]) AS v{i}" for i, e in enumerate(program.expressions)]
    columns = []
    for start in range(0, len(queries), AT_ONCE):
        made = connection.sql(f"SELECT {', '.join(queries[start : start + AT_ONCE])} FROM rows").to_arrow_table()
        for column, e in zip(made.columns, program.expressions[start : start + AT_ONCE], strict=True):
            wanted = pa.list_(pa.int32() if e.type.name == "void" else arrow_type(e.type))
            columns.append(_unwrapped(column.cast(wanted)))
    return columns


def _unwrapped(column: pa.ChunkedArray) -> list[Any]:
    # As numbers if Python can't represent a day.
    kind = column.type.value_type
    if pa.types.is_date(kind):
        column = column.cast(pa.list_(pa.int32()))
    elif pa.types.is_timestamp(kind):
        column = column.cast(pa.list_(pa.int64()))
    elif pa.types.is_string(kind):
        # Spark passes on bytes that aren't UTF-8.
        column = column.cast(pa.list_(pa.binary()))
    return [FAILED if value is None else value[0] for value in column.to_pylist()]


def same(a: Any, b: Any) -> bool:
    """Whether two values are identical; NaN equals NaN, and the sign of zero counts."""
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(map(same, a.values(), b.values()))
    return type(a) is type(b) and bool(a == b)
