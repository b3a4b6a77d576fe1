"""Statistics of a scan's columns for Spark's cost-based optimiser, from what the log says of the
files that are left.

Only what it tells exactly, and leaves out the rest: Spark takes what it gets for the truth. Knows
no Spark.
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

# Of other types the log's bounds are rounded, cut, or don't say everything (NaN). Spark's estimates
# also fail on some types that it meets statistics of, and take a column without bounds for one
# without values unless it is of text or bytes.
_ORDERED = ("byte", "short", "integer", "long", "date")
_PLAIN = ("string", "binary")
# Text in another order than by its bytes has a type of its own, at which Spark's estimates fail
# too.
_COLLATIONS = "__COLLATIONS"
# More bounds than this aren't kept to tell how many values a column has.
_MOST_VALUES = 1 << 16
# The day from which Arrow counts, as Python numbers days.
_EPOCH = 719_163


@dataclass(frozen=True)
class Condition:
    """One of a scan's filters: Spark's text of it, and what the columns in it may be qualified
    with."""

    text: str
    qualifiers: Sequence[Sequence[str]] = ()


@dataclass(frozen=True)
class ColumnStatistics:
    """One column of a scan's files: texts as Spark's catalog has them, None where nobody knows."""

    nulls: int
    distinct: int | None = None
    low: str | None = None
    high: str | None = None


def column_statistics(
    snapshot: _native.Snapshot, plan: _native.SparkPlan, conditions: Sequence[Condition], files: str
) -> dict[str, ColumnStatistics]:
    """By the names that columns have in Spark's relation; empty where the plan's files can't be
    told by these conditions. `files`: all, or those without ("whole") or with ("marked") a deletion
    vector.

    Distinct values are counted where the log names them all: partition values, and columns whose
    bounds leave none open.
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
    found = [0, 0, 0]
    try:
        for batch in _batches(snapshot, _predicate(conditions, in_files), files):
            found = [found[0] + batch.num_rows, found[1] + _sum(batch["size_bytes"]), found[2] + _sum(batch["live"])]
            columns = {name: column for name, column in columns.items() if column.add(batch)}
    except DeltaError:
        return {}
    # Spark's filters and their texts may prune unlike each other; the same files have all of these
    # in common.
    if found != [plan.files, plan.size_bytes, plan.rows]:
        return {}
    said = {in_files[name]: column.statistics() for name, column in columns.items()}
    return {name: one for name, one in said.items() if one is not None}


# --- the files ---


def _predicate(conditions: Sequence[Condition], in_files: Mapping[str, str]) -> _native.Predicate | None:
    """What is understood of the conditions, by the table's names of columns."""
    names = {there: name for name, there in in_files.items()}
    parts = []
    for condition in conditions:
        try:
            trees, _ = expr.necessary(condition.text)
        except DeltaError:
            continue
        parts += [_native.Predicate(_renamed(one.tree, partial(_own, condition.qualifiers, names))) for one in trees]
    return _native.Predicate.all_of(parts)


def _own(qualifiers: Sequence[Sequence[str]], names: Mapping[str, str], path: list[str]) -> list[str]:
    """A column's path without the relation's name before it, and by the table's name."""
    for qualifier in qualifiers:
        if qualifier and len(path) > len(qualifier) and path[: len(qualifier)] == list(qualifier):
            path = path[len(qualifier) :]
            break
    return [names.get(path[0], path[0]), *path[1:]]


def _renamed(node: Any, of: Callable[[list[str]], list[str]]) -> Any:
    if isinstance(node, list):
        return [_renamed(one, of) for one in node]
    if not isinstance(node, dict):
        return node
    if node.get("op") == "column":
        return {**node, "name": of(node["name"])}
    return {key: _renamed(value, of) for key, value in node.items()}


def _batches(snapshot: _native.Snapshot, predicate: _native.Predicate | None, files: str) -> Iterator[pa.RecordBatch]:
    """The core's plan of these files, with the number of rows that live in each."""
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
    """What the batches so far say of a column."""

    def __init__(self, name: str, kind: str) -> None:
        self.name, self.kind = name, kind
        self.values, self.nulls = _Values(), 0
        # No value is missing among those that were added.
        self.complete = True

    @abstractmethod
    def add(self, batch: pa.RecordBatch) -> bool:
        """Takes a batch's files in; false where one of them doesn't tell."""

    def statistics(self) -> ColumnStatistics | None:
        """What all of them say."""
        return self.values.statistics(self.nulls, self.kind, complete=self.complete)


class _Partition(_Column):
    """A partition column: each file's value is that of all its rows."""

    def add(self, batch: pa.RecordBatch) -> bool:
        import pyarrow.compute as pc

        of, live = pc.struct_field(batch["partition"], [self.name]), batch["live"]
        self.nulls += _sum(live.filter(pc.is_null(of)))
        self.values.add(_plain(of.filter(pc.and_(pc.greater(live, 0), pc.is_valid(of))), self.kind))
        return True


class _Bounded(_Column):
    """A column in the files. One of them with a deletion vector doesn't tell: its bounds may be
    those of rows that are gone."""

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
        low, high, some = (of.filter(has_some) for of in (_plain(low, self.kind), _plain(high, self.kind), some))
        if low.null_count or high.null_count or not _all(pc.less_equal(low, high)):
            return False
        # Between the bounds there is no other value, or no row that could have it.
        known = pc.or_(pc.less_equal(pc.subtract(high, low), 1), pc.less_equal(some, 2))
        self.complete = self.complete and _all(known)
        self.values.add(low)
        self.values.add(high)
        if not self.complete:
            self.values.forget_if_far_apart()
        return True


class _Values:
    """Different values of a column, until they are too many to keep; and the smallest and the
    greatest."""

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
        """Lets the values go where they can't fill what is between the bounds, so that nothing is
        made of them."""
        if self.low is not None and self.high - self.low >= _MOST_VALUES:
            self.kept = None

    def statistics(self, nulls: int, kind: str, *, complete: bool) -> ColumnStatistics | None:
        """`complete`: no value is missing among those that were added."""
        if kind in _PLAIN:
            return ColumnStatistics(nulls, len(self.kept) if complete and self.kept is not None else None)
        if self.low is None:
            return ColumnStatistics(nulls, 0)
        # Whole numbers of which none is missing between the bounds are all there, too.
        full = self.kept is not None and len(self.kept) == self.high - self.low + 1
        distinct = len(self.kept) if self.kept is not None and (complete or full) else None
        try:
            return ColumnStatistics(nulls, distinct, _text(self.low, kind), _text(self.high, kind))
        except (ValueError, OverflowError):
            # A date that Python can't write.
            return None


def _text(value: int, kind: str) -> str:
    return date.fromordinal(_EPOCH + value).isoformat() if kind == "date" else str(value)


def _plain(values: pa.Array, kind: str) -> pa.Array:
    """Values of a kind as those that are compared: days as their numbers."""
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
