"""`write_deltalake`: a frame or a stream of rows becomes one commit.

Arguments become a write request; checks, files and the commit are the Rust core's. It must not know `deltaplane.table`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from deltaplane import _native, expr
from deltaplane.arrow_io import as_reader
from deltaplane.exceptions import NOT_COMMITTED, DeltaError, InvalidArgumentError
from deltaplane.expr import Predicate
from deltaplane.options import location_text, storage_options_text
from deltaplane.properties import (
    CommitProperties,
    PostCommitHookProperties,
    WriterProperties,
    commit_request,
    file_request,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaplane.options import TableUri

__all__ = ["OpenTable", "WriteResult", "commit_files", "write_deltalake", "write_request", "write_rows"]


@dataclass(frozen=True)
class WriteResult:
    """What a write did: the version it made and its metrics, or why nothing was to do.

    `skipped` is None, `"exists"` (mode ignore) or `"txn"` (this application version was already committed); then
    `version` is None and `metrics` is empty.
    """

    version: int | None
    skipped: str | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class OpenTable(Protocol):
    """What a write needs of a `DeltaTable`, which is above this module."""

    @property
    def location(self) -> str:
        """The location as it was given."""

    @property
    def storage_options(self) -> dict[str, str] | None:
        """How to reach the store."""

    def update_incremental(self) -> None:
        """Moves to the newest version."""


def write_deltalake(
    table_or_uri: TableUri | OpenTable,
    data: Any,
    *,
    partition_by: list[str] | str | None = None,
    mode: Literal["error", "append", "overwrite", "ignore"] = "error",
    name: str | None = None,
    description: str | None = None,
    configuration: Mapping[str, str | None] | None = None,
    schema_mode: Literal["merge", "overwrite"] | None = None,
    storage_options: Mapping[str, str] | None = None,
    predicate: Predicate | None = None,
    target_file_size: int | None = None,
    writer_properties: WriterProperties | None = None,
    commit_properties: CommitProperties | None = None,
    post_commithook_properties: PostCommitHookProperties | None = None,
    cluster_by: list[str] | str | None = None,
) -> WriteResult:
    """Writes rows to a table in one commit, creating the table if there is none.

    Args:
        table_or_uri: path, URL or `DeltaTable` (which then shows the new version).
        data: pyarrow Table, RecordBatch or RecordBatchReader, Polars or pandas DataFrame, DuckDB relation, whatever has
            `__arrow_c_stream__` or `__arrow_c_array__`, or an iterable of record batches. Read once, as a stream.
        partition_by: columns to partition a new table by.
        mode: what to do with an existing table: `error` fails, `append` adds, `overwrite` replaces all rows (or those
            that `predicate` selects), `ignore` does nothing.
        name, description, configuration: metadata and properties of a new table.
        schema_mode: `merge` adds the data's new columns, `overwrite` (with mode overwrite) replaces the columns.
        storage_options: how to reach the store; keys as in deltalake and object_store.
        predicate: with mode overwrite, the rows to replace, as Spark SQL text or tuples over partition columns. Every
            row of the data must match it.
        target_file_size: bytes, about, of one data file.
        writer_properties, commit_properties, post_commithook_properties: see these classes.
        cluster_by: up to four columns with statistics to cluster a new table by (liquid clustering), instead of
            `partition_by`; an existing table's must be the same.

    Returns:
        The new version and its metrics, or why nothing was written.

    Raises:
        TableAlreadyExistsError: mode error and a table is there.
        SchemaMismatchError: the data's columns don't fit; the message names each one, expected and found.
        ConstraintViolationError: a null in a column without nulls, or a row that breaks a constraint, an invariant or a
            generated column's expression; the message shows the row's values (P101-P105).
        DeltaConcurrentModificationException: another writer won; nothing was committed.
        InvalidArgumentError: a wrong call, or a row outside of `predicate`.
        UnsupportedFeatureError, UnsupportedExpressionError: not possible yet.
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
    known = table.storage_options if table is not None else None
    options = storage_options_text({**(known or {}), **(storage_options or {})})
    request = write_request(
        mode=mode,
        partition_by=partition_by,
        cluster_by=cluster_by,
        name=name,
        description=description,
        configuration=configuration,
        schema_mode=schema_mode,
        predicate=predicate,
        target_file_size=target_file_size,
        writer_properties=writer_properties,
        commit_properties=commit_properties,
        post_commithook_properties=post_commithook_properties,
        applies_row_rules=True,
    )
    result = _write(location, options or None, data, request)
    if table is not None and result.version is not None:
        table.update_incremental()
    return result


def _write(location: str, options: dict[str, str] | None, data: Any, request: str) -> WriteResult:
    reader = as_reader(data)
    job = _native.WriteJob.begin(location, options, reader.schema, request)
    if job.skip is not None:
        return WriteResult(version=None, skipped=job.skip)
    from deltaplane.declarations import check_declared

    check_declared(job.spec, location)
    return commit_files(job, write_rows(location, options, job.spec, reader))


def write_rows(location: str, options: dict[str, str] | None, spec: str, reader: pa.RecordBatchReader) -> list[str]:
    """New data files that no log names yet, with these rows as the rules of the spec have them: their add actions.

    Raises:
        ConstraintViolationError: a row that breaks a rule; no file stays.
    """
    from deltaplane.row_rules import RuledRows

    rows = RuledRows(spec, reader, location)
    try:
        return _native.write_files(location, options, spec, rows.reader)
    except DeltaError:
        rows.raise_error()
        raise


def commit_files(job: _native.WriteJob, adds: list[str]) -> WriteResult:
    """Commits a job's files; deletes them where the commit certainly didn't happen."""
    try:
        committed = json.loads(job.commit(adds))
    except NOT_COMMITTED:
        job.abort(adds)
        raise
    if "skipped" in committed:
        job.abort(adds)
        return WriteResult(version=None, skipped=committed["skipped"])
    return WriteResult(version=committed["version"], metrics=committed.get("metrics") or {})


def write_request(
    *,
    mode: str = "error",
    partition_by: Sequence[str] | str | None = None,
    cluster_by: Sequence[str] | str | None = None,
    name: str | None = None,
    description: str | None = None,
    configuration: Mapping[str, str | None] | None = None,
    schema_mode: str | None = None,
    schema_json: str | None = None,
    predicate: Predicate | None = None,
    names_seed: str | None = None,
    target_file_size: int | None = None,
    writer_properties: WriterProperties | None = None,
    commit_properties: CommitProperties | None = None,
    post_commithook_properties: PostCommitHookProperties | None = None,
    applies_row_rules: bool = False,
) -> str:
    """The request text that the Rust core takes, from checked arguments.

    `applies_row_rules`: the caller evaluates the rules in the job's spec on its rows (`deltaplane.row_rules`).

    Raises:
        InvalidArgumentError: a value out of range, or two that don't go together.
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
            "predicate_sql": predicate if predicate is None or isinstance(predicate, str) else str(predicate),
            "names_seed": names_seed,
            "name": name,
            "description": description,
            "configuration": {k: v for k, v in (configuration or {}).items() if v is not None},
            "applies_row_rules": applies_row_rules,
            "files": file_request(writer_properties, target_file_size),
            "commit": commit_request(commit_properties, post_commithook_properties),
        }
    )
