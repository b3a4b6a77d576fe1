"""Column statistics of a scan for Spark's cost-based optimizer, from the log's statistics of the
remaining files.

Reports only exact facts, since Spark trusts them without a check. Uses no Spark object.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any

from deltaplane import _native, expr
from deltaplane.exceptions import DeltaError
from deltaplane.io.arrow import Scan

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ColumnStatistics", "Condition", "column_statistics"]

# For other types, the log's bounds are rounded, truncated or incomplete (NaN). Spark's estimates
# also fail for some types with statistics, and treat a column without bounds as empty unless it is
# of text or bytes.
_ORDERED = ("byte", "short", "integer", "long", "date")
_PLAIN = ("string", "binary")
# Strings with a collation have a type of their own, for which Spark's estimates fail, too.
_COLLATIONS = "__COLLATIONS"
# Maximum number of bounds that are stored for counting a column's distinct values.
_MOST_VALUES = 1 << 16
# The day from which Arrow counts, in the numbering of Python's dates.
_EPOCH = 719_163


@dataclass(frozen=True)
class Condition:
    """One of a scan's filters: Spark's text, and the possible qualifiers of its columns."""

    text: str
    qualifiers: Sequence[Sequence[str]] = ()


@dataclass(frozen=True)
class ColumnStatistics:
    """Statistics of one column: texts in the form of Spark's catalog, None if unknown."""

    nulls: int
    distinct: int | None = None
    low: str | None = None
    high: str | None = None


def column_statistics(
    snapshot: _native.Snapshot, plan: _native.SparkPlan, conditions: Sequence[Condition], files: str
) -> dict[str, ColumnStatistics]:
    """Statistics by the column names in Spark's relation; empty if these conditions don't determine
    the plan's files. `files`: all, or those without ("whole") or with ("marked") a deletion vector.

    Distinct values are counted if the log contains all of them: partition values, and columns whose
    bounds leave no value between them.
    """
    if not plan.rows:
        return {}
    in_files = {
        field["name"]: there["name"]
        for field, there in zip(
            snapshot.schema.to_value()["fields"], _native.spark_schema(snapshot).to_value()["fields"], strict=True
        )
    }
    partition = {name.lower() for name in snapshot.info.partition_columns}
    columns: dict[str, _Column] = {
        field["name"]: (_Partition if field["name"].lower() in partition else _Bounded)(field["name"], field["type"])
        for field in snapshot.schema.to_value()["fields"]
        if field["type"] in (*_ORDERED, *_PLAIN) and _COLLATIONS not in (field.get("metadata") or {})
    }
    totals = [0, 0, 0]
    try:
        for batch in _batches(snapshot, _predicate(conditions, in_files), files):
            totals = [
                totals[0] + batch.num_rows,
                totals[1] + _sum(batch["size_bytes"]),
                totals[2] + _sum(batch["live"]),
            ]
            columns = {name: column for name, column in columns.items() if column.add(batch)}
    except DeltaError:
        return {}
    # Spark's filters and their texts may prune differently; equal numbers of files, bytes and rows
    # show that both selected the same files.
    if totals != [plan.files, plan.size_bytes, plan.rows]:
        return {}
    said = {in_files[name]: column.statistics() for name, column in columns.items()}
    return {name: value for name, value in said.items() if value is not None}


# --- the files ---


def _predicate(conditions: Sequence[Condition], in_files: Mapping[str, str]) -> _native.Predicate | None:
    """The evaluable part of the conditions, with the table's column names."""
    names = {there: name for name, there in in_files.items()}
    parts = []
    for condition in conditions:
        try:
            trees, _ = expr.necessary(condition.text)
        except DeltaError:
            continue
        parts += [
            _native.Predicate(_renamed(tree.to_dict(), partial(_own, condition.qualifiers, names))) for tree in trees
        ]
    return _native.Predicate.all_of(parts)


def _own(qualifiers: Sequence[Sequence[str]], names: Mapping[str, str], path: list[str]) -> list[str]:
    """A column's path without the relation's qualifier, with the table's name for it."""
    for qualifier in qualifiers:
        if qualifier and len(path) > len(qualifier) and path[: len(qualifier)] == list(qualifier):
            path = path[len(qualifier) :]
            break
    return [names.get(path[0], path[0]), *path[1:]]


def _renamed(node: Any, rename: Callable[[list[str]], list[str]]) -> Any:
    if isinstance(node, list):
        return [_renamed(child, rename) for child in node]
    if not isinstance(node, dict):
        return node
    if node.get("op") == "column":
        return {**node, "name": rename(node["name"])}
    return {key: _renamed(value, rename) for key, value in node.items()}


def _batches(snapshot: _native.Snapshot, predicate: _native.Predicate | None, files: str) -> Iterator[pa.RecordBatch]:
    """The core's plan of these files, with the number of live rows in each."""
    import pyarrow.compute as pc

    for batch in Scan(snapshot.plan(predicate)).to_reader():
        vectors = batch["deletion_vector"]
        if files != "all":
            batch = batch.filter(pc.is_null(vectors) if files == "whole" else pc.is_valid(vectors))
            vectors = batch["deletion_vector"]
        gone = pc.fill_null(pc.struct_field(vectors, ["cardinality"]), 0)
        yield batch.append_column("live", pc.subtract(batch["num_records"], gone))


