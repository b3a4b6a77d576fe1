"""`write_deltalake`: writes a frame or a stream of rows in one commit.

Converts arguments to a write request; the Rust core checks the rows, writes files and commits. Must
not import `deltaplane.table`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload, runtime_checkable

from deltaplane import _native, expr
from deltaplane.arguments import checked
from deltaplane.exceptions import NOT_COMMITTED, DeltaError, TableNotFoundError
from deltaplane.expr import Predicate, columns_of
from deltaplane.io.arrow import as_reader, in_table_types, reads_again
from deltaplane.io.storage_options import StorageOptions
from deltaplane.io.tracing import traced
from deltaplane.metastores.named import keep_in_step, table_address
from deltaplane.properties import CommitOperation, CommitProperties, PostCommitHookProperties, WriterProperties
from deltaplane.write.intent import WriteIntent, WriteOptions
from deltaplane.write.refresh import refresh_after_commit

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import TypeIs, Unpack

    from deltaplane.commands.dry_run import DryRun
    from deltaplane.commands.rewriting import CommandResult
    from deltaplane.io import records
    from deltaplane.io.storage_options import TableUri

__all__ = [
    "OpenTable",
    "WriteResult",
    "about_partitions",
    "command_result",
    "commit_files",
    "opened_address",
    "rehearse_files",
    "rehearse_skipped",
    "write_deltalake",
    "write_rows",
]


@dataclass(frozen=True)
class WriteResult:
    """The result of a write: the new version and its metrics, or the reason why nothing was
    written.

    `skipped` is None, `"exists"` (mode ignore), `"txn"` (this application version was already
    committed) or `"nothing"` (`replace_using` or `replace_on` without rows, or with an application
    version that was already committed); then `version` is None and `metrics` is empty.
    """

    version: int | None
    skipped: str | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class OpenTable(Protocol):
    """The methods of `DeltaTable` that a write uses; `DeltaTable` itself is in a layer above this
    module."""

    @property
    def location(self) -> str:
        """The table's location."""

    @property
    def storage_options(self) -> dict[str, str] | None:
        """The storage options."""

    def update_incremental(self) -> None:
        """Moves to the newest version."""

    def move_to_own_commit(self, version: int) -> None:
        """Moves to a version that this process committed."""


def _is_open(table_or_uri: TableUri | OpenTable) -> TypeIs[OpenTable]:
    # To look for the methods of an open table takes longer than to tell a text.
    return not isinstance(table_or_uri, str) and isinstance(table_or_uri, OpenTable)


def opened_address(
    table_or_uri: TableUri | OpenTable, storage_options: StorageOptions | None, *, creates: bool = False
) -> tuple[str, dict[str, str] | None]:
    """The location of a table, and the options of its store: an open table's own, and those of the
    call. `creates` and the errors are those of `table_address`."""
    if not _is_open(table_or_uri):
        location, options = table_address(table_or_uri, storage_options, creates=creates)
        return location, options or None
    location, options = table_address(
        table_or_uri.location, {**(table_or_uri.storage_options or {}), **(storage_options or {})}
    )
    return location, options or None


