"""deltalake's `DeltaTable` and its metadata: the arguments and results of deltalake 1.6, over
`RawDeltaTable`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast

from deltaplane.deltalake._commands import TableAlterer as TableAlterer
from deltaplane.deltalake._commands import TableMerger as TableMerger
from deltaplane.deltalake._commands import TableOptimizer as TableOptimizer
from deltaplane.deltalake._features import SUPPORTED_READER_FEATURES as SUPPORTED_READER_FEATURES
from deltaplane.deltalake._features import SUPPORTED_WRITER_FEATURES as SUPPORTED_WRITER_FEATURES
from deltaplane.deltalake._features import TableFeatures as TableFeatures
from deltaplane.deltalake._filters import conjunctions
from deltaplane.deltalake._raw_table import RawDeltaTable
from deltaplane.deltalake._schema_types import Schema as DeltaSchema
from deltaplane.deltalake._util import deprecate_positional_commit_args, take_positional
from deltaplane.deltalake._writes import create as _create_deltalake
from deltaplane.exceptions import DeltaProtocolError

if TYPE_CHECKING:
    import os

    import pandas as pd
    import pyarrow
    import pyarrow.dataset as ds
    import pyarrow.fs as pa_fs
    from arro3.core import RecordBatchReader, Table

    from deltaplane.deltalake.transaction import (
        AddAction,
        CommitProperties,
        PostCommitHookProperties,
        RemoveAction,
    )
    from deltaplane.deltalake.writer.properties import WriterProperties

# deltalake's limits, which other libraries import.
MAX_SUPPORTED_PYARROW_WRITER_VERSION = 7
NOT_SUPPORTED_PYARROW_WRITER_VERSIONS = [3, 4, 5, 6]
MAX_SUPPORTED_READER_VERSION = 3
NOT_SUPPORTED_READER_VERSION = -1
FSCK_METRICS_FILES_REMOVED_LABEL = "files_removed"

FilterLiteralType: TypeAlias = tuple[str, str, Any]
FilterConjunctionType: TypeAlias = list[FilterLiteralType]
FilterDNFType: TypeAlias = list[FilterConjunctionType]
FilterType: TypeAlias = FilterConjunctionType | FilterDNFType
PartitionFilterType: TypeAlias = list[tuple[str, str, str | list[str]]]
FilePruningPredicateType: TypeAlias = str | FilterType


class _Default:
    """A default that differs from the same value passed by the caller."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return repr(self.value)


_TRUE: Any = _Default(True)
_FALSE: Any = _Default(False)
_NONE: Any = _Default(None)


def _value(values: Any) -> Any:
    return values.value if isinstance(values, _Default) else values


def _one_filter(name: str, old: FilterType | None, values: FilePruningPredicateType | None) -> Any:
    """The filter, of which old programs pass another argument."""
    if old is None:
        return values
    if values is not None:
        raise ValueError(f"`{name}` is deprecated; pass only `file_pruning_predicate`")
    warnings.warn(
        f"`{name}` is deprecated; pass the filters to `file_pruning_predicate` instead",
        DeprecationWarning,
        stacklevel=3,
    )
    return old


@dataclass(init=False)
class Metadata:
    """A table's metadata."""

    def __init__(self, table: RawDeltaTable) -> None:
        self._metadata = table.metadata()

    @property
    def id(self) -> str:
        """The table's id."""
        return self._metadata.id

    @property
    def name(self) -> str | None:
        """The name."""
        return self._metadata.name

    @property
    def description(self) -> str | None:
        """The description."""
        return self._metadata.description

    @property
    def partition_columns(self) -> list[str]:
        """The partition columns."""
        return self._metadata.partition_columns

    @property
    def created_time(self) -> int | None:
        """Milliseconds since 1970."""
        return self._metadata.created_time

    @property
    def configuration(self) -> dict[str, str]:
        """The table properties."""
        return self._metadata.configuration

    def __str__(self) -> str:
        names = ("id", "name", "description", "partition_columns", "created_time", "configuration")
        return f"Metadata({', '.join(f'{name}: {getattr(self, name)}' for name in names)})"


class _DeltaTableConfigBase(NamedTuple):
    without_files: bool
    log_buffer_size: int
    skip_stats: bool = False


