"""Spark jobs whose tasks write files: the frame as tasks take it, and what they report. Knows no
table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from deltaplane.spark.execution.workers import remedy

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

__all__ = ["judged", "run_tasks"]


def judged(df: DataFrame, broken: Column | None) -> tuple[DataFrame, list[str]]:
    """The frame with a last column that tells what a row breaks, under plain names; and the names
    of its columns.

    PySpark looks columns up by their unquoted names in `mapInArrow`, which fails for some.
    """
    from pyspark.sql import functions as F

    violation = (F.lit(None) if broken is None else broken).cast("string")
    names = [*df.columns, ""]
    return df.select("*", violation).toDF(*[f"c{i}" for i in range(len(names))]), names


def run_tasks(
    df: DataFrame, task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
) -> tuple[list[str], list[str]]:
    """Runs tasks that report `add` or `refusal` in each row; what those that Spark counts reported.

    Raises:
        ImportError: the workers' Python is another one, or doesn't have deltaplane.
    """
    try:
        rows: list[Any] = df.mapInArrow(task, "add string, refusal string").collect()
    except Exception as e:
        advice = remedy(e)
        if advice is None:
            raise
        raise ImportError(advice) from e
    return [r["add"] for r in rows if r["add"] is not None], [r["refusal"] for r in rows if r["refusal"] is not None]
