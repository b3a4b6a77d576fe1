"""Shuffles before rows are written: a partition's rows side by side, tasks of a good size. Knows no
table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.spark.jvm.internals import Jvm, NativeScanUnavailable
from deltaplane.spark.jvm.location import size_of
from deltaplane.spark.jvm.schema import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["has_few_tasks", "in_bins", "rebalanced"]

# Files that a partition may get from one write without a shuffle.
_FEW_TASKS = 8
_BIN_SIZE = "spark.databricks.delta.optimizeWrite.binSize"


def in_bins(df: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Rows in partitions of the size that optimised writes aim at, by adaptive execution.

    Raises:
        InvalidArgumentError: the session's setting is no number of bytes.
    """
    text = df.sparkSession.conf.get(_BIN_SIZE, "512m") or "512m"
    size = size_of(text)
    if not size:
        raise InvalidArgumentError(f"{_BIN_SIZE} is a number of bytes such as 512m, not {text!r}: set it anew")
    there = {name.lower() for name in df.columns}
    by = [quoted(column) for column in columns if column.lower() in there]
    try:
        binned: DataFrame = Jvm.of(df.sparkSession).rebalanced(df, by, size)
    except NativeScanUnavailable:
        # Without the JVM at hand it is Spark's own size of partitions.
        return rebalanced(df, columns)
    return binned


def has_few_tasks(df: DataFrame) -> bool:
    """Whether a frame is evaluated by so few tasks that each partition gets few files from them: a
    shuffle costs a third of a write."""
    try:
        tasks = Jvm.of(df.sparkSession).tasks_of(df)
    except NativeScanUnavailable:
        return False
    return tasks is not None and tasks <= _FEW_TASKS


def rebalanced(df: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Rows of a partition side by side: adaptive execution joins small partitions and splits large
    ones.

    A column that the frame lacks is the same in every row.
    """
    from pyspark.sql import functions as F

    there = {name.lower() for name in df.columns}
    return df.hint("rebalance", *[F.col(quoted(column)) for column in columns if column.lower() in there])
