"""Runs Spark jobs whose tasks write files: prepares the frame, and collects the tasks' reports.
Doesn't access the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.spark.execution.carried import with_access
from deltaplane.spark.execution.workers import remedy

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["judged", "run_tasks", "setting", "spread"]


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


def spread(spark: SparkSession, items: Sequence[str] | Sequence[bytes], each: int = 1) -> DataFrame:
    """A frame with one column of texts or byte strings, at least `each` per task; each task
    receives only its own."""
    tasks = max(1, min(-(-len(items) // each), 4 * spark.sparkContext.defaultParallelism if each > 1 else len(items)))
    rows = spark.sparkContext.parallelize([(item,) for item in items], tasks)
    return spark.createDataFrame(rows, "one binary" if any(isinstance(item, bytes) for item in items) else "one string")


def setting(spark: SparkSession, name: str, otherwise: int) -> int:
    """A session's setting that is a number of files.

    Raises:
        InvalidArgumentError: it isn't a number.
    """
    text = spark.conf.get(name, str(otherwise)) or str(otherwise)
    if not text.isdecimal():
        raise InvalidArgumentError(f"{name} is a number of files, not {text!r}: set it again")
    return int(text)
