"""`GroupWriter`: combines appends of many threads into one commit with all their application
versions.

Each thread writes its own files; one of the threads commits all finished appends
(`leader_batcher`).
"""

from __future__ import annotations

import contextlib
import copy
import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from deltaplane import _native
from deltaplane.arguments import checked
from deltaplane.exceptions import (
    NOT_COMMITTED,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    ConstraintViolationError,
    DeltaError,
    InvalidArgumentError,
    MetadataChangedException,
    ProtocolChangedException,
    SchemaMismatchError,
    TableNotFoundError,
    UnsupportedExpressionError,
    UnsupportedFeatureError,
)
from deltaplane.io.arrow import as_reader, reads_again
from deltaplane.io.storage_options import StorageOptions
from deltaplane.properties import CommitProperties, PostCommitHookProperties, Transaction, WriterProperties
from deltaplane.write.api import OpenTable, WriteResult, opened_address, write_rows
from deltaplane.write.intent import WriteIntent
from deltaplane.write.leader_batcher import LeaderBatcher

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaplane.io import records
    from deltaplane.io.storage_options import TableUri

__all__ = ["GroupWriter"]

# Errors that refuse a plan, or rows checked by it. They are ignored if the plan is outdated.
_REFUSALS = (
    ConstraintViolationError,
    InvalidArgumentError,
    SchemaMismatchError,
    UnsupportedExpressionError,
    UnsupportedFeatureError,
)
# Conflicts after which a group is planned again on the newest version; the core itself rebases onto
# all other winners that an append permits.
_JUDGED_ANEW = (ConcurrentTransactionException, MetadataChangedException, ProtocolChangedException)
# Maximum number of attempts; an attempt fails if the table, or an application's version, changes
# during a commit.
_MOST_ATTEMPTS = 20
# Maximum number of plans; a plan is outdated if the table changes while the rows are written.
_MOST_PLANS = 10
# Maximum number of cached schemas: more than an application uses, unless it generates them.
_PLANS_KEPT = 64
# How long an answer about the newest version serves the appends that begin after the first one.
_ASKED_SECONDS = 1.0
_LONG = 1 << 63


@dataclass(frozen=True, eq=False)
class _Plan:
    """The requirements of files with data of this schema, for the table at the time of planning."""

    schema: pa.Schema
    spec: records.WriteSpec


@dataclass(frozen=True, eq=False)
class _Ready:
    """One append whose files are written."""

    plan: _Plan
    adds: _native.AddedFiles
    size_bytes: int
    transaction: Transaction | None


@dataclass(frozen=True)
class _Outcome:
    """The result of an append. `keeps_files`: the files are in the table, or may be."""

    result: WriteResult | None = None
    error: Exception | None = None
    keeps_files: bool = False


_SKIPPED = _Outcome(result=WriteResult(version=None, skipped="txn"))


class _OutdatedPlan(Exception):
    """The table has changed since the files were planned; none of them is in it."""


@dataclass(frozen=True)
class _Bounds:
    """The limits of one commit, unless a single append exceeds them."""

    appends: int
    files: int
    size_bytes: int

    def are_met_by(self, group: Sequence[_Ready]) -> bool:
        return (
            len(group) >= self.appends
            or sum(len(append.adds) for append in group) >= self.files
            or sum(append.size_bytes for append in group) >= self.size_bytes
        )

    def next_group(self, waiting: Sequence[_Ready]) -> list[int]:
        """The indexes of appends for one commit, in order.

        A commit sets an application's version once, so a group has one append per application, the
        one with the lowest waiting version: a later commit skips versions that aren't greater than
        the last one. All files of a group were written for one plan, the requirements of the table
        at that time, and the commit checks that these still hold.
        """
        lowest: dict[str, tuple[int, int]] = {}
        for index, append in enumerate(waiting):
            if (t := append.transaction) is not None:
                lowest[t.app_id] = min(lowest.get(t.app_id, (t.version, index)), (t.version, index))
        chosen: list[int] = []
        files = size_bytes = 0
        for index, append in enumerate(waiting):
            comes_later = append.transaction is not None and lowest[append.transaction.app_id][1] != index
            if comes_later or (chosen and append.plan.spec != waiting[chosen[0]].plan.spec):
                continue
            files, size_bytes = files + len(append.adds), size_bytes + append.size_bytes
            if chosen and (len(chosen) >= self.appends or files > self.files or size_bytes > self.size_bytes):
                break
            chosen.append(index)
        return chosen


