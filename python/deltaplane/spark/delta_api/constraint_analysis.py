"""Spark's own refusal of the condition of a constraint that deltaplane refuses to add."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

from deltaplane import _native
from deltaplane.spark.errors.condition_of import condition_of
from deltaplane.spark.execution.row_rules import relaxed
from deltaplane.table.delta_table import DeltaTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["refuse_as_spark"]

# Conditions for which deltaplane's own error has the condition of delta-spark.
_OWN = ("DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN", "UNRESOLVED_COLUMN.WITH_SUGGESTION")


def refuse_as_spark(spark: SparkSession, table: DeltaTable, name: str, condition: str) -> None:
    """Has Spark analyse a condition over the columns of a table; returns if Spark accepts it, or if
    the table has a constraint of this name, so that deltaplane's own refusal applies.

    Raises:
        AnalysisException: an unknown function, a window function, an aggregate or a generator.
    """
    if f"delta.constraints.{name.lower()}" in map(str.lower, table.metadata().configuration):
        return
    rows = spark.createDataFrame([], relaxed(_native.TableSchema(table.schema().to_json())))
    try:
        rows.where(condition)
    except AnalysisException as e:
        if condition_of(e) not in _OWN:
            raise e from None
