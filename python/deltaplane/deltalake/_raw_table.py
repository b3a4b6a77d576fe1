"""deltalake's table below its public class: other libraries call some of these methods. Each one
converts its arguments, calls deltaplane's table, and converts the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import deltaplane
from deltaplane.deltalake import _filters
from deltaplane.deltalake._commits import commit_properties as _commit
from deltaplane.deltalake._commits import hook_properties as _hook
from deltaplane.deltalake._commits import writer_properties as _files
from deltaplane.deltalake._dialect import deltalake_sql, spark_sql
from deltaplane.deltalake._errors import deltalake_errors
from deltaplane.deltalake._util import own_location, own_options, path_in_log
from deltaplane.exceptions import DeltaError, VersionNotFoundError

if TYPE_CHECKING:
    from arro3.core import RecordBatchReader, Table

    from deltaplane.deltalake._features import TableFeatures
    from deltaplane.deltalake._merging import PyMergeBuilder
    from deltaplane.deltalake._schema_types import Field, Schema

_CONSTRAINT = "delta.constraints."


@dataclass
class RawDeltaTableMetaData:
    """A table's metadata; `created_time` in milliseconds since 1970."""

    id: str
    name: str | None
    description: str | None
    partition_columns: list[str]
    created_time: int | None
    configuration: dict[str, str]


