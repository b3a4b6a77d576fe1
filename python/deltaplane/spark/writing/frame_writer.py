"""Writing a DataFrame: files are made on executors, one commit on the driver makes them visible.

Only what successful tasks report is committed, so retries and speculation never double a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, overload

from deltaplane import _native
from deltaplane.arguments import checked
from deltaplane.commands.row_rules import not_selected
from deltaplane.exceptions import ConstraintViolationError, InvalidArgumentError
from deltaplane.io.storage_options import TableUri
from deltaplane.properties import CommitOperation, CommitProperties, Transaction, WriterProperties
from deltaplane.spark.execution.jobs import judged, run_tasks
from deltaplane.spark.execution.recache import recache
from deltaplane.spark.execution.row_rules import ruled
from deltaplane.spark.execution.shuffles import has_few_tasks, in_bins, rebalanced
from deltaplane.spark.execution.spark_files import files_by_spark
from deltaplane.spark.execution.write_tasks import raise_refusal
from deltaplane.spark.jvm.location import absolute_location, split_options
from deltaplane.spark.jvm.schema import delta_schema_json
from deltaplane.spark.writing.replace import replace_matching, replace_rows
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

# The session's setting of optimised writes.
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
        df: the rows; evaluated once. Its schema, with nullability and comments, is a new table's.
        path: the table's path or URL; executors must reach it as the driver does.
        mode: what to do with an existing table: `error` fails, `append` adds, `overwrite` replaces
            all rows (or those that `replace_where` selects), `ignore` does nothing.
        partition_by: columns to partition a new table by.
        schema_mode: `merge` adds the frame's new columns to the table, `overwrite` (with mode
            overwrite) replaces its columns.
        replace_where: with mode overwrite, the rows to replace, as Spark SQL. Every row of the
            frame must match it. Over partition columns alone whole files make room; else the rows
            are looked for as in a DELETE.
        txn: application id and version. A version that this application committed before is
            skipped, so a job that runs again writes once.
        options: how to reach the store; keys as in deltalake and object_store.
        user_metadata: free text for the table's history.
        name, description, configuration: metadata and properties of a new table.
        target_file_size: bytes, about, of one data file.
        writer_properties: codec and row groups of the files.
        max_commit_retries: how often a lost race is tried again.
        rebalance: for partitioned tables, shuffle the rows so that each partition gets few files,
            where the frame is evaluated by more than eight tasks. Spark splits partitions that are
            large. False keeps the frame's own tasks, of which each writes to each partition it
            meets.
        optimize_write: shuffle the rows, also of tables without partitions, so that each task
            writes a file of about the bytes that the session's
            `spark.databricks.delta.optimizeWrite.binSize` says (512 MiB, before compression). None:
            as the session's `spark.databricks.delta.optimizeWrite.enabled` says, else the table's
            `delta.autoOptimize.optimizeWrite`.
        partition_overwrite_mode: `dynamic` (with mode overwrite) replaces only the partitions that
            rows are written to.
        cluster_by: columns by which OPTIMIZE keeps a new table's rows together (P152).
        replace_using: with mode overwrite, columns: the table's rows that equal one of the frame in
            all of them are replaced, a null equals nothing. Nothing is done without rows.
        replace_on: with mode overwrite, a condition in Spark SQL over the columns of both: the
            table's rows for which it is true with one of the frame's are replaced.
        source_alias, target_alias: names for the frame and the table in `replace_on`.
        read_version: the version that the frame reads, if its rows are made of this table's (with
            mode append or overwrite): the write fails with ConcurrentAppendException or
            ConcurrentDeleteReadException where other writers changed rows since;
            `delta.isolationLevel` says whether rows count that they added without reading the
            table.
        max_records_per_file: how many rows a file has at most, where Spark's own Parquet writer
            makes it: on a local disk or HDFS, with nothing to judge or to convert. Elsewhere files
            are as large as without it.
        all_nullable: whether columns that the write makes may be null, whatever the frame's schema
            says.
        empty_commit: whether a frame without rows makes a version of a table that is there.
        operation: what the history says that the write was, where it is a part of something larger.
        data_change: False says that the rows are those that were there before, written anew: who
            follows the table doesn't see them, and an append of another writer is no conflict.
            Nobody checks it.
        dry_run: whether to write nothing and tell what would be done, as a `DryRun`. The frame is
            evaluated for it: tasks make files as the write's do, and store them nowhere.

    Returns:
        The new version and its metrics, or why nothing was written (`skipped`).

    Raises:
        TableAlreadyExistsError: mode error and a table is there.
        SchemaMismatchError: the frame's columns don't fit; the message names each one, expected and
            found.
        ConstraintViolationError: a null in a column without nulls, or a row that breaks a
            constraint, an invariant or a generated column's expression; the message shows the row's
            values (P101-P105). Where an expression fails for a row (overflow, division by zero),
            Spark's own error comes through.
        DeltaConcurrentModificationException: another writer won; nothing was committed.
        InvalidArgumentError, UnsupportedFeatureError, UnsupportedExpressionError: the call is
            wrong, or not possible yet.
        ImportError: the workers' Python doesn't have deltaplane, is another one than the driver's,
            or isn't there.

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
    store_options = split_options(options)[0]
    # As in delta-spark, a table that a query makes has the query's columns of CHAR and VARCHAR.
    fills = operation is not None and bool(operation.request.get("definition", {}).get("fills"))
    schema_json = delta_schema_json(df.schema, nullable=all_nullable, keeps_lengths=fills)
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
        schema_json=schema_json,
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
    job = _native.WriteJob.begin(location, store_options, _native.schema_to_arrow(schema_json), request)
    if job.skip is not None:
        return _skipped(location, store_options, job.skip, dry_run)
    check_declared(job.spec, location)
    df, broken = ruled(df, job.spec, location)
    partition_columns = job.spec.partition_columns
    if _optimizes(df, job, optimize_write):
        df = in_bins(df, partition_columns)
    elif rebalance and partition_columns and not has_few_tasks(df):
        df = rebalanced(df, partition_columns)
    adds, refusals = _run(df, broken, location, store_options, job.spec, keep=not dry_run, rows=max_records_per_file)
    if refusals:
        if not dry_run:
            job.abort(adds)
        _refuse(refusals, location, replace_where)
    if not (adds or empty_commit or mode == "overwrite" or job.spec.declares):
        return _skipped(location, store_options, "nothing", dry_run)
    if dry_run:
        return rehearse_files(job, adds, request)
    done = commit_files(job, adds)
    recache(df.sparkSession)
    return done


def _replaced(
    df: DataFrame, location: str, options: Mapping[str, str] | None, intent: WriteIntent
) -> WriteResult | DryRun | None:
    """An overwrite that finds the rows to replace one by one; None for other writes and where no
    row of the old ones is needed."""
    matching, condition = intent.matching(), intent.condition()
    if matching is not None:
        return replace_matching(df, location, options, matching, intent)
    if condition is None or intent.partition_overwrite_mode == "dynamic":
        return None
    return replace_rows(df, location, options, condition, intent)


def _refuse(refusals: list[str], location: str, replace_where: str | None) -> None:
    """Raises what tasks refused their rows for."""
    try:
        raise_refusal(refusals, location)
    except ConstraintViolationError as e:
        if replace_where is None or not_selected(replace_where) not in str(e):
            raise
        raise InvalidArgumentError(str(e)) from None


def _skipped(location: str, options: dict[str, str] | None, why: str, dry_run: bool) -> WriteResult | DryRun:
    return rehearse_skipped(location, options, why) if dry_run else WriteResult(version=None, skipped=why)


def _optimizes(df: DataFrame, job: _native.WriteJob, asked: bool | None) -> bool:
    """Whether rows are shuffled to files of a good size: the caller says it, or the session, or the
    table."""
    if asked is not None:
        return asked
    told = df.sparkSession.conf.get(_OPTIMIZE_WRITE, None)
    return job.optimizes if told is None else told.lower() == "true"


def _run(
    df: DataFrame,
    broken: Column | None,
    location: str,
    options: dict[str, str] | None,
    spec: records.WriteSpec,
    *,
    keep: bool,
    rows: int | None,
) -> tuple[list[str], list[str]]:
    """Runs the writing tasks; their adds, and the reasons of those that refused their rows. Without
    `keep` their files are stored nowhere. `rows`: how many a file of Spark's own has at most."""
    if keep and broken is None:
        adds = files_by_spark(df, location, options, spec, rows)
        if adds is not None:
            return adds, []
    plain, names = judged(df, broken)

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Imported where it runs: a worker without the package then says so by name.
        from deltaplane.spark.execution.write_tasks import write_judged

        yield from write_judged(location, options, spec, (b.rename_columns(names) for b in batches), keep=keep)

    return run_tasks(plain, task)
