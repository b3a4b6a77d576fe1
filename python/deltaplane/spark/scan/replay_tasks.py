"""What runs on executors for a distributed plan: a part of the log to rows, in the core. No driver,
no table in memory."""

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
    """The files of some parts of the checkpoint that may match, as Spark expects them.

    Args:
        location, options: the table and how to reach it.
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
    """What some parts of the commits say of files: keys alone, or each word with its version and
    its turn within it."""
    for number in _numbers(wanted):
        yield from Scan(parts[number].commit_words(location, options, keys_only)).batches()


def live_files(plan: _native.ReplayPlan, adds: Iterator[pa.RecordBatch], expected: Any) -> Iterator[pa.RecordBatch]:
    """Those of these files that may match; the first column has their add actions as JSON."""
    for batch in adds:
        yield from _batches(plan.live_files(batch.column(0).to_pylist()), expected)


def _numbers(wanted: Iterator[pa.RecordBatch]) -> Iterator[int]:
    for batch in wanted:
        yield from batch.column(0).to_pylist()


def _batches(stream: _native.ArrowStream, expected: Any) -> Iterator[pa.RecordBatch]:
    for batch in Scan(stream).batches():
        yield batch.cast(expected)
