"""The arguments of both write entry points, checked, and their conversion to the core's request.

Uses neither Arrow data nor data frames.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from deltaplane import _native, expr
from deltaplane.exceptions import InvalidArgumentError
from deltaplane.expr import Predicate
from deltaplane.io import records
from deltaplane.io.storage_options import StorageOptions, version_arguments
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
    from deltaplane.commands.replace import Matching
    from deltaplane.commands.rewriting import Settings

__all__ = [
    "FrameWriteOptions",
    "Mode",
    "SchemaMode",
    "WriteIntent",
    "WriteOptions",
    "check_read_version",
    "overwritten",
    "replaced_rows",
    "write_request",
]

Mode = Literal["error", "append", "overwrite", "ignore"]
SchemaMode = Literal["merge", "overwrite"]


class _Options(TypedDict, total=False):
    """The keyword arguments that both entry points share."""

    name: str | None
    description: str | None
    configuration: Mapping[str, str | bool | int | None] | None
    target_file_size: int | None
    writer_properties: WriterProperties | None
    partition_overwrite_mode: Literal["static", "dynamic"]
    replace_using: Sequence[str] | None
    replace_on: str | None
    source_alias: str | None
    target_alias: str | None
    read_version: int | None
    operation: CommitOperation | None


class WriteOptions(_Options, total=False):
    """The keyword arguments of `write_deltalake`, except `dry_run`."""

    partition_by: list[str] | str | None
    cluster_by: list[str] | str | None
    mode: Mode
    schema_mode: SchemaMode | None
    storage_options: StorageOptions | None
    predicate: Predicate | None
    commit_properties: CommitProperties | None
    post_commithook_properties: PostCommitHookProperties | None


class FrameWriteOptions(_Options, total=False):
    """The keyword-only arguments of `deltaplane.spark.write`, except `dry_run`."""

    cluster_by: Sequence[str] | str | None
    max_commit_retries: int | None
    rebalance: bool
    empty_commit: bool
    optimize_write: bool | None
    max_records_per_file: int | None
    all_nullable: bool
    data_change: bool


@dataclass(frozen=True, kw_only=True)
class WriteIntent:
    """One write: the definition of the resulting table, the rows to replace, and the settings of
    files and commit.

    Raises:
        InvalidArgumentError: a value out of range, or incompatible arguments.
    """

    mode: str
    partition_by: Sequence[str] | str | None = None
    cluster_by: Sequence[str] | str | None = None
    name: str | None = None
    description: str | None = None
    configuration: Mapping[str, str | bool | int | None] | None = None
    schema_mode: str | None = None
    schema_json: str | None = None
    predicate: Predicate | None = None
    partition_overwrite_mode: str = "static"
    replace_using: Sequence[str] | None = None
    replace_on: str | None = None
    source_alias: str | None = None
    target_alias: str | None = None
    read_version: int | None = None
    operation: CommitOperation | None = None
    data_change: bool = True
    target_file_size: int | None = None
    writer_properties: WriterProperties | None = None
    commit_properties: CommitProperties | None = None
    post_commithook_properties: PostCommitHookProperties | None = None
    dry_run: bool = False

    def __post_init__(self) -> None:
        check_read_version(self.read_version, self.mode)
        if self.partition_overwrite_mode not in ("static", "dynamic"):
            raise InvalidArgumentError(
                f"partition_overwrite_mode is static or dynamic, not {self.partition_overwrite_mode!r}"
            )

    @property
    def merges_schema(self) -> bool:
        """Whether the write adds new columns of the data to the table."""
        return self.schema_mode == "merge"

    @property
    def reads_others(self) -> bool:
        """Whether the rows were computed from the table's own rows."""
        return self.read_version is not None

    def matching(self) -> Matching | None:
        """The matching condition for replaced rows; None if the write has no `replace_using` or
        `replace_on`.

        Raises:
            InvalidArgumentError: incompatible arguments.
        """
        return replaced_rows(
            self.replace_using,
            self.replace_on,
            (self.source_alias, self.target_alias),
            plain=self.mode == "overwrite" and self.predicate is None,
            schema_mode=self.schema_mode,
        )

    def condition(self) -> str | None:
        """The predicate that selects the replaced rows, unless the schema is replaced too."""
        selects = self.mode == "overwrite" and isinstance(self.predicate, str) and self.schema_mode != "overwrite"
        return str(self.predicate) if selects else None

    def settings(self) -> Settings:
        """The settings with which a command on rows runs this write."""
        from deltaplane.commands.rewriting import Settings

        commit, hook = self.commit_properties, self.post_commithook_properties
        return Settings(self.writer_properties, commit, hook, self.target_file_size, self.dry_run)

    def request(self, location: str, options: dict[str, str] | None) -> records.WriteRequest:
        """The request for the Rust core; the caller evaluates the row rules.

        Raises:
            InvalidArgumentError: a value out of range, or incompatible arguments.
        """
        return write_request(
            mode=self.mode,
            partition_by=self.partition_by,
            cluster_by=self.cluster_by,
            name=self.name,
            description=self.description,
            configuration=self.configuration,
            schema_mode=self.schema_mode,
            schema_json=self.schema_json,
            **overwritten(location, options, self.mode, self.predicate),
            target_file_size=self.target_file_size,
            writer_properties=self.writer_properties,
            commit_properties=self.commit_properties,
            post_commithook_properties=self.post_commithook_properties,
            applies_row_rules=True,
            dynamic_partitions=self.partition_overwrite_mode == "dynamic",
            read_version=self.read_version,
            operation=self.operation,
            data_change=self.data_change,
        )


