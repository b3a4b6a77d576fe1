"""The tasks of a distributed plan: read a part of the log on an executor, by the core, without
holding a whole table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from deltaplane import _native
from deltaplane.io.arrow import Scan

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["checkpoint_files", "commit_words", "live_files"]

_Options = dict[str, str] | None


def checkpoint_files(
    location: str,
    options: _Options,
    plan: _native.ReplayPlan,
    parts: Sequence[_native.ReplayPart],
    wanted: Iterator[pa.RecordBatch],
    expected: Any,
) -> Iterator[pa.RecordBatch]:
    """The files in some parts of the checkpoint that may match, in the Arrow types that Spark
    expects.

    Args:
        location, options: the table and access to its store.
        plan: what is planned.
        parts: all parts; `wanted` numbers those of this task.
        expected: the Arrow schema of the rows.
    """
    for number in _numbers(wanted):
        stream = plan.checkpoint_files(location, options, parts[number])
        yield from _batches(stream, expected)


def commit_words(
    location: str,
    options: _Options,
    parts: Sequence[_native.ReplayPart],
    keys_only: bool,
    wanted: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """The file actions in some parts of the commits: only keys, or each action with its version and
    its position within the commit."""
    for number in _numbers(wanted):
        yield from Scan(parts[number].commit_words(location, options, keys_only)).batches()


def live_files(plan: _native.ReplayPlan, adds: Iterator[pa.RecordBatch], expected: Any) -> Iterator[pa.RecordBatch]:
    """The files among these that may match; the column `add` has their add actions as JSON."""
    for batch in adds:
        yield from _batches(plan.live_files(_native.AddedFiles.of_rows(batch)), expected)


def _numbers(wanted: Iterator[pa.RecordBatch]) -> Iterator[int]:
    for batch in wanted:
        yield from batch.column(0).to_pylist()


def _batches(stream: _native.ArrowStream, expected: Any) -> Iterator[pa.RecordBatch]:
    for batch in Scan(stream).batches():
        yield batch.cast(expected)