@overload
def write_deltalake(
    table_or_uri: TableUri | OpenTable, data: Any, *, dry_run: Literal[False] = False, **options: Unpack[WriteOptions]
) -> WriteResult: ...
@overload
def write_deltalake(
    table_or_uri: TableUri | OpenTable, data: Any, *, dry_run: Literal[True], **options: Unpack[WriteOptions]
) -> DryRun: ...
@checked(read_version="object")
@traced("WRITE")
def write_deltalake(
    table_or_uri: TableUri | OpenTable,
    data: Any,
    *,
    partition_by: list[str] | str | None = None,
    mode: Literal["error", "append", "overwrite", "ignore"] = "error",
    name: str | None = None,
    description: str | None = None,
    configuration: Mapping[str, str | bool | int | None] | None = None,
    schema_mode: Literal["merge", "overwrite"] | None = None,
    storage_options: StorageOptions | None = None,
    predicate: Predicate | None = None,
    target_file_size: int | None = None,
    writer_properties: WriterProperties | None = None,
    commit_properties: CommitProperties | None = None,
    post_commithook_properties: PostCommitHookProperties | None = None,
    cluster_by: list[str] | str | None = None,
    partition_overwrite_mode: Literal["static", "dynamic"] = "static",
    replace_using: Sequence[str] | None = None,
    replace_on: str | None = None,
    source_alias: str | None = None,
    target_alias: str | None = None,
    read_version: int | None = None,
    operation: CommitOperation | None = None,
    dry_run: bool = False,
) -> WriteResult | DryRun:
    """Writes rows to a table in one commit, creating the table if there is none.

    Args:
        table_or_uri: path, URL or `DeltaTable` (which then shows the new version).
        data: pyarrow Table, RecordBatch or RecordBatchReader, Polars or pandas DataFrame, DuckDB
            relation, any object with `__arrow_c_stream__` or `__arrow_c_array__`, or an iterable of
            record batches. Read once, as a stream.
        partition_by: columns to partition a new table by.
        mode: the handling of an existing table: `error` fails, `append` adds rows, `overwrite`
            replaces all rows (or those that `predicate` selects), `ignore` does nothing.
        name, description, configuration: metadata and properties of a new table, or of a table
            whose columns are replaced (`schema_mode="overwrite"`); the properties then replace all
            previous ones.
        schema_mode: `merge` adds the data's new columns, `overwrite` (with mode overwrite) replaces
            the columns.
        storage_options: access to the store; keys as in deltalake and object_store.
        predicate: with mode overwrite, the rows to replace, as Spark SQL text, or as tuples over
            partition columns. Every row of the data must match it. Over partition columns alone
            whole files are replaced without reading them.
        target_file_size: target bytes of one data file.
        writer_properties, commit_properties, post_commithook_properties: see these classes.
        cluster_by: up to four columns with statistics to cluster a new table by (liquid
            clustering), instead of `partition_by`; must be equal to an existing table's.
        partition_overwrite_mode: `dynamic` (with mode overwrite) replaces only the partitions that
            rows are written to.
        replace_using: with mode overwrite, a list of columns: replaces the table's rows that equal
            a row of the data in all of these columns; other rows stay. Null equals nothing.
        replace_on: with mode overwrite, a condition in Spark SQL over the columns of both: replaces
            the table's rows for which it is true with a row of the data; other rows stay.
        source_alias, target_alias: names for the data and the table in `replace_on`.
        read_version: the version that the data was computed from, if the data depends on this
            table's rows (with mode append or overwrite): the write fails with
            ConcurrentAppendException or ConcurrentDeleteReadException if other writers changed rows
            since. `delta.isolationLevel` decides whether rows count that they added without reading
            the table.
        operation: the operation to record in the history, if the write is a part of a larger one.
        dry_run: whether to write nothing and return the planned changes as a `DryRun`. Reads the
            data: a stream can't be read again afterwards.

    Returns:
        The new version and its metrics, or the reason why nothing was written.

    Raises:
        TableAlreadyExistsError: mode is `error` and a table exists.
        SchemaMismatchError: the data's columns are incompatible; the message names each one with
            its expected and actual type.
        ConstraintViolationError: a null in a NOT NULL column, or a row that violates a constraint,
            an invariant or a generated column's expression; the message shows the row's values
            (P101-P105).
        DeltaConcurrentModificationException: another writer won; nothing was committed.
        InvalidArgumentError: invalid arguments, or a row outside of `predicate`.
        UnsupportedFeatureError, UnsupportedExpressionError: not supported yet.
        TypeError: the data isn't Arrow data.

    >>> import pyarrow as pa
    >>> data = pa.table({"day": ["mon", "tue"], "amount": [1, 2]})
    >>> write_deltalake("memory://doc-write/t", data, partition_by="day").version
    0
    >>> write_deltalake("memory://doc-write/t", data, mode="overwrite", predicate="day = 'mon'")
    Traceback (most recent call last):
    deltaplane.exceptions.InvalidArgumentError: ...
    """
    table = table_or_uri if _is_open(table_or_uri) else None
    location, options = opened_address(table_or_uri, storage_options, creates=True)
    intent = WriteIntent(
        mode=mode,
        partition_by=partition_by,
        cluster_by=cluster_by,
        name=name,
        description=description,
        configuration=configuration,
        schema_mode=schema_mode,
        predicate=predicate,
        partition_overwrite_mode=partition_overwrite_mode,
        replace_using=replace_using,
        replace_on=replace_on,
        source_alias=source_alias,
        target_alias=target_alias,
        read_version=read_version,
        operation=operation,
        target_file_size=target_file_size,
        writer_properties=writer_properties,
        commit_properties=commit_properties,
        post_commithook_properties=post_commithook_properties,
        dry_run=dry_run,
    )
    result = _replaced(location, options, data, intent)
    if result is None:
        result = _written(location, options, data, intent)
    return _shown(table, result)