def check_read_version(version: int | None, mode: str) -> None:
    """Refuses an invalid `read_version`.

    Raises:
        InvalidArgumentError: not a version number, or a mode that writes to no existing table.
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


def replaced_rows(
    using: Sequence[str] | None,
    on: str | None,
    aliases: tuple[str | None, str | None],
    *,
    plain: bool,
    schema_mode: str | None,
) -> Matching | None:
    """The matching condition of `replace_using` or `replace_on`; None without either.

    `plain`: the mode is overwrite and no predicate selects rows.

    Raises:
        InvalidArgumentError: incompatible arguments.
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
    """The rows that an overwrite replaces, as arguments of `write_request`. For a missing table
    these are none, and the new rows must satisfy the predicate."""
    if isinstance(predicate, str) and mode == "overwrite" and not _native.is_table(location, options):
        return {"first_rows_meet": predicate}
    return {"predicate": predicate}


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
) -> records.WriteRequest:
    """The request for the Rust core, from checked arguments.

    `first_rows_meet`: the predicate of an overwrite of a missing table, which the caller checks for
    each row like a row rule. `applies_row_rules`: the caller evaluates the rules in the job's spec
    on its rows (`deltaplane.commands.row_rules`).

    Raises:
        InvalidArgumentError: a value out of range, or incompatible arguments.
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
    return records.WriteRequest(
        mode=mode,
        partition_by=None if partition_by is None else list(partition_by),
        cluster_by=None if cluster_by is None else list(cluster_by),
        schema_mode=schema_mode,
        schema_json=schema_json,
        predicate=expr.parse(predicate),
        predicate_sql=first_rows_meet if predicate is None else str(predicate),
        first_rows_meet=first_rows_meet,
        dynamic_partitions=dynamic_partitions,
        read_version=read_version,
        names_seed=names_seed,
        name=name,
        description=description,
        configuration=property_texts(configuration),
        applies_row_rules=applies_row_rules,
        files=file_request(writer_properties, target_file_size),
        commit=commit_request(commit_properties, post_commithook_properties),
        operation="write" if operation is None else operation.request,
        data_change=data_change,
    )
