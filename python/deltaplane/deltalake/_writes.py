"""deltalake's writes, creations and conversions: checks and types as deltalake has them, then
deltaplane's own functions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import deltaplane
from deltaplane.deltalake import _commits
from deltaplane.deltalake._commits import AddAction
from deltaplane.deltalake._dialect import spark_sql
from deltaplane.deltalake._errors import deltalake_errors
from deltaplane.deltalake._filters import types_of
from deltaplane.deltalake._util import own_location, own_options, path_in_log
from deltaplane.exceptions import (
    CommitFailedError,
    DeltaError,
    DeltaProtocolError,
    SchemaMismatchError,
    TableNotFoundError,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaplane.deltalake._raw_table import RawDeltaTable
    from deltaplane.deltalake._schema_types import Schema

__all__ = ["convert", "create", "create_table_with_files", "delta_rows", "write", "write_files"]


def delta_rows(data: Any, existing: pa.Schema | None = None) -> pa.RecordBatchReader:
    """A reader over data in the types of tables, as deltalake converts them: unsigned numbers to
    signed ones of the same width, times to microseconds, numbers and texts to the types of an
    existing table's columns.

    Raises:
        SchemaMismatchError: decimals that the column's type doesn't hold.
        DeltaError: from the reader: a value that the type doesn't have.
    """
    import pyarrow as pa

    from deltaplane.deltalake._arrow import delta_schema

    source = pa.RecordBatchReader.from_stream(data) if not isinstance(data, pa.RecordBatchReader) else data
    wanted = delta_schema(source.schema, existing)
    if existing is not None:
        types = {field.name: field.type for field in existing}
        fields = [field.with_type(_column_type(field, types.get(field.name, field.type))) for field in wanted]
        wanted = pa.schema(fields, metadata=wanted.metadata)
    if wanted.equals(source.schema):
        return source

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in source:
            columns = [_cast(column, field) for column, field in zip(batch.columns, wanted, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=wanted)

    return pa.RecordBatchReader.from_batches(wanted, batches())


def _column_type(field: pa.Field, column: pa.DataType) -> pa.DataType:
    """The type in which data goes to a column: numbers and texts are cast by value, all else is the
    core's to convert or refuse."""
    import pyarrow as pa

    kinds, kind = pa.types, field.type
    if kinds.is_decimal(kind) and kinds.is_decimal(column):
        if kind.precision - kind.scale > column.precision - column.scale or kind.scale > column.scale:
            raise SchemaMismatchError(f"Cannot cast field {field.name} from {_rust_name(kind)} to {_rust_name(column)}")
        return kind
    is_text = kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind)
    is_number = kinds.is_integer(column) or kinds.is_floating(column)
    return column if is_number and (is_text or kinds.is_integer(kind)) else kind


def _cast(column: Any, field: pa.Field) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.type.equals(field.type):
        return column
    try:
        return pc.cast(column, field.type, safe=not _has_time(column.type))
    except pa.ArrowInvalid as e:
        here, there = _rust_name(column.type), _rust_name(field.type)
        value = next((v for v in column.to_pylist() if not _fits(v, field.type)), None)
        if isinstance(value, str):
            raise DeltaError(f"Cast error: Cannot cast string '{value}' to value of {there} type") from e
        if not pa.types.is_unsigned_integer(column.type):
            raise DeltaError(f"Cast error: Can't cast value {value} to type {there}") from e
        raise DeltaError(
            "Cast error: Failed to convert into Arrow schema: Cast error: "
            f"Failed to cast {field.name} from {there} to {here}: Can't cast value {value} to type {there}"
        ) from e


def _has_time(kind: pa.DataType) -> bool:
    import pyarrow as pa

    if pa.types.is_timestamp(kind):
        return True
    return any(_has_time(kind.field(index).type) for index in range(kind.num_fields))


def _fits(value: Any, kind: pa.DataType) -> bool:
    import pyarrow as pa

    try:
        pa.scalar(value).cast(kind)
    except (pa.ArrowInvalid, OverflowError):
        return False
    return True


def _rust_name(kind: pa.DataType) -> str:
    import pyarrow as pa

    if pa.types.is_decimal(kind):
        return f"Decimal128({kind.precision}, {kind.scale})"
    name = {"float": "float32", "double": "float64", "string": "utf8"}.get(str(kind), str(kind))
    return f"UInt{name[4:]}" if name.startswith("uint") else name[:1].upper() + name[1:]