class RawDeltaTable:
    """One table at one version, over a `deltaplane.DeltaTable` (`inner`)."""

    def __init__(
        self, table_uri: str, version: int | None = None, storage_options: dict[str, str] | None = None
    ) -> None:
        with deltalake_errors():
            location, options = own_location(table_uri, storage_options), own_options(storage_options)
            self.inner = deltaplane.DeltaTable(location, version, options)

    @classmethod
    def of(cls, inner: deltaplane.DeltaTable) -> RawDeltaTable:
        """The table over an opened one."""
        self = cls.__new__(cls)
        self.inner = inner
        return self

    @staticmethod
    def is_deltatable(table_uri: str, storage_options: dict[str, str] | None) -> bool:
        """Whether a table is at the location."""
        location = own_location(table_uri, storage_options)
        return deltaplane.DeltaTable.is_deltatable(location, own_options(storage_options))

    # --- what it is ---------------------------------------------------------------------------------------------------

    def table_uri(self) -> str:
        """The location as a URL that ends with a slash."""
        return self.inner.table_uri.rstrip("/") + "/"

    def version(self) -> int:
        """The version."""
        return self.inner.version()

    def get_latest_version(self) -> int:
        """The newest version in the store."""
        return deltaplane.DeltaTable(self.inner.location, storage_options=self.inner.storage_options).version()

    @property
    def schema(self) -> Schema:
        """The columns."""
        from deltaplane.deltalake._schema_types import Schema

        return Schema.from_json(self.inner.schema().to_json())

    def metadata(self) -> RawDeltaTableMetaData:
        """Name, properties and partition columns. Conditions of constraints are shown in
        deltalake's
        SQL; the log has Spark's."""
        current = self.inner.metadata()
        shown = {
            key: deltalake_sql(value) if key.startswith(_CONSTRAINT) else value
            for key, value in current.configuration.items()
        }
        return RawDeltaTableMetaData(
            current.id, current.name, current.description, list(current.partition_columns), current.created_time, shown
        )

    def protocol_versions(self) -> tuple[int, int, list[str] | None, list[str] | None]:
        """The lowest versions of readers and writers, and the features of writers and readers."""
        protocol = self.inner.protocol()
        reader = None if protocol.reader_features is None else list(protocol.reader_features)
        writer = None if protocol.writer_features is None else list(protocol.writer_features)
        return protocol.min_reader_version, protocol.min_writer_version, writer or None, reader or None

    def table_config(self) -> tuple[bool, int, bool]:
        """deltalake's defaults for settings that have no effect."""
        return False, 48, False

    def transaction_version(self, app_id: str) -> int | None:
        """The last version that an application committed."""
        return self.inner.transaction_version(app_id)

    # --- which version ------------------------------------------------------------------------------------------------

    def load_version(self, version: int) -> None:
        """Moves to a version."""
        with deltalake_errors():
            self.inner.load_as_version(version)

    def load_with_datetime(self, ds: str) -> None:
        """Moves to the newest version at a time with a zone; a time before the first version means
        the first one.

        Raises:
            ValueError: the text isn't a time with a zone.
        """
        moment = _moment(ds)
        try:
            self.inner.load_as_version(moment)
        except VersionNotFoundError:
            oldest = min(entry["version"] for entry in self.inner.history())
            self.inner.load_as_version(oldest)

    def update_incremental(self) -> None:
        """Moves to the newest version."""
        with deltalake_errors():
            self.inner.update_incremental()

    def history(self, limit: int | None) -> tuple[int, list[dict[str, Any]]]:
        """The newest version, and the entries of the versions from it downwards."""
        from deltaplane.deltalake._history import shown_entry

        newest = deltaplane.DeltaTable(self.inner.location, storage_options=self.inner.storage_options)
        # The times that commits state, not those of their files.
        entries = newest._snapshot.history(limit)
        return newest.version(), [shown_entry(entry.info) for entry in entries]

    # --- its files ----------------------------------------------------------------------------------------------------

    def _predicate(self, filters: Any) -> Any:
        return _filters.own_predicate(filters, self.inner.schema())

    def files(self, file_pruning_predicate: Any = None) -> list[str]:
        """Paths of the files that may hold matching rows."""
        with deltalake_errors():
            return self.inner.files(self._predicate(file_pruning_predicate))

    def file_uris(self, file_pruning_predicate: Any = None) -> list[str]:
        """Addresses of the files that may hold matching rows."""
        with deltalake_errors():
            return self.inner.file_uris(self._predicate(file_pruning_predicate))

    def get_active_partitions(self, file_pruning_predicate: Any = None) -> list[list[tuple[str, str | None]]]:
        """The values of each partition with files."""
        with deltalake_errors():
            return [list(p.items()) for p in self.inner.partitions(self._predicate(file_pruning_predicate))]

    def get_add_file_sizes(self) -> dict[str, int]:
        """Path → bytes."""
        adds = self.inner._files()
        return dict(zip(adds["path"].to_pylist(), adds["size_bytes"].to_pylist(), strict=True))

    def get_add_actions(self, flatten: bool) -> Table:
        """One row for each file. Paths are URL-encoded, as in the log: libraries decode them."""
        import pyarrow as pa

        from deltaplane.deltalake._arrow import as_arro3_table, without_infinity

        with deltalake_errors():
            adds = self.inner.get_add_actions(flatten)
        adds = without_infinity(adds)
        paths = adds["path"].to_pylist()
        in_log = [path_in_log(path) for path in paths]
        # Making an array of a list loads pandas.
        if in_log != paths:
            adds = adds.set_column(adds.schema.get_field_index("path"), "path", pa.array(in_log, pa.string()))
        index = adds.schema.get_field_index("modification_time")
        # Of milliseconds, as in the log.
        times = adds["modification_time"].combine_chunks().view(pa.int64())
        return as_arro3_table(adds.set_column(index, "modification_time", times))

    def dataset_partitions(self, schema: Any, file_pruning_predicate: Any = None) -> list[Any]:
        """Path of each file, and an expression of pyarrow that holds for its rows."""
        import pyarrow as pa

        from deltaplane.table.arrow_dataset import fragment_expressions

        with deltalake_errors():
            files = self.inner.plan(self._predicate(file_pruning_predicate)).read_all()
            return list(fragment_expressions(files, pa.schema(schema)))

    # --- its rows -----------------------------------------------------------------------------------------------------

    def scan(self, columns: list[str] | None = None, predicate: str | None = None) -> RecordBatchReader:
        """The matching rows."""
        import pyarrow as pa

        from deltaplane.deltalake._arrow import as_arro3_reader, declared, with_views

        with deltalake_errors():
            reader = self.inner.scan(columns, self._predicate(predicate)).to_reader()
        return as_arro3_reader(reader, with_views(declared(reader.schema, pa.schema(self.schema))))

    def deletion_vectors(self) -> RecordBatchReader:
        """The files with deletion vectors, and which of their rows are left. Files are named as by
        `file_uris`: libraries compare both."""
        import arro3.core
        import pyarrow as pa

        with deltalake_errors():
            vectors = self.inner.deletion_vectors()

        schema = vectors.schema
        index = schema.get_field_index("filepath")
        field = schema.field(index)

        def decoded() -> Iterator[pa.RecordBatch]:
            for batch in vectors:
                paths = [unquote(path) for path in batch.column(index).to_pylist()]
                yield batch.set_column(index, field, pa.array(paths, field.type))

        return arro3.core.RecordBatchReader.from_arrow(pa.RecordBatchReader.from_batches(schema, decoded()))

    def load_cdf(
        self,
        columns: list[str] | None = None,
        predicate: str | None = None,
        starting_version: int = 0,
        ending_version: int | None = None,
        starting_timestamp: str | None = None,
        ending_timestamp: str | None = None,
        allow_out_of_range: bool = False,
    ) -> RecordBatchReader:
        """The rows that changed."""
        from deltaplane.deltalake._history import change_feed

        with deltalake_errors():
            return change_feed(
                self.inner,
                columns=columns,
                predicate=self._predicate(predicate),
                starting_version=starting_version,
                ending_version=ending_version,
                starting_timestamp=starting_timestamp,
                ending_timestamp=ending_timestamp,
                allow_out_of_range=allow_out_of_range,
            )

    def delete(self, predicate: str | None, writer_properties: Any, commit: Any, hook: Any) -> dict[str, Any]:
        """Deletes rows."""
        from deltaplane.deltalake._history import without_unknown_rows

        with deltalake_errors():
            done = self.inner.delete(
                self._predicate(predicate),
                _files(writer_properties),
                commit_properties=_commit(commit),
                post_commithook_properties=_hook(hook),
            )
        return without_unknown_rows(done)

    def update(
        self,
        updates: dict[str, str] | None,
        new_values: dict[str, Any] | None,
        predicate: str | None,
        writer_properties: Any,
        safe_cast: bool,
        commit: Any,
        hook: Any,
    ) -> dict[str, Any]:
        """Updates rows."""
        from deltaplane.deltalake._filters import types_of
        from deltaplane.deltalake._merging import own_assignments

        with deltalake_errors():
            schema = self.inner.schema()
            operands = types_of(schema)
            assigned = None
            if updates is not None:
                assigned = own_assignments(updates, schema, safe_cast=safe_cast, operands=operands)
            done = self.inner.update(
                assigned,
                new_values,
                self._predicate(predicate),
                _files(writer_properties),
                commit_properties=_commit(commit),
                post_commithook_properties=_hook(hook),
            )
            return dict(done)

    def merge_execute(self, merge_builder: PyMergeBuilder) -> dict[str, Any]:
        """Runs a merge."""
        if merge_builder.merge_schema and self.inner._snapshot.column_mapping != "none":
            raise DeltaError("Schema evolution on column-mapped tables is not yet supported")
        total = self.inner._snapshot.num_files()
        with deltalake_errors():
            metrics = merge_builder.run(self.inner)
        scanned = metrics.get("num_target_files_scanned")
        return metrics if scanned is None else {**metrics, "num_target_files_skipped_during_scan": total - scanned}

    def create_write_transaction(
        self,
        actions: list[Any],
        mode: str,
        partition_by: list[str],
        schema: Schema,
        partitions_filters: Any = None,
        commit_properties: Any = None,
        post_commithook_properties: Any = None,
    ) -> None:
        """Commits files that were written already."""
        from deltaplane.deltalake._writes import write_files

        settings = (partitions_filters, commit_properties, post_commithook_properties)
        write_files(self, actions, mode, partition_by, schema, *settings)

    # --- its maintenance ----------------------------------------------------------------------------------------------

    def vacuum(
        self,
        dry_run: bool,
        retention_hours: int | None,
        enforce_retention_duration: bool,
        commit_properties: Any = None,
        post_commithook_properties: Any = None,
        full: bool = False,
        keep_versions: list[int] | None = None,
    ) -> list[str]:
        """Deletes files that no version needs."""
        with deltalake_errors():
            return self.inner.vacuum(
                retention_hours,
                dry_run,
                enforce_retention_duration,
                commit_properties=_commit(commit_properties),
                post_commithook_properties=_hook(post_commithook_properties),
                full=full,
                keep_versions=keep_versions,
            )

    def optimize(
        self,
        columns: list[str] | None,
        partition_filters: Any,
        target_size: int | None,
        max_concurrent_tasks: int | None,
        max_spill_size: int | None,
        min_commit_interval: int | None,
        writer_properties: Any,
        commit: Any,
        hook: Any,
    ) -> dict[str, Any]:
        """Joins small files, or orders rows by columns."""
        from deltaplane.deltalake._history import optimize_metrics

        if target_size is not None and not 0 < target_size < 2**63:
            raise ValueError(f"target_file_size must be between 1 and {2**63 - 1}")
        settings: dict[str, Any] = {
            "partition_filters": self._predicate(None if partition_filters is None else [partition_filters]),
            "target_size": target_size,
            "max_concurrent_tasks": max_concurrent_tasks,
            "max_spill_size": max_spill_size,
            "min_commit_interval": min_commit_interval,
            "writer_properties": _files(writer_properties),
            "commit_properties": _commit(commit),
            "post_commithook_properties": _hook(hook),
        }
        with deltalake_errors():
            optimizer = self.inner.optimize
            done = optimizer.compact(**settings) if columns is None else optimizer.z_order(columns, **settings)
        return optimize_metrics(done, ordered=columns is not None)

    def restore(
        self,
        target: Any,
        ignore_missing_files: bool,
        protocol_downgrade_allowed: bool,
        commit_properties: Any = None,
        post_commithook_properties: Any = None,
    ) -> dict[str, Any]:
        """Restores an older version; a time before the first version means the first one."""
        settings: dict[str, Any] = {
            "ignore_missing_files": ignore_missing_files,
            "protocol_downgrade_allowed": protocol_downgrade_allowed,
            "commit_properties": _commit(commit_properties),
            "post_commithook_properties": _hook(post_commithook_properties),
        }
        with deltalake_errors():
            try:
                return dict(self.inner.restore(target, **settings))
            except VersionNotFoundError:
                if isinstance(target, int):
                    raise
                oldest = min(entry["version"] for entry in self.inner.history())
                return dict(self.inner.restore(oldest, **settings))

    def repair(self, dry_run: bool, commit: Any, hook: Any) -> dict[str, Any]:
        """Removes missing files from the log."""
        with deltalake_errors():
            settings: dict[str, Any] = {"commit_properties": _commit(commit), "post_commithook_properties": _hook(hook)}
            return dict(self.inner.repair(dry_run, **settings))

    def generate(self) -> None:
        """Writes manifests."""
        with deltalake_errors():
            self.inner.generate()

    def create_checkpoint(self) -> None:
        """Writes a checkpoint."""
        with deltalake_errors():
            self.inner.create_checkpoint()

    def compact_logs(self, starting_version: int, ending_version: int) -> None:
        """Writes a compacted log file."""
        with deltalake_errors():
            self.inner.compact_logs(starting_version, ending_version)

    def cleanup_metadata(self) -> None:
        """Deletes expired log files."""
        with deltalake_errors():
            self.inner.cleanup_metadata()

    # --- its definition -----------------------------------------------------------------------------------------------

    def _alter(self, change: str, *arguments: Any, commit: Any, hook: Any, **named: Any) -> None:
        with deltalake_errors():
            method = getattr(self.inner.alter, change)
            method(*arguments, commit_properties=_commit(commit), post_commithook_properties=_hook(hook), **named)

    def add_columns(self, fields: list[Field], commit: Any, hook: Any) -> None:
        """Adds columns."""
        if any("delta.generationExpression" in field.metadata for field in fields):
            raise DeltaError("New columns cannot be a generated column")
        own = deltaplane.Schema.from_json(_schema_json(fields)).fields
        self._alter("add_columns", own, commit=commit, hook=hook)

    def add_feature(self, feature: list[TableFeatures], allow_increase: bool, commit: Any, hook: Any) -> None:
        """Adds table features."""
        self._alter("add_feature", feature, allow_increase, commit=commit, hook=hook)

    def add_constraints(self, constraints: dict[str, str], commit: Any, hook: Any) -> None:
        """Adds constraints."""
        translated = {name: spark_sql(sql) for name, sql in constraints.items()}
        if not translated:
            raise DeltaError("no constraint is given: name at least one")
        with deltalake_errors():
            self.inner.alter._add_constraints(translated, False, _commit(commit), _hook(hook))

    def drop_constraints(self, name: str, raise_if_not_exists: bool, commit: Any, hook: Any) -> None:
        """Drops a constraint."""
        self._alter("drop_constraint", name, raise_if_not_exists, commit=commit, hook=hook)

    def drop_column_not_null(self, column_name: str, commit: Any, hook: Any) -> None:
        """Makes a column nullable."""
        current = {field.name: field for field in self.inner.schema().fields}.get(column_name)
        if current is not None and current.nullable:
            raise DeltaError(f"the column {column_name} is nullable already")
        self._alter("drop_column_not_null", column_name, commit=commit, hook=hook)

    def set_table_properties(
        self, properties: dict[str, str], raise_if_not_exists: bool, commit: Any, hook: Any
    ) -> None:
        """Sets properties."""
        with deltalake_errors():
            self.inner.alter.set_table_properties(
                properties,
                commit_properties=_commit(commit, keeps_unknown_properties=not raise_if_not_exists),
                post_commithook_properties=_hook(hook),
            )

    def set_table_name(self, name: str, commit: Any = None, hook: Any = None) -> None:
        """Sets the name."""
        if not name or len(name) > 255:
            raise DeltaError(
                "Table metadata is invalid: name: Table name cannot be empty and cannot exceed 255 characters"
            )
        self._alter("set_table_name", name, commit=commit, hook=hook)

    def set_table_description(self, description: str, commit: Any = None, hook: Any = None) -> None:
        """Sets the description."""
        if len(description) > 4000:
            raise DeltaError("Table metadata is invalid: description: Table description cannot exceed 4000 characters")
        self._alter("set_table_description", description, commit=commit, hook=hook)

    def set_column_metadata(self, column: str, metadata: dict[str, str], commit: Any, hook: Any) -> None:
        """Sets keys of a column's metadata."""
        self._alter("set_column_metadata", column, metadata, commit=commit, hook=hook)

    def __datafusion_table_provider__(self, session: Any | None = None) -> Any:
        """Not supported.

        Raises:
            RuntimeError: always: DataFusion's own interface needs its library.
        """
        raise RuntimeError(
            "the table provider of datafusion is not installed with deltaplane: use QueryBuilder, or register "
            "table.to_pyarrow_dataset() in DataFusion's session"
        )


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError as e:
        raise ValueError(f"Failed to parse datetime string: {e}") from None
    offset = text[10:].rpartition("+")[2] if "+" in text[10:] else text[10:].rpartition("-")[2]
    if moment.tzinfo is None or "T" not in text or (not text.endswith("Z") and ":" not in offset):
        raise ValueError(f"Failed to parse datetime string: {text} isn't a time with a zone, such as +08:00")
    return moment.astimezone(timezone.utc)


def _schema_json(fields: list[Field]) -> str:
    from deltaplane.deltalake._schema_types import Schema

    return Schema(fields).to_json()
