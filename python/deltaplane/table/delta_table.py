"""`DeltaTable`: one table at one version, opened lazily, read as Arrow.

Converts arguments and results; the Rust core reads the log, prunes files and decodes rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from deltaplane import _native
from deltaplane.advisor import TableUpkeep
from deltaplane.arguments import checked
from deltaplane.exceptions import InvalidArgumentError, InvalidTypeError, TableNotFoundError
from deltaplane.expr import Predicate
from deltaplane.expr.row_filter import row_filter, scan_filter
from deltaplane.io import records
from deltaplane.io.arrow import Scan, check_column_names
from deltaplane.io.storage_options import StorageOptions, version_arguments
from deltaplane.io.tracing import traced
from deltaplane.metastores.named import keep_in_step, table_address
from deltaplane.table.data_files import DataFiles, one_predicate
from deltaplane.table.follow import Followed
from deltaplane.table.maintenance import TableCare
from deltaplane.table.optimize import LayoutCommands
from deltaplane.table.row_commands import RowCommands
from deltaplane.table.serializable_reads import SerializableReads

if TYPE_CHECKING:
    from os import PathLike

    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyarrow.dataset as ds
    import pyarrow.fs as pa_fs

    from deltaplane.advisor.advice import AdviceReport
    from deltaplane.compat import Compatibility
    from deltaplane.io.storage_options import TableUri, VersionLike
    from deltaplane.properties import CommitOperation, CommitProperties, PostCommitHookProperties
    from deltaplane.report import HealthReport
    from deltaplane.report.commit_history import CommitHistory
    from deltaplane.report.table_facts import Metadata, ProtocolVersions
    from deltaplane.schema import Schema
    from deltaplane.table.alter import TableAlterer
    from deltaplane.table.alter_plan import AlterPlan
    from deltaplane.table.key_indexes import KeyIndexes

__all__ = ["DeltaTable"]

_INSTEAD = {
    "create_write_transaction": "use write_deltalake",
    "table_config": "",
}


def _commits(limit: int | None) -> int | None:
    if limit is not None and limit < 1:
        raise InvalidArgumentError(f"limit is a number of commits, not {limit}")
    return limit


def _entries(commits: list[records.HistoryEntry]) -> CommitHistory:
    from deltaplane.report.commit_history import CommitHistory

    return CommitHistory({**c.info, "timestamp": c.timestamp_ms, "version": c.version} for c in commits)


@checked()
class DeltaTable(DataFiles, RowCommands, LayoutCommands, TableCare, TableUpkeep, SerializableReads, Followed):
    """A table at one version. Opening reads the log's head, never the list of files.

    Args:
        table_uri: path or URL (`s3://`, `az://`, `gs://`, `memory://`, `file://`), or a name in a
            catalog (`hive://schema.table`, `glue://schema.table`, docs/catalogs-hive-glue.md).
        version: a version number, or a timestamp (ISO 8601 text or datetime, UTC unless it has a
            zone), which means the newest version at that time. None means the newest version.
        storage_options: access to the store; keys as in deltalake and object_store, and
            `credential_provider`.
        without_files, log_buffer_size, skip_stats: accepted for compatibility with deltalake; they
            have no effect, since files are always loaded lazily.

    A table pickles as its location, version and storage options, credentials included: treat the
    pickle as a secret.

    Raises:
        TableNotFoundError: the location contains no table.
        VersionNotFoundError: the version doesn't exist, or log clean-up removed it.
        UnsupportedFeatureError: the table needs a feature, named in the message, that this version
            doesn't support.
        CorruptLogError, StoreUnavailableError, StoreDeniedError: the log is damaged, or the store
            failed or refused access.

    >>> import pyarrow as pa
    >>> from deltaplane import write_deltalake
    >>> _ = write_deltalake("memory://doc-table/t", pa.table({"x": [1, 2, 3]}))
    >>> table = DeltaTable("memory://doc-table/t")
    >>> table.version(), table.to_pyarrow_table(filters="x > 1")["x"].to_pylist()
    (0, [2, 3])
    """

    def __init__(
        self,
        table_uri: TableUri,
        version: VersionLike | None = None,
        storage_options: StorageOptions | None = None,
        without_files: bool = False,
        log_buffer_size: int | None = None,
        skip_stats: bool = False,
    ) -> None:
        self._location, self._options = table_address(table_uri, storage_options)
        self._snapshot = self._open(version)

    @traced("OPEN")
    def _open(self, version: VersionLike | None) -> _native.Snapshot:
        number, timestamp_ms = version_arguments(version)
        return _native.Snapshot.open(self._location, self._options, number, timestamp_ms)

    # --- which table --------------------------------------------------------------------------------------------------

    @property
    def table_uri(self) -> str:
        """The table's location as a URL, without credentials."""
        return self._snapshot.uri

    @property
    def location(self) -> str:
        """The location as the caller passed it; of a name, the one in the catalog."""
        return self._location

    @property
    def storage_options(self) -> dict[str, str] | None:
        """A copy of the storage options, credentials included."""
        return None if self._options is None else dict(self._options)

    @staticmethod
    def is_deltatable(table_uri: TableUri, storage_options: StorageOptions | None = None) -> bool:
        """Whether the location contains a table; False also if the location doesn't exist.

        >>> DeltaTable.is_deltatable("/no/such/place")
        False
        """
        try:
            return _native.is_table(*table_address(table_uri, storage_options))
        except TableNotFoundError:
            return False

    @classmethod
    @traced("CREATE", 1)
    def create(
        cls,
        table_uri: TableUri,
        schema: Any,
        mode: Literal["error", "append", "overwrite", "ignore"] = "error",
        partition_by: list[str] | str | None = None,
        name: str | None = None,
        description: str | None = None,
        configuration: Mapping[str, str | bool | int | None] | None = None,
        storage_options: StorageOptions | None = None,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
        cluster_by: list[str] | str | None = None,
        operation: CommitOperation | None = None,
    ) -> DeltaTable:
        """Creates a table without rows and opens it; `plan_create` shows the resulting protocol
        beforehand.

        `schema` is a `deltaplane.schema.Schema` or any object with `__arrow_c_schema__`. If a table
        exists, `error` fails, `ignore` opens the table unchanged, and `overwrite` replaces its rows
        and columns, and its name, description and properties if they are passed; `append` is
        refused. `cluster_by` names up to four clustering columns (liquid clustering, P152), instead
        of `partition_by`. `operation` replaces the operation that the history shows for the commit.

        Raises:
            TableAlreadyExistsError: mode is `error` and a table exists.
            InvalidArgumentError, SchemaMismatchError: invalid columns, expressions or properties.
            UnsupportedExpressionError: deltaplane can't evaluate the named expression with Spark's
                result.

        >>> import pyarrow as pa
        >>> DeltaTable.create("memory://doc-create/t", pa.schema({"id": pa.int64()})).version()
        0
        """
        location, options = table_address(table_uri, storage_options, creates=True)
        from deltaplane.write.intent import WriteIntent

        intent = WriteIntent(
            mode=mode,
            partition_by=partition_by,
            cluster_by=cluster_by,
            name=name,
            description=description,
            configuration=configuration,
            schema_mode="overwrite" if mode == "overwrite" else None,
            schema=_declared_schema(schema),
            commit_properties=commit_properties,
            post_commithook_properties=post_commithook_properties,
            operation=operation,
        )
        request = intent.request(location, options)
        if mode != "append":
            _plan(location, options, schema, request)
        _native.create_table(location, options, schema, request)
        keep_in_step(location)
        return cls(location, storage_options=options)

    @classmethod
    def plan_create(
        cls,
        table_uri: TableUri,
        schema: Any,
        mode: Literal["error", "overwrite"] = "error",
        partition_by: list[str] | str | None = None,
        configuration: Mapping[str, str | bool | int | None] | None = None,
        storage_options: StorageOptions | None = None,
    ) -> AlterPlan:
        """Plans `create`: returns the new table's protocol and the engines without read or write
        access. Writes nothing.

        Raises:
            TableAlreadyExistsError, InvalidArgumentError, UnsupportedFeatureError: as in `create`.

        >>> import pyarrow as pa
        >>> properties = {"delta.enableDeletionVectors": "true"}
        >>> plan = DeltaTable.plan_create("memory://doc-plan/t", pa.schema({"id": pa.int64()}), configuration=properties)
        >>> str(plan.after), DeltaTable.is_deltatable("memory://doc-plan/t")
        ('(3, 7: appendOnly, deletionVectors, invariants)', False)
        """
        from deltaplane.write.intent import WriteIntent

        location, options = table_address(table_uri, storage_options, creates=True)
        intent = WriteIntent(
            mode=mode,
            partition_by=partition_by,
            configuration=configuration,
            schema_mode="overwrite" if mode == "overwrite" else None,
            schema=_declared_schema(schema),
        )
        request = intent.request(location, options)
        from deltaplane.compat import Protocol
        from deltaplane.table.alter_plan import AlterPlan

        job = _plan(location, options, schema, request)
        before, after = Protocol.of(job.protocols.before), Protocol.of(job.protocols.after)
        return AlterPlan.between(before, after, operation="CREATE TABLE", changed=True, version=None)

    # --- which version ------------------------------------------------------------------------------------------------

    def version(self) -> int:
        """The version number of this object's snapshot."""
        return self._snapshot.version

    def load_as_version(self, version: VersionLike) -> None:
        """Moves the object to another version: a version number, or the newest version at a
        timestamp (ISO 8601 text or datetime, UTC by default).

        Raises:
            VersionNotFoundError: the version doesn't exist or was removed; the object stays at its
                version.
        """
        self._snapshot = self._open(version)

    @traced("REFRESH")
    def update_incremental(self) -> None:
        """Moves to the newest version; reads only the commits after the current one."""
        self._snapshot = self._snapshot.update()

    def move_to_own_commit(self, version: int) -> None:
        """Moves to a version that this process just committed, at least. Costs no request if the
        process still has the commit in memory; otherwise moves to the newest version."""
        self._snapshot = self._snapshot.after_own_commit(version)

    @traced("HISTORY")
    def history(self, limit: int | None = None) -> CommitHistory:
        """The `commitInfo` of each commit, newest first: `version`, `timestamp` (ms), `operation`,
        `operationParameters`, `operationMetrics` and more. At most `limit` entries; commits removed
        from the log are missing.

        Returns:
            A list of dicts, whose `to_arrow()` is the table that `DESCRIBE HISTORY` shows.

        >>> import pyarrow as pa
        >>> from deltaplane import write_deltalake
        >>> _ = write_deltalake("memory://doc-commits/t", pa.table({"x": [1]}))
        >>> DeltaTable("memory://doc-commits/t").history().to_arrow().select(["version", "operation"]).to_pylist()
        [{'version': 0, 'operation': 'WRITE'}]
        """
        return _entries(self._snapshot.history(_commits(limit)))

    @staticmethod
    def history_of(
        table_uri: TableUri, limit: int | None = None, storage_options: StorageOptions | None = None
    ) -> CommitHistory:
        """Reads the newest version's `history` without opening the table: of a long log only the
        newest commits are read. Works also for tables with unsupported features.

        Raises:
            TableNotFoundError: the location contains no table.
            CorruptLogError, StoreUnavailableError, StoreDeniedError: the log is damaged, or the
                store failed or refused access.

        >>> import pyarrow as pa
        >>> from deltaplane import write_deltalake
        >>> for _ in range(3):
        ...     _ = write_deltalake("memory://doc-history/t", pa.table({"x": [1]}), mode="append")
        >>> [entry["version"] for entry in DeltaTable.history_of("memory://doc-history/t", 2)]
        [2, 1]
        """
        location, options = table_address(table_uri, storage_options)
        return _entries(_native.log_history(location, options, _commits(limit)))

    def detail(self) -> pa.Table:
        """Describes this version in one row with the columns of delta-spark's `DESCRIBE DETAIL`:
        `format`, `id`, `name`, `description`, `location`, `createdAt`, `lastModified`,
        `partitionColumns`, `clusteringColumns`, `numFiles`, `sizeInBytes`, `properties`,
        `minReaderVersion`, `minWriterVersion`, `tableFeatures`.

        >>> import pyarrow as pa
        >>> from deltaplane import write_deltalake
        >>> _ = write_deltalake("memory://doc-detail/t", pa.table({"x": [1]}), name="numbers")
        >>> DeltaTable("memory://doc-detail/t").detail().select(["format", "name", "numFiles"]).to_pylist()
        [{'format': 'delta', 'name': 'numbers', 'numFiles': 1}]
        """
        from deltaplane.report.describe import detail_row

        return detail_row(self)

    def transaction_version(self, app_id: str) -> int | None:
        """The last version that the application committed (`CommitProperties.app_transactions`), or
        None."""
        return self._snapshot.transactions().get(app_id)

    def domain_metadata(self) -> dict[str, str]:
        """The table's domains: name → configuration, mostly JSON (P151). The protocol defines the
        names that begin with `delta.`.

        >>> import pyarrow as pa
        >>> table = DeltaTable.create("memory://doc-domain/t", pa.schema({"id": pa.int64()}), cluster_by="id")
        >>> list(table.domain_metadata())
        ['delta.clustering']
        """
        return self._snapshot.domains()

    def set_domain_metadata(self, domain: str, configuration: str) -> None:
        """Commits a new configuration for a user's domain, replacing the old one; the object moves
        to the committed version (P151).

        Raises:
            InvalidArgumentError: an empty name, or a name that the protocol reserves (`delta.…`).
            UnsupportedFeatureError: the table lacks the feature `domainMetadata`.
            DeltaConcurrentModificationException: another writer set the same domain first.

        >>> import pyarrow as pa
        >>> table = DeltaTable.create("memory://doc-set-domain/t", pa.schema({"id": pa.int64()}), cluster_by="id")
        >>> table.set_domain_metadata("app.settings", '{"level": 3}')
        >>> table.domain_metadata()["app.settings"]
        '{"level": 3}'
        """
        self._snapshot = self._snapshot.set_domain(domain, configuration)

    def remove_domain_metadata(self, domain: str) -> None:
        """Commits the removal of a user's domain; the object moves to the committed version (P151).

        Raises:
            InvalidArgumentError: the table has no such domain, or the protocol reserves its name.
            DeltaConcurrentModificationException: another writer set the same domain first.
        """
        self._snapshot = self._snapshot.set_domain(domain, None)

    # --- what it is ---------------------------------------------------------------------------------------------------

    def schema(self) -> Schema:
        """The table's columns: `fields`, `to_json()`, `to_arrow()`, and an Arrow schema for any
        Arrow library."""
        from deltaplane.schema import Schema

        return Schema.from_json(self._snapshot.schema.to_json())

    def metadata(self) -> Metadata:
        """Id, name, description, partition columns, time of creation and properties."""
        from deltaplane.report.table_facts import Metadata

        return Metadata(**self._snapshot.info.to_dict())

    def protocol(self) -> ProtocolVersions:
        """The protocol versions and table features."""
        from deltaplane.report.table_facts import ProtocolVersions

        said = self._snapshot.protocol
        return ProtocolVersions(
            said.min_reader_version, said.min_writer_version, said.writer_features, said.reader_features
        )

    def compatibility(self, properties: Mapping[str, str] | None = None) -> Compatibility:
        """The engines and versions that can read and write the table, and the features that the
        others lack.

        `properties` also plans setting these properties: the protocol `after`, and the engines that
        would lose read or write access. Nothing is committed.

        Raises:
            InvalidArgumentError, UnsupportedFeatureError: the table can't have these properties.

        >>> import pyarrow as pa
        >>> from deltaplane import write_deltalake
        >>> _ = write_deltalake("memory://doc-compatibility/t", pa.table({"x": [1]}))
        >>> table = DeltaTable("memory://doc-compatibility/t")
        >>> found = table.compatibility({"delta.enableDeletionVectors": "true"})
        >>> all(verdict.reads for verdict in found.engines), found.unreadable_for[0]
        (True, 'delta-spark 1.0 to 1.1')
        """
        from deltaplane import compat

        now = compat.Protocol.of(self._snapshot.protocol)
        verdicts = compat.verdicts(now, ours=self._snapshot.write_refusal or "")
        if properties is None:
            return compat.Compatibility(now, verdicts)
        plan = self.alter.set_table_properties(properties, dry_run=True)
        unreadable, unwritable = compat.newly_excluded(now, plan.after)
        return compat.Compatibility(now, verdicts, plan.after, tuple(unreadable), tuple(unwritable))

    @traced("REPORT")
    def report(
        self,
        path: str | PathLike[str] | None = None,
        *,
        commits: int = 10_000,
        advice: AdviceReport | None = None,
    ) -> HealthReport:
        """A health report: files, growth, commits, partitions, clustering, deleted rows, log,
        engines, and advice.

        Args:
            path: file for the report as one HTML page (needs the extra `deltaplane[report]`); None
                writes no page.
            commits: number of the newest commits to analyse.
            advice: the result of `advise` for this version; None derives advice from the report's
                own figures.

        Returns:
            `facts` as objects, `to_dict()` as plain values, and `to_html()` and `write(path)` for
            the page.

        Cost: reads the log and no data file. Memory holds one or two columns of the file list and
        the text of some commits; the statistics of all files pass through a temporary file. The
        page's size doesn't depend on the table's size.

        Raises:
            ImportError: `path` is set and jinja2 isn't installed.
            InvalidArgumentError: the advice is for another version or table.
            CorruptLogError, StoreUnavailableError, StoreDeniedError: the log is damaged, or the
                store failed or refused access.

        >>> import pyarrow as pa
        >>> from deltaplane import write_deltalake
        >>> for x in (1, 5):
        ...     _ = write_deltalake("memory://doc-report/t", pa.table({"x": [x, x + 2]}), mode="append")
        >>> facts = DeltaTable("memory://doc-report/t").report().facts
        >>> facts.files.count, facts.files.rows, [(c.name, c.depth.average) for c in facts.columns]
        (2, 4, [('x', 1.0)])
        """
        from deltaplane.report import health_report

        health = health_report(self, commits, advice)
        if path is not None:
            health.write(path)
        return health

    # --- its changes --------------------------------------------------------------------------------------------------

    @property
    def alter(self) -> TableAlterer:
        """Changes of the table's columns, properties and protocol, one commit each."""
        from deltaplane.table.alter import TableAlterer

        return TableAlterer(self)

    @property
    def index(self) -> KeyIndexes:
        """Indexes of keys, by which plans find the files of a value."""
        from deltaplane.table.key_indexes import KeyIndexes

        return KeyIndexes(self)

    # --- its number of rows -------------------------------------------------------------------------------------------

    @traced("PLAN")
    def count(self) -> int:
        """The number of rows, from statistics if every file has them, otherwise by reading files.

        >>> import pyarrow as pa
        >>> from deltaplane import write_deltalake
        >>> _ = write_deltalake("memory://doc-count/t", pa.table({"x": [1, 2, 3]}))
        >>> DeltaTable("memory://doc-count/t").count()
        3
        """
        records = self._snapshot.num_records()
        if records is not None:
            return records
        return sum(batch.num_rows for batch in self.scan(columns=[]))

    @traced("CHECKPOINT")
    def create_checkpoint(self) -> None:
        """Writes a checkpoint of this version, so that opening the table needs no older commits.

        The checkpoint is classic, or has its file actions in sidecars if `delta.checkpointPolicy`
        is `v2` (P056). Large sidecars that no commit since the last checkpoint touched are
        referenced again instead of being rewritten.
        """
        self._checkpoint()

    def _checkpoint(self) -> dict[str, Any]:
        return self._snapshot.checkpoint().to_dict()

    def cleanup_metadata(self) -> None:
        """Deletes the log files that only versions older than `delta.logRetentionDuration` need
        (P063, P064).

        Retains the newest sound checkpoint that is old enough, its commit and all later files.
        Deletes nothing without such a checkpoint, or if `checkpointProtection` forbids it (P157).
        Runs automatically after each automatic checkpoint unless `delta.enableExpiredLogCleanup` is
        false.

        Raises:
            CorruptFileError: a retained checkpoint can't be read, so the sidecars that it needs are
                unknown.

        >>> import pyarrow as pa
        >>> from deltaplane import write_deltalake
        >>> _ = write_deltalake("memory://doc-cleanup/t", pa.table({"x": [1]}))
        >>> DeltaTable("memory://doc-cleanup/t").cleanup_metadata()
        """
        self._snapshot.cleanup_metadata()

    def compact_logs(self, starting_version: int, ending_version: int) -> None:
        """Writes one compacted file, which readers may read instead of the commits of these
        versions; both bounds are inclusive (P012).

        Raises:
            InvalidArgumentError: fewer than two versions, or versions beyond the newest.
            VersionNotFoundError: log clean-up removed a commit of the range.

        >>> import pyarrow as pa
        >>> from deltaplane import write_deltalake
        >>> for _ in range(3):
        ...     _ = write_deltalake("memory://doc-compact/t", pa.table({"x": [1]}), mode="append")
        >>> DeltaTable("memory://doc-compact/t").compact_logs(0, 2)
        >>> DeltaTable("memory://doc-compact/t").count()
        3
        """
        if not 0 <= starting_version < ending_version:
            raise InvalidArgumentError(f"{starting_version} to {ending_version} aren't at least two versions")
        self._snapshot.compact_logs(starting_version, ending_version)

    # --- its rows -----------------------------------------------------------------------------------------------------

    def scan(self, columns: list[str] | None = None, predicate: Predicate | None = None) -> Scan:
        """A lazy scan of the matching rows, with these columns in this order.

        Metadata columns are read only if `columns` names them: `_file` (decoded path) and `_row`,
        the row's position in its file (P124); in tables with row tracking also `_row_id` and
        `_row_commit_version` (P143). A table's own column of such a name takes precedence; the
        names `__deltaplane_path`, `__deltaplane_position`, `__deltaplane_id` and
        `__deltaplane_version` then show the metadata.

        `predicate` is Spark SQL text or tuples: files, row groups and pages that can't match are
        skipped; the remaining rows are filtered exactly.

        Raises:
            InvalidArgumentError: an unknown column.
            UnsupportedExpressionError: deltaplane can't evaluate the named expression with Spark's
                result.
            FileMissingError, CorruptFileError: while reading; the message names the file.

        >>> import pyarrow as pa
        >>> from deltaplane import write_deltalake
        >>> _ = write_deltalake("memory://doc-scan/t", pa.table({"x": [1, 2, 3], "y": ["a", "b", None]}))
        >>> DeltaTable("memory://doc-scan/t").scan(["y"], "x >= 2").to_arrow()["y"].to_pylist()
        ['b', None]
        """
        return self._rows(columns, predicate)

    def _rows(self, columns: list[str] | None, *predicates: Predicate | None) -> Scan:
        row_filter = scan_filter(self._snapshot, *predicates)
        return Scan(row_filter.rows(columns, self._snapshot.scan, self.table_uri), self._location)

    def load_cdf(
        self,
        starting_version: int = 0,
        ending_version: int | None = None,
        starting_timestamp: str | None = None,
        ending_timestamp: str | None = None,
        columns: list[str] | None = None,
        predicate: str | None = None,
        allow_out_of_range: bool = False,
    ) -> Scan:
        """A lazy scan of the rows that changed between two versions, both inclusive.

        The result has the columns of the last version, and `_change_type` (`insert`, `delete`,
        `update_preimage` or `update_postimage`), `_commit_version` and `_commit_timestamp`. The
        changes of a version come from its change files if it has any, otherwise from its added and
        removed files (protocol section 7.4, P131).

        Args:
            starting_version: the first version.
            ending_version: the last version, limited to the newest one. None means this object's
                version.
            starting_timestamp: starts with the first version at or after this timestamp (ISO 8601,
                UTC by default). Ignored if `starting_version` is set.
            ending_timestamp: ends with the last version at or before this timestamp. Ignored if
                `ending_version` is set.
            columns: the selected columns, in this order; default all.
            predicate: Spark SQL text over the table's columns and the feed's own columns.
            allow_out_of_range: whether an empty range yields no rows instead of an error.

        Raises:
            VersionNotFoundError: the range contains no version, or log clean-up removed commits of
                it.
            InvalidArgumentError: a version of the range has no change data feed
                (`delta.enableChangeDataFeed`); an unknown column; an end before the start.
            SchemaMismatchError: a column was dropped or changed its type within the range.

        >>> import pyarrow as pa
        >>> from deltaplane import write_deltalake
        >>> on = {"delta.enableChangeDataFeed": "true"}
        >>> _ = write_deltalake("memory://doc-cdf/t", pa.table({"x": [1, 2]}), configuration=on)
        >>> _ = write_deltalake("memory://doc-cdf/t", pa.table({"x": [3]}), mode="overwrite")
        >>> changes = DeltaTable("memory://doc-cdf/t").load_cdf(1, columns=["_change_type", "x"])
        >>> sorted(tuple(row.values()) for row in changes.to_arrow().to_pylist())
        [('delete', 1), ('delete', 2), ('insert', 3)]
        """
        # A starting timestamp replaces the default starting version.
        start = None if starting_timestamp is not None and starting_version == 0 else starting_version
        from deltaplane.table.changes import change_range

        versions = change_range(
            self._snapshot,
            start,
            ending_version,
            starting_timestamp,
            ending_timestamp,
            allow_out_of_range=allow_out_of_range,
        )
        feed = partial(versions.last.changes, versions.first)
        chosen = row_filter([predicate], versions.last.change_schema, lambda tree: feed([], tree))
        return Scan(chosen.rows(columns, feed, self.table_uri), self._location)

    def to_pyarrow_table(
        self,
        partitions: Predicate | None = None,
        columns: list[str] | None = None,
        filesystem: None = None,
        filters: Any = None,
    ) -> pa.Table:
        """Reads the rows into a `pyarrow.Table`.

        `partitions` and `filters` are Spark SQL text or tuples, combined by AND; `filters` may also
        be a `pyarrow.compute.Expression`, which is applied after reading. `filesystem` must be
        None: `storage_options` configure the store.
        """
        if filesystem is not None:
            raise InvalidArgumentError("files are read by deltaplane's own store: use storage_options, not filesystem")
        if _is_arrow_expression(filters):
            table = self.scan(predicate=partitions).to_arrow().filter(filters)
            return table if columns is None else table.select(columns)
        return self._rows(columns, partitions, filters).to_arrow()

    def to_pyarrow_dataset(
        self,
        partitions: Predicate | None = None,
        filesystem: pa_fs.FileSystem | None = None,
        parquet_read_options: ds.ParquetReadOptions | None = None,
        schema: pa.Schema | None = None,
        as_large_types: bool = False,
        file_pruning_predicate: Predicate | None = None,
    ) -> ds.FileSystemDataset:
        """The files that may hold matching rows as a dataset of pyarrow, which reads them itself.

        Each fragment has its partition's values and what the log states of its columns (bounds,
        nulls), so that pyarrow and the libraries above it skip files by their own filters. `scan`
        reads faster. Files with deletion vectors or mapped columns are rendered when pyarrow opens
        them: all their columns are decoded, and memory holds the rows of the open files.

        Args:
            partitions, file_pruning_predicate: two names for Spark SQL or tuples: files without
                matching rows are left out. Rows aren't filtered.
            filesystem: a file system of pyarrow whose root is the table; default this table's
                store.
            parquet_read_options, schema: as in `pyarrow.dataset`.
            as_large_types: whether strings, binaries and lists have 64-bit offsets.

        Raises:
            UnsupportedFeatureError: the table has files outside of its directory; or `filesystem`
                is given, and files have deletion vectors or mapped columns.

        >>> import pyarrow as pa, pyarrow.dataset as ds
        >>> from deltaplane import write_deltalake
        >>> for x in (1, 2, 3):
        ...     _ = write_deltalake("memory://doc-dataset/t", pa.table({"x": [x]}), mode="append")
        >>> dataset = DeltaTable("memory://doc-dataset/t").to_pyarrow_dataset()
        >>> len(list(dataset.get_fragments(ds.field("x") > 2))), dataset.to_table(filter=ds.field("x") > 2)["x"].to_pylist()
        (1, [3])
        """
        from deltaplane.table.arrow_dataset import arrow_dataset

        predicate = one_predicate(partitions, file_pruning_predicate)
        return arrow_dataset(self, predicate, filesystem, parquet_read_options, schema, as_large_types)

    def to_pandas(
        self,
        partitions: Predicate | None = None,
        columns: list[str] | None = None,
        filesystem: None = None,
        filters: Any = None,
        types_mapper: Callable[[pa.DataType], Any] | None = None,
    ) -> pd.DataFrame:
        """Reads the rows into a pandas DataFrame; arguments as in `to_pyarrow_table`,
        `types_mapper` as in pyarrow."""
        table = self.to_pyarrow_table(partitions, columns, filesystem, filters)
        frame: pd.DataFrame = table.to_pandas(types_mapper=types_mapper)
        return frame

    def to_polars(self, columns: list[str] | None = None, predicate: Predicate | None = None) -> pl.DataFrame:
        """Reads the rows into a Polars DataFrame; arguments as in `scan`."""
        return self.scan(columns, predicate).to_polars()

    def to_reader(self, columns: list[str] | None = None, predicate: Predicate | None = None) -> pa.RecordBatchReader:
        """Reads the rows batch by batch, as a `pyarrow.RecordBatchReader`; arguments as in
        `scan`."""
        return self.scan(columns, predicate).to_reader()

    @traced("SCAN")
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._snapshot.scan().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._snapshot.arrow_schema().__arrow_c_schema__()

    # --- as a Python object -------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"DeltaTable({self.table_uri!r}, version={self.version()})"

    def _repr_html_(self) -> str:
        from deltaplane.io.html import facts_html

        about = self.metadata()
        facts = {
            "table": self.table_uri,
            "version": self.version(),
            "name": about.name,
            "description": about.description,
            "partitioned by": ", ".join(about.partition_columns),
            "properties": ", ".join(f"{key} = {value}" for key, value in about.configuration.items()),
        }
        shown = {name: value for name, value in facts.items() if value not in (None, "")}
        return facts_html(shown) + self.schema()._repr_html_()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeltaTable):
            return NotImplemented
        return self.table_uri == other.table_uri and self.version() == other.version()

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._location, self.version(), self._options)

    if not TYPE_CHECKING:
        # A checker that saw it would take every misspelt method for one that exists.
        def __getattr__(self, name: str) -> NoReturn:
            """Python calls this only for unknown attributes."""
            if name in _INSTEAD:
                advice = f": {_INSTEAD[name]}" if _INSTEAD[name] else ""
                raise AttributeError(f"DeltaTable.{name} isn't in this version of deltaplane{advice}")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def _is_arrow_expression(filters: Any) -> bool:
    return type(filters).__module__.startswith("pyarrow.") and type(filters).__name__ == "Expression"


def _declared_schema(schema: Any) -> _native.TableSchema | None:
    """The core's form of a deltaplane schema, which has more details than an Arrow schema; None for
    an Arrow schema.

    Raises:
        InvalidTypeError: neither a deltaplane schema nor an Arrow schema.
    """
    from deltaplane.schema import Schema

    if not hasattr(schema, "__arrow_c_schema__"):
        raise InvalidTypeError(
            f"schema is a deltaplane.Schema or an object with __arrow_c_schema__, such as pyarrow.schema, not "
            f"{type(schema).__name__}"
        )
    return _native.TableSchema(schema.to_json()) if isinstance(schema, Schema) else None


def _plan(
    location: str, options: dict[str, str] | None, schema: Any, request: records.WriteRequest
) -> _native.WriteJob:
    """Plans a new table, whose schema may declare expressions."""
    check_column_names(schema)
    job = _native.WriteJob.begin(location, options, schema, request)
    if job.skip is None:
        from deltaplane.write.declarations import check_declared

        check_declared(job.spec, location)
    return job
