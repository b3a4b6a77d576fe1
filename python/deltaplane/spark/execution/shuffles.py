"""Shuffles rows before they are written: brings a partition's rows together, in tasks of suitable
size. Doesn't access the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.spark.jvm.internals import Jvm, NativeScanUnavailable
from deltaplane.spark.jvm.location import size_of
from deltaplane.spark.jvm.older_pyspark import with_hint
from deltaplane.spark.jvm.schema import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["has_few_tasks", "in_bins", "rebalanced"]

# Maximum number of files per partition in a write without a shuffle.
_FEW_TASKS = 8
_BIN_SIZE = "spark.databricks.delta.optimizeWrite.binSize"


def in_bins(df: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Rows in partitions of the size for optimised writes, by adaptive execution.

    Raises:
        InvalidArgumentError: the session's setting isn't a number of bytes.
    """
    text = df.sparkSession.conf.get(_BIN_SIZE, "512m") or "512m"
    size = size_of(text)
    if not size:
        raise InvalidArgumentError(f"{_BIN_SIZE} is a number of bytes such as 512m, not {text!r}: set it again")
    there = {name.lower() for name in df.columns}
    by = [quoted(column) for column in columns if column.lower() in there]
    try:
        binned: DataFrame = Jvm.of(df.sparkSession).rebalanced(df, by, size)
    except NativeScanUnavailable:
        # Without access to the JVM, Spark's default partition size applies.
        return rebalanced(df, columns)
    return binned


def has_few_tasks(df: DataFrame) -> bool:
    """Whether so few tasks evaluate a frame that each partition gets few files: a shuffle costs a
    third of a write."""
    try:
        tasks = Jvm.of(df.sparkSession).tasks_of(df)
    except NativeScanUnavailable:
        return False
    return tasks is not None and tasks <= _FEW_TASKS


def rebalanced(df: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Brings the rows of a partition together: adaptive execution joins small partitions and splits
    large ones.

    A column that the frame lacks has the same value in every row.
    """
    from pyspark.sql import functions as F

    there = {name.lower() for name in df.columns}
    return with_hint(df, "rebalance", [F.col(quoted(column)) for column in columns if column.lower() in there])