@checked()
class GroupWriter:
    """Appends to a table from many threads at once, with few commits.

    Each `append` writes its rows to files of its own in the calling thread, and returns when they
    are durable in the log. During a commit, further appends become ready; the next commit has all
    of them, with the versions of all their applications. There is no background thread: one of the
    callers commits for all.

    Use it as a context manager. It belongs to the process that opened it: it can't be copied,
    pickled or used after a fork.

    Args:
        table_or_uri: path, URL or `DeltaTable` of an existing table; a `DeltaTable` stays at its
            version.
        storage_options: access to the store; keys as in deltalake and object_store.
        max_appends, max_files, max_bytes: the limits of one commit (`max_bytes` of data files),
            unless a single append exceeds them.
        max_waiting: maximum number of appends in progress; further ones wait without holding data.
        max_delay_seconds: maximum time that a finished append waits for others before a commit
            begins. With 0, appends are grouped only while another commit runs.
        target_file_size: target bytes of one data file.
        writer_properties, post_commithook_properties: see these classes.
        commit_properties: for every commit; without `app_transactions`, which belong to each
            append.

    Raises:
        TableNotFoundError: the location contains no table.
        InvalidArgumentError: an invalid limit or property.
        StoreUnavailableError, StoreDeniedError: failures of the store.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> import pyarrow as pa
    >>> from deltaplane import DeltaTable, write_deltalake
    >>> _ = write_deltalake("memory://doc-group/t", pa.table({"x": [0]}))
    >>> with GroupWriter("memory://doc-group/t", max_appends=4, max_delay_seconds=60) as writer, ThreadPoolExecutor(4) as pool:
    ...     results = list(pool.map(writer.append, [pa.table({"x": [n]}) for n in range(1, 5)]))
    >>> [result.version for result in results], DeltaTable("memory://doc-group/t").count()
    ([1, 1, 1, 1], 5)
    >>> DeltaTable("memory://doc-group/t").history(1)[0]["groupedAppends"]
    4
    """

    def __init__(
        self,
        table_or_uri: TableUri | OpenTable,
        *,
        storage_options: StorageOptions | None = None,
        max_appends: int = 1_000,
        max_files: int = 10_000,
        max_bytes: int = 1 << 34,
        max_waiting: int = 1_000,
        max_delay_seconds: float = 0.0,
        target_file_size: int | None = None,
        writer_properties: WriterProperties | None = None,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> None:
        self._location, self._options = opened_address(table_or_uri, storage_options)
        if commit_properties is not None and commit_properties.app_transactions:
            raise InvalidArgumentError("app_transactions belong to single appends: give each append its own txn")
        intent = WriteIntent(
            mode="append",
            target_file_size=target_file_size,
            writer_properties=writer_properties,
            commit_properties=commit_properties,
            post_commithook_properties=post_commithook_properties,
        )
        self._request = intent.request(self._location, self._options)
        bounds = _Bounds(
            _count("max_appends", max_appends), _count("max_files", max_files), _count("max_bytes", max_bytes)
        )
        if not (isinstance(max_delay_seconds, (int, float)) and 0 <= max_delay_seconds < math.inf):
            raise InvalidArgumentError(f"max_delay_seconds is a number of seconds from 0 on, not {max_delay_seconds!r}")
        self._process_id = os.getpid()
        self._plans: dict[bytes, _Plan] = {}
        self._asked: tuple[float, _native.NewestVersion] | None = None
        self._callers: LeaderBatcher[_Ready, _Outcome] = LeaderBatcher(
            self._commit, bounds.next_group, bounds.are_met_by, _count("max_waiting", max_waiting), max_delay_seconds
        )
        _native.Snapshot.open(self._location, self._options)

    def append(self, data: Any, txn: Transaction | tuple[str, int] | None = None) -> WriteResult:
        """Appends rows; can be called by any number of threads at once.

        Args:
            data: as `write_deltalake` takes it. It is read in this thread.
            txn: the application's id and version: rows of one version are never written twice, and
                are skipped if a higher version was committed before. An application must append its
                versions one after the other.

        Returns:
            The version that holds the rows, with the metrics of that whole commit; or `skipped` is
            `"txn"`.

        Raises:
            SchemaMismatchError, ConstraintViolationError, InvalidArgumentError, TypeError: this
                data, or the call, is invalid; other appends continue.
            MetadataChangedException: another writer changed the table, and data that is a stream
                can't be read again to fit the new table: nothing was committed. Tables, batches and
                data frames are written again.
            DeltaConcurrentModificationException: other writers won every attempt; nothing was
                committed.
            StoreUnavailableError: raised for the whole group. As with every write, the commit may
                have happened if the message says so: a `txn` makes a retry safe.
            UnsupportedFeatureError: the rows need values of an identity column, which only single
                commits assign.
            InvalidArgumentError: the writer is closed, or was opened in another process.
            InternalError: the committing thread was interrupted, so whether the group is in the
                table is unknown.
        """
        if os.getpid() != self._process_id:
            raise InvalidArgumentError(
                "this writer was opened in another process, of which this one is a fork: open one here"
            )
        transaction = _transaction(txn)
        with self._callers.admit():
            return self._append(data, transaction)

    @property
    def waiting(self) -> int:
        """The number of finished appends that wait for the next commit."""
        return self._callers.waiting

    def close(self) -> None:
        """Waits for the appends in progress and refuses later ones. Does nothing in a forked
        process.

        Raises:
            InvalidArgumentError: called from within an append of the same thread.
        """
        if os.getpid() == self._process_id:
            self._callers.close()

    def __enter__(self) -> GroupWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a GroupWriter belongs to the process that opened it: it can't be copied or pickled; open another"
        )

    def __repr__(self) -> str:
        return f"GroupWriter({self._location!r})"

    # --- one append, in its own thread --------------------------------------------------------------------------------

    def _append(self, data: Any, transaction: Transaction | None) -> WriteResult:
        for _ in range(_MOST_PLANS):
            try:
                return self._append_once(as_reader(data), transaction)
            except _OutdatedPlan:
                if not reads_again(data):
                    break
        raise MetadataChangedException(
            "the table's columns or properties changed while rows were written for it, and the rows couldn't be written "
            "again: nothing of them was committed; append them again",
            table=self._location,
        )

    def _append_once(self, reader: pa.RecordBatchReader, transaction: Transaction | None) -> WriteResult:
        plan, is_new = self._plan_of(reader.schema)
        self._ask_newest()
        try:
            adds = write_rows(self._location, self._options, plan.spec, reader)
        except _REFUSALS as e:
            if not is_new and self._is_outdated(plan):
                raise _OutdatedPlan from e
            raise
        outcome = self._callers.submit(_Ready(plan, adds, adds.size_bytes, transaction))
        if not outcome.keeps_files:
            # No caller waits for it, and VACUUM deletes the remaining files.
            with contextlib.suppress(DeltaError):
                _native.discard_files(self._location, self._options, adds)
        if outcome.result is None:
            # Each thread raises its own copy of the exception: a shared one would collect the
            # tracebacks of all.
            raise copy.copy(outcome.error) from outcome.error  # type: ignore[misc]
        return outcome.result

    def _plan_of(self, schema: pa.Schema) -> tuple[_Plan, bool]:
        """The requirements for files of this schema, and whether they were planned by this call."""
        # Metadata of the whole schema describes a library's view of the rows; pandas stores their
        # number there.
        key = schema.remove_metadata().serialize().to_pybytes()
        if (cached := self._plans.get(key)) is not None:
            return cached, False
        plan = _Plan(schema, self._begin(schema).spec)
        if plan.spec.declares:
            raise TableNotFoundError("the table is gone since this writer was opened", table=self._location)
        if plan.spec.identity:
            raise UnsupportedFeatureError(
                f"a group commit hands out no values for the identity column `{plan.spec.identity[0].column}`, since the "
                "next group would have to know them before its files are written: use write_deltalake",
                table=self._location,
            )
        if len(self._plans) >= _PLANS_KEPT:
            self._plans.clear()
        self._plans[key] = plan
        return plan, True

    def _ask_newest(self) -> None:
        """Asks for the newest version while rows are written, which saves the commit a request's
        time. While a group is committed the answer would be outdated."""
        asked, now = self._asked, time.monotonic()
        if self._callers.is_processing or (asked is not None and now - asked[0] < _ASKED_SECONDS):
            return
        newest = _native.NewestVersion.ask(self._location, self._options)
        self._asked = None if newest is None else (now, newest)

    def _take_newest(self) -> _native.NewestVersion | None:
        asked, self._asked = self._asked, None
        return None if asked is None else asked[1]

    def _is_outdated(self, plan: _Plan) -> bool:
        try:
            outdated = self._begin(plan.schema).spec != plan.spec
        except _REFUSALS:
            outdated = True
        if outdated:
            self._plans.clear()
        return outdated

    # --- one commit, for a whole group --------------------------------------------------------------------------------

    def _begin(
        self, schema: pa.Schema, group: Sequence[_Ready] = (), newest: _native.NewestVersion | None = None
    ) -> _native.WriteJob:
        """Plans a commit of this group on the newest version, which may have been asked for."""
        commit = self._request.commit
        if group:
            done = [append.transaction for append in group if append.transaction is not None]
            commit = commit.with_fields(
                txn=[{"app_id": t.app_id, "version": t.version} for t in done],
                commit_info={**commit.commit_info, "groupedAppends": len(group)},
            )
        request = self._request.with_fields(commit=commit)
        return _native.WriteJob.begin(self._location, self._options, schema, request, newest=newest)

    def _commit(self, group: Sequence[_Ready]) -> list[_Outcome]:
        left = list(group)
        outcome = self._commit_new(left)
        new = set(left)
        return [outcome if append in new else _SKIPPED for append in group]

    def _commit_new(self, group: list[_Ready]) -> _Outcome:
        """Commits the group without the appends whose application version is already committed,
        which are removed from it.

        Every attempt plans again, on the newest version: the first one on the version that was the
        newest when rows began to be written, if it was asked for. The files are reused if the new
        plan requires exactly the same form; the core checks changes between plan and commit as
        for any append.
        """
        plan = group[0].plan
        for _ in range(_MOST_ATTEMPTS):
            try:
                job = self._begin(plan.schema, group, self._take_newest())
                if job.skip is not None:
                    self._take_out_done(group)
                    if not group:
                        return _SKIPPED
                    continue
                is_outdated = job.spec != plan.spec
            except _REFUSALS:
                is_outdated = True
            except DeltaError as e:
                return _Outcome(error=e)
            if is_outdated:
                self._plans.clear()
                return _Outcome(error=_OutdatedPlan())
            try:
                committed = job.commit(_native.AddedFiles.joined([append.adds for append in group]))
            except _JUDGED_ANEW:
                continue
            except NOT_COMMITTED as e:
                return _Outcome(error=e)
            except DeltaError as e:
                return _Outcome(error=e, keeps_files=True)
            assert committed is not None, "an append is skipped by no table that is there"
            result = WriteResult(version=committed.version, metrics=committed.metrics)
            return _Outcome(result=result, keeps_files=True)
        return _Outcome(
            error=ConcurrentWriteException(
                f"other writers changed the table, or an application's version, in each of {_MOST_ATTEMPTS} attempts: "
                "nothing was committed; try again",
                table=self._location,
            )
        )

    def _take_out_done(self, group: list[_Ready]) -> None:
        done = _native.Snapshot.open(self._location, self._options).transactions()

        def is_new(append: _Ready) -> bool:
            t = append.transaction
            return t is None or t.app_id not in done or done[t.app_id] < t.version

        group[:] = filter(is_new, group)


def _count(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidArgumentError(f"{name} is a whole number from 1 on, not {value!r}")
    return value


def _transaction(txn: Transaction | tuple[str, int] | None) -> Transaction | None:
    """Checked here, since a transaction that the log refuses would fail the whole group."""
    if txn is None:
        return None
    app_id, version = (txn.app_id, txn.version) if isinstance(txn, Transaction) else _pair(txn)
    is_number = isinstance(version, int) and not isinstance(version, bool)
    if not (isinstance(app_id, str) and is_number and -_LONG <= version < _LONG):
        raise InvalidArgumentError(f"txn is an application's id, as text, and its version, a long, not {txn!r}")
    return Transaction(app_id, version)


def _pair(txn: Any) -> tuple[Any, Any]:
    if not (isinstance(txn, tuple) and len(txn) == 2):
        raise InvalidArgumentError(f"txn is a Transaction or (application's id, version), not {txn!r}")
    return txn
