"""`DeltaTable.serializable_read`: reads with a position in the serial order of a table's
versions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from deltaplane.arguments import checked
from deltaplane.expr import Predicate
from deltaplane.expr.row_filter import scan_filter
from deltaplane.io import records

if TYPE_CHECKING:
    from deltaplane import _native
    from deltaplane.properties import CommitProperties, PostCommitHookProperties

__all__ = ["SerializableReads"]


@checked()
class SerializableReads:
    """Reads that commit as transactions."""

    _snapshot: _native.Snapshot

    @contextmanager
    def serializable_read(
        self,
        filters: Predicate | None = None,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> Iterator[SerializableReads]:
        """A context manager for serializable reads: its exit commits a version without changes,
        which orders the reads among the writes.

        Every read sees one complete version. A serializable read also sees all relevant commits of
        other writers that were acknowledged before the block ends (Armbrust et al., "Delta Lake",
        VLDB 2020, section 4.4); otherwise the exit fails. A block that raises an exception commits
        nothing.

        Args:
            filters: the rows that the block reads, as Spark SQL or tuples as in `scan`; default all
                rows. The guarantee covers only matching rows.
            commit_properties, post_commithook_properties: see these classes.

        Yields:
            This object at the newest version; after the block it is at the committed version.

        Raises:
            InvalidArgumentError: an invalid condition.
            ConcurrentAppendException: another writer added matching rows; read again.
            ConcurrentDeleteReadException: another writer changed or deleted matching rows; read
                again.

        >>> import pyarrow as pa
        >>> from deltaplane import DeltaTable, write_deltalake
        >>> _ = write_deltalake("memory://doc-serializable/t", pa.table({"x": [1, 2, 3]}))
        >>> table = DeltaTable("memory://doc-serializable/t")
        >>> with table.serializable_read("x > 1"):
        ...     total = sum(table.to_pyarrow_table(filters="x > 1")["x"].to_pylist())
        >>> total, table.version(), table.history(1)[0]["operation"]
        (5, 1, 'READ')
        """
        from deltaplane.properties import commit_request

        self._snapshot = read = self._snapshot.update()
        # An invalid condition fails before the block runs. A part of the condition that only DuckDB
        # can evaluate is ignored, so that more rows count as read.
        tree = scan_filter(read, filters).tree
        read.scan([], tree)
        yield self
        request = records.ReadRequest(
            predicate=tree,
            predicate_sql="" if filters is None else str(filters),
            commit=commit_request(commit_properties, post_commithook_properties),
        )
        self._snapshot = read.commit_read(request)
