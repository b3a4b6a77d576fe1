"""A table's history and details as frames with delta-spark's columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from deltaplane.spark.jvm.names import hadoop_path, qualified_name
from deltaplane.spark.jvm.older_pyspark import frame_of_arrow

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["detail_frame", "history_frame"]

# Columns with a struct type in delta-spark; only Databricks fills them.
_STRUCTS = {
    "job": "struct<jobId: string, jobName: string, jobRunId: string, runId: string, jobOwnerId: string, triggerType: string>",
    "notebook": "struct<notebookId: string>",
}


def history_frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """The rows of `deltaplane.report.describe.history_rows`."""
    frame = frame_of_arrow(spark, rows)
    columns = [
        F.lit(None).cast(_STRUCTS[name]).alias(name) if name in _STRUCTS else F.col(name) for name in frame.columns
    ]
    return frame.select(*columns)


def detail_frame(spark: SparkSession, rows: pa.Table, name: str | None) -> DataFrame:
    """The row of `deltaplane.report.describe.detail_row`, with the location in Hadoop's notation,
    and the table's catalog name if it has one."""
    index = rows.schema.get_field_index("location")
    location = hadoop_path(rows.column(index)[0].as_py())
    rows = rows.set_column(index, "location", [[location]])
    if name is not None:
        rows = rows.set_column(rows.schema.get_field_index("name"), "name", [[qualified_name(spark, name)]])
    return frame_of_arrow(spark, rows)