class DeltaTableConfig(_DeltaTableConfigBase):
    """deltalake's settings of a table, which have no effect."""

    def __new__(cls, without_files: bool, log_buffer_size: int, skip_stats: bool = False) -> DeltaTableConfig:
        warnings.warn(
            "The DeltaTableConfig class is deprecated and will be removed in a future release. ",
            DeprecationWarning,
            stacklevel=2,
        )
        return super().__new__(cls, without_files, log_buffer_size, skip_stats)


class ProtocolVersions(NamedTuple):
    """The protocol's versions and features."""

    min_reader_version: int
    min_writer_version: int
    writer_features: list[str] | None
    reader_features: list[str] | None


@dataclass(init=False)
class DeltaTable:
    """A table at one version, with deltalake's methods."""

    def __init__(
        self,
        table_uri: str | Path | os.PathLike[str],
        version: int | None = None,
        storage_options: dict[str, str] | None = None,
        without_files: bool = False,
        log_buffer_size: int | None = None,
        skip_stats: bool = False,
    ) -> None:
        ignored = {
            "without_files": without_files,
            "log_buffer_size": log_buffer_size is not None,
            "skip_stats": skip_stats,
        }
        for name in (name for name, is_set in ignored.items() if is_set):
            warnings.warn(f"The '{name}' parameter is deprecated and ignored.", DeprecationWarning, stacklevel=2)
        self._storage_options = storage_options
        self._table = RawDeltaTable(str(table_uri), version=version, storage_options=storage_options)

    @property
    def table_config(self) -> DeltaTableConfig:
        """deltalake's defaults."""
        warnings.warn(
            "The 'table_config' property is deprecated and will be removed in a future release.",
            DeprecationWarning,
            stacklevel=2,
        )
        return DeltaTableConfig(*self._table.table_config())

    @staticmethod
    def is_deltatable(table_uri: str | Path | os.PathLike[str], storage_options: dict[str, str] | None = None) -> bool:
        """Whether a table is at the location."""
        return RawDeltaTable.is_deltatable(str(table_uri), storage_options)

    @classmethod
    def create(
        cls,
        table_uri: str | Path,
        schema: DeltaSchema | Any,
        mode: Literal["error", "append", "overwrite", "ignore"] = "error",
        partition_by: list[str] | str | None = None,
        name: str | None = None,
        description: str | None = None,
        configuration: Mapping[str, str | None] | None = None,
        storage_options: dict[str, str] | None = None,
        *args: Any,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
        raise_if_key_not_exists: bool = _TRUE,
    ) -> DeltaTable:
        """Creates a table without rows and opens it."""
        values = {
            "commit_properties": commit_properties,
            "post_commithook_properties": post_commithook_properties,
            "raise_if_key_not_exists": raise_if_key_not_exists,
        }
        if args:
            take_positional("create", args, values, tuple(values), _TRUE)
        location = str(table_uri)
        _create_deltalake(
            location,
            schema if isinstance(schema, DeltaSchema) else DeltaSchema.from_arrow(schema),
            [partition_by] if isinstance(partition_by, str) else partition_by or [],
            mode,
            _value(values["raise_if_key_not_exists"]),
            name,
            description,
            configuration,
            storage_options,
            values["commit_properties"],
            values["post_commithook_properties"],
        )
        return cls(table_uri=location, storage_options=storage_options)

    # --- what it is ---------------------------------------------------------------------------------------------------

    def version(self) -> int:
        """The version."""
        return self._table.version()

    @property
    def table_uri(self) -> str:
        """The location as a URL."""
        return self._table.table_uri()

    def schema(self) -> DeltaSchema:
        """The columns."""
        return self._table.schema

    def metadata(self) -> Metadata:
        """Name, properties, partition columns."""
        return Metadata(self._table)

    def protocol(self) -> ProtocolVersions:
        """The protocol's versions and features."""
        return ProtocolVersions(*self._table.protocol_versions())

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The entries of commits, newest first."""
        version, entries = self._table.history(limit)
        return [{**entry, "version": version - n} for n, entry in enumerate(entries)]

    def transaction_version(self, app_id: str) -> int | None:
        """The last version that an application committed."""
        return self._table.transaction_version(app_id)

    # --- which version ------------------------------------------------------------------------------------------------

    def load_as_version(self, version: int | str | datetime) -> None:
        """Moves to a version, or to the newest one at a time."""
        if isinstance(version, int):
            self._table.load_version(version)
        elif isinstance(version, datetime):
            moment = version if version.tzinfo is not None else version.replace(tzinfo=timezone.utc)
            self._table.load_with_datetime(moment.isoformat())
        elif isinstance(version, str):
            self._table.load_with_datetime(version)
        else:
            raise TypeError("Invalid datatype provided for version, only int, str or datetime are accepted.")

    def update_incremental(self) -> None:
        """Moves to the newest version."""
        self._table.update_incremental()

    # --- its files ----------------------------------------------------------------------------------------------------

    def partitions(
        self,
        partition_filters: FilterType | None = None,
        *,
        file_pruning_predicate: FilePruningPredicateType | None = None,
    ) -> list[dict[str, str]]:
        """The values of each partition with files."""
        chosen = _one_filter("partition_filters", partition_filters, file_pruning_predicate)
        partitions = self._table.get_active_partitions(self._encode_file_pruning_predicate(chosen))
        return [cast(dict[str, str], dict(partition)) for partition in partitions if partition]

    def file_uris(
        self,
        partition_filters: FilterType | None = None,
        *,
        file_pruning_predicate: FilePruningPredicateType | None = None,
    ) -> list[str]:
        """Addresses of the files that may hold matching rows."""
        chosen = _one_filter("partition_filters", partition_filters, file_pruning_predicate)
        return self._table.file_uris(self._encode_file_pruning_predicate(chosen))

    def _encode_file_pruning_predicate(self, predicate: FilePruningPredicateType | None) -> Any:
        return predicate if predicate is None or isinstance(predicate, str) else conjunctions(predicate)

    def get_add_actions(self, flatten: bool = False) -> Table:
        """One row for each file: path, size, statistics, partition values."""
        return self._table.get_add_actions(flatten)

    def count(self) -> int:
        """The number of rows, by the files' statistics."""
        return self._table.inner.count()

    def deletion_vectors(self) -> RecordBatchReader:
        """The files with deletion vectors."""
        return self._table.deletion_vectors()

    # --- its rows -----------------------------------------------------------------------------------------------------

    def scan(self, columns: list[str] | None = None, predicate: str | None = None) -> RecordBatchReader:
        """The matching rows."""
        return self._table.scan(columns=columns, predicate=predicate)

    def load_cdf(
        self,
        starting_version: int = 0,
        ending_version: int | None = None,
        starting_timestamp: str | None = None,
        ending_timestamp: str | None = None,
        columns: list[str] | None = None,
        predicate: str | None = None,
        allow_out_of_range: bool = False,
    ) -> RecordBatchReader:
        """The rows that changed between two versions."""
        return self._table.load_cdf(
            columns=columns,
            predicate=predicate,
            starting_version=starting_version,
            ending_version=ending_version,
            starting_timestamp=starting_timestamp,
            ending_timestamp=ending_timestamp,
            allow_out_of_range=allow_out_of_range,
        )

    def to_pyarrow_dataset(
        self,
        partitions: FilterType | None = None,
        filesystem: str | pa_fs.FileSystem | None = None,
        parquet_read_options: ds.ParquetReadOptions | None = None,
        schema: pyarrow.Schema | None = None,
        as_large_types: bool = False,
        file_pruning_predicate: FilePruningPredicateType | None = None,
    ) -> ds.Dataset:
        """The table's files as a dataset of pyarrow.

        Raises:
            DeltaProtocolError: the table has files outside of its directory; or `filesystem` is
                given, and files have deletion vectors or mapped columns.
        """
        from deltaplane.deltalake._datasets import dataset

        chosen = _one_filter("partitions", partitions, file_pruning_predicate)
        self._check_readable()
        predicate = self._encode_file_pruning_predicate(chosen)
        return dataset(self, predicate, filesystem, parquet_read_options, schema, as_large_types)

    def _check_readable(self) -> None:
        # Features that deltaplane doesn't read were refused when the table was opened.
        protocol = self.protocol()
        if protocol.min_reader_version > MAX_SUPPORTED_READER_VERSION:
            raise DeltaProtocolError(
                "The table's minimum reader version greater than the maximum supported version "
                f"{MAX_SUPPORTED_READER_VERSION} with these reader features: {SUPPORTED_READER_FEATURES}"
            )

    def to_pyarrow_table(
        self,
        partitions: FilterType | None = None,
        columns: list[str] | None = None,
        filesystem: str | pa_fs.FileSystem | None = None,
        filters: FilterType | ds.Expression | None = None,
    ) -> pyarrow.Table:
        """The rows as a table of pyarrow."""
        from deltaplane.deltalake._datasets import rows

        if partitions is not None:
            warnings.warn("`partitions` is deprecated; use `filters` instead", DeprecationWarning, stacklevel=2)
        return rows(self, self._encode_file_pruning_predicate(partitions), columns, filesystem, filters)

    def to_pandas(
        self,
        partitions: FilterType | None = None,
        columns: list[str] | None = None,
        filesystem: str | pa_fs.FileSystem | None = None,
        filters: FilterType | ds.Expression | None = None,
        types_mapper: Callable[[pyarrow.DataType], Any] | None = None,
    ) -> pd.DataFrame:
        """The rows as a DataFrame of pandas."""
        table = self.to_pyarrow_table(partitions=partitions, columns=columns, filesystem=filesystem, filters=filters)
        frame: pd.DataFrame = table.to_pandas(types_mapper=types_mapper)
        return frame

    def __datafusion_table_provider__(self, session: Any | None = None) -> Any:
        return self._table.__datafusion_table_provider__(session)

    # --- its changes --------------------------------------------------------------------------------------------------

    def delete(
        self,
        predicate: str | None = None,
        writer_properties: WriterProperties | None = None,
        *args: Any,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> dict[str, Any]:
        """Deletes the matching rows, or all; returns metrics."""
        order = ("post_commithook_properties", "commit_properties")
        values = deprecate_positional_commit_args("delete", args, commit_properties, post_commithook_properties, order)
        return self._table.delete(predicate, writer_properties, *values)

    def update(
        self,
        updates: dict[str, str] | None = None,
        new_values: dict[str, int | float | str | datetime | bool | list[Any]] | None = None,
        predicate: str | None = None,
        writer_properties: WriterProperties | None = None,
        error_on_type_mismatch: bool = True,
        *args: Any,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> dict[str, Any]:
        """Updates the matching rows: column → expression, or column → value; returns metrics. New
        values of columns that the table lacks are ignored."""
        order = ("post_commithook_properties", "commit_properties")
        values = deprecate_positional_commit_args("update", args, commit_properties, post_commithook_properties, order)
        if updates is not None and new_values is not None:
            raise ValueError("Passing updates and new_values at same time is not allowed, pick one.")
        if updates is None and new_values is None:
            raise ValueError("Either updates or new_values need to be passed to update the table.")
        if any(not isinstance(v, str) or not isinstance(k, str) for k, v in (updates or {}).items()):
            raise TypeError(
                f"The values of the updates parameter must all be SQL strings. Got {updates}. Did you mean to use "
                "the new_values parameter?"
            )
        if any(not isinstance(v, (int, float, bool, list, str, datetime)) for v in (new_values or {}).values()):
            raise TypeError(
                "Invalid datatype provided in new_values, only int, float, bool, list, str or datetime or accepted."
            )
        if new_values is not None:
            known = {field.name for field in self.schema().fields}
            new_values = {name: value for name, value in new_values.items() if name in known}
        safe_cast = not error_on_type_mismatch
        return self._table.update(updates, new_values, predicate, writer_properties, safe_cast, *values)

    def merge(
        self,
        source: Any,
        predicate: str,
        source_alias: str | None = None,
        target_alias: str | None = None,
        merge_schema: bool = False,
        error_on_type_mismatch: bool = True,
        writer_properties: WriterProperties | None = None,
        streamed_exec: bool = True,
        max_spill_size: int | None = None,
        max_temp_directory_size: int | None = None,
        *args: Any,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> TableMerger:
        """Begins a merge of a source into the table."""
        import arro3.core

        from deltaplane.deltalake._merging import PyMergeBuilder
        from deltaplane.deltalake._writes import delta_rows

        order = ("post_commithook_properties", "commit_properties")
        commit, hook = deprecate_positional_commit_args(
            "merge", args, commit_properties, post_commithook_properties, order
        )
        rows = delta_rows(arro3.core.RecordBatchReader.from_arrow(source))
        builder = PyMergeBuilder(
            source=rows,
            arrow_schema=arro3.core.Schema.from_arrow(rows.schema),
            predicate=predicate,
            source_alias=source_alias,
            target_alias=target_alias,
            merge_schema=merge_schema,
            safe_cast=not error_on_type_mismatch,
            streamed_exec=streamed_exec,
            max_spill_size=max_spill_size,
            max_temp_directory_size=max_temp_directory_size,
            writer_properties=writer_properties,
            commit_properties=commit,
            post_commithook_properties=hook,
        )
        return TableMerger(builder, self._table)

    @property
    def optimize(self) -> TableOptimizer:
        """Commands that rewrite files."""
        return TableOptimizer(self)

    @property
    def alter(self) -> TableAlterer:
        """Changes of columns, properties and protocol."""
        return TableAlterer(self)

    def create_write_transaction(
        self,
        actions: list[AddAction | RemoveAction],
        mode: str,
        schema: DeltaSchema | Any,
        partition_by: list[str] | str | None = None,
        partition_filters: FilterType | None = None,
        *args: Any,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Commits files that were written already."""
        from deltaplane.deltalake._writes import write_files

        values = deprecate_positional_commit_args(
            "create_write_transaction", args, commit_properties, post_commithook_properties
        )
        write_files(
            self._table,
            actions,
            mode,
            [partition_by] if isinstance(partition_by, str) else partition_by or [],
            schema if isinstance(schema, DeltaSchema) else DeltaSchema.from_arrow(schema),
            partition_filters,
            *values,
        )

    # --- its maintenance ----------------------------------------------------------------------------------------------

    def vacuum(
        self,
        retention_hours: int | None = None,
        dry_run: bool = True,
        enforce_retention_duration: bool = True,
        *args: Any,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
        full: bool = _FALSE,
        keep_versions: list[int] | None = _NONE,
    ) -> list[str]:
        """Deletes files that no version needs, or lists them; returns their paths."""
        order = ("post_commithook_properties", "commit_properties", "full", "keep_versions")
        values: dict[str, Any] = {
            "post_commithook_properties": post_commithook_properties,
            "commit_properties": commit_properties,
            "full": None if full is _FALSE else full,
            "keep_versions": None if keep_versions is _NONE else keep_versions,
        }
        if args:
            take_positional("vacuum", args, values, order)
        if retention_hours is not None and retention_hours < 0:
            raise ValueError("The retention periods should be positive.")
        return self._table.vacuum(
            dry_run,
            retention_hours,
            enforce_retention_duration,
            values["commit_properties"],
            values["post_commithook_properties"],
            bool(values["full"]),
            values["keep_versions"],
        )

    def restore(
        self,
        target: int | datetime | str,
        *,
        ignore_missing_files: bool = False,
        protocol_downgrade_allowed: bool = False,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> dict[str, Any]:
        """Restores an older version; returns metrics."""
        return self._table.restore(
            target,
            ignore_missing_files=ignore_missing_files,
            protocol_downgrade_allowed=protocol_downgrade_allowed,
            commit_properties=commit_properties,
            post_commithook_properties=post_commithook_properties,
        )

    def repair(
        self,
        dry_run: bool = False,
        *args: Any,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> dict[str, Any]:
        """Removes missing files from the log, or lists them."""
        order = ("post_commithook_properties", "commit_properties")
        values = deprecate_positional_commit_args("repair", args, commit_properties, post_commithook_properties, order)
        return self._table.repair(dry_run, *values)

    def generate(self) -> None:
        """Writes manifests for engines that can't read tables."""
        self._table.generate()

    def create_checkpoint(self) -> None:
        """Writes a checkpoint."""
        self._table.create_checkpoint()

    def compact_logs(self, starting_version: int, ending_version: int) -> None:
        """Writes a compacted log file."""
        self._table.compact_logs(starting_version, ending_version)

    def cleanup_metadata(self) -> None:
        """Deletes expired log files."""
        self._table.cleanup_metadata()
