"""Writes a stream: each micro-batch is a commit with the query's id and the batch's number, so a
repeated batch isn't written twice.

The rows of a batch go through `write`, within Spark's own plan; Spark Connect uses the data source.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pyspark.errors import PySparkException

from deltaplane import DeltaTable
from deltaplane.arguments import checked
from deltaplane.exceptions import DeltaError, InvalidArgumentError, UnsupportedFeatureError
from deltaplane.io.session_options import in_session, of_session
from deltaplane.io.storage_options import TableUri, storage_options_text
from deltaplane.properties import CommitOperation
from deltaplane.spark.datasource.session import register
from deltaplane.spark.errors.refusals import refusal
from deltaplane.spark.execution.store_cast import as_table_takes
from deltaplane.spark.jvm import internals as _internals
from deltaplane.spark.jvm.internals import is_connect
from deltaplane.spark.jvm.location import absolute_location
from deltaplane.spark.writing.frame_writer import write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

__all__ = ["foreach_batch", "write_stream"]

Batch = Callable[["DataFrame", tuple[str, int]], object]


@checked(options="Mapping | None")
@of_session(lambda df, *_, **__: df.sparkSession)
def write_stream(
    df: DataFrame,
    path: TableUri,
    checkpoint: TableUri,
    output_mode: Literal["append", "complete"] = "append",
    partition_by: Sequence[str] | str | None = None,
    merge_schema: bool = False,
    trigger: Mapping[str, Any] | None = None,
    query_name: str | None = None,
    options: Mapping[str, str] | None = None,
    user_metadata: str | None = None,
    *,
    each: Mapping[str, Any] | None = None,
) -> StreamingQuery:
    """Starts a query that writes a streaming frame's rows to a table, exactly once across restarts
    and crashes.

    Each micro-batch is one commit with the query's id and the batch's number as application version
    (P076): a batch that Spark repeats is skipped. An empty batch makes no version. Values are cast
    to the types of the table's columns. On Spark Connect the rows go through the data source
    `deltaplane`, as with `df.writeStream.format("deltaplane")`.

    Args:
        df: a streaming frame.
        path: the table's path or URL; the first batch creates the table.
        checkpoint: Spark's checkpoint location, for this query only.
        output_mode: `append` adds rows, `complete` replaces all of them with each batch. For update
            see `foreach_batch`.
        partition_by: columns to partition a new table by.
        merge_schema: whether to add new columns of the frame to the table.
        trigger: arguments of `DataStreamWriter.trigger`, such as `{"availableNow": True}`.
        query_name: the query's name in Spark.
        options: access to the store; keys as in deltalake and object_store.
        user_metadata: free text for the history of each commit.
        each: further arguments of `write` for each batch, such as `optimize_write`; not supported
            by Spark Connect.

    Raises:
        InvalidArgumentError: a frame that isn't streaming, or another output mode.

    An error of a batch ends the query, and `awaitTermination` raises it.

    >>> from deltaplane import spark as dp
    >>> _ = dp.write(spark.range(3), "clicks")
    >>> query = dp.write_stream(
    ...     dp.read_stream(spark, "clicks"), "copy", "copy-query", trigger={"availableNow": True})
    >>> query.awaitTermination(60), dp.read(spark, "copy").count()
    (True, 3)
    """
    if output_mode not in ("append", "complete"):
        raise InvalidArgumentError(
            f"output_mode is append or complete, not {output_mode!r}: foreach_batch gives each batch of changed rows to a "
            "MERGE of your own"
        )
    location = absolute_location(path)
    if is_connect(df.sparkSession):
        if each:
            raise InvalidArgumentError(f"on Spark Connect a stream is written without {', '.join(sorted(each))}")
        register(df.sparkSession)
        columns = [partition_by] if isinstance(partition_by, str) else partition_by
        writer_options = {
            **(storage_options_text(options) or {}),
            **({} if columns is None else {"partitionBy": ",".join(columns)}),
            **({} if user_metadata is None else {"userMetadata": user_metadata}),
            "mergeSchema": str(merge_schema).lower(),
        }
        writer = (
            _writer(df, checkpoint, output_mode, trigger, query_name).format("deltaplane").options(**writer_options)
        )
        return writer.start(location)

    how: dict[str, Any] = {"schema_mode": "merge" if merge_schema else None, "empty_commit": False, **(each or {})}

    def written(batch: DataFrame, txn: tuple[str, int]) -> None:
        # As in Spark's Delta sink, rows of other types are cast, unlike those of a batch's `save`.
        with in_session(batch.sparkSession):
            casts = how["schema_mode"] is None and DeltaTable.is_deltatable(location, options)
            rows = as_table_takes(batch, location, options, of_stream=True) if casts else batch
        write(
            rows,
            location,
            mode="overwrite" if output_mode == "complete" else "append",
            partition_by=partition_by,
            txn=txn,
            options=options,
            user_metadata=user_metadata,
            operation=CommitOperation.streaming_update(*txn, output_mode),
            **how,
        )

    return _started(
        df, written, checkpoint, output_mode, trigger, query_name, lambda writer, each: _hand(df, writer, each)
    )


@checked(options="Mapping | None")
@of_session(lambda df, *_, **__: df.sparkSession)
def foreach_batch(
    df: DataFrame,
    function: Batch,
    checkpoint: TableUri,
    output_mode: Literal["append", "complete", "update"] = "update",
    trigger: Mapping[str, Any] | None = None,
    query_name: str | None = None,
) -> StreamingQuery:
    """Starts a query that passes each micro-batch to a function, with an application version that
    makes its effect happen once.

    The function gets the batch as a frame, and a pair of the query's id and the batch's number. It
    passes the pair to each write of the batch: `write(…, txn=txn)`, or
    `CommitProperties(app_transactions=[Transaction(*txn)])` of a MERGE, UPDATE or DELETE. Spark
    repeats a batch whose completion it didn't record; the write is then skipped. A function may
    write several tables, each once; several writes to one table need distinct ids, such as
    `(f"{txn[0]} second", txn[1])`.

    Args:
        df: a streaming frame.
        function: called with each batch, one after the other, in a thread of the driver.
        checkpoint: Spark's checkpoint location, for this query only.
        output_mode: the content of a batch of an aggregating query: `update` the changed groups,
            `complete` all groups, `append` the final groups.
        trigger: arguments of `DataStreamWriter.trigger`.
        query_name: the query's name in Spark.

    Raises:
        InvalidArgumentError: a frame that isn't streaming.
        UnsupportedFeatureError: a Spark Connect session, whose server can't call this process.

    >>> import deltaplane
    >>> from deltaplane import spark as dp
    >>> _ = dp.write(spark.createDataFrame([(1, 10)], "id long, total long"), "totals")
    >>> _ = dp.write(spark.createDataFrame([(1, 5), (2, 7)], "id long, n long"), "sales")
    >>> def upsert(batch, txn):
    ...     once = deltaplane.CommitProperties(app_transactions=[deltaplane.Transaction(*txn)])
    ...     merge = deltaplane.DeltaTable("totals").merge(batch.toArrow(), "t.id = s.id", source_alias="s", target_alias="t",
    ...         commit_properties=once)
    ...     merge.when_matched_update({"total": "s.n"}).when_not_matched_insert({"id": "s.id", "total": "s.n"}).execute()
    >>> query = dp.foreach_batch(dp.read_stream(spark, "sales").groupBy("id").agg({"n": "sum"}).toDF("id", "n"), upsert,
    ...     "totals-query", trigger={"availableNow": True})
    >>> query.awaitTermination(60), dp.read(spark, "totals").orderBy("id").collect()
    (True, [Row(id=1, total=5), Row(id=2, total=7)])
    """
    if is_connect(df.sparkSession):
        raise UnsupportedFeatureError(
            "foreach_batch needs a classic session: a Spark Connect server runs the function in a process of its own; use "
            'df.writeStream.format("deltaplane"), or foreachBatch with write(…, txn=(your name, batch_id)) in it'
        )
    return _started(
        df, function, checkpoint, output_mode, trigger, query_name, lambda writer, each: writer.foreachBatch(each)
    )


def _started(
    df: DataFrame,
    function: Batch,
    checkpoint: TableUri,
    output_mode: str,
    trigger: Mapping[str, Any] | None,
    query_name: str | None,
    hand: Callable[[Any, Callable[[DataFrame, int], None]], object],
) -> StreamingQuery:
    """Starts a query whose batches a function receives with the query's id; `hand` passes the
    function to the writer."""
    started = threading.Event()
    query: list[StreamingQuery] = []

    def each(batch: DataFrame, batch_id: int) -> None:
        # The first batch may arrive before the query object is available here.
        started.wait()
        if not query:
            raise InvalidArgumentError("the query could not be started")
        function(batch, (str(query[0].id), batch_id))

    writer = _writer(df, checkpoint, output_mode, trigger, query_name)
    hand(writer, each)
    try:
        query.append(writer.start())
    finally:
        started.set()
    return query[0]


def _hand(df: DataFrame, writer: Any, each: Callable[[DataFrame, int], None]) -> None:
    """Makes a writer send its batches to deltaplane's sink, whose errors end the query
    unchanged."""
    try:
        jvm = _internals.Jvm.of(df.sparkSession)
    except _internals.NativeScanUnavailable:
        writer.foreachBatch(each)
    else:
        jvm.hand_batches(writer, _Sink(df.sparkSession, each))


class _Sink:
    """Receives the batches of Spark's sink in the JVM."""

    def __init__(self, spark: SparkSession, each: Callable[[DataFrame, int], None]) -> None:
        self._spark = spark
        self._each = each

    def apply(self, batch: Any, number: int) -> Any:
        """Processes a batch; an error is returned as the answer."""
        from pyspark.sql import DataFrame, SparkSession

        try:
            # The query's own session, as `foreachBatch` uses it.
            self._each(DataFrame(batch, SparkSession(self._spark.sparkContext, batch.sparkSession())), number)
        except DeltaError as e:
            return refusal(e, "StreamWriter.start")
        except PySparkException as e:
            # An exception that Spark raised for the batch's job is passed on unchanged.
            if (thrown := getattr(e, "_origin", None)) is None:
                raise
            return thrown
        return None

    class Java:
        """The Java interface that this class implements, for py4j."""

        implements = ("java.util.function.BiFunction",)


def _writer(
    df: DataFrame,
    checkpoint: TableUri,
    output_mode: str,
    trigger: Mapping[str, Any] | None,
    query_name: str | None,
) -> Any:
    if not df.isStreaming:
        raise InvalidArgumentError(
            "the frame isn't streaming: make one with read_stream or spark.readStream, or write this one with write"
        )
    # The checkpoint is stored in one of Spark's file systems.
    location = absolute_location(checkpoint)
    writer = df.writeStream.outputMode(output_mode).option("checkpointLocation", location)
    writer = writer if query_name is None else writer.queryName(query_name)
    return writer if trigger is None else writer.trigger(**trigger)
