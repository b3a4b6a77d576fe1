"""The file index that Catalyst asks for files while it plans: a snapshot for each query, pruned by the Rust core.

Spark calls it from its own threads, through py4j. It knows no Spark class by name (that is `_internals`) and never sees a
row. Called by `deltaplane.spark._read` and by the JVM.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from deltaplane import _native
from deltaplane.exceptions import DeltaError, SchemaMismatchError, TableNotFoundError
from deltaplane.spark import _internals
from deltaplane.spark._replay import Files
from deltaplane.spark._statistics import column_statistics

__all__ = ["DeltaplaneFileIndex", "LiveSnapshots", "PinnedSnapshot", "Plan", "Plans"]

# Queries whose snapshot is remembered. Forgetting one early only matters to a query that plans another scan of the
# same view after this many newer ones began.
_QUERIES = 256
# What the recorded plans of an index are for: `explain`-like questions about the last query, not history.
_PLANS = 16

_serial = itertools.count()


@dataclass(frozen=True)
class Plan:
    """One answer to Catalyst: how many filters it asked with, how many the Rust core understood and how many files that
    left; then the directories that Spark's own evaluation of the partition filters left of these; and whether a Spark job
    found the files.
    """

    version: int
    filters: int
    understood: int
    files: int
    directories: int
    by_job: bool = False


class Plans(Protocol):
    """Other ways to a scan's files than the snapshot's own plan."""

    def take(self, snapshot: _native.Snapshot) -> bool:
        """Whether this way is taken for a version."""

    def plan(
        self,
        snapshot: _native.Snapshot,
        template: _native.SparkTemplate,
        filters: Sequence[str],
        zone: str,
        files: Files,
    ) -> _native.SparkPlan:
        """As `_native.spark_plan`."""

    def size_bytes(self, snapshot: _native.Snapshot, files: Files) -> int:
        """As `_native.spark_size_bytes`."""


class PinnedSnapshot:
    """The same version for every query. Two of the same table and version are equal, so Spark may share their work."""

    def __init__(self, snapshot: _native.Snapshot) -> None:
        self.first = snapshot
        self.identity = f"deltaplane {snapshot.uri} version {snapshot.version}"

    def for_query(self, query_id: str | None) -> _native.Snapshot:
        """The snapshot; whatever the query."""
        return self.first

    def is_settled(self, query_id: str | None) -> bool:
        """Whether what is planned now is what will be read."""
        return True


class LiveSnapshots:
    """The newest version for each query, the same one for all parts of a query.

    The view's columns are those of `first`; a newer version must still have them, with the same types.
    """

    def __init__(self, snapshot: _native.Snapshot, options: Mapping[str, str] | None = None) -> None:
        self.first = snapshot
        self.identity = f"deltaplane {snapshot.uri} live {next(_serial)}"
        self._columns = _columns(snapshot)
        self._lock = threading.Lock()
        self._options = options
        self._store = _native.RawStore.open(snapshot.location, options)
        self._newest = snapshot
        self._commit = self._seen(snapshot.version)
        self._queries: OrderedDict[str, _native.Snapshot] = OrderedDict()

    def for_query(self, query_id: str | None) -> _native.Snapshot:
        """This query's snapshot, or, outside of a query, the newest.

        Raises:
            SchemaMismatchError: a column of the view is gone or has another type now.
            TableNotFoundError: the table was deleted, or another one is where it was.
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

    def is_settled(self, query_id: str | None) -> bool:
        """Whether what is planned now is what will be read: outside of a query a newer version may be."""
        return query_id is not None

    def _update(self) -> _native.Snapshot:
        """The newest version. One request tells whether the table still is the one that it was: a commit never changes."""
        last = self._newest
        if self._commit is not None and self._seen(last.version) == self._commit:
            newest = last.update()
        else:
            newest = _native.Snapshot.open(last.location, self._options)
            if json.loads(newest.metadata_json())["id"] != json.loads(last.metadata_json())["id"]:
                raise TableNotFoundError(
                    "the view's table was deleted and another one made in its place: call create_or_replace_temp_view "
                    "again to see that one",
                    table=newest.uri,
                )
        if newest.version != last.version or self._commit is None:
            self._commit = self._seen(newest.version)
        return newest

    def _seen(self, version: int) -> tuple[str, int, int, str | None] | None:
        """The file of a version's commit; None where it is gone, as log cleanup takes old ones."""
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
                f"{newest.version}: {'; '.join(differences)}. Call create_or_replace_temp_view again to see the new ones",
                table=newest.uri,
                version=newest.version,
            )


