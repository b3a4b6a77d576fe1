"""What PySpark 4 has and PySpark 3.5 lacks: frames of Arrow data and the reverse, and hints that
name columns. Newer versions use PySpark's own methods.

Doesn't access tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from deltaplane.spark.jvm.internals import Jvm, arrow_schema, spark_schema
from deltaplane.spark.jvm.spark_versions import has_sources

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["arrow_table", "frame_of_arrow", "with_hint"]


def arrow_table(frame: DataFrame) -> pa.Table:
    """All rows of a frame."""
    if has_sources():
        return frame.toArrow()
    import pyarrow as pa

    classic: Any = frame
    schema = arrow_schema(frame.schema)
    batches = classic._collect_as_arrow()
    # The batches say of each column that it may be null.
    return pa.Table.from_batches(batches, schema=batches[0].schema if batches else schema).cast(schema)


def frame_of_arrow(spark: SparkSession, table: pa.Table) -> DataFrame:
    """A frame of a table's rows. Timestamps without a time zone stay what they are, which PySpark
    leaves to a setting of the session (`spark.sql.timestampType`)."""
    if has_sources():
        return spark.createDataFrame(table, spark_schema(table.schema))
    from pyspark.sql import DataFrame
    from pyspark.sql.pandas.serializers import ArrowStreamSerializer

    schema = spark_schema(table.schema)
    batches = table.cast(arrow_schema(schema)).to_batches()
    # What PySpark 3.5 does with the Arrow data that it makes of pandas.
    classic: Any = spark
    utils, server = classic._jvm.PythonSQLUtils, classic._jvm.ArrowIteratorServer
    rows = classic.sparkContext._serialize_to_jvm(
        batches, ArrowStreamSerializer(), utils.readArrowStreamFromFile, server
    )
    return DataFrame(utils.toDataFrame(rows, schema.json(), classic._jsparkSession), spark)


def with_hint(frame: DataFrame, hint: str, columns: Sequence[Column]) -> DataFrame:
    """A frame with a hint that names columns."""
    if has_sources():
        return frame.hint(hint, *columns)
    from pyspark.sql import DataFrame

    classic: Any = frame
    jvm = Jvm.of(frame.sparkSession)
    named = jvm.seq([jvm.expression_of(column) for column in columns])
    return DataFrame(classic._jdf.hint(hint, named), frame.sparkSession)
