"""The file index that Catalyst calls for files during planning: a snapshot for each query, pruned
by the Rust core.

The JVM's class (`java/DeltaplaneFileIndex.java`) calls it from Spark's own threads, through py4j.
It names no Spark class (`internals` does) and handles no rows.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from deltaplane import _native
from deltaplane.exceptions import DeltaError, SchemaMismatchError, TableNotFoundError
from deltaplane.io import records
from deltaplane.spark.errors.refusals import refusal
from deltaplane.spark.jvm import internals as _internals
from deltaplane.spark.jvm.schema import shown
from deltaplane.spark.jvm.statistics import column_statistics
from deltaplane.spark.scan.replay import Files

__all__ = ["DeltaplaneFileIndex", "LiveSnapshots", "PinnedSnapshot", "Plan", "Plans"]

# Number of queries whose snapshot is cached. A query loses its snapshot only if it plans another
# scan of the same view after this many newer queries began.
_QUERIES = 256
# The largest long of the JVM.
_MOST = (1 << 63) - 1

_serial = itertools.count()


@dataclass(frozen=True)
class Plan:
    """One answer to Catalyst: the number of filters, of filters that the Rust core understood, and
    of the remaining files; then the number of directories that Spark's own evaluation of the
    partition filters retained; and whether a Spark job found the files.
    """

    version: int
    filters: int
    understood: int
    files: int
    directories: int
    by_job: bool = False


class Plans(Protocol):
    """An alternative to the snapshot's own plan for finding a scan's files."""

    def take(self, snapshot: _native.Snapshot, filters: Sequence[str] = (), zone: str = "UTC") -> bool:
        """Whether to use this alternative for a version, with these filters."""

    def plan(
        self,
        snapshot: _native.Snapshot,
        filters: Sequence[str],
        zone: str,
        files: Files,
    ) -> _native.SparkPlan:
        """As `_native.spark_plan`."""

    def size_bytes(self, snapshot: _native.Snapshot, files: Files) -> int:
        """As `_native.spark_size_bytes`."""


class PinnedSnapshot:
    """The same version for every query. Two objects for the same table and version are equal, so
    Spark may share their work."""

    def __init__(self, snapshot: _native.Snapshot) -> None:
        self.first = snapshot
        self.identity = f"deltaplane {snapshot.uri} version {snapshot.version}"

    def for_query(self, query_id: str | None) -> _native.Snapshot:
        """The pinned snapshot, the same for every query."""
        return self.first


class LiveSnapshots:
    """The newest version for each query, the same version for all parts of a query.

    The view has the columns of `first`; a newer version must still have them, with the same types.
    """

    def __init__(
        self, snapshot: _native.Snapshot, open_table: Callable[[], _native.Snapshot], files: _native.RawStore
    ) -> None:
        """`open_table` opens the newest version of the table with this location or name; `files`
        are the table's own."""
        self.first = snapshot
        self.identity = f"deltaplane {snapshot.uri} live {next(_serial)}"
        self._columns = _columns(snapshot)
        self._lock = threading.Lock()
        self._open_table = open_table
        self._store = files
        self._newest = snapshot
        self._commit = self._seen(snapshot.version)
        self._queries: OrderedDict[str, _native.Snapshot] = OrderedDict()

    def for_query(self, query_id: str | None) -> _native.Snapshot:
        """The snapshot of this query or, outside of a query, the newest one.

        Raises:
            SchemaMismatchError: a column of the view was dropped or changed its type.
            TableNotFoundError: the table was deleted or replaced by another one.
        """
        with self._lock:
            known = self._queries.get(query_id) if query_id is not None else None
            if known is not None:
                return known
            newest = self._update()
            self._check(newest)
            self._newest = newest
            if query_id is not None:
                self._queries[query_id] = newest
                while len(self._queries) > _QUERIES:
                    self._queries.popitem(last=False)
            return newest

    def _update(self) -> _native.Snapshot:
        """The newest version. One request verifies the table's identity, because a commit's file
        never changes."""
        last = self._newest
        newest = self._updated(last) if self._commit is not None and self._seen(last.version) == self._commit else None
        if newest is None:
            newest = self._opened()
            if newest.info.id != last.info.id:
                raise TableNotFoundError(
                    "the view's table was deleted and another one made in its place: read it again, or call "
                    "create_or_replace_temp_view again, to see that one",
                    table=newest.uri,
                )
        if newest.version != last.version or self._commit is None:
            self._commit = self._seen(newest.version)
        return newest

    @staticmethod
    def _updated(last: _native.Snapshot) -> _native.Snapshot | None:
        """The newest version of the same table; None if its name in a catalog has another table by
        now, or none."""
        try:
            return last.update()
        except TableNotFoundError:
            return None

    def _opened(self) -> _native.Snapshot:
        try:
            return self._open_table()
        except TableNotFoundError as e:
            raise TableNotFoundError(
                "the view's table was deleted: create it again, then read it again, or call create_or_replace_temp_view again",
                table=e.table,
            ) from e

    def _seen(self, version: int) -> tuple[str, int, int, str | None] | None:
        """The file of a version's commit; None if log clean-up removed it."""
        try:
            return self._store.head(f"_delta_log/{version:020}.json")
        except DeltaError:
            return None

    def _check(self, newest: _native.Snapshot) -> None:
        now = _columns(newest)
        if now == self._columns:
            return
        differences = [
            f"`{name}` was {was} and is {now.get(name, 'gone')}"
            for name, was in self._columns.items()
            if now.get(name) != was
        ]
        if differences:
            raise SchemaMismatchError(
                f"the view shows version {self.first.version} and later of a table whose columns changed by version "
                f"{newest.version}: {'; '.join(differences)}. Read it again, or call create_or_replace_temp_view again, to "
                "see the new ones",
                table=newest.uri,
                version=newest.version,
            )


