"""Results of statements on Spark: exactly delta-spark's columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import LongType, StructField, StructType

from deltaplane.spark.datasource.delta_options import transaction
from deltaplane.spark.jvm.older_pyspark import frame_of_arrow
from deltaplane.statements.delete import Delete
from deltaplane.statements.merge import Merge
from deltaplane.statements.truncate import Truncate
from deltaplane.statements.update import Update

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from deltaplane.statements.common.statement import Command, Session

__all__ = ["is_repetition", "result_frame"]

_AFFECTED = "num_affected_rows"
_COLUMNS: dict[type, tuple[str, ...]] = {
    Delete: (_AFFECTED,),
    Merge: (_AFFECTED, "num_updated_rows", "num_deleted_rows", "num_inserted_rows"),
    Truncate: (),
    Update: (_AFFECTED,),
}


def is_repetition(session: Session, command: Command) -> bool:
    """Whether the table has already got the application version that the session's settings give to
    a statement that changes rows, so that the statement will be skipped."""
    if session.spark is None or not isinstance(command, (Delete, Merge, Update)):
        return False
    if (txn := transaction(session.spark, dry_run=True)) is None:
        return False
    last = session.catalog.target(command.table).transaction_version(txn[0])
    return last is not None and last >= txn[1]


def result_frame(spark: SparkSession, command: Command, result: pa.Table, *, repeated: bool = False) -> DataFrame:
    """The result of a statement as a frame: one row of delta-spark's columns, an empty frame if it
    has no columns, and the result of `deltaplane.sql` if delta-spark has no or the same result. A
    `repeated` statement was skipped and has no row.
    """
    columns = _COLUMNS.get(type(command))
    if columns is None:
        return frame_of_arrow(spark, result)
    if not columns:
        return spark.createDataFrame([], StructType([]))
    schema = StructType([StructField(name, LongType()) for name in columns])
    row = tuple(result.column(name)[0].as_py() for name in columns)
    return spark.createDataFrame([] if repeated else [row], schema)