# --- columns ---


class _Column(ABC):
    """Accumulates the statistics of a column over batches."""

    def __init__(self, name: str, kind: str) -> None:
        self.name, self.kind = name, kind
        self.values, self.nulls = _Values(), 0
        # True if the collected values are all of the column's values.
        self.complete = True

    @abstractmethod
    def add(self, batch: pa.RecordBatch) -> bool:
        """Adds a batch's files; returns false if a file lacks the needed statistics."""

    def statistics(self) -> ColumnStatistics | None:
        """The statistics of all added files."""
        return self.values.statistics(self.nulls, self.kind, complete=self.complete)


class _Partition(_Column):
    """A partition column, whose value is the same in all rows of a file."""

    def add(self, batch: pa.RecordBatch) -> bool:
        import pyarrow.compute as pc

        partitions, live = pc.struct_field(batch["partition"], [self.name]), batch["live"]
        self.nulls += _sum(live.filter(pc.is_null(partitions)))
        self.values.add(_plain(partitions.filter(pc.and_(pc.greater(live, 0), pc.is_valid(partitions))), self.kind))
        return True


class _Bounded(_Column):
    """A column stored in the files. A file with a deletion vector has no exact bounds, since the
    extreme rows may be deleted."""

    def add(self, batch: pa.RecordBatch) -> bool:
        import pyarrow.compute as pc

        nulls = _section(batch, "null_count", self.name)
        if nulls is None or nulls.null_count or batch["deletion_vector"].null_count < batch.num_rows:
            return False
        some = pc.subtract(batch["num_records"], nulls)
        if not _all(pc.and_(pc.greater_equal(nulls, 0), pc.greater_equal(some, 0))):
            return False
        self.nulls += _sum(nulls)
        if self.kind in _PLAIN:
            self.complete = self.complete and not _sum(some)
            return True
        low, high = _section(batch, "min", self.name), _section(batch, "max", self.name)
        if low is None or high is None:
            return not _sum(some)
        has_some = pc.greater(some, 0)
        low, high, some = (
            bounds.filter(has_some) for bounds in (_plain(low, self.kind), _plain(high, self.kind), some)
        )
        if low.null_count or high.null_count or not _all(pc.less_equal(low, high)):
            return False
        # No other value lies between the bounds, or no row could have one.
        known = pc.or_(pc.less_equal(pc.subtract(high, low), 1), pc.less_equal(some, 2))
        self.complete = self.complete and _all(known)
        self.values.add(low)
        self.values.add(high)
        if not self.complete:
            self.values.forget_if_far_apart()
        return True


class _Values:
    """The distinct values of a column, up to a maximum number; and minimum and maximum."""

    def __init__(self) -> None:
        self.kept: set[Any] | None = set()
        self.low: Any = None
        self.high: Any = None

    def add(self, values: pa.Array) -> None:
        import pyarrow.compute as pc

        if not len(values):
            return
        bounds = pc.min_max(values)
        low, high = bounds["min"].as_py(), bounds["max"].as_py()
        self.low = low if self.low is None else min(self.low, low)
        self.high = high if self.high is None else max(self.high, high)
        if self.kept is not None:
            self.kept.update(pc.unique(values).to_pylist())
            if len(self.kept) > _MOST_VALUES:
                self.kept = None

    def forget_if_far_apart(self) -> None:
        """Discards the values if they can't fill the range between the bounds, so that they don't
        count as all values."""
        if self.low is not None and self.high - self.low >= _MOST_VALUES:
            self.kept = None

    def statistics(self, nulls: int, kind: str, *, complete: bool) -> ColumnStatistics | None:
        """`complete`: the collected values are all of the column's values."""
        if kind in _PLAIN:
            return ColumnStatistics(nulls, len(self.kept) if complete and self.kept is not None else None)
        if self.low is None:
            return ColumnStatistics(nulls, 0)
        # Integers that fill the range between the bounds are complete as well.
        full = self.kept is not None and len(self.kept) == self.high - self.low + 1
        distinct = len(self.kept) if self.kept is not None and (complete or full) else None
        try:
            return ColumnStatistics(nulls, distinct, _text(self.low, kind), _text(self.high, kind))
        except (ValueError, OverflowError):
            # Python can't represent the date.
            return None


def _text(value: int, kind: str) -> str:
    return date.fromordinal(_EPOCH + value).isoformat() if kind == "date" else str(value)


def _plain(values: pa.Array, kind: str) -> pa.Array:
    """Values in comparable form: dates as day numbers."""
    import pyarrow as pa

    if kind == "date":
        return values.cast(pa.int32()).cast(pa.int64())
    return values.cast(pa.int64()) if kind in _ORDERED else values


def _section(batch: pa.RecordBatch, section: str, column: str) -> pa.Array | None:
    import pyarrow.compute as pc

    if section not in batch.schema.names or batch.schema.field(section).type.get_field_index(column) < 0:
        return None
    return pc.struct_field(batch[section], [column])


def _sum(values: pa.Array) -> int:
    import pyarrow.compute as pc

    return int(pc.sum(values, min_count=0).as_py())


def _all(values: pa.Array) -> bool:
    import pyarrow.compute as pc

    return bool(pc.all(values, min_count=0).as_py())
