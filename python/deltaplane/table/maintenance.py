"""The methods of `DeltaTable` that maintain its files and versions, under deltalake's names;
`deltaplane.commands` does the work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast, overload

from deltaplane import _native
from deltaplane.arguments import checked
from deltaplane.exceptions import InvalidArgumentError
from deltaplane.io import records
from deltaplane.io.storage_options import StorageOptions
from deltaplane.io.tracing import traced
from deltaplane.metastores.named import keep_in_step, table_address

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa

    from deltaplane.commands.progress import OnProgress
    from deltaplane.io.storage_options import TableUri
    from deltaplane.properties import CommitProperties, PostCommitHookProperties
    from deltaplane.table.results import ClonedFiles, ForgottenHistory, Problem, RemovedFiles, RestoredFiles

__all__ = ["TableCare"]


@checked(keys="Sequence[str] | str | None", retention_hours="Number | None")
class TableCare:
    """VACUUM, RESTORE, FSCK, CLONE, GENERATE and forgetting the history. The object moves to the
    version that a command commits."""

    _snapshot: _native.Snapshot
    _location: str
    _options: dict[str, str] | None

    @traced("VACUUM")
    def vacuum(
        self,
        retention_hours: float | None = None,
        dry_run: bool = True,
        enforce_retention_duration: bool = True,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
        full: bool = False,
        keep_versions: list[int] | None = None,
        inventory: Any = None,
        progress: OnProgress | None = None,
    ) -> list[str]:
        """Deletes files that no version within the retention needs, or lists them in a dry run.

        Uses the newest version. Never deletes live files with their deletion vectors, files removed
        within the retention, files outside the table's directory (a shallow clone's), or names that
        begin with `_` or `.` other than change files and partition directories (P044, P125, P200).

        Args:
            retention_hours: retention of removed files; None means
                `delta.deletedFileRetentionDuration` (a week).
            dry_run: whether to only list the files.
            enforce_retention_duration: whether to refuse a retention below the table's. Set it to
                False only if nobody else reads or writes the table, since files of uncommitted
                writes would be deleted as well.
            full: whether to list the table's directory, which also deletes files that no commit
                names and that are older than the retention, and on local file systems removes the
                directories that have had no file for as long (delta-spark's FULL). Otherwise
                deletes only the files that the log records as removed (LITE).
            keep_versions: versions whose files are retained regardless of age.
            inventory: rows with the columns `path`, `length`, `isDir` and `modificationTime` (ms
                since 1970), which replace the listing of the directory: Arrow data or a list of
                dicts. Paths outside of the table are ignored.
            commit_properties, post_commithook_properties: see these classes.
            progress: called from any thread with a `CareProgress`: the number of examined files,
                then of deleted files. An exception that it raises ends the vacuum; another call
                completes it.

        Returns:
            Paths of the files, relative to the table. Two commits record the deletion, VACUUM START
            and VACUUM END, with delta-spark's parameters and metrics; nothing is committed if there
            is no file to delete. Another call completes a vacuum that failed.

        Cost: 8 bytes of memory for each retained file, and the paths of the deleted ones.

        Raises:
            InvalidArgumentError: a retention below the table's, or an inventory without the
                required columns.
            VersionNotFoundError: a version of `keep_versions` doesn't exist.
            UnsupportedFeatureError: the table needs a feature that this version doesn't support
                (P150).

        >>> import pyarrow as pa
        >>> from deltaplane import DeltaTable, write_deltalake
        >>> for x in (1, 2):
        ...     _ = write_deltalake("memory://doc-vacuum/t", pa.table({"x": [x]}), mode="overwrite")
        >>> table = DeltaTable("memory://doc-vacuum/t")
        >>> table.vacuum()
        []
        >>> len(table.vacuum(0, dry_run=False, enforce_retention_duration=False))
        1
        >>> [entry["operation"] for entry in table.history(2)]
        ['VACUUM END', 'VACUUM START']
        """
        from deltaplane.commands.vacuum import Vacuum, vacuum
        from deltaplane.properties import commit_request

        what = Vacuum(retention_hours, enforce_retention_duration, full, tuple(keep_versions or ()), dry_run)
        commit = commit_request(commit_properties, post_commithook_properties)
        result = vacuum(self._snapshot, what, inventory, commit, progress=progress)
        if result.version is not None:
            self._snapshot = self._snapshot.update()
        return result.paths

    @traced("RESTORE")
    def restore(
        self,
        target: int | datetime | str,
        *,
        ignore_missing_files: bool = False,
        protocol_downgrade_allowed: bool = False,
        dry_run: bool = False,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
        ignore_unfinished_vacuum: bool = False,
        progress: OnProgress | None = None,
    ) -> RestoredFiles:
        """Commits a new version with an older version's files, columns and properties; the object
        moves to the committed version.

        Not restored are: allocated identity values, column ids, row ids, protected checkpoints
        (P157), users' domains, and, unless allowed, the protocol (P200). The commit names only
        files in which the versions differ.

        Args:
            target: a version, or a timestamp (ISO 8601 text or datetime, UTC by default), which
                means the newest version at that time.
            ignore_missing_files: whether to leave out vacuumed files instead of failing.
            protocol_downgrade_allowed: whether to restore the protocol, too.
            dry_run: whether to return the metrics without committing; fails as a restore would,
                except for conflicts with other writers.
            commit_properties, post_commithook_properties: see these classes.
            ignore_unfinished_vacuum: whether to ignore a VACUUM that started within a day and
                committed no end, because its process is known to have died. A running VACUUM could
                delete a restored file.
            progress: called with a `CareProgress`: the number of restored files whose existence was
                checked. An exception that it raises ends the restore without a change.

        Returns:
            The commit's metrics under delta-spark's names: `numRestoredFiles`, `numRemovedFiles`,
            `restoredFilesSize`, `removedFilesSize`, `numOfFilesAfterRestore`,
            `tableSizeAfterRestore` (bytes). Nothing is committed if the table already equals the
            target.

        Cost: memory for the files of the commits since the target; one request for each restored
        file.

        Raises:
            VersionNotFoundError: the version doesn't exist, or log clean-up removed it.
            FileMissingError: files of the version were deleted; the message names them.
            InvalidArgumentError: the table is append-only (P100).
            DeltaConcurrentModificationException: another writer made any commit first (P078), or a
                VACUUM is deleting files.

        >>> import pyarrow as pa
        >>> from deltaplane import DeltaTable, write_deltalake
        >>> for x in (1, 2):
        ...     _ = write_deltalake("memory://doc-restore/t", pa.table({"x": [x]}), mode="overwrite")
        >>> table = DeltaTable("memory://doc-restore/t")
        >>> table.restore(0)["numRestoredFiles"], table.to_pyarrow_table()["x"].to_pylist()
        (1, [1])
        """
        from deltaplane.commands.restore import restore
        from deltaplane.properties import commit_request

        commit = commit_request(commit_properties, post_commithook_properties)
        done = restore(
            self._snapshot,
            target,
            ignore_missing_files=ignore_missing_files,
            ignore_unfinished_vacuum=ignore_unfinished_vacuum,
            protocol_downgrade_allowed=protocol_downgrade_allowed,
            dry_run=dry_run,
            commit=commit,
            progress=progress,
        )
        if done["version"] is not None:
            keep_in_step(self._location)
            self._snapshot = self._snapshot.update()
        metrics: RestoredFiles = done["metrics"]
        return metrics

    @traced("CHECK")
    def check(self, deep: bool = False, *, progress: OnProgress | None = None) -> list[Problem]:
        """Checks this version's log against its files (FSCK); an empty list means a sound table.
        Changes nothing.

        Finds missing files and deletion vectors, sizes that differ from the log (P031), an
        unsupported protocol or invalid properties, a version checksum that contradicts the log
        (P018), and files that no version needs. `deep` also reads every data file and deletion
        vector: compares row and null counts with the statistics and checks that the bounds hold
        every value (P160).

        Args:
            deep: whether to read the files, too.
            progress: called with a `CareProgress`: the number of listed objects, of checked files
                and, with `deep`, of read files. An exception that it raises ends the check.

        Returns:
            A dict for each problem: `kind` (`missing file`, `size`, `missing deletion vector`,
            `orphan`, `protocol`, `checksum`; deep: `unreadable`, `statistics`, `deletion vector`),
            `path` or None, and `message`.

        Cost: a listing of the directory and 16 bytes of memory for each object in it; `deep` reads
        the table.

        >>> import pyarrow as pa
        >>> from deltaplane import DeltaTable, write_deltalake
        >>> _ = write_deltalake("memory://doc-check/t", pa.table({"x": [1]}))
        >>> DeltaTable("memory://doc-check/t").check(deep=True)
        []
        """
        from deltaplane.commands.check import check

        return cast("list[Problem]", check(self._snapshot, deep=deep, progress=progress))

    @traced("REPAIR")
    def repair(
        self,
        dry_run: bool = False,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> RemovedFiles:
        """Removes missing files from the log, so that the rest of the table can be read again.

        The rows of these files are lost: first try to recover the files, or restore an older
        version.

        Args:
            dry_run: whether to only list the missing files.
            commit_properties, post_commithook_properties: see these classes.

        Returns:
            `dry_run` and `files_removed`, the paths. Nothing is committed if no file is missing.

        Raises:
            DeltaConcurrentModificationException: another writer removed one of the files first.
            InvalidArgumentError: the table is append-only (P100).

        >>> import pyarrow as pa
        >>> from deltaplane import DeltaTable, write_deltalake
        >>> _ = write_deltalake("memory://doc-repair/t", pa.table({"x": [1]}))
        >>> DeltaTable("memory://doc-repair/t").repair()
        {'dry_run': False, 'files_removed': []}
        """
        from deltaplane.properties import commit_request

        commit = commit_request(commit_properties, post_commithook_properties)
        self._snapshot = self._snapshot.update()
        files, version = _native.repair(self._snapshot, records.RepairRequest(dry_run, commit))
        if version is not None:
            self._snapshot = self._snapshot.update()
        return {"dry_run": dry_run, "files_removed": files}

    @traced("FORGET HISTORY")
    def forget_history(
        self,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> ForgottenHistory:
        """Deletes every older version from the log now, whatever `delta.logRetentionDuration` says:
        the last step of erasing a person, whose values are in statistics and conditions.

        Commits a version without changes, `FORGET HISTORY`, and writes its checkpoint; then deletes
        the commits, checkpoints and checksums before it (P063, P064). An interruption leaves a
        table that opens; another call completes the command. Data files stay: call `vacuum` first,
        since older versions, which it relies on for files of failed writes, can't be read anymore.
        Readers of older versions, and streams that haven't read up to the newest one, fail
        afterwards. Sidecars of the last day stay if no checkpoint names them, since one of them may
        belong to a checkpoint that is being written: call it again a day later.

        Args:
            commit_properties, post_commithook_properties: see these classes.

        Returns:
            `version`, the only one that is left, and the numbers of deleted `log_files` and
            `sidecars`.

        Raises:
            InvalidArgumentError: `checkpointProtection` forbids it (P157).
            UnsupportedFeatureError: a catalog cleans up the table's log.

        >>> import pyarrow as pa
        >>> from deltaplane import DeltaTable, write_deltalake
        >>> for x in (1, 2):
        ...     _ = write_deltalake("memory://doc-forget/t", pa.table({"x": [x]}), mode="append")
        >>> table = DeltaTable("memory://doc-forget/t")
        >>> table.forget_history()["version"]
        2
        >>> [entry["operation"] for entry in table.history()], table.count()
        (['FORGET HISTORY'], 2)
        """
        from deltaplane.properties import commit_request

        done = self._snapshot.forget_history(commit_request(commit_properties, post_commithook_properties))
        self._snapshot = self._snapshot.update()
        return {"version": done.kept_from, "log_files": done.log_files, "sidecars": done.sidecars}

    @traced("GENERATE")
    def generate(self, *, dry_run: bool = False, progress: OnProgress | None = None) -> list[str]:
        """Writes `_symlink_format_manifest`: the addresses of the newest version's files, by
        partition, for engines that can't read Delta tables (Presto, Athena, Hive). Deletes
        manifests of partitions without files.

        Args:
            dry_run: whether to write and delete nothing.
            progress: called with a `CareProgress` after each manifest. An exception that it raises
                leaves the remaining manifests unchanged.

        Returns:
            Paths of the manifests, relative to the table.

        Raises:
            UnsupportedFeatureError: the table has deletion vectors, column mapping, or files
                outside of their partition's directory; such engines would read wrong rows.

        >>> import pyarrow as pa
        >>> from deltaplane import DeltaTable, write_deltalake
        >>> _ = write_deltalake("memory://doc-generate/t", pa.table({"x": [1]}))
        >>> DeltaTable("memory://doc-generate/t").generate()
        ['_symlink_format_manifest/manifest']
        """
        from deltaplane.commands.generate import generate

        self._snapshot = self._snapshot.update()
        return generate(self._snapshot, self._options, progress, dry_run=dry_run)

    @traced("CLONE")
    def clone(
        self,
        target: TableUri,
        shallow: bool = True,
        *,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
        storage_options: StorageOptions | None = None,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
        dry_run: bool = False,
        progress: OnProgress | None = None,
    ) -> ClonedFiles:
        """Creates another table with this version's files (shallow) or with copies of them (deep).

        A shallow clone refers to the files of this table: vacuuming this table may delete them, and
        another process that reads the clone allows their location by the storage option
        `allow_external_files`. A deep clone is independent. Cloning again with `replace` copies
        only missing files.

        Args:
            target: the clone's location.
            shallow: whether to refer to files instead of copying them.
            replace: whether to replace an existing table; otherwise an existing table is an error.
            properties: properties of the clone in addition to this table's.
            storage_options: access to the target's store; None means this table's options.
            commit_properties, post_commithook_properties: see these classes.
            dry_run: whether to copy and commit nothing; fails as the clone would. Metrics use the
                sizes in the log.
            progress: called with a `CareProgress` for each copied part of a file, with the total
                bytes. An exception that it raises ends the clone: the target is unchanged, and the
                copies stay until VACUUM deletes them.

        Returns:
            The commit's metrics under delta-spark's names: `sourceNumOfFiles`, `sourceTableSize`,
            `numCopiedFiles`, `copiedFilesSize`, `numRemovedFiles`, `removedFilesSize`.

        Raises:
            TableAlreadyExistsError: the target exists and `replace` is False.
            FileMissingError: a file of this version was vacuumed.
            DeltaConcurrentModificationException: another writer committed to the clone first
                (P078).

        >>> import pyarrow as pa
        >>> from deltaplane import DeltaTable, write_deltalake
        >>> _ = write_deltalake("memory://doc-clone/t", pa.table({"x": [1, 2]}))
        >>> DeltaTable("memory://doc-clone/t").clone("memory://doc-clone/copy", shallow=False)["numCopiedFiles"]
        1
        >>> DeltaTable("memory://doc-clone/copy").to_pyarrow_table()["x"].to_pylist()
        [1, 2]
        """
        from deltaplane.commands.clone import Clone, clone
        from deltaplane.properties import commit_request

        location, options = table_address(
            target, self._options if storage_options is None else storage_options, creates=True
        )
        what = Clone(shallow, replace, properties or {}, dry_run)
        commit = commit_request(commit_properties, post_commithook_properties)
        return cast("ClonedFiles", clone(self._snapshot, (location, options), what, commit, progress))

    @overload
    def diff(self, from_version: int, to_version: int | None = None, keys: None = None) -> pa.Table: ...
    @overload
    def diff(
        self,
        from_version: int,
        to_version: int | None = None,
        *,
        keys: list[str],
        columns: list[str] | None = None,
        memory_limit: int | str | None = None,
    ) -> pa.RecordBatchReader: ...
    @traced("DIFF")
    def diff(
        self,
        from_version: int,
        to_version: int | None = None,
        keys: list[str] | None = None,
        *,
        columns: list[str] | None = None,
        memory_limit: int | str | None = None,
    ) -> pa.Table | pa.RecordBatchReader:
        """Compares two versions file by file or, with `keys`, row by row; None means this object's
        version.

        Rows are compared by the columns of `to_version`; renamed and widened columns are
        recognised. A column added after `from_version` is null in the older rows; a column that
        `to_version` lacks isn't compared. Equal rows of both versions cancel out, so rows that only
        moved between files don't show. A key with one remaining row on each side is an update. A
        key that several rows share isn't an error: its rows are inserts and deletes, counted as
        multisets, unless one row remains on each side. Nulls in keys are equal; zero equals minus
        zero, and NaN equals NaN. The comparison needs no change data feed.

        Args:
            from_version, to_version: any two versions, in any order.
            keys: columns that identify rows.
            columns: columns to return with values before and after; only with `keys`.
            memory_limit: bytes, or a text such as `500MB`, beyond which compared rows go to disk;
                default 80 % of the machine's memory; only with `keys`.

        Returns:
            Without `keys`, a table with a row for each file that only one of the versions has:
            `change` (`added` or `removed`), `path`, `size_bytes`, `num_records` (null without
            statistics) and `deleted_rows`, the number of rows in its deletion vector. A file with
            another vector is both removed and added.

            With `keys`, a stream without an order: the key columns, `change` (`insert`, `update` or
            `delete`) and, with `columns`, the structs `before` (null for an insert) and `after`
            (null for a delete).

        Cost: columns of both versions' file lists, and 16 bytes of memory for each file. `keys`
        also reads the files in which the versions differ; of files that only got another deletion
        vector, just the rows that the two vectors treat differently.

        Raises:
            VersionNotFoundError: one of the versions doesn't exist.
            FileMissingError: VACUUM deleted a file of one of the versions.
            InvalidArgumentError: unknown keys or columns, or keys without equality.
            SchemaMismatchError: a column's type in `to_version` can't hold all values of
                `from_version`.

        >>> import pyarrow as pa
        >>> from deltaplane import DeltaTable, write_deltalake
        >>> _ = write_deltalake("memory://doc-diff/t", pa.table({"id": [1, 2], "x": ["a", "b"]}))
        >>> _ = write_deltalake("memory://doc-diff/t", pa.table({"id": [2, 3], "x": ["B", "c"]}), mode="overwrite")
        >>> table = DeltaTable("memory://doc-diff/t")
        >>> sorted(table.diff(0)["change"].to_pylist())
        ['added', 'removed']
        >>> changes = table.diff(0, keys=["id"], columns=["x"]).read_all().sort_by("id")
        >>> changes.select(["id", "change"]).to_pylist()
        [{'id': 1, 'change': 'delete'}, {'id': 2, 'change': 'update'}, {'id': 3, 'change': 'insert'}]
        >>> changes["before"].to_pylist()
        [{'x': 'a'}, {'x': 'b'}, None]
        """
        after = self._snapshot if to_version is None else self._snapshot.at(to_version)
        before = self._snapshot.at(from_version)
        if keys is None:
            if columns is not None or memory_limit is not None:
                raise InvalidArgumentError("columns and memory_limit are for the rows of keys: give keys as well")
            from deltaplane.commands.diff import diff

            return diff(before, after)
        from deltaplane.commands.duckdb_engine import Memory
        from deltaplane.commands.key_diff import KeyDiff

        return KeyDiff(before, after, keys, columns, Memory(memory_limit)).reader()
