"""The methods of `DeltaTable` that look after its files and versions, under deltalake's names; the
commands do the work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, overload

from deltaplane import _native
from deltaplane.arguments import checked
from deltaplane.exceptions import InvalidArgumentError
from deltaplane.io import records
from deltaplane.io.storage_options import StorageOptions, location_text, storage_options_text

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa

    from deltaplane.commands.progress import Told
    from deltaplane.io.storage_options import TableUri
    from deltaplane.properties import CommitProperties, PostCommitHookProperties

__all__ = ["TableCare"]


@checked(keys="Sequence[str] | str | None", retention_hours="Number | None")
class TableCare:
    """VACUUM, RESTORE, FSCK, CLONE and GENERATE. What a command commits to the table, the object
    shows afterwards."""

    _snapshot: _native.Snapshot
    _options: dict[str, str] | None

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
        progress: Told | None = None,
    ) -> list[str]:
        """Deletes files that no version needs any more which is younger than the retention, or says
        which it would.

        It always judges by the newest version. Never touched are: live files with their deletion
        vectors, files removed within the retention, files outside the table's directory (a shallow
        clone's), and names that begin with `_` or `.` but for change files and partition
        directories (P044, P125, P200).

        Args:
            retention_hours: how long removed files stay; None is
                `delta.deletedFileRetentionDuration` (a week).
            dry_run: only say which files would go.
            enforce_retention_duration: refuse a retention below the table's. Turn it off only where
                nobody else reads or writes the table: files of commits that are on their way would
                go too.
            full: look through the table's directory, so that files go too that no commit names, if
                they are older than the retention (delta-spark's FULL). Else only what the log says
                was removed (LITE), without a listing.
            keep_versions: versions whose files stay, whatever their age.
            inventory: rows with the columns `path`, `length`, `isDir` and `modificationTime` (ms
                since 1970) that stand in for looking through the directory: Arrow data or a list of
                dicts. Paths elsewhere are passed over.
            commit_properties, post_commithook_properties: see these classes.
            progress: called with a `CareProgress` at times: files that were looked at, then files
                that were deleted; any thread may call it. What it raises ends the vacuum, which can
                go on by another call.

        Returns:
            Paths of the files, relative to the table. Deleting is told by two commits, VACUUM START
            and VACUUM END, with delta-spark's parameters and metrics; without a file to delete
            nothing is committed. A vacuum that failed goes on when it is called again.

        Cost: eight bytes of memory for each file that stays, and the paths of those that go.

        Raises:
            InvalidArgumentError: a retention below the table's; an inventory without its columns.
            VersionNotFoundError: a version to keep isn't there any more.
            UnsupportedFeatureError: the table needs a feature that this version doesn't have
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
        progress: Told | None = None,
    ) -> dict[str, Any]:
        """Makes a new version that has an older one's files, columns and properties; the object
        shows it.

        What never goes back: identity values that were handed out, column ids, row ids, protected
        checkpoints (P157), domains of users, and unless allowed the protocol (P200). Only files in
        which the versions differ are touched.

        Args:
            target: a version, or a moment (ISO 8601 text or datetime, UTC by default): the newest
                version then.
            ignore_missing_files: leave files out that were vacuumed, instead of failing.
            protocol_downgrade_allowed: the protocol goes back to what it was, too.
            dry_run: only say what would be done: the same metrics, and the same errors but for
                other writers'.
            commit_properties, post_commithook_properties: see these classes.
            ignore_unfinished_vacuum: a VACUUM that began within a day and didn't say that it ended
                is no reason to refuse: its process is gone. While it runs it may delete a file that
                comes back.
            progress: called with a `CareProgress` at times: files that come back and were looked
                for. What it raises ends the restore: nothing is changed.

        Returns:
            The commit's metrics under delta-spark's names: `numRestoredFiles`, `numRemovedFiles`,
            `restoredFilesSize`, `removedFilesSize`, `numOfFilesAfterRestore`,
            `tableSizeAfterRestore` (bytes). Nothing is committed where the table is already as it
            was then.

        Cost: memory for the files that commits since then touched; a request for each file that
        comes back.

        Raises:
            VersionNotFoundError: the version was never written, or cleaned up.
            FileMissingError: files of the version are gone; named.
            InvalidArgumentError: the table is append-only (P100).
            DeltaConcurrentModificationException: another writer committed meanwhile, whatever it
                was (P078), or a VACUUM is deleting.

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
            self._snapshot = self._snapshot.update()
        metrics: dict[str, Any] = done["metrics"]
        return metrics

    def check(self, deep: bool = False, *, progress: Told | None = None) -> list[dict[str, Any]]:
        """What of the shown version's log and files doesn't agree (FSCK); an empty list is a sound
        table. Changes nothing.

        Looks for files and deletion vectors that are gone, sizes that aren't what the log says
        (P031), a protocol or properties that can't be obeyed, a version checksum that contradicts
        the log (P018), and old files that no version needs. With `deep` every data file and every
        deletion vector is read as well: rows and nulls against the statistics, and whether the
        bounds hold every value (P160).

        Args:
            deep: read the files, too.
            progress: called with a `CareProgress` at times: objects that were listed, files that
                were looked for and, with `deep`, files that were read. What it raises ends the
                check.

        Returns:
            A dict for each finding: `kind` (`missing file`, `size`, `missing deletion vector`,
            `orphan`, `protocol`, `checksum`; deep: `unreadable`, `statistics`, `deletion vector`),
            `path` or None, and `message`.

        Cost: a listing of the directory and 16 bytes of memory for each object in it; with `deep`
        reading the table.

        >>> import pyarrow as pa
        >>> from deltaplane import DeltaTable, write_deltalake
        >>> _ = write_deltalake("memory://doc-check/t", pa.table({"x": [1]}))
        >>> DeltaTable("memory://doc-check/t").check(deep=True)
        []
        """
        from deltaplane.commands.check import check

        return check(self._snapshot, deep=deep, progress=progress)

    def repair(
        self,
        dry_run: bool = False,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> dict[str, Any]:
        """Takes the files out of the log that aren't there any more, so that the rest of the table
        can be read again.

        Their rows are lost: try first to bring the files back, or restore an older version.

        Args:
            dry_run: only say which they are.
            commit_properties, post_commithook_properties: see these classes.

        Returns:
            `dry_run` and `files_removed`, the paths. Without a missing file nothing is committed.

        Raises:
            DeltaConcurrentModificationException: another writer took one of the files out
                meanwhile.
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

    def generate(self, *, dry_run: bool = False, progress: Told | None = None) -> list[str]:
        """Writes `_symlink_format_manifest`: the addresses of the newest version's files, by
        partition, for engines that can't read Delta tables (Presto, Athena, Hive). Manifests of
        partitions that are gone are deleted.

        Args:
            dry_run: write and delete nothing.
            progress: called with a `CareProgress` after each manifest. What it raises leaves the
                other partitions' manifests as they were.

        Returns:
            Paths of the manifests, relative to the table.

        Raises:
            UnsupportedFeatureError: files with deletion vectors, column mapping, or files in other
                directories than their partition's: such engines would read wrong rows.

        >>> import pyarrow as pa
        >>> from deltaplane import DeltaTable, write_deltalake
        >>> _ = write_deltalake("memory://doc-generate/t", pa.table({"x": [1]}))
        >>> DeltaTable("memory://doc-generate/t").generate()
        ['_symlink_format_manifest/manifest']
        """
        from deltaplane.commands.generate import generate

        self._snapshot = self._snapshot.update()
        return generate(self._snapshot, self._options, progress, dry_run=dry_run)

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
        progress: Told | None = None,
    ) -> dict[str, int]:
        """Makes another table of the version that this object shows: with this one's files, or with
        copies of them.

        A shallow clone names the files where they are: vacuuming this table may take them from it,
        and another process that reads it allows that place by the storage option
        `allow_external_files`. A deep clone stands alone. Made again with `replace` a clone only
        takes what it lacks.

        Args:
            target: where.
            shallow: name files instead of copying them.
            replace: a table that is there becomes the clone; else it is an error.
            properties: properties of the clone beside this table's.
            storage_options: how to reach the target's store; None is as this table's.
            commit_properties, post_commithook_properties: see these classes.
            dry_run: copy and commit nothing; what refuses the clone refuses this, too. Metrics are
                by the sizes in the log.
            progress: called with a `CareProgress` for each part of a file that was copied, with all
                bytes. What it raises ends the clone: the table isn't there, or as it was, and
                copies stay as files that VACUUM deletes.

        Returns:
            The commit's metrics under delta-spark's names: `sourceNumOfFiles`, `sourceTableSize`,
            `numCopiedFiles`, `copiedFilesSize`, `numRemovedFiles`, `removedFilesSize`.

        Raises:
            TableAlreadyExistsError: a table is there and `replace` is off.
            FileMissingError: a file of this version was vacuumed.
            DeltaConcurrentModificationException: another writer committed to the clone meanwhile
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

        options = self._options if storage_options is None else storage_options_text(storage_options)
        what = Clone(shallow, replace, properties or {}, dry_run)
        commit = commit_request(commit_properties, post_commithook_properties)
        return clone(self._snapshot, (location_text(target), options), what, commit, progress)

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
    def diff(
        self,
        from_version: int,
        to_version: int | None = None,
        keys: list[str] | None = None,
        *,
        columns: list[str] | None = None,
        memory_limit: int | str | None = None,
    ) -> pa.Table | pa.RecordBatchReader:
        """In which files two versions differ or, with `keys`, in which rows; None is the version
        that this object shows.

        Rows are compared by the columns of `to_version`; renamed and widened ones are themselves. A
        column that was added since `from_version` is null there; going back in time, one that went
        since isn't compared. Equal rows of both versions cancel each other, so that rows which only
        moved to other files don't show. A key with one row left on each side was updated. A key
        that more rows have is no error: its rows are inserts and deletes, each as often as it is
        there (multisets), unless one row is left on each side. Nulls in keys equal each other; zero
        equals minus zero, NaN itself. No change data feed is needed.

        Args:
            from_version, to_version: any two versions, in any order.
            keys: columns that tell rows apart.
            columns: those that are shown as they were and as they are; for `keys` only.
            memory_limit: bytes, or a text such as `500MB`, beyond which rows that are compared go
                to disk; 80 % of the machine's memory unless given; for `keys` only.

        Returns:
            Without `keys` a table with a row for each file that the later version has and the
            earlier one hasn't, or the other way round: `change` (`added` or `removed`), `path`,
            `size_bytes`, `num_records` (null where statistics don't say) and `deleted_rows`, those
            that its deletion vector marks. A file that gets another vector is removed and added.

            With `keys` a stream, in no order: the keys' columns, `change` (`insert`, `update` or
            `delete`) and, with `columns`, the structs `before` (null for an insert) and `after`
            (null for a delete).

        Cost: columns of all files of both versions; with `keys` reading the files in which they
        differ, of files that only got another deletion vector the rows between, and 16 bytes of
        memory for each file of a version.

        Raises:
            VersionNotFoundError: one of the versions isn't there.
            FileMissingError: a file of one of them was vacuumed.
            InvalidArgumentError: keys or columns that the version hasn't, or keys that can't be
                compared.
            SchemaMismatchError: a column's type in `to_version` doesn't hold all values of
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