def write(
    location: str,
    table: RawDeltaTable | None,
    data: Any,
    *,
    partition_by: list[str] | None,
    mode: Literal["error", "append", "overwrite", "ignore"],
    name: str | None,
    description: str | None,
    configuration: Mapping[str, str | None] | None,
    schema_mode: Literal["merge", "overwrite"] | None,
    storage_options: dict[str, str] | None,
    predicate: str | None,
    target_file_size: int | None,
    writer_properties: Any,
    commit_properties: Any,
    post_commithook_properties: Any,
) -> None:
    """Writes rows to a table, or to a location without one."""
    if predicate is not None and schema_mode == "overwrite":
        # Other rows stay, so that the columns can only be added to.
        schema_mode = None if table is None or set(_names(data)) == set(_arrow_schema(table).names) else "merge"
    known = None if table is None or schema_mode == "overwrite" else _arrow_schema(table)
    rows = delta_rows(data, known)
    if table is not None:
        _check(table, rows.schema, partition_by, schema_mode, mode, predicate)
        _check_transactions(table, commit_properties)
    types = types_of(deltaplane.Schema.from_arrow(rows.schema) if table is None else table.inner.schema())
    with deltalake_errors(), _overwrites(mode):
        deltaplane.write_deltalake(
            own_location(location, storage_options) if table is None else table.inner,
            rows,
            partition_by=partition_by,
            mode=mode,
            name=name,
            description=description,
            configuration=_texts(configuration),
            schema_mode=schema_mode,
            storage_options=own_options(storage_options),
            predicate=None if predicate is None else spark_sql(predicate, types),
            target_file_size=target_file_size,
            writer_properties=_commits.writer_properties(writer_properties),
            commit_properties=_commits.commit_properties(commit_properties),
            post_commithook_properties=_commits.hook_properties(post_commithook_properties),
        )


def _names(data: Any) -> list[str]:
    import pyarrow as pa

    names: list[str] = pa.schema(data.schema).names
    return names


def _arrow_schema(table: RawDeltaTable) -> pa.Schema:
    import pyarrow as pa

    return pa.schema(table.inner.schema())


def _texts(configuration: Mapping[str, str | None] | None) -> dict[str, str | bool | int | None] | None:
    return None if configuration is None else {key: value for key, value in configuration.items() if value is not None}


def _check(
    table: RawDeltaTable,
    schema: pa.Schema,
    partition_by: list[str] | None,
    schema_mode: str | None,
    mode: str,
    predicate: str | None,
) -> None:
    """Refuses what deltalake refuses, in its words."""
    own = list(table.inner.metadata().partition_columns)
    replaces = mode == "overwrite" and schema_mode == "overwrite" and predicate is None
    if partition_by is not None and partition_by != own and not replaces:
        raise DeltaError(
            "Generic error: Specified table partitioning does not match table partitioning: "
            f"expected: {json.dumps(own)}, got: {json.dumps(partition_by)}"
        )
    fields = table.inner.schema().fields
    if schema_mode is not None:
        if table.inner._snapshot.column_mapping != "none" and {f.name for f in schema} - {f.name for f in fields}:
            raise DeltaError("Schema evolution on column-mapped tables is not yet supported")
        return
    filled = {field.name for field in fields if "delta.generationExpression" in field.metadata}
    if len({field.name for field in fields} - filled - set(schema.names)) or len(schema) > len(fields):
        raise SchemaMismatchError(
            f"Cannot cast schema, number of fields does not match: {len(schema)} vs {len(fields)}"
        )


@contextmanager
def _overwrites(mode: str) -> Iterator[None]:
    """An overwrite reads the rows that it replaces, so that deltalake reports each conflict so."""
    try:
        yield
    except CommitFailedError as e:
        if mode == "overwrite":
            e.args = (f"a concurrent transaction deleted data this operation read: {e}",)
        raise


def _check_transactions(table: RawDeltaTable, commit: Any) -> None:
    """A version of an application that others committed since the table was opened is a
    conflict."""
    applications = [t.app_id for t in getattr(commit, "app_transactions", None) or ()]
    if not applications:
        return
    inner = table.inner
    newest = deltaplane.DeltaTable(inner.location, storage_options=inner.storage_options)
    for name in applications:
        if newest.transaction_version(name) != inner.transaction_version(name):
            raise CommitFailedError(
                f"Transaction failed: a concurrent transaction of the application {name} was committed first"
            )


def create(
    table_uri: str,
    schema: Any,
    partition_by: list[str],
    mode: Literal["error", "append", "overwrite", "ignore"],
    raise_if_key_not_exists: bool,
    name: str | None,
    description: str | None,
    configuration: Mapping[str, str | None] | None,
    storage_options: dict[str, str] | None,
    commit_properties: Any,
    post_commithook_properties: Any,
) -> None:
    """Creates a table without rows."""
    with deltalake_errors():
        deltaplane.DeltaTable.create(
            own_location(str(table_uri), storage_options),
            deltaplane.Schema.from_json(schema.to_json()),
            mode,
            partition_by or None,
            name,
            description,
            _texts(configuration),
            own_options(storage_options),
            commit_properties=_commits.commit_properties(
                commit_properties, keeps_unknown_properties=not raise_if_key_not_exists
            ),
            post_commithook_properties=_commits.hook_properties(post_commithook_properties),
        )