def _written(location: str, options: dict[str, str] | None, data: Any, intent: WriteIntent) -> WriteResult | DryRun:
    request = intent.request(location, options)
    write = _rehearsed if intent.dry_run else _write
    return write(location, options, data, request)


def _shown(table: OpenTable | None, result: WriteResult | DryRun) -> WriteResult | DryRun:
    if table is not None and isinstance(result, WriteResult) and result.version is not None:
        version = result.version
        refresh_after_commit(lambda: table.move_to_own_commit(version))
    return result


def _replaced(
    location: str, options: dict[str, str] | None, data: Any, intent: WriteIntent
) -> WriteResult | DryRun | None:
    """Runs an overwrite that must find the replaced rows one by one. Returns None for other writes,
    for a missing table, and if the condition selects whole partitions, since these are replaced
    without reading rows."""
    matching, condition = intent.matching(), intent.condition()
    if matching is None and condition is None:
        return None
    try:
        snapshot = _native.Snapshot.open(location, options, intent.read_version)
    except TableNotFoundError:
        return None
    from deltaplane.commands.replace import replace_matching, replace_where
    from deltaplane.commands.rewriting import Target

    target, settings = Target(location, snapshot), intent.settings()
    reads = {"merge_schema": intent.merges_schema, "reads_others": intent.reads_others}
    if matching is not None:
        return _followed(
            snapshot, command_result(replace_matching(target, as_reader(data), matching, settings, **reads), "nothing")
        )
    assert condition is not None
    expr.refuse_unclear(condition, columns_of(lambda: snapshot.schema))
    if about_partitions(condition, snapshot):
        return None
    rows = in_table_types(as_reader(data))
    return _followed(snapshot, command_result(replace_where(target, rows, condition, settings, **reads), "txn"))


def command_result(done: CommandResult, skipped: str) -> WriteResult | DryRun:
    """Converts the result of a command on rows to that of a write; `skipped` is the reason if
    nothing was committed."""
    if not isinstance(done, dict):
        return done
    if "version" not in done:
        return WriteResult(None, skipped=skipped)
    return WriteResult(done.pop("version"), metrics=done)


def _followed(snapshot: _native.Snapshot, done: WriteResult | DryRun) -> WriteResult | DryRun:
    """The same result, after the work that the table's properties ask for after a commit."""
    if isinstance(done, WriteResult) and done.version is not None and any(snapshot.follow_up):
        from deltaplane.commands.optimize import after_commit

        after_commit(snapshot.update)
    return done


def about_partitions(condition: str, snapshot: _native.Snapshot) -> bool:
    """Whether a condition selects whole partitions, which the core replaces without reading
    rows."""
    from deltaplane.expr.joined import names, parsed

    partitions = {name.lower() for name in snapshot.info.partition_columns}
    only = all(name.parts[0].lower() in partitions for name in names(parsed(condition)))
    return only and expr.necessary(condition)[1]


def _write(location: str, options: dict[str, str] | None, data: Any, request: records.WriteRequest) -> WriteResult:
    if reads_again(data) and (written := _written_ahead(location, options, data, request)) is not None:
        return written
    reader = as_reader(data)
    job, spec = _begun(location, options, reader, request)
    if spec is None:
        return WriteResult(version=None, skipped=job.skip)
    return commit_files(location, options, job, write_rows(location, options, spec, reader))


