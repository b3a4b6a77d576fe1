"""Follows a table without Spark: new rows in batches of versions or files, each with an offset from
which to continue.

The core finds the new files, and this module holds no rows. `DeltaTable` inherits `Followed`;
`deltaplane.spark` uses the same request.
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
    """New rows as a lazy `Scan`, with the offset at which they end. Each use reads the rows again.

    Attributes: `version`, the last version of the rows; `offset`, the text from which
    `DeltaTable.tail` continues behind these rows. A version identifies a batch for `OnceWriter`
    only without `max_files` and `max_bytes`, which can split a version into several batches.
    """

    def __init__(
        self, native: _native.Scan | FilteredRows, offset: _native.TailOffset, location: str | None = None
    ) -> None:
        super().__init__(native, location)
        self.offset = str(offset)
        self.version: int = offset.version - 1 if offset.is_between_versions else offset.version


@checked(since="object")
class Followed:
    """The methods of a table that can be followed; `DeltaTable` inherits them."""

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
        """Iterates over the rows committed after a version, in commit order, up to the newest
        version.

        Each item reads its rows lazily and has an `offset` from which another call continues.
        Without `max_files` and `max_bytes` an item holds the rows of one version. Commits that only
        move rows (compaction) yield nothing. A commit that deletes or changes rows is refused, as
        by Spark's Delta source, unless one of the options below allows it.

        Cost: one listing and the new commits for each step; a start with all rows also reads the
        file list. Memory holds the files of one item.

        Args:
            since: a version, after which reading starts (-1 for all versions); an offset; or None,
                which reads all rows of the newest version first, oldest files first, and then later
                versions.
            columns: the selected columns, in this order; default all.
            predicate: Spark SQL text that selects rows.
            max_files, max_bytes: maximum number of files, or approximate bytes, of one item, which
                then may span versions.
            ignore_deletes: skips commits that only delete rows.
            ignore_changes: for commits that change rows, yields every row of the files that they
                wrote.
            skip_change_commits: skips commits that delete or change rows.
            read_change_feed: yields the changed rows with their change types, as `load_cdf` does.
            exclude_regex: skips files whose path matches.
            fail_on_data_loss: False continues even if log clean-up removed unread commits.
            follow: waits for new commits, checking every `poll_seconds` seconds.

        Raises:
            UnsupportedFeatureError: a commit that deletes or changes rows.
            SchemaMismatchError: the table's columns changed; open the table again and continue from
                the last offset.
            VersionNotFoundError: `since` is greater than the newest version, or log clean-up
                removed commits after it.
            TableNotFoundError: the table was deleted, or isn't the table of the offset.
            InvalidArgumentError: `since` is neither a version nor an offset, a bound is invalid, or
                the change data feed is off.

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
    """Converts the options of a follower to a request for the core. `waits_for_start` accepts a
    start beyond the newest version.

    Raises:
        InvalidArgumentError: `read_change_feed` together with an option for commits that aren't
            appends, since the feed shows their changes.
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
    """Converts the maximum size of an item to the core's type.

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
    """Iterates over the new rows after `since`; with `poll_seconds` it waits for more."""
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
            yield NewRows(
                chosen.rows(names, partial(tail.rows, offset, end), tail.snapshot.uri), end, tail.snapshot.location
            )
        offset = end


def _begin(tail: _native.Tail, since: int | str | None) -> _native.TailOffset:
    if isinstance(since, str):
        return _native.TailOffset(since)
    start = records.TailStart()
    if since is not None:
        if isinstance(since, bool) or not isinstance(since, int) or since < -1:
            raise InvalidArgumentError(f"since is a version, -1 before the first one, or an offset, not {since!r}")
        start = records.TailStart(version=0) if since < 0 else records.TailStart(after=since)
    return tail.start(start)
