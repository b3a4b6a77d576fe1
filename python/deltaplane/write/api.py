"""`write_deltalake`: writes a frame or a stream of rows in one commit.

Converts arguments to a write request; the Rust core does checks, files and the commit. It must not
know `deltaplane.table`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload, runtime_checkable

from deltaplane import _native, expr
from deltaplane.arguments import checked
from deltaplane.exceptions import NOT_COMMITTED, DeltaError, InvalidArgumentError, TableNotFoundError
from deltaplane.expr import Predicate, columns_of
from deltaplane.io.arrow import as_reader, in_table_types
from deltaplane.io.storage_options import StorageOptions, location_text, storage_options_text, version_arguments
from deltaplane.properties import (
    CommitOperation,
    CommitProperties,
    PostCommitHookProperties,
    WriterProperties,
    commit_request,
    file_request,
    property_texts,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaplane.commands.dry_run import DryRun
    from deltaplane.commands.replace import Matching
    from deltaplane.commands.rewriting import CommandResult, Settings
    from deltaplane.io.storage_options import TableUri

__all__ = [
    "OpenTable",
    "WriteResult",
    "about_partitions",
    "check_read_version",
    "command_result",
    "commit_files",
    "overwritten",
    "rehearse_files",
    "rehearse_skipped",
    "replaced_rows",
    "write_deltalake",
    "write_request",
    "write_rows",
]


@dataclass(frozen=True)
class WriteResult:
    """The result of a write: the new version and its metrics, or why nothing was written.

    `skipped` is None, `"exists"` (mode ignore), `"txn"` (this application version was already
    committed) or `"nothing"` (`replace_using` or `replace_on` without rows, or with an application
    version that was already committed); then `version` is None and `metrics` is empty.
    """

    version: int | None
    skipped: str | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class OpenTable(Protocol):
    """The part of `DeltaTable`, which is above this module, that a write needs."""

    @property
    def location(self) -> str:
        """The table's location."""

    @property
    def storage_options(self) -> dict[str, str] | None:
        """The store's options."""

    def update_incremental(self) -> None:
        """Moves to the newest version."""


@overload
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
    dry_run: Literal[False] = False,
) -> WriteResult: ...
@overload
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
    dry_run: Literal[True],
) -> DryRun: ...
@checked(read_version="object")
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
        mode: what to do with an existing table: `error` fails, `append` adds, `overwrite` replaces
            all rows (or those that `predicate` selects), `ignore` does nothing.
        name, description, configuration: metadata and properties of a new table, or of one whose
            columns are replaced (`schema_mode="overwrite"`), whose properties then replace all
            previous ones.
        schema_mode: `merge` adds the data's new columns, `overwrite` (with mode overwrite) replaces
            the columns.
        storage_options: how to reach the store; keys as in deltalake and object_store.
        predicate: with mode overwrite, the rows to replace, as Spark SQL text, or as tuples over
            partition columns. Every row of the data must match it. Over partition columns alone
            whole files are replaced without reading them.
        target_file_size: target bytes of one data file.
        writer_properties, commit_properties, post_commithook_properties: see these classes.
        cluster_by: up to four columns with statistics to cluster a new table by (liquid
            clustering), instead of `partition_by`; must be equal to an existing table's.
        partition_overwrite_mode: `dynamic` (with mode overwrite) replaces only the partitions that
            rows are written to.
        replace_using: with mode overwrite, columns: rows of the table that equal a row of the data
            in all of them are replaced, others stay. Null equals nothing.
        replace_on: with mode overwrite, a condition in Spark SQL over the columns of both: rows of
            the table for which it is true with a row of the data are replaced, others stay.
        source_alias, target_alias: names for the data and the table in `replace_on`.
        read_version: the version that the data was computed from, if it depends on this table's
            rows (with mode append or overwrite): the write fails with ConcurrentAppendException or
            ConcurrentDeleteReadException if other writers changed rows since;
            `delta.isolationLevel` decides whether rows count that they added without reading the
            table.
        operation: the operation to record in the history, if the write is a part of a larger one.
        dry_run: whether to write nothing and return a `DryRun` of what would be done. Reads the
            data: a stream can't be read again afterwards.

    Returns:
        The new version and its metrics, or why nothing was written.

    Raises:
        TableAlreadyExistsError: mode error and a table is there.
        SchemaMismatchError: the data's columns don't fit; the message names each one, expected and
            found.
        ConstraintViolationError: a null in a column without nulls, or a row that breaks a
            constraint, an invariant or a generated column's expression; the message shows the row's
            values (P101-P105).
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
    table = table_or_uri if isinstance(table_or_uri, OpenTable) else None
    location = table_or_uri.location if isinstance(table_or_uri, OpenTable) else location_text(table_or_uri)
    check_read_version(read_version, mode)
    known = table.storage_options if table is not None else None
    options = storage_options_text({**(known or {}), **(storage_options or {})})
    by = replaced_rows(
        replace_using,
        replace_on,
        (source_alias, target_alias),
        plain=mode == "overwrite" and predicate is None,
        schema_mode=schema_mode,
    )
    if by is not None or (mode == "overwrite" and isinstance(predicate, str) and schema_mode != "overwrite"):
        from deltaplane.commands.rewriting import Settings

        settings = Settings(writer_properties, commit_properties, post_commithook_properties, target_file_size, dry_run)
        replacing = _Replacing(predicate, by, settings, schema_mode == "merge", read_version)
        replaced = replacing.of(location, options or None, data)
        if replaced is not None:
            return _shown(table, replaced)
    if partition_overwrite_mode not in ("static", "dynamic"):
        raise InvalidArgumentError(f"partition_overwrite_mode is static or dynamic, not {partition_overwrite_mode!r}")
    request = write_request(
        mode=mode,
        partition_by=partition_by,
        cluster_by=cluster_by,
        name=name,
        description=description,
        configuration=configuration,
        schema_mode=schema_mode,
        **overwritten(location, options or None, mode, predicate),
        target_file_size=target_file_size,
        writer_properties=writer_properties,
        commit_properties=commit_properties,
        post_commithook_properties=post_commithook_properties,
        applies_row_rules=True,
        dynamic_partitions=partition_overwrite_mode == "dynamic",
        read_version=read_version,
        operation=operation,
    )
    if dry_run:
        return _rehearsed(location, options or None, data, request)
    return _shown(table, _write(location, options or None, data, request))