def _written_ahead(
    location: str, options: dict[str, str] | None, data: Any, request: records.WriteRequest
) -> WriteResult | None:
    """Writes rows by a plan for the version that this process knows, while the store is asked for
    the newest one: that saves a request's time. Returns None if the table was changed so that the
    rows have to be written for another plan."""
    reader = as_reader(data)
    job, spec = _begun(location, options, reader, request, ahead=True)
    if spec is None:
        return WriteResult(version=None, skipped=job.skip)
    try:
        adds = write_rows(location, options, spec, reader)
    except DeltaError:
        if _is_for_newest(job):
            raise
        return None
    try:
        confirmed = job.confirm(False)
    except DeltaError:
        with contextlib.suppress(DeltaError):
            _native.discard_files(location, options, adds)
        raise
    if not confirmed:
        _native.discard_files(location, options, adds)
        return None
    try:
        return commit_files(location, options, job, adds)
    except TableNotFoundError:
        # A catalog tells by its answer to the commit that the name has another table by now, or
        # none: the files are in the folder of the one before.
        with contextlib.suppress(DeltaError):
            _native.discard_files(job.location, options, adds)
        return None
    except NOT_COMMITTED:
        # Likewise that the table was changed before.
        if _is_for_newest(job):
            raise
        return None


def _is_for_newest(job: _native.WriteJob) -> bool:
    """Whether the job was planned for the newest version of the table that the location has."""
    try:
        return job.confirm(True)
    except TableNotFoundError:
        return False


def _begun(
    location: str,
    options: dict[str, str] | None,
    reader: pa.RecordBatchReader,
    request: records.WriteRequest,
    *,
    ahead: bool = False,
) -> tuple[_native.WriteJob, records.WriteSpec | None]:
    """Plans the write; returns the job and its spec, which is None if there is nothing to
    write."""
    job = _native.WriteJob.begin(location, options, reader.schema, request, ahead=ahead)
    if job.skip is not None:
        return job, None
    from deltaplane.write.declarations import check_declared

    spec = job.spec
    check_declared(spec, location)
    return job, spec


def _rehearsed(location: str, options: dict[str, str] | None, data: Any, request: records.WriteRequest) -> DryRun:
    reader = as_reader(data)
    job, spec = _begun(location, options, reader, request)
    if spec is None:
        return rehearse_skipped(location, options, str(job.skip))
    return rehearse_files(job, write_rows(location, options, spec, reader, keep=False), request)


def write_rows(
    location: str,
    options: dict[str, str] | None,
    spec: records.WriteSpec,
    reader: pa.RecordBatchReader,
    *,
    keep: bool = True,
) -> _native.AddedFiles:
    """Applies the spec's row rules to these rows and writes them to new data files. No commit names
    the files yet.

    `keep=False` encodes the files without storing them.

    Raises:
        ConstraintViolationError: a row violates a rule; the files are deleted.
    """
    from deltaplane.commands.row_rules import RuledRows

    rows = RuledRows(spec, reader, location)
    try:
        return _native.write_files(location, options, spec, rows.reader, keep=keep)
    except DeltaError:
        rows.raise_error()
        raise


def commit_files(
    location: str,
    options: dict[str, str] | None,
    job: _native.WriteJob,
    adds: _native.AddedFiles,
    follow: Callable[[Callable[[], _native.Snapshot]], object] | None = None,
) -> WriteResult:
    """Commits a job's files; deletes them if the commit certainly didn't happen. `follow`: what
    does the work after the commit in place of `after_commit`."""
    try:
        committed = job.commit(adds)
    except NOT_COMMITTED:
        _native.discard_files(location, options, adds)
        raise
    if committed is None:
        _native.discard_files(location, options, adds)
        return WriteResult(version=None, skipped="exists")
    keep_in_step(location)
    if committed.has_follow_up:
        from deltaplane.commands.optimize import after_commit

        (follow or after_commit)(lambda: _native.Snapshot.open(location, options))
    return WriteResult(version=committed.version, metrics=committed.metrics)


def rehearse_files(job: _native.WriteJob, adds: _native.AddedFiles, request: records.WriteRequest) -> DryRun:
    """The dry run of `commit_files`, for files that were encoded but not stored; `request` is the
    job's."""
    from deltaplane.commands.dry_run import DryRun

    return DryRun.of(job.dry_run(adds), job.version, job.protocols, request.predicate_sql)


def rehearse_skipped(location: str, options: dict[str, str] | None, why: str) -> DryRun:
    """The dry run of a write that changes nothing, with the reason as in `WriteResult.skipped`."""
    from deltaplane.commands.dry_run import DryRun
    from deltaplane.compat import Protocol

    snapshot = _native.Snapshot.open(location, options)
    protocol = Protocol.of(snapshot.protocol)
    return DryRun("WRITE", snapshot.version, protocol, protocol, skipped=why)
