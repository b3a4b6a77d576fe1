"""Writes a DataFrame: executors write files, and one commit on the driver makes them visible.

Only files reported by successful tasks are committed, so retries and speculative tasks never
duplicate rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, overload

from deltaplane import _native
from deltaplane.arguments import checked
from deltaplane.commands.row_rules import not_selected
from deltaplane.exceptions import ConstraintViolationError, InvalidArgumentError
from deltaplane.io.session_options import of_session
from deltaplane.io.storage_options import TableUri
from deltaplane.io.tracing import traced
from deltaplane.properties import CommitOperation, CommitProperties, Transaction, WriterProperties
from deltaplane.spark.datasource.session import session_text
from deltaplane.spark.dml.follow_up import after_commit_by_tasks
from deltaplane.spark.execution.carried import files_place
from deltaplane.spark.execution.jobs import judged, run_tasks
from deltaplane.spark.execution.recache import recache
from deltaplane.spark.execution.row_rules import ruled
from deltaplane.spark.execution.shuffles import has_few_tasks, in_bins, rebalanced
from deltaplane.spark.execution.spark_files import files_by_spark
from deltaplane.spark.execution.write_tasks import raise_refusal
from deltaplane.spark.jvm.location import absolute_location, split_options
from deltaplane.spark.jvm.schema import delta_schema_json
from deltaplane.spark.jvm.session_catalogs import check_in_transaction
from deltaplane.spark.writing.replace import replace_matching, replace_rows
from deltaplane.table.delta_table import DeltaTable
from deltaplane.write.api import WriteResult, commit_files, rehearse_files, rehearse_skipped
from deltaplane.write.declarations import check_declared
from deltaplane.write.intent import FrameWriteOptions, Mode, SchemaMode, WriteIntent

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from typing_extensions import Unpack

    from deltaplane.commands.dry_run import DryRun
    from deltaplane.io import records

__all__ = ["write"]

# The session's setting for optimised writes.
_OPTIMIZE_WRITE = "spark.databricks.delta.optimizeWrite.enabled"


@overload
def write(
    df: DataFrame,
    path: TableUri,
    mode: Mode = "append",
    partition_by: Sequence[str] | str | None = None,
    schema_mode: SchemaMode | None = None,
    replace_where: str | None = None,
    txn: tuple[str, int] | None = None,
    options: Mapping[str, str] | None = None,
    user_metadata: str | None = None,
    *,
    dry_run: Literal[False] = False,
    **more: Unpack[FrameWriteOptions],
) -> WriteResult: ...
@overload
def write(
    df: DataFrame,
    path: TableUri,
    mode: Mode = "append",
    partition_by: Sequence[str] | str | None = None,
    schema_mode: SchemaMode | None = None,
    replace_where: str | None = None,
    txn: tuple[str, int] | None = None,
    options: Mapping[str, str] | None = None,
    user_metadata: str | None = None,
    *,
    dry_run: Literal[True],
    **more: Unpack[FrameWriteOptions],
) -> DryRun: ...
@checked(options="Mapping | None", read_version="object")
@of_session(lambda df, *_, **__: df.sparkSession)
@traced("WRITE", 1)
def write(
    df: DataFrame,
    path: TableUri,
    mode: Literal["error", "append", "overwrite", "ignore"] = "append",
    partition_by: Sequence[str] | str | None = None,
    schema_mode: Literal["merge", "overwrite"] | None = None,
    replace_where: str | None = None,
    txn: tuple[str, int] | None = None,
    options: Mapping[str, str] | None = None,
    user_metadata: str | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    configuration: Mapping[str, str | bool | int | None] | None = None,
    target_file_size: int | None = None,
    writer_properties: WriterProperties | None = None,
    max_commit_retries: int | None = None,
    rebalance: bool = True,
    empty_commit: bool = True,
    optimize_write: bool | None = None,
    partition_overwrite_mode: Literal["static", "dynamic"] = "static",
    cluster_by: Sequence[str] | str | None = None,
    replace_using: Sequence[str] | None = None,
    replace_on: str | None = None,
    source_alias: str | None = None,
    target_alias: str | None = None,
    read_version: int | None = None,
    max_records_per_file: int | None = None,
    all_nullable: bool = False,
    operation: CommitOperation | None = None,
    data_change: bool = True,
    dry_run: bool = False,
) -> WriteResult | DryRun:
    """Writes the frame's rows to a table in one commit, creating the table if there is none.

    Args:
        df: the rows; evaluated once. A new table gets its schema, with nullability and comments.
        path: the table's path or URL; executors must be able to reach it as well.
        mode: the handling of an existing table: `error` fails, `append` adds rows, `overwrite`
            replaces all rows (or those that `replace_where` selects), `ignore` does nothing.
        partition_by: columns to partition a new table by.
        schema_mode: `merge` adds the frame's new columns to the table, `overwrite` (with mode
            overwrite) replaces its columns.
        replace_where: with mode overwrite, the rows to replace, as Spark SQL. Every row of the
            frame must match it. A condition over partition columns replaces whole files; other
            conditions find the rows as a DELETE does.
        txn: application id and version. A version that this application committed before is
            skipped, so a repeated job writes once.
        options: access to the store; keys as in deltalake and object_store.
        user_metadata: free text for the table's history.
        name, description, configuration: metadata and properties of a new table.
        target_file_size: approximate bytes of one data file.
        writer_properties: codec and row groups of the files.
        max_commit_retries: maximum number of retries after a lost race.
        rebalance: for partitioned tables, whether to shuffle the rows so that each partition gets
            few files, if more than eight tasks evaluate the frame. Spark splits large partitions.
            False keeps the frame's own tasks, each of which writes files to every partition of its
            rows.
        optimize_write: whether to shuffle the rows, also for tables without partitions, so that
            each task writes a file of about the session's
            `spark.databricks.delta.optimizeWrite.binSize` bytes (512 MiB, before compression).
            None: the session's `spark.databricks.delta.optimizeWrite.enabled`, otherwise the
            table's `delta.autoOptimize.optimizeWrite`.
        partition_overwrite_mode: `dynamic` (with mode overwrite) replaces only the partitions with
            new rows.
        cluster_by: clustering columns of a new table, by which OPTIMIZE orders rows (P152).
        replace_using: with mode overwrite, a list of columns: replaces the table's rows that equal
            a row of the frame in all of these columns; null equals nothing. An empty frame changes
            nothing.
        replace_on: with mode overwrite, a condition in Spark SQL over the columns of both: replaces
            the table's rows for which it is true with a row of the frame.
        source_alias, target_alias: names for the frame and the table in `replace_on`.
        read_version: the version that the frame reads, if its rows depend on this table's (with
            mode append or overwrite): the write fails with ConcurrentAppendException or
            ConcurrentDeleteReadException if other writers changed rows since;
            `delta.isolationLevel` decides whether rows count that they added without reading the
            table.
        max_records_per_file: maximum number of rows per file, only for files of Spark's own Parquet
            writer: on a local disk or HDFS, for rows that need neither checks nor conversion. It
            has no effect on other files.
        all_nullable: whether new columns are nullable, regardless of the frame's schema.
        empty_commit: whether an empty frame makes a version of an existing table.
        operation: the operation to record in the history, if the write is a part of a larger one.
        data_change: False declares that the rows only rewrite existing ones: followers of the table
            skip them, and concurrent appends don't conflict. The declaration isn't checked.
        dry_run: whether to write nothing and return the planned changes as a `DryRun`. Evaluates
            the frame: tasks encode files without storing them.

    Returns:
        The new version and its metrics, or the reason why nothing was written (`skipped`).

    Raises:
        TableAlreadyExistsError: mode is `error` and a table exists.
        SchemaMismatchError: the frame's columns are incompatible; the message names each one with
            its expected and actual type.
        ConstraintViolationError: a null in a NOT NULL column, or a row that violates a constraint,
            an invariant or a generated column's expression; the message shows the row's values
            (P101-P105). If evaluating an expression fails for a row (overflow, division by zero),
            Spark's own error is raised.
        DeltaConcurrentModificationException: another writer won; nothing was committed.
        InvalidArgumentError, UnsupportedFeatureError, UnsupportedExpressionError: invalid
            arguments, or an unsupported operation.
        ImportError: the workers' Python lacks deltaplane, differs from the driver's, or is missing.

    >>> from deltaplane import spark as dp
    >>> df = spark.createDataFrame([("2024-01-31", 1250)], "day string, cents long")
    >>> dp.write(df, "sales", partition_by="day", txn=("sales-feed", 20240131)).version
    0
    >>> dp.write(df, "sales", txn=("sales-feed", 20240131)).skipped
    'txn'
    >>> told = dp.write(df, "sales", mode="overwrite", dry_run=True)
    >>> told.version, told.files_removed, told.estimated_files_written, told.rows["numOutputRows"]
    (0, 1, 1, 1)
    """
    location = absolute_location(path)
    check_in_transaction(df.sparkSession, location)
    store_options = split_options(options)[0]
    if mode == "ignore" and DeltaTable.is_deltatable(location, store_options):
        # Rows that aren't written may have any columns.
        return _skipped(location, store_options, "exists", dry_run)
    if replace_where is not None:
        replace_where = session_text(df.sparkSession, replace_where)
    # As in delta-spark, a table made by a query takes over the query's CHAR and VARCHAR columns.
    fills = operation is not None and bool(operation.request.get("definition", {}).get("fills"))
    schema = _native.TableSchema(delta_schema_json(df.schema, nullable=all_nullable, keeps_lengths=fills))
    if not data_change and (replace_using is not None or replace_on is not None):
        raise InvalidArgumentError(
            "rows that match others are replaced by new ones: data_change=False can't be said of them"
        )
    intent = WriteIntent(
        mode=mode,
        partition_by=partition_by,
        cluster_by=cluster_by,
        name=name,
        description=description,
        configuration=configuration,
        schema_mode=schema_mode,
        schema=schema,
        predicate=replace_where,
        partition_overwrite_mode=partition_overwrite_mode,
        replace_using=replace_using,
        replace_on=replace_on,
        source_alias=source_alias,
        target_alias=target_alias,
        read_version=read_version,
        operation=operation,
        data_change=data_change,
        target_file_size=target_file_size,
        writer_properties=writer_properties,
        commit_properties=CommitProperties(
            custom_metadata=None if user_metadata is None else {"userMetadata": user_metadata},
            max_commit_retries=max_commit_retries,
            app_transactions=None if txn is None else [Transaction(*txn)],
        ),
        dry_run=dry_run,
    )
    replaced = _replaced(df, location, options, intent)
    if replaced is not None:
        return replaced
    request = intent.request(location, store_options)
    job = _native.WriteJob.begin(location, store_options, schema, request)
    if job.skip is not None:
        return _skipped(location, store_options, job.skip, dry_run)
    check_declared(job.spec, location)
    df, broken = ruled(df, job.spec, location)
    partition_columns = job.spec.partition_columns
    if _optimizes(df, job, optimize_write):
        df = in_bins(df, partition_columns)
    elif rebalance and partition_columns and not has_few_tasks(df):
        df = rebalanced(df, partition_columns)
    files = files_place(location, store_options, job.location)
    adds, refusals = _run(df, broken, files, job.spec, keep=not dry_run, rows=max_records_per_file)
    if refusals:
        if not dry_run:
            _native.discard_files(location, store_options, adds)
        _refuse(refusals, location, replace_where)
    if not (adds or empty_commit or _changes_without_rows(job, adds, request)):
        return _skipped(location, store_options, "nothing", dry_run)
    if dry_run:
        return rehearse_files(job, adds, request)
    spark = df.sparkSession
    done = commit_files(location, store_options, job, adds, partial(after_commit_by_tasks, spark, location, options))
    recache(spark)
    return done


def _replaced(
    df: DataFrame, location: str, options: Mapping[str, str] | None, intent: WriteIntent
) -> WriteResult | DryRun | None:
    """Runs an overwrite that must find the replaced rows one by one; returns None for other writes,
    and if no old row must be read."""
    matching, condition = intent.matching(), intent.condition()
    if matching is not None:
        return replace_matching(df, location, options, matching, intent)
    if condition is None or intent.partition_overwrite_mode == "dynamic":
        return None
    return replace_rows(df, location, options, condition, intent)


def _refuse(refusals: list[str], location: str, replace_where: str | None) -> None:
    """Raises the errors for which tasks refused their rows."""
    try:
        raise_refusal(refusals, location)
    except ConstraintViolationError as e:
        if replace_where is None or not_selected(replace_where) not in str(e):
            raise
        raise InvalidArgumentError(str(e)) from None


def _skipped(location: str, options: dict[str, str] | None, why: str, dry_run: bool) -> WriteResult | DryRun:
    return rehearse_skipped(location, options, why) if dry_run else WriteResult(version=None, skipped=why)


def _changes_without_rows(job: _native.WriteJob, adds: _native.AddedFiles, request: records.WriteRequest) -> bool:
    """Whether a write of no rows changes the table. As in delta-spark, one that changes nothing
    makes no version."""
    if job.version is None or request.mode != "overwrite":
        return job.spec.declares
    planned = job.dry_run(adds)
    changes = planned.files_removed or planned.metadata or planned.protocol or planned.app_ids
    return bool(changes) or request.cluster_by is not None


def _optimizes(df: DataFrame, job: _native.WriteJob, asked: bool | None) -> bool:
    """Whether to shuffle rows to files of suitable size: the caller's argument, the session's
    setting or the table's property."""
    if asked is not None:
        return asked
    setting = df.sparkSession.conf.get(_OPTIMIZE_WRITE, None)
    return job.optimizes if setting is None else setting.lower() == "true"


def _run(
    df: DataFrame,
    broken: Column | None,
    files: tuple[str, dict[str, str] | None],
    spec: records.WriteSpec,
    *,
    keep: bool,
    rows: int | None,
) -> tuple[_native.AddedFiles, list[str]]:
    """Runs the writing tasks; returns their files and refusals. `files`: location and options of
    the table's files. Without `keep` the files aren't stored. `rows`: maximum number of rows per
    file of Spark's own writer."""
    location, options = files
    if keep and broken is None:
        adds = files_by_spark(df, location, options, spec, rows)
        if adds is not None:
            return adds, []
    plain, names = judged(df, broken)

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Imported inside the task, so that a worker without the package fails with an error that
        # names it.
        from deltaplane.spark.execution.write_tasks import write_judged

        yield from write_judged(location, options, spec, (b.rename_columns(names) for b in batches), keep=keep)

    results, refusals = run_tasks(plain, task, (location, options))
    return _native.AddedFiles.joined([_native.AddedFiles(result) for result in results]), refusals
