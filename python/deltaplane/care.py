"""The methods of `DeltaTable` that look after its files and versions, under deltalake's names; the commands do the work.

Called by users, through `DeltaTable`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deltaplane.properties import CommitProperties, PostCommitHookProperties, commit_request

if TYPE_CHECKING:
    from deltaplane import _native

__all__ = ["TableCare"]


class TableCare:
    """VACUUM. What a command commits, the object shows afterwards."""

    _snapshot: _native.Snapshot

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
    ) -> list[str]:
        """Deletes files that no version needs any more which is younger than the retention, or says which it would.

        It always judges by the newest version. Never touched are: live files with their deletion vectors, files removed
        within the retention, files outside the table's directory (a shallow clone's), and names that begin with `_` or
        `.` but for change files and partition directories (P044, P125, P200).

        Args:
            retention_hours: how long removed files stay; None is `delta.deletedFileRetentionDuration` (a week).
            dry_run: only say which files would go.
            enforce_retention_duration: refuse a retention below the table's. Turn it off only where nobody else reads or
                writes the table: files of commits that are on their way would go too.
            full: look through the table's directory, so that files go too that no commit names, if they are older than
                the retention (delta-spark's FULL). Else only what the log says was removed (LITE), without a listing.
            keep_versions: versions whose files stay, whatever their age.
            inventory: rows with the columns `path`, `length`, `isDir` and `modificationTime` (ms since 1970) that stand
                in for looking through the directory: Arrow data or a list of dicts. Paths elsewhere are passed over.
            commit_properties, post_commithook_properties: see these classes.

        Returns:
            Paths of the files, relative to the table. Deleting is told by two commits, VACUUM START and VACUUM END, with
            delta-spark's parameters and metrics; without a file to delete nothing is committed. A vacuum that failed
            goes on when it is called again.

        Cost: eight bytes of memory for each file that stays, and the paths of those that go.

        Raises:
            InvalidArgumentError: a retention below the table's; an inventory without its columns.
            VersionNotFoundError: a version to keep isn't there any more.
            UnsupportedFeatureError: the table needs a feature that this version doesn't have (P150).

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

        what = Vacuum(retention_hours, enforce_retention_duration, full, tuple(keep_versions or ()), dry_run)
        commit = commit_request(commit_properties, post_commithook_properties)
        files, report = vacuum(self._snapshot, what, inventory, commit)
        if report["version"] is not None:
            self._snapshot = self._snapshot.update()
        return files