def _columns(snapshot: _native.Snapshot) -> dict[str, str]:
    """Each column's type as text, including nullability, since Spark's optimizer depends on it."""
    partition = snapshot.info.partition_columns
    columns = {}
    in_files = _native.spark_schema(snapshot).to_value()["fields"]
    for field, there in zip(snapshot.schema.to_value()["fields"], in_files, strict=True):
        kind = field["type"] if isinstance(field["type"], str) else json.dumps(field["type"], sort_keys=True)
        notes = ("" if field["nullable"] else " not null") + (
            " (partition column)" if field["name"] in partition else ""
        )
        # A column that was dropped and added again under the same name is another column.
        notes += f" (`{there['name']}` in files)" if there["name"] != field["name"] else ""
        columns[field["name"]] = kind + notes
    return columns


class DeltaplaneFileIndex:
    """Answers the questions of the JVM's file index.

    It lists all files, or those without a deletion vector ("whole"), or those with one ("marked"),
    each with its vector's bits in a last partition column, `deleted`.
    """

    def __init__(
        self,
        spark: Any,
        jvm: _internals.Jvm,
        snapshots: PinnedSnapshot | LiveSnapshots,
        jobs: Plans,
        files: Files = "all",
    ) -> None:
        self._jvm = jvm
        self._snapshots = snapshots
        self._jobs = jobs
        self._files = files
        first = snapshots.first
        # Spark uses the column names of the files.
        self.relation_schema: dict[str, Any] = shown(_native.spark_schema(first).to_value())
        names = [f["name"].lower() for f in first.schema.to_value()["fields"]]
        relation = self.relation_schema["fields"]
        fields = dict(zip(names, relation, strict=True))
        partition = [fields[name.lower()] for name in first.info.partition_columns]
        self.deleted = "__deleted_rows"
        while self.deleted in {field["name"].lower() for field in relation}:
            self.deleted += "_"
        if files == "marked":
            partition.append({"name": self.deleted, "type": "binary", "nullable": False, "metadata": {}})
        self._sizes: dict[int, int] = {}
        self._told_version = first.version
        # The object for Spark's relation.
        self.shown = jvm.file_index(
            spark, self, f"{snapshots.identity} {files} files", _native.spark_uri(first),
            json.dumps({"type": "struct", "fields": partition}), pinned=isinstance(snapshots, PinnedSnapshot),
        )  # fmt: skip

    @property
    def plans(self) -> list[Plan]:
        """The last answers to Catalyst, oldest first."""
        plans = []
        for line in str(self.shown.plans()).splitlines():
            version, filters, understood, files, directories, by_job = line.split(" ")
            plans.append(Plan(int(version), int(filters), int(understood), int(files), int(directories), bool(by_job)))
        return plans

    def apply(self, question: str, conditions: Any) -> bytes | str | None:
        """Answers a question from the JVM, which is one text; `conditions` are Catalyst's filters
        themselves, if column statistics are requested. An error is returned as an answer, too."""
        try:
            return self._answer(_native.spark_question(question), conditions).to_jvm()
        except DeltaError as e:
            return refusal(e)

    def _answer(self, question: records.SparkQuestion, conditions: Any) -> _native.SparkAnswer:
        if question.asked == "changed":
            return _native.SparkAnswer.changed(self._has_changed())
        if question.asked == "prepare":
            return self._prepared(question, conditions)
        snapshot = self._snapshots.for_query(question.query)
        if question.known_version == snapshot.version:
            return _native.SparkAnswer.known()
        if question.asked == "size":
            return _native.SparkAnswer.size(min(self.size_bytes(snapshot), _MOST))
        if question.asked == "files":
            return _native.SparkAnswer.files(_native.spark_file_uris(snapshot, self._files))
        by_job = self._jobs.take(snapshot, question.filters, question.zone)
        make = self._jobs.plan if by_job else _native.spark_plan
        plan = make(snapshot, question.filters, question.zone, self._files)
        return _native.SparkAnswer.found(snapshot, plan, {}, by_job)

    def _has_changed(self) -> bool:
        """Whether the newest version differs from that of the last call; true if the newest version
        can't be opened."""
        last = self._told_version
        try:
            self._told_version = self._snapshots.for_query(None).version
        except DeltaError:
            return True
        return last != self._told_version

    def size_bytes(self, snapshot: _native.Snapshot) -> int:
        """Bytes of all files, by which Spark chooses between joins; reads the file list once for
        each version."""
        if snapshot.version not in self._sizes:
            by_job = self._jobs.take(snapshot)
            size = self._jobs.size_bytes if by_job else _listed_bytes
            self._sizes = {snapshot.version: size(snapshot, self._files)}
        return self._sizes[snapshot.version]

    def _prepared(self, question: records.SparkQuestion, conditions: Any) -> _native.SparkAnswer:
        """Answers the optimizer. If a Spark job finds the files the optimizer gets no statistics,
        since Spark may later request the files with other filters; the same applies to errors,
        which are raised when Spark requests the files."""
        try:
            snapshot = self._snapshots.for_query(question.query)
            if question.known_version == snapshot.version:
                return _native.SparkAnswer.known()
            if self._jobs.take(snapshot, question.filters, question.zone):
                return _native.SparkAnswer.unprepared()
            with_rows = conditions is not None
            plan = _native.spark_plan(snapshot, question.filters, question.zone, self._files, with_rows)
            statistics = {}
            if question.statistics:
                computed = column_statistics(snapshot, plan, self._jvm.conditions(conditions), self._files)
                statistics = {
                    name: (column.nulls, column.distinct, column.low, column.high) for name, column in computed.items()
                }
        except DeltaError:
            return _native.SparkAnswer.unprepared()
        return _native.SparkAnswer.found(snapshot, plan, statistics)

    class Java:
        """The Java interface that this class implements, for py4j."""

        implements = ("java.util.function.BiFunction",)


def _listed_bytes(snapshot: _native.Snapshot, files: Files) -> int:
    """Bytes of the files by the checksum, else by the file list."""
    return _native.spark_size_bytes(snapshot, files, True) or 0
