"""The arguments of both write entry points, checked, and their conversion to the core's request.

Uses neither Arrow data nor data frames.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypedDict

from deltaplane import _native, expr
from deltaplane.exceptions import InvalidArgumentError
from deltaplane.expr import Predicate
from deltaplane.io import records
from deltaplane.io.storage_options import StorageOptions, version_arguments
from deltaplane.properties import (
    CommitOperation,
    CommitProperties,
    PostCommitHookProperties,
    PropertiesWithDefaults,
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
    "replaced_rows",
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

    `schema` has the rows' columns, in place of their Arrow schema. Processes that plan the same
    write make the same physical names from `names_seed`. `applies_row_rules`: the caller evaluates
    the rules in the job's spec on its rows (`deltaplane.commands.row_rules`).

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
    schema: _native.TableSchema | None = None
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
    names_seed: str | None = None
    applies_row_rules: bool = True
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
        """The request for the Rust core.

        For a missing table an overwrite's predicate selects no rows to replace: the caller checks
        each new row by it, like by a row rule.

        Raises:
            InvalidArgumentError: a value out of range, or incompatible arguments.
        """
        self._check_modes()
        partition_by = [self.partition_by] if isinstance(self.partition_by, str) else self.partition_by
        cluster_by = [self.cluster_by] if isinstance(self.cluster_by, str) else self.cluster_by
        selects = isinstance(self.predicate, str) and self.mode == "overwrite"
        only_new = selects and not _native.is_table(location, options)
        predicate_text = None if self.predicate is None else str(self.predicate)
        properties = self.configuration
        return records.WriteRequest(
            mode=self.mode,
            partition_by=None if partition_by is None else list(partition_by),
            cluster_by=None if cluster_by is None else list(cluster_by),
            schema_mode=self.schema_mode,
            schema=self.schema,
            predicate=None if only_new else expr.parse(self.predicate),
            predicate_sql=predicate_text,
            first_rows_meet=predicate_text if only_new else None,
            dynamic_partitions=self.partition_overwrite_mode == "dynamic",
            read_version=self.read_version,
            names_seed=self.names_seed,
            name=self.name,
            description=self.description,
            configuration=property_texts(properties),
            session_defaults=properties.session_defaults if isinstance(properties, PropertiesWithDefaults) else [],
            applies_row_rules=self.applies_row_rules,
            files=file_request(self.writer_properties, self.target_file_size),
            commit=commit_request(self.commit_properties, self.post_commithook_properties),
            operation=(self.operation or CommitOperation.write({})).request,
            data_change=self.data_change,
        )

    def _check_modes(self) -> None:
        if self.mode not in ("error", "append", "overwrite", "ignore"):
            raise InvalidArgumentError(f"mode is error, append, overwrite or ignore, not {self.mode!r}")
        if self.schema_mode not in (None, "merge", "overwrite"):
            raise InvalidArgumentError(f"schema_mode is None, merge or overwrite, not {self.schema_mode!r}")
        if self.schema_mode == "overwrite" and self.mode != "overwrite":
            raise InvalidArgumentError("schema_mode='overwrite' replaces all rows too: it needs mode='overwrite'")
        if self.predicate is not None and self.mode != "overwrite":
            raise InvalidArgumentError("a predicate says which rows to replace: it needs mode='overwrite'")


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
