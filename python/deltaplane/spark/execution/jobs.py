"""Runs Spark jobs whose tasks write files: prepares the frame, and collects the tasks' reports.
Doesn't access the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from deltaplane.spark.execution.carried import with_access
from deltaplane.spark.execution.workers import remedy

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

__all__ = ["judged", "run_tasks"]


def judged(df: DataFrame, broken: Column | None) -> tuple[DataFrame, list[str]]:
    """The frame with a last column that describes a row's violation, under plain column names; and
    the original names.

    `mapInArrow` of PySpark looks up columns by unquoted names, which fails for names with special
    characters.
    """
    from pyspark.sql import functions as F

    violation = (F.lit(None) if broken is None else broken).cast("string")
    names = [*df.columns, ""]
    return df.select("*", violation).toDF(*[f"c{i}" for i in range(len(names))]), names


def run_tasks(
    df: DataFrame,
    task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    *stores: tuple[str, Mapping[str, str] | None],
) -> tuple[list[bytes], list[str]]:
    """Runs tasks that report `result` or `refusal` in each row; returns the reports of the task
    attempts that Spark accepted. `stores`: as in `with_access`.

    Raises:
        ImportError: the workers run another Python, or lack deltaplane.
    """
    try:
        rows: list[Any] = df.mapInArrow(with_access(task, *stores), "result binary, refusal string").collect()
    except Exception as e:
        advice = remedy(e)
        if advice is None:
            raise
        raise ImportError(advice) from e
    results = [bytes(r["result"]) for r in rows if r["result"] is not None]
    return results, [r["refusal"] for r in rows if r["refusal"] is not None]