def convert(
    uri: str,
    *,
    mode: Literal["error", "ignore"],
    partition_by: Any,
    partition_strategy: Literal["hive", "directory"] | None,
    name: str | None,
    description: str | None,
    configuration: Mapping[str, str | None] | None,
    storage_options: dict[str, str] | None,
    collect_stats: bool,
    commit_properties: Any,
    post_commithook_properties: Any,
) -> None:
    """Makes a table of a directory of Parquet files."""
    with deltalake_errors():
        deltaplane.convert_to_deltalake(
            own_location(uri, storage_options),
            mode,
            partition_by,
            partition_strategy,
            name,
            description,
            _texts(configuration),
            own_options(storage_options),
            collect_stats=collect_stats,
            commit_properties=_commits.commit_properties(commit_properties),
            post_commithook_properties=_commits.hook_properties(post_commithook_properties),
        )


# --- files that were written already ----------------------------------------------------------------------------------


def create_table_with_files(
    table_uri: str,
    schema: Schema,
    add_actions: Sequence[AddAction],
    mode: Literal["error", "append", "overwrite", "ignore"],
    partition_by: list[str],
    name: str | None,
    description: str | None,
    configuration: Mapping[str, str | None] | None,
    storage_options: dict[str, str] | None,
    commit_properties: Any,
    post_commithook_properties: Any,
) -> None:
    """Creates a table whose first commit adds these files."""
    _commit_files(
        own_location(table_uri, storage_options),
        own_options(storage_options),
        schema,
        add_actions,
        mode=mode,
        partition_by=partition_by,
        name=name,
        description=description,
        configuration=_texts(configuration),
        schema_mode="overwrite" if mode == "overwrite" else None,
        commit_properties=_commits.commit_properties(commit_properties),
        post_commithook_properties=_commits.hook_properties(post_commithook_properties),
    )


def write_files(
    table: RawDeltaTable,
    actions: Iterable[Any],
    mode: str,
    partition_by: list[str],
    schema: Schema,
    partition_filters: Any,
    commit_properties: Any,
    post_commithook_properties: Any,
) -> None:
    """Commits files that were written already.

    Raises:
        DeltaError: files to remove, which deltaplane finds by a condition alone.
        DeltaProtocolError: another schema than the table's, without mode overwrite.
    """
    actions = list(actions)
    if not all(isinstance(action, AddAction) for action in actions):
        raise DeltaError("deltaplane removes files by a condition only: use delete, or mode='overwrite'")
    own = table.schema
    is_same = own.to_json() == schema.to_json()
    if mode != "overwrite" and not is_same:
        raise DeltaProtocolError("Cannot change schema except in overwrite.")
    partitions = list(table.inner.metadata().partition_columns)
    predicate = None if not partition_filters else _condition(table, partition_filters)
    _commit_files(
        table.inner.location,
        table.inner.storage_options,
        schema,
        actions,
        mode=mode,
        partition_by=partition_by or partitions,
        predicate=predicate,
        schema_mode=None if is_same else "overwrite",
        commit_properties=_commits.commit_properties(commit_properties),
        post_commithook_properties=_commits.hook_properties(post_commithook_properties),
    )
    table.inner.update_incremental()


def _condition(table: RawDeltaTable, filters: Any) -> Any:
    from deltaplane.deltalake import _filters

    predicate = _filters.own_predicate(_filters.conjunctions(filters), table.inner.schema())
    return predicate


def _commit_files(
    location: str,
    options: dict[str, str] | None,
    schema: Schema,
    actions: Sequence[AddAction],
    **intent: Any,
) -> None:
    import pyarrow as pa

    from deltaplane import _native
    from deltaplane.write.api import commit_files
    from deltaplane.write.intent import WriteIntent

    own = WriteIntent(schema=_native.TableSchema(schema.to_json()), **intent)
    with deltalake_errors():
        job = _native.WriteJob.begin(location, options, schema, own.request(location, options))
        if job.skip is not None:
            return
        rows = pa.table({"add": [_add_json(action) for action in actions]}, schema=pa.schema({"add": pa.string()}))
        committed = commit_files(location, options, job, _native.AddedFiles.of_rows(rows))
    if committed.version is None:
        raise TableNotFoundError(f"nothing was committed to {location}")


def _add_json(action: AddAction) -> str:
    return json.dumps(
        {
            "path": path_in_log(action.path.lstrip("/")),
            "size": action.size,
            "partitionValues": dict(action.partition_values),
            "modificationTime": action.modification_time,
            "dataChange": action.data_change,
            "stats": action.stats,
        }
    )