def _shown(table: OpenTable | None, result: WriteResult | DryRun) -> WriteResult | DryRun:
    if table is not None and isinstance(result, WriteResult) and result.version is not None:
        table.update_incremental()
    return result


@dataclass(frozen=True)
class _Replacing:
    """An overwrite that finds the rows to replace one by one."""

    predicate: Predicate | None
    matching: Matching | None
    settings: Settings
    merge_schema: bool
    read_version: int | None

    def of(self, location: str, options: dict[str, str] | None, data: Any) -> WriteResult | DryRun | None:
        """None if there is no table, or if whole partitions are replaced, which reads no old
        rows."""
        try:
            snapshot = _native.Snapshot.open(location, options, self.read_version)
        except TableNotFoundError:
            return None
        from deltaplane.commands.replace import replace_matching, replace_where
        from deltaplane.commands.rewriting import Target

        target = Target(location, snapshot)
        told = {"merge_schema": self.merge_schema, "reads_others": self.read_version is not None}
        if self.matching is not None:
            rows = as_reader(data)
            metrics = replace_matching(target, rows, self.matching, self.settings, **told)
        else:
            assert isinstance(self.predicate, str)
            expr.refuse_unclear(self.predicate, columns_of(snapshot.schema_json))
            if about_partitions(self.predicate, snapshot):
                return None
            rows = in_table_types(as_reader(data))
            metrics = replace_where(target, rows, self.predicate, self.settings, **told)
        return command_result(snapshot, metrics, "txn" if self.matching is None else "nothing")


def check_read_version(version: int | None, mode: str) -> None:
    """Refuses a version from which rows can't have been read.

    Raises:
        InvalidArgumentError: an invalid version number, or a mode that never writes to an existing
            table.
    """
    if version is None:
        return
    if isinstance(version, bool) or not isinstance(version, int):
        raise InvalidArgumentError(f"read_version is the number of a version, not {type(version).__name__}")
    version_arguments(version)
    if mode not in ("append", "overwrite"):
        raise InvalidArgumentError(
            "read_version says that the data was read from the table: it needs mode='append' or mode='overwrite'"
        )


