"""Reads that have their place among a table's versions, as a method of `DeltaTable`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from deltaplane.arguments import checked
from deltaplane.expr import Predicate
from deltaplane.expr.row_filter import scan_filter

if TYPE_CHECKING:
    from deltaplane import _native
    from deltaplane.properties import CommitProperties, PostCommitHookProperties

__all__ = ["SerializableReads"]


@checked()
class SerializableReads:
    """Reading as a transaction."""

    _snapshot: _native.Snapshot

    @contextmanager
    def serializable_read(
        self,
        filters: Predicate | None = None,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> Iterator[SerializableReads]:
        """A block whose reads are serializable: on leaving it they are committed as a version that
        changes nothing.

        Any read sees one version and no half commit. This one also holds against the clock: no
        other writer's commit that was acknowledged before the block ends, and that touches what was
        read, is missing from it (Armbrust et al., "Delta Lake", VLDB 2020, section 4.4). A block
        that raises commits nothing.

        Args:
            filters: what the block reads, Spark SQL or tuples as in `scan`: only rows for which it
                is true may be relied on. All rows without it.
            commit_properties, post_commithook_properties: see these classes.

        Yields:
            This object, at the newest version; after the block it shows the committed one.

        Raises:
            InvalidArgumentError: a wrong condition.
            ConcurrentAppendException: another writer added rows that the block should have read:
                read again.
            ConcurrentDeleteReadException: rows that the block read are gone or changed: read again.

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
        # A wrong condition is said before the block runs. Rows that only DuckDB could tell apart
        # count as read.
        tree = scan_filter(read, filters).tree
        read.scan([], tree)
        yield self
        request = {
            "predicate": None if tree is None else tree.tree,
            "predicate_sql": "" if filters is None else str(filters),
            "commit": commit_request(commit_properties, post_commithook_properties),
        }
        self._snapshot = read.commit_read(json.dumps(request))
