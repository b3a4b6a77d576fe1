"""Follows a table without Spark: its new rows, some versions or files at a time, with offsets to
continue from.

What is new is the core's matter; nothing here holds a row. `DeltaTable` inherits `Followed`;
`deltaplane.spark` shares the request.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial

from deltaplane import _native
from deltaplane.arguments import checked
from deltaplane.exceptions import InvalidArgumentError
from deltaplane.expr import Predicate
from deltaplane.expr.row_filter import FilteredRows, row_filter
from deltaplane.io import records
from deltaplane.io.arrow import Scan

__all__ = ["Followed", "NewRows", "limits", "tail_request"]


class NewRows(Scan):
    """New rows of a table, not read yet: a `Scan` with the offset at which they end. Each use reads
    them again.

    Attributes: `version`, the last version that the rows are of; `offset`, the text from which
    `DeltaTable.tail` goes on behind these rows. A version numbers batches (`OnceWriter`) only where
    each item is a version, without `max_files` and `max_bytes`: else several items may be of one.
    """

    def __init__(self, native: _native.Scan | FilteredRows, offset: str) -> None:
        super().__init__(native)
        self.offset = offset
        at = _native.TailOffset(offset)
        self.version: int = at.version - 1 if at.is_between_versions else at.version


@checked(since="object")
class Followed:
    """What a table that is followed gives. `DeltaTable` inherits it."""

    _location: str
    _options: dict[str, str] | None

    def tail(
        self,
        since: int | str | None = None,
        *,
        columns: list[str] | None = None,
        predicate: Predicate | None = None,
        max_files: int | None = None,
        max_bytes: int | None = None,
        ignore_deletes: bool = False,
        ignore_changes: bool = False,
        skip_change_commits: bool = False,
        read_change_feed: bool = False,
        exclude_regex: str | None = None,
        fail_on_data_loss: bool = True,
        follow: bool = False,
        poll_seconds: float = 1.0,
    ) -> Iterator[NewRows]:
        """The rows that came after a version, in the order in which they were committed, up to the
        newest version.

        Each item is read when it is used, and has an `offset` from which another call goes on
        behind it. Without `max_files` and `max_bytes` it holds the rows of one version. Commits
        that only move rows (compaction) have none; one that deletes or changes rows is refused, as
        by Spark's Delta source, unless one of the rules says what to do.

        Cost: one listing and the new commits for each step; for a start with all rows also the file
        list. Memory is that of the files of one item.

        Args:
            since: a version, whose later ones are read (-1: all of them from the first on); an
                offset; None: first all rows of the newest version, oldest files first, then what
                comes after it.
            columns: only these, in this order.
            predicate: Spark SQL text; only rows for which it is true.
            max_files, max_bytes: the most files, or bytes of them about, of one item, which then
                may span versions.
            ignore_deletes: passes over commits that only delete.
            ignore_changes: of commits that change rows gives every row of the files that they
                wrote.
            skip_change_commits: passes over commits that delete or change rows.
            read_change_feed: what happened to rows instead, as `load_cdf` shows it.
            exclude_regex: leaves out files whose path it matches.
            fail_on_data_loss: False goes on where log cleanup removed commits that weren't read.
            follow: waits for more, looking every `poll_seconds`.

        Raises:
            UnsupportedFeatureError: a commit that deletes or changes rows.
            SchemaMismatchError: the table's columns changed: open it again, and go on from the last
                offset.
            VersionNotFoundError: `since` is behind the newest version, or commits after it were
                cleaned up.
            TableNotFoundError: the table was deleted, or is another one than the offset's.
            InvalidArgumentError: no version and no offset; a wrong bound; the feed was off.

        >>> import pyarrow as pa
        >>> from deltaplane import DeltaTable, write_deltalake
        >>> for x in range(3):
        ...     _ = write_deltalake("memory://doc-tail/t", pa.table({"x": [x]}), mode="append")
        >>> table = DeltaTable("memory://doc-tail/t")
        >>> [(rows.version, rows.to_arrow()["x"].to_pylist()) for rows in table.tail(since=0)]
        [(1, [1]), (2, [2])]
        >>> first = next(table.tail(since=-1, max_files=2))
        >>> [rows.to_arrow()["x"].to_pylist() for rows in table.tail(since=first.offset)]
        [[2]]
        """
        request = tail_request(
            ignore_deletes=ignore_deletes,
            ignore_changes=ignore_changes,
            skip_change_commits=skip_change_commits,
            exclude_regex=exclude_regex,
            fail_on_data_loss=fail_on_data_loss,
            read_change_feed=read_change_feed,
        )
        by_version = max_files is None and max_bytes is None
        taken = limits(max_files, max_bytes, 1 if by_version else None)
        if not (isinstance(poll_seconds, (int, float)) and poll_seconds > 0):
            raise InvalidArgumentError(f"poll_seconds is a number of seconds above 0, not {poll_seconds!r}")
        native = _native.Tail.open(self._location, self._options, request)
        return _follow(native, since, columns, predicate, taken, poll_seconds if follow else None, read_change_feed)


def tail_request(
    *,
    ignore_deletes: bool = False,
    ignore_changes: bool = False,
    skip_change_commits: bool = False,
    exclude_regex: str | None = None,
    fail_on_data_loss: bool = True,
    read_change_feed: bool = False,
    waits_for_start: bool = False,
) -> records.TailRequest:
    """What a follower wants, as the core takes it. `waits_for_start`: a start that is still to come
    is no error.

    Raises:
        InvalidArgumentError: `read_change_feed` with a rule for commits that aren't appends, which
            it shows as they are.
    """
    if read_change_feed and (ignore_deletes or ignore_changes or skip_change_commits):
        raise InvalidArgumentError(
            "the change data feed shows deletes and changes as they are: leave out ignoreDeletes, ignoreChanges and "
            "skipChangeCommits"
        )
    return records.TailRequest(
        ignore_deletes=ignore_deletes,
        ignore_changes=ignore_changes,
        skip_change_commits=skip_change_commits,
        exclude=exclude_regex,
        allow_data_loss=not fail_on_data_loss,
        changes=read_change_feed,
        waits_for_start=waits_for_start,
    )


def limits(
    max_files: int | None = None, max_bytes: int | None = None, max_versions: int | None = None
) -> records.TailLimits:
    """How much is taken in one go, as the core takes it.

    Raises:
        InvalidArgumentError: a bound below 1.
    """
    for name, bound in (("files", max_files), ("bytes", max_bytes)):
        if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int) or bound < 1):
            raise InvalidArgumentError(f"the most {name} of one go are a number from 1 on, not {bound!r}")
    return records.TailLimits(max_files, max_bytes, max_versions)


def _follow(
    tail: _native.Tail,
    since: int | str | None,
    columns: Sequence[str] | None,
    predicate: Predicate | None,
    taken: records.TailLimits,
    poll_seconds: float | None,
    is_feed: bool,
) -> Iterator[NewRows]:
    """New rows behind `since`; with `poll_seconds` it waits for more."""
    names = None if columns is None else list(columns)
    offset = _begin(tail, since)
    schema = tail.snapshot.change_schema() if is_feed else tail.snapshot.schema
    chosen = row_filter([predicate], lambda: schema, lambda tree: tail.rows(offset, offset, [], tree))
    while True:
        end = tail.end(offset, taken)
        if end == offset:
            if poll_seconds is None:
                return
            time.sleep(poll_seconds)
            continue
        if tail.rows(offset, end, [], chosen.tree).num_files:
            yield NewRows(chosen.rows(names, partial(tail.rows, offset, end), tail.snapshot.uri), end)
        offset = end


def _begin(tail: _native.Tail, since: int | str | None) -> str:
    if isinstance(since, str):
        return since
    start = records.TailStart()
    if since is not None:
        if isinstance(since, bool) or not isinstance(since, int) or since < -1:
            raise InvalidArgumentError(f"since is a version, -1 before the first one, or an offset, not {since!r}")
        is_newest = since == tail.newest_version()
        start = records.TailStart(latest=True) if is_newest else records.TailStart(version=since + 1)
    return tail.start(start)