def command_result(snapshot: _native.Snapshot, done: CommandResult, skipped: str) -> WriteResult | DryRun:
    """The result of a command on rows as that of a write; `skipped` is the reason if nothing was
    committed."""
    if not isinstance(done, dict):
        return done
    if "version" not in done:
        return WriteResult(None, skipped=skipped)
    if snapshot.auto_compacts:
        from deltaplane.commands.optimize import after_commit

        after_commit(snapshot.update)
    return WriteResult(done.pop("version"), metrics=done)


def replaced_rows(
    using: Sequence[str] | None,
    on: str | None,
    aliases: tuple[str | None, str | None],
    *,
    plain: bool,
    schema_mode: str | None,
) -> Matching | None:
    """The rows to replace, from `replace_using` or `replace_on`; None if both are missing.

    `plain`: whether the write overwrites without a predicate.

    Raises:
        InvalidArgumentError: arguments that exclude each other.
    """
    if on is None and aliases != (None, None):
        raise InvalidArgumentError("source_alias and target_alias are names in replace_on: give a condition too")
    if using is None and on is None:
        return None
    if not plain or schema_mode == "overwrite":
        raise InvalidArgumentError(
            "replace_using and replace_on need mode='overwrite', without a predicate or another schema"
        )
    if using is not None and on is not None:
        raise InvalidArgumentError("replace_using and replace_on say both which rows are replaced: give one")
    from deltaplane.commands.replace import Matching

    return Matching.using(using) if using is not None else Matching.on(str(on), *aliases)


def overwritten(
    location: str, options: dict[str, str] | None, mode: str, predicate: Predicate | None
) -> dict[str, Any]:
    """The rows that an overwrite replaces, as arguments of `write_request`: if there is no table
    yet, none, and the condition becomes one that new rows must meet."""
    if isinstance(predicate, str) and mode == "overwrite" and not _native.is_table(location, options):
        return {"first_rows_meet": predicate}
    return {"predicate": predicate}


def about_partitions(condition: str, snapshot: _native.Snapshot) -> bool:
    """Whether a condition selects whole partitions, which the core replaces."""
    from deltaplane.expr.joined import names, parsed

    partitions = {name.lower() for name in json.loads(snapshot.metadata_json())["partition_columns"]}
    only = all(name.parts[0].lower() in partitions for name in names(parsed(condition)))
    return only and expr.necessary(condition)[1]


def _write(location: str, options: dict[str, str] | None, data: Any, request: str) -> WriteResult:
    reader = as_reader(data)
    job, spec = _begun(location, options, reader, request)
    if job.skip is not None:
        return WriteResult(version=None, skipped=job.skip)
    return commit_files(job, write_rows(location, options, spec, reader))


def _begun(
    location: str, options: dict[str, str] | None, reader: pa.RecordBatchReader, request: str
) -> tuple[_native.WriteJob, str]:
    """The job and its spec, which is empty if there is nothing to write."""
    job = _native.WriteJob.begin(location, options, reader.schema, request)
    if job.skip is not None:
        return job, ""
    from deltaplane.write.declarations import check_declared

    spec = job.spec
    check_declared(spec, location)
    return job, spec


def _rehearsed(location: str, options: dict[str, str] | None, data: Any, request: str) -> DryRun:
    reader = as_reader(data)
    job, spec = _begun(location, options, reader, request)
    if job.skip is not None:
        return rehearse_skipped(location, options, job.skip)
    return rehearse_files(job, write_rows(location, options, spec, reader, keep=False), request)


def write_rows(
    location: str, options: dict[str, str] | None, spec: str, reader: pa.RecordBatchReader, *, keep: bool = True
) -> list[str]:
    """Writes these rows to new data files, after applying the spec's row rules; returns add
    actions. No log names the files yet.

    Without `keep` the files are encoded, but not stored.

    Raises:
        ConstraintViolationError: a row that breaks a rule; the files are deleted.
    """
    from deltaplane.commands.row_rules import RuledRows

    rows = RuledRows(spec, reader, location)
    try:
        return _native.write_files(location, options, spec, rows.reader, keep=keep)
    except DeltaError:
        rows.raise_error()
        raise


