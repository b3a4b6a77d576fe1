"""Owns what a write or a command on rows asks for, how its files are to be written, and what its
commit did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltaplane.io.records.record import Record

if TYPE_CHECKING:
    from deltaplane._native import Predicate, TableSchema


class BloomFilterChoice(Record):
    """Whether a column of new files gets a Bloom filter; `column` is None for all columns without a
    choice of their own. `fpp` is the probability of a false answer, `ndv` the most distinct values
    of a row group."""

    column: str | None
    enabled: bool
    fpp: float | None = None
    ndv: int | None = None


class FileRequest(Record):
    """How data files are written; None means as the table's properties say. The target size is in
    bytes. Bloom filters are those of the table's properties, changed by these choices. `encodings`
    are those of columns by their dotted names; such columns have no dictionary."""

    target_file_size: int | None = None
    compression: str | None = None
    row_group_rows: int | None = None
    bloom_filters: Sequence[BloomFilterChoice] = ()
    encodings: Mapping[str, str] = {}


class CommitRequest(Record):
    """The settings of a commit: free text and free fields of its `commitInfo`, versions of
    applications (`app_id` and `version`), of which one that is in the table skips the commit.
    `delta_rs`: follows delta-rs where its rules differ, with the settings of these rules."""

    user_metadata: str | None = None
    commit_info: Mapping[str, Any] = {}
    txn: Sequence[Mapping[str, Any]] = ()
    checkpoint: bool | None = None
    cleanup: bool | None = None
    max_commit_retries: int | None = None
    engine_info: str | None = None
    delta_rs: Mapping[str, bool] | None = None


class WriteRequest(Record):
    """A write: what to do if a table exists, what a new one has, how files are written (`files`),
    what the commit carries (`commit`), and the operation that it belongs to.

    `schema` has the rows' columns, in place of their Arrow schema. `session_defaults` names the
    properties in `configuration` that are a session's defaults.
    """

    mode: str
    configuration: dict[str, str]
    files: FileRequest
    commit: CommitRequest
    operation: Mapping[str, Any]
    partition_by: list[str] | None = None
    cluster_by: list[str] | None = None
    schema_mode: str | None = None
    schema: TableSchema | None = None
    predicate: Predicate | None = None
    predicate_sql: str | None = None
    first_rows_meet: str | None = None
    dynamic_partitions: bool = False
    read_version: int | None = None
    name: str | None = None
    description: str | None = None
    names_seed: str | None = None
    applies_row_rules: bool = False
    data_change: bool = True
    session_defaults: Sequence[str] = ()


class IncomingRequest(Record):
    """The columns of a command's new values, and whether the table gets those that it lacks."""

    schema: TableSchema
    merge_schema: bool = False


class RewriteRequest(Record):
    """A command that changes rows of live files: its name and parameters in the history, the
    condition that every row meets which it reads, and the columns of rows that it brings."""

    operation: str
    operation_parameters: dict[str, Any]
    files: FileRequest
    commit: CommitRequest
    data_change: bool = True
    predicate: Predicate | None = None
    reads_others: bool = False
    incoming: IncomingRequest | None = None
    remove_column_mapping: bool = False
    dry_run: bool = False


class LayoutRequest(Record):
    """OPTIMIZE: which rows it moves, by which columns they are ordered, and the most bytes that it
    rewrites."""

    rewrite: RewriteRequest
    most_deleted: float
    columns: list[str]
    curve: str | None = None
    full: bool = False
    auto_min_files: int | None = None
    most_bytes: int | None = None


class RowCheck(Record):
    """A condition that every row must meet, and its name."""

    name: str
    sql: str


class ColumnRule(Record):
    """An expression that gives a column's value."""

    column: str
    sql: str


class RowRules(Record):
    """The rules for the rows of a write, in Spark SQL; `only` is the condition of an overwrite that
    finds no table."""

    checks: list[RowCheck]
    generated: list[ColumnRule]
    defaults: list[ColumnRule]
    only: str | None = None

    def __bool__(self) -> bool:
        return bool(self.checks or self.generated or self.defaults or self.only)


class Fill(Record):
    """An identity column: its next value, and the step from one value to the following."""

    column: str
    next: int
    step: int


class BloomFilter(Record):
    """The Bloom filter of a column, whose path has logical names: the probability of its false
    answers, and the most distinct values of a row group (None: its rows)."""

    column: list[str]
    fpp: float
    ndv: int | None


class WriteSpec(Record):
    """What writers of a job's files must know; it pickles, so that tasks write files elsewhere.

    `declares` says that the commit itself declares columns and rules, which are then to be checked.
    """

    schema: TableSchema
    partition_columns: list[str]
    mapping: str
    partition_columns_in_files: bool
    shred_variants: bool
    target_file_size_bytes: int | None
    row_group_rows: int | None
    compression: str | None
    bloom_filters: list[BloomFilter]
    encodings: dict[str, str]
    stats_columns: dict[str, Any]
    as_delta_rs: bool
    string_prefix_length: int
    identity: list[Fill]
    row_rules: RowRules
    declares: bool
    clustered_by: list[list[str]]
    cluster_from_bytes: int


class StoredIds(Record):
    """The physical columns in which rewritten rows keep their id and their version."""

    id: str
    version: str
    for_iceberg: bool = False


class TaskSpec(Record):
    """What a task must know of the table and of the command whose rows it writes or deletes."""

    write: WriteSpec
    schema: TableSchema
    partition_columns: list[str]
    mapping: str
    ids: StoredIds | None
    records_changes: bool
    by_vector: bool
    dry_run: bool


class CommitResult(Record):
    """What a write's commit did; metrics have delta-spark's names."""

    version: int
    attempts: int
    metrics: dict[str, Any]
    has_follow_up: bool


class OptimizeSummary(Record):
    """What OPTIMIZE has to do: groups of files whose rows are moved together."""

    groups: int
    files: int
    bytes: int
    partitions: int
    considered_files: int
    most_files_in_group: int
    target_bytes: int
    ordered: bool
    strategy: str


class OptimizeCommit(Record):
    """A commit of groups: bytes of each old and each new file."""

    version: int
    metrics: dict[str, Any]
    removed: list[int]
    added: list[int]
