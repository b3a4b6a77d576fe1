"""Advice on indexes of keys: columns that the workload looks up by value, and files that no index
covers.

Changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltaplane.advisor.advice import OPEN_BYTES, Advice, Commands, Reads
from deltaplane.exceptions import DeltaError
from deltaplane.io.index_properties import has_indexes, indexed_columns

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaplane import _native
    from deltaplane.advisor.facts import Facts
    from deltaplane.advisor.layouts import Sample
    from deltaplane.advisor.workload import Lookup, Path_

__all__ = ["IndexInputs", "indexes"]

# An index pays if it saves at least this share of the workload's reads.
_LEAST_GAIN = 0.1
# The share of the data files' bytes that an index takes, and that of the key column.
_INDEX_SHARE = 0.02
_COLUMN_SHARE = 0.25


@dataclass(frozen=True)
class IndexInputs:
    """What the advice is derived from: the version, its files' totals, each predicate of a given
    workload with its present reads, a sample of rows, and the table's name in SQL."""

    snapshot: _native.Snapshot
    facts: Facts
    lookups: Sequence[tuple[Lookup, Reads]]
    sample: Callable[[], Sample]
    sql: str


def indexes(inputs: IndexInputs) -> Iterator[Advice]:
    """Advises extending the indexes that there are, and adding others for the workload."""
    yield from _extending(inputs)
    yield from _adding(inputs)


def _extending(inputs: IndexInputs) -> Iterator[Advice]:
    if not has_indexes(inputs.snapshot):
        return
    behind = [state for state in inputs.snapshot.indexes() if state.uncovered_files]
    if not behind:
        return
    files = max(state.uncovered_files for state in behind)
    size = int(inputs.facts.bytes * files / max(inputs.facts.files, 1))
    names = tuple(dict.fromkeys(column for state in behind for column in state.columns))
    verb = "isn't" if files == 1 else "aren't"
    why = f"{files:,} of {inputs.facts.files:,} files {verb} covered by an index of keys: each look-up reads them"
    yield Advice(
        kind="index",
        why=why,
        commands=Commands(python="table.index.build()"),
        gain_bytes=OPEN_BYTES * files,
        now=Reads(files, size),
        then=Reads(0, 0),
        read_bytes=int(size * _COLUMN_SHARE),
        written_bytes=int(size * _INDEX_SHARE),
        basis="a look-up of a key that isn't there; the bytes of the column are an estimate",
        columns=names,
    )


def _adding(inputs: IndexInputs) -> Iterator[Advice]:
    fields = inputs.snapshot.schema.to_value()["fields"]
    known = indexed_columns(fields, inputs.snapshot.info.configuration)
    paths = dict.fromkeys(path for lookup, _ in inputs.lookups for path, _ in lookup.keys)
    now = _sum((lookup.weight, reads) for lookup, reads in inputs.lookups)
    for path in paths:
        if len(path) > 1 or path[0] in known or not _can_have_one(inputs.snapshot, path[0]):
            continue
        values = inputs.sample().columns.get(path)
        if values is None or not len(values):
            continue
        files = 1 + _share(values) * inputs.facts.rows
        then = _sum((lookup.weight, _reads_with(lookup, reads, path, files)) for lookup, reads in inputs.lookups)
        if now.cost - then.cost < max(_LEAST_GAIN * now.cost, OPEN_BYTES):
            continue
        size = inputs.facts.bytes
        command = f"ALTER TABLE {inputs.sql} ADD INDEX ON (`{path[0].replace('`', '``')}`)"
        yield Advice(
            kind="add_index",
            why=f"{path[0]} is looked up by value, and an index of its keys names the files",
            commands=Commands(sql=command, python=f"table.index.create([{path[0]!r}])"),
            gain_bytes=now.cost - then.cost,
            now=now,
            then=then,
            read_bytes=int(size * _COLUMN_SHARE),
            written_bytes=int(size * _INDEX_SHARE),
            basis=f"a sample of {inputs.sample().rows:,} rows, by which a value is in about {files:,.0f} files",
            columns=path,
        )


def _can_have_one(snapshot: _native.Snapshot, column: str) -> bool:
    try:
        snapshot.index_to_add([column])
    except DeltaError:
        return False
    return True


def _reads_with(lookup: Lookup, now: Reads, path: Path_, files_of_value: float) -> Reads:
    """The reads of a predicate with an index of this column."""
    values = sum(count for key, count in lookup.keys if key == path)
    share = min(1.0, values * files_of_value / now.files) if values and now.files else 1.0
    return now.times(share)


def _sum(weighted: Iterator[tuple[float, Reads]]) -> Reads:
    total = Reads()
    for weight, reads in weighted:
        total += reads.times(weight)
    return total


def _share(values: pa.ChunkedArray) -> float:
    """The share of other rows that have the value of a row, by the pairs of equal values in a
    sample."""
    import pyarrow.compute as pc

    counts = pc.cast(pc.struct_field(pc.value_counts(values.drop_null()), "counts"), "float64")
    rows = float(pc.sum(counts).as_py() or 0)
    if rows < 2:
        return 0.0
    equal = pc.sum(pc.multiply(counts, pc.subtract(counts, 1.0))).as_py()
    return float(equal) / (rows * (rows - 1))