def _columns(snapshot: _native.Snapshot) -> dict[str, str]:
    """Each column's type as text; whether nulls are allowed matters too, since Spark optimises by it."""
    partition = json.loads(snapshot.metadata_json())["partition_columns"]
    columns = {}
    in_files = json.loads(_native.spark_schema_json(snapshot))["fields"]
    for field, there in zip(json.loads(snapshot.schema_json())["fields"], in_files, strict=True):
        kind = field["type"] if isinstance(field["type"], str) else json.dumps(field["type"], sort_keys=True)
        notes = ("" if field["nullable"] else " not null") + (
            " (partition column)" if field["name"] in partition else ""
        )
        # A column that was dropped and added again under its name is another one.
        notes += f" (`{there['name']}` in files)" if there["name"] != field["name"] else ""
        columns[field["name"]] = kind + notes
    return columns


class DeltaplaneFileIndex:
    """Spark's `FileIndex` in Python. Names and arity of its methods are Spark's.

    It shows all files, or those without a deletion vector ("whole"), or those with one ("marked"), each with its vector's
    bits as a last partition value, `deleted`.
    """

    def __init__(
        self,
        spark: Any,
        jvm: _internals.Jvm,
        snapshots: PinnedSnapshot | LiveSnapshots,
        template: _native.SparkTemplate,
        jobs: Plans,
        files: Files = "all",
    ) -> None:
        self._spark = spark
        self._jvm = jvm
        self._snapshots = snapshots
        self._template = template
        self._jobs = jobs
        self._files = files
        first = snapshots.first
        # Spark knows the columns as the files do.
        self.relation_schema = _native.spark_schema_json(first)
        names = [f["name"].lower() for f in json.loads(first.schema_json())["fields"]]
        relation = json.loads(self.relation_schema)["fields"]
        fields = dict(zip(names, relation, strict=True))
        partition = [fields[name.lower()] for name in json.loads(first.metadata_json())["partition_columns"]]
        self.deleted = "__deleted_rows"
        while self.deleted in {field["name"].lower() for field in relation}:
            self.deleted += "_"
        if files == "marked":
            partition.append({"name": self.deleted, "type": "binary", "nullable": False, "metadata": {}})
        self.schema = jvm.struct(self.relation_schema)
        self._partition_schema = jvm.struct(json.dumps({"type": "struct", "fields": partition}))
        self._root = jvm.seq([jvm.path(_native.spark_uri(first))])
        self._sizes: dict[int, int] = {}
        self.plans: list[Plan] = []
        # What Spark's relation takes: this index, under a name that plans show.
        self.shown = jvm.named_index(self, self.toString(), self._root, self._partition_schema, prepared=False)

    def _snapshot(self) -> _native.Snapshot:
        return self._snapshots.for_query(self._jvm.query_id(self._spark))

    def listFiles(self, partition_filters: Any, data_filters: Any) -> Any:
        """The files that can hold a matching row, by partition.

        Exact for the partition filters, which Spark doesn't apply again; the others it applies to the rows.
        """
        snapshot = self._snapshot()
        filters = [*self._jvm.filter_texts(partition_filters), *self._jvm.filter_texts(data_filters)]
        by_job = self._jobs.take(snapshot)
        plan = self._planned(snapshot, filters, by_job)
        directories = self._jvm.partition_directories(plan.blob)
        if partition_filters.size() > 0:
            self._jvm.keep_matching(directories, partition_filters, self._partition_schema)
        self.plans.append(Plan(snapshot.version, len(filters), plan.understood, plan.files, len(directories), by_job))
        del self.plans[:-_PLANS]
        return self._jvm.seq(directories)

    def _planned(self, snapshot: _native.Snapshot, filters: list[str], by_job: bool) -> _native.SparkPlan:
        make = self._jobs.plan if by_job else _native.spark_plan
        return make(snapshot, self._template, filters, self._jvm.time_zone(), self._files)

    def apply(self, leaf: Any, filters: Any) -> Any:
        """For the optimiser: a scan's relation that knows its files, for these filters; None to leave it as it is.

        What goes wrong here would go wrong in `listFiles` too, and is told there.
        """
        try:
            snapshot = self._snapshot()
            if self._jobs.take(snapshot):
                return None
            texts = self._jvm.filter_texts(filters)
            counts = self._jvm.estimates_rows()
            zone = self._jvm.time_zone()
            plan = _native.spark_plan(snapshot, self._template, texts, zone, self._files, counts)
            columns = (
                column_statistics(snapshot, plan, self._jvm.conditions(filters), self._files)
                if counts and self._snapshots.is_settled(self._jvm.query_id(self._spark))
                else {}
            )
        except DeltaError:
            return None
        name = f"`{snapshot.uri}` version {snapshot.version}, {plan.files} of {plan.considered} files"
        index = _PreparedIndex(self, snapshot, {*texts}, plan)
        return self._jvm.prepared_relation(leaf, index.shown, name, plan.size_bytes, plan.rows, columns)

    def sizeInBytes(self) -> int:
        """Bytes of all files, by which Spark chooses between joins: goes through the file list once for each version."""
        snapshot = self._snapshot()
        if snapshot.version not in self._sizes:
            of = self._jobs.size_bytes if self._jobs.take(snapshot) else _native.spark_size_bytes
            self._sizes = {snapshot.version: of(snapshot, self._files)}
        return self._sizes[snapshot.version]

    def inputFiles(self) -> Any:
        """Every file's URI, for `DataFrame.inputFiles`."""
        return self._jvm.strings(_native.spark_file_uris(self._snapshot(), self._files))

    def partitionSchema(self) -> Any:
        """The partition columns."""
        return self._partition_schema

    def rootPaths(self) -> Any:
        """The table's root; shown by `explain`, never listed."""
        return self._root

    def refresh(self) -> None:
        """Nothing to do: a pinned version never changes, a live one is looked up for each query."""

    def metadataOpsTimeNs(self) -> Any:
        """Not measured."""
        return self._jvm.none()

    def toString(self) -> str:
        """What `equals` compares and plans show."""
        return f"{self._snapshots.identity} {self._files} files"

    def hashCode(self) -> int:
        """Equal for equal indexes."""
        return hash(self.toString()) % (1 << 31)

    def equals(self, other: Any) -> bool:
        """Whether the other index, which arrives as a reference into the JVM, gives the same files to a query."""
        return other is not None and str(other.toString()) == self.toString()

    class Java:
        """What py4j reads: the interface that this class implements."""

        implements = (_internals.FILE_INDEX, "java.util.function.BiFunction")


class _PreparedIndex(DeltaplaneFileIndex):
    """The index of one scan of a query, whose files the optimiser has asked for already.

    It equals the index that it comes from: scans with the same filters have the same files, and Spark shares their work.
    """

    def __init__(
        self, of: DeltaplaneFileIndex, snapshot: _native.Snapshot, filters: set[str], plan: _native.SparkPlan
    ) -> None:
        self.__dict__.update(of.__dict__)
        self._version, self._filters, self._size_bytes = snapshot.version, filters, plan.size_bytes
        self._plan: _native.SparkPlan | None = plan
        self.shown = self._jvm.named_index(self, self.toString(), self._root, self._partition_schema, prepared=True)

    def sizeInBytes(self) -> int:
        """Bytes of the files that are left."""
        return self._size_bytes

    def _planned(self, snapshot: _native.Snapshot, filters: list[str], by_job: bool) -> _native.SparkPlan:
        """The files that were found, unless Spark asks for others: of a later version, or by other filters."""
        # Held no longer than it is of use: Spark asks once for each scan, and may keep the index for long.
        plan, self._plan = self._plan, None
        if plan is None or snapshot.version != self._version or {*filters} != self._filters:
            return super()._planned(snapshot, filters, by_job)
        return plan
