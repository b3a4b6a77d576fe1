"""deltalake's objects that a table returns for MERGE, ALTER and OPTIMIZE."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from deltaplane.deltalake._features import TableFeatures
from deltaplane.deltalake._filters import encoded
from deltaplane.deltalake._schema_types import Field
from deltaplane.deltalake._util import deprecate_positional_commit_args

if TYPE_CHECKING:
    from deltaplane.deltalake._merging import PyMergeBuilder
    from deltaplane.deltalake._raw_table import RawDeltaTable
    from deltaplane.deltalake.table import DeltaTable, FilterConjunctionType
    from deltaplane.deltalake.transaction import CommitProperties, PostCommitHookProperties
    from deltaplane.deltalake.writer.properties import WriterProperties

# The order in which old programs pass commit arguments to most methods.
_HOOK_FIRST = ("post_commithook_properties", "commit_properties")


class TableMerger:
    """A merge in the making: add clauses, then `execute`."""

    def __init__(self, builder: PyMergeBuilder, table: RawDeltaTable) -> None:
        self._builder = builder
        self._table = table

    def when_matched_update(self, updates: dict[str, str], predicate: str | None = None) -> TableMerger:
        """Updates matched rows: column → expression."""
        self._builder.when_matched_update(updates, predicate)
        return self

    def when_matched_update_all(
        self, predicate: str | None = None, except_cols: list[str] | None = None
    ) -> TableMerger:
        """Updates matched rows with all columns of the source, except some."""
        self._builder.when_matched_update_all(predicate, except_cols)
        return self

    def when_matched_delete(self, predicate: str | None = None) -> TableMerger:
        """Deletes matched rows."""
        self._builder.when_matched_delete(predicate)
        return self

    def when_not_matched_insert(self, updates: dict[str, str], predicate: str | None = None) -> TableMerger:
        """Inserts rows of the source without a match: column → expression."""
        self._builder.when_not_matched_insert(updates, predicate)
        return self

    def when_not_matched_insert_all(
        self, predicate: str | None = None, except_cols: list[str] | None = None
    ) -> TableMerger:
        """Inserts rows of the source without a match with all columns, except some."""
        self._builder.when_not_matched_insert_all(predicate, except_cols)
        return self

    def when_not_matched_by_source_update(self, updates: dict[str, str], predicate: str | None = None) -> TableMerger:
        """Updates rows that no row of the source matches: column → expression."""
        self._builder.when_not_matched_by_source_update(updates, predicate)
        return self

    def when_not_matched_by_source_delete(self, predicate: str | None = None) -> TableMerger:
        """Deletes rows that no row of the source matches."""
        self._builder.when_not_matched_by_source_delete(predicate)
        return self

    def execute(self) -> dict[str, Any]:
        """Runs the merge in one commit; returns its metrics."""
        return self._table.merge_execute(self._builder)


class TableAlterer:
    """Changes of a table's columns, properties and protocol, one commit each."""

    def __init__(self, table: DeltaTable) -> None:
        self.table = table

    def add_feature(
        self,
        feature: TableFeatures | list[TableFeatures],
        allow_protocol_versions_increase: bool = False,
        *args: Any,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Adds table features to the protocol."""
        settings = deprecate_positional_commit_args("add_feature", args, commit_properties, post_commithook_properties)
        features = [feature] if isinstance(feature, TableFeatures) else feature
        self.table._table.add_feature(features, allow_protocol_versions_increase, *settings)

    def add_columns(
        self,
        fields: Field | list[Field],
        *args: Any,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Adds columns, or fields to struct columns."""
        settings = deprecate_positional_commit_args("add_columns", args, commit_properties, post_commithook_properties)
        self.table._table.add_columns([fields] if isinstance(fields, Field) else fields, *settings)

    def add_constraint(
        self,
        constraints: dict[str, str],
        *args: Any,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Adds constraints: name → condition that each row must meet."""
        settings = deprecate_positional_commit_args(
            "add_constraint", args, commit_properties, post_commithook_properties, _HOOK_FIRST
        )
        self.table._table.add_constraints(constraints, *settings)

    def drop_constraint(
        self,
        name: str,
        raise_if_not_exists: bool = True,
        *args: Any,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Drops a constraint."""
        settings = deprecate_positional_commit_args(
            "drop_constraint", args, commit_properties, post_commithook_properties, _HOOK_FIRST
        )
        self.table._table.drop_constraints(name, raise_if_not_exists, *settings)

    def drop_column_not_null(
        self,
        column_name: str,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Makes a column nullable."""
        self.table._table.drop_column_not_null(column_name, commit_properties, post_commithook_properties)

    def set_table_properties(
        self,
        properties: dict[str, str],
        raise_if_not_exists: bool = True,
        *args: Any,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Sets table properties."""
        settings = deprecate_positional_commit_args(
            "set_table_properties", args, commit_properties, post_commithook_properties
        )
        self.table._table.set_table_properties(properties, raise_if_not_exists, *settings)

    def set_table_name(
        self,
        name: str,
        *args: Any,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Sets the table's name."""
        settings = deprecate_positional_commit_args(
            "set_table_name", args, commit_properties, post_commithook_properties
        )
        self.table._table.set_table_name(name, *settings)

    def set_table_description(
        self,
        description: str,
        *args: Any,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Sets the table's description."""
        settings = deprecate_positional_commit_args(
            "set_table_description", args, commit_properties, post_commithook_properties
        )
        self.table._table.set_table_description(description, *settings)

    def set_column_metadata(
        self,
        column: str,
        metadata: dict[str, str],
        *args: Any,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        """Sets keys of a column's metadata."""
        settings = deprecate_positional_commit_args(
            "set_column_metadata", args, commit_properties, post_commithook_properties
        )
        self.table._table.set_column_metadata(column, metadata, *settings)


class TableOptimizer:
    """Commands that rewrite files so that scans read less."""

    def __init__(self, table: DeltaTable) -> None:
        self.table = table

    def compact(
        self,
        partition_filters: FilterConjunctionType | None = None,
        target_size: int | None = None,
        max_concurrent_tasks: int | None = None,
        max_spill_size: int | None = None,
        max_temp_directory_size: int | None = None,
        min_commit_interval: int | timedelta | None = None,
        writer_properties: WriterProperties | None = None,
        *args: Any,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> dict[str, Any]:
        """Joins small files; returns metrics. `max_temp_directory_size` has no effect: temporary
        files take what sorting needs."""
        settings = deprecate_positional_commit_args(
            "compact", args, commit_properties, post_commithook_properties, _HOOK_FIRST
        )
        return self._run(
            None,
            partition_filters,
            target_size,
            max_concurrent_tasks,
            max_spill_size,
            min_commit_interval,
            writer_properties,
            *settings,
        )

    def z_order(
        self,
        columns: Iterable[str],
        partition_filters: FilterConjunctionType | None = None,
        target_size: int | None = None,
        max_concurrent_tasks: int | None = None,
        max_spill_size: int | None = None,
        max_temp_directory_size: int | None = None,
        min_commit_interval: int | timedelta | None = None,
        writer_properties: WriterProperties | None = None,
        *args: Any,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> dict[str, Any]:
        """Orders rows by several columns; returns metrics. `max_temp_directory_size` has no effect:
        temporary files take what sorting needs."""
        settings = deprecate_positional_commit_args(
            "z_order", args, commit_properties, post_commithook_properties, _HOOK_FIRST
        )
        return self._run(
            list(columns),
            partition_filters,
            target_size,
            max_concurrent_tasks,
            max_spill_size,
            min_commit_interval,
            writer_properties,
            *settings,
        )

    def _run(
        self,
        columns: list[str] | None,
        partition_filters: FilterConjunctionType | None,
        target_size: int | None,
        max_concurrent_tasks: int | None,
        max_spill_size: int | None,
        min_commit_interval: int | timedelta | None,
        *settings: Any,
    ) -> dict[str, Any]:
        if isinstance(min_commit_interval, timedelta):
            min_commit_interval = int(min_commit_interval.total_seconds())
        filters = encoded(partition_filters) if partition_filters else None
        metrics = self.table._table.optimize(
            columns, filters, target_size, max_concurrent_tasks, max_spill_size, min_commit_interval, *settings
        )
        self.table.update_incremental()
        return metrics