def commit_files(job: _native.WriteJob, adds: list[str]) -> WriteResult:
    """Commits a job's files; deletes them if the commit certainly didn't happen."""
    try:
        committed = json.loads(job.commit(adds))
    except NOT_COMMITTED:
        job.abort(adds)
        raise
    if "skipped" in committed:
        job.abort(adds)
        return WriteResult(version=None, skipped=committed["skipped"])
    if committed["auto_compact"]:
        from deltaplane.commands.optimize import after_commit

        after_commit(job.newest)
    return WriteResult(version=committed["version"], metrics=committed.get("metrics") or {})


def rehearse_files(job: _native.WriteJob, adds: list[str], request: str) -> DryRun:
    """What `commit_files` would do with files that were encoded but not stored; `request` is the
    job's."""
    from deltaplane.commands.dry_run import DryRun

    told, protocols = json.loads(job.dry_run(adds)), json.loads(job.protocols)
    return DryRun.of(told, job.version, protocols, json.loads(request)["predicate_sql"])


def rehearse_skipped(location: str, options: dict[str, str] | None, why: str) -> DryRun:
    """The dry run of a write that changes nothing, with the reason as in `WriteResult.skipped`."""
    from deltaplane.commands.dry_run import DryRun
    from deltaplane.compat import Protocol

    snapshot = _native.Snapshot.open(location, options)
    protocol = Protocol.of(json.loads(_native.supported_json(snapshot))["protocol"])
    return DryRun("WRITE", snapshot.version, protocol, protocol, skipped=why)


def write_request(
    *,
    mode: str = "error",
    partition_by: Sequence[str] | str | None = None,
    cluster_by: Sequence[str] | str | None = None,
    name: str | None = None,
    description: str | None = None,
    configuration: Mapping[str, str | bool | int | None] | None = None,
    schema_mode: str | None = None,
    schema_json: str | None = None,
    predicate: Predicate | None = None,
    first_rows_meet: str | None = None,
    names_seed: str | None = None,
    target_file_size: int | None = None,
    writer_properties: WriterProperties | None = None,
    commit_properties: CommitProperties | None = None,
    post_commithook_properties: PostCommitHookProperties | None = None,
    applies_row_rules: bool = False,
    dynamic_partitions: bool = False,
    read_version: int | None = None,
    operation: CommitOperation | None = None,
    data_change: bool = True,
) -> str:
    """The request text for the Rust core, from checked arguments.

    `first_rows_meet`: the predicate if the caller found no table; the caller checks each row by it.
    `applies_row_rules`: the caller evaluates the rules in the job's spec on its rows
    (`deltaplane.commands.row_rules`).

    Raises:
        InvalidArgumentError: a value out of range, or two values that exclude each other.
    """
    if mode not in ("error", "append", "overwrite", "ignore"):
        raise InvalidArgumentError(f"mode is error, append, overwrite or ignore, not {mode!r}")
    if schema_mode not in (None, "merge", "overwrite"):
        raise InvalidArgumentError(f"schema_mode is None, merge or overwrite, not {schema_mode!r}")
    if schema_mode == "overwrite" and mode != "overwrite":
        raise InvalidArgumentError("schema_mode='overwrite' replaces all rows too: it needs mode='overwrite'")
    if predicate is not None and mode != "overwrite":
        raise InvalidArgumentError("a predicate says which rows to replace: it needs mode='overwrite'")
    if isinstance(partition_by, str):
        partition_by = [partition_by]
    if isinstance(cluster_by, str):
        cluster_by = [cluster_by]
    return json.dumps(
        {
            "mode": mode,
            "partition_by": None if partition_by is None else list(partition_by),
            "cluster_by": None if cluster_by is None else list(cluster_by),
            "schema_mode": schema_mode,
            "schema_json": schema_json,
            "predicate": expr.parse(predicate),
            "predicate_sql": first_rows_meet if predicate is None else str(predicate),
            "first_rows_meet": first_rows_meet,
            "dynamic_partitions": dynamic_partitions,
            "read_version": read_version,
            "names_seed": names_seed,
            "name": name,
            "description": description,
            "configuration": property_texts(configuration),
            "applies_row_rules": applies_row_rules,
            "files": file_request(writer_properties, target_file_size),
            "commit": commit_request(commit_properties, post_commithook_properties),
            **({} if operation is None else {"operation": operation.request}),
            **({} if data_change else {"data_change": False}),
        }
    )
