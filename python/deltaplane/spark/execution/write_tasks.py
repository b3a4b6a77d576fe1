"""The tasks that write data files on executors: convert one task's rows under the table's rules.
Neither plans nor commits."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from deltaplane import _native
from deltaplane.exceptions import (
    ConstraintViolationError,
    DeltaError,
    FileMissingError,
    SchemaMismatchError,
    UnsupportedExpressionError,
    UnsupportedFeatureError,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaplane.commands.row_rules import RuledRows
    from deltaplane.io import records

T = TypeVar("T")

__all__ = [
    "REFUSED",
    "TaskResult",
    "arrange",
    "copy",
    "delete",
    "delete_rows",
    "listed",
    "raise_refusal",
    "read_keys",
    "reported",
    "write_changed",
    "write_judged",
    "write_unjudged",
]

# Errors about the rows themselves: a retry would fail again, so the task reports them to the driver
# instead of failing.
REFUSED: dict[str, type[DeltaError]] = {
    cls.default_kind: cls
    for cls in (ConstraintViolationError, SchemaMismatchError, UnsupportedExpressionError, UnsupportedFeatureError)
}

# The files that a task wrote, and the reason for refusing its rows, if any.
TaskResult = tuple[_native.AddedFiles, "str | None"]


class _Judged:
    """Rows that Spark has checked: the last column describes a row's violation and isn't
    written."""

    def __init__(self, first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> None:
        import pyarrow as pa

        self._error: ConstraintViolationError | None = None
        batches = map(self._passed, itertools.chain([first], others))
        self.reader = pa.RecordBatchReader.from_batches(pa.schema(list(first.schema)[:-1]), batches)

    def raise_error(self) -> None:
        """Raises the error that ended the stream, if any."""
        if self._error is not None:
            raise self._error

    def _passed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        violations = batch.column(batch.num_columns - 1).drop_null()
        if len(violations):
            self._error = ConstraintViolationError(violations[0].as_py())
            raise self._error
        return batch.select(range(batch.num_columns - 1))


def write_judged(
    location: str,
    options: dict[str, str] | None,
    spec: records.WriteSpec,
    batches: Iterator[pa.RecordBatch],
    *,
    keep: bool = True,
) -> Iterator[pa.RecordBatch]:
    """Writes one task's rows, which Spark has checked, in the form of `mapInArrow`: columns
    `result` and `refusal`, one of them set in each row. A result is the bytes of the files. Without
    `keep` the files are encoded but not stored."""

    def write(reader: pa.RecordBatchReader, task: int) -> list[bytes]:
        adds = _native.write_files(location, options, spec, reader, task, keep)
        return [adds.to_bytes()] if len(adds) else []

    yield _reported(*_written(batches, _Judged, write))


def write_changed(
    location: str,
    options: dict[str, str] | None,
    spec: records.TaskSpec,
    change: str | None,
    first_task: int | None,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Writes rows of a command that changes a table, as `write_judged` does; a result is
    the bytes of a `TaskOutcome`.

    `spec` is the one for the command's tasks. If `first_task` is set, the rows are new in the table
    (not rewritten), and it is the number of the job's first task."""

    def write(reader: pa.RecordBatchReader, task: int) -> list[bytes]:
        number = (first_task or 0) + task
        outcome = _native.write_rows(location, options, spec, reader, change, first_task is not None, number)
        return [outcome.to_bytes()]

    yield _reported(*_written(batches, _Judged, write))


def delete_rows(
    location: str,
    options: dict[str, str] | None,
    spec: records.TaskSpec,
    deletes: list[int],
    records: bool,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Deletes rows from the files of one task, which receives all deleted rows of its files; see
    `_native.take_out_rows`."""
    import pyarrow as pa

    first = next(batches, None)
    if first is None:
        return
    rows = pa.RecordBatchReader.from_batches(first.schema, itertools.chain([first], batches))
    yield _reported([_native.take_out_rows(location, options, spec, rows, deletes, records).to_bytes()], None)


def arrange(
    location: str,
    options: dict[str, str] | None,
    spec: _native.GroupSpec,
    memory_bytes: int,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Rewrites groups of files, one after the other; see `_native.arrange_group`."""

    def move(group: bytes) -> bytes:
        return _native.arrange_group(location, options, spec, _native.Group(group), memory_bytes).to_bytes()

    yield from reported(move, batches)


def read_keys(
    location: str, options: Mapping[str, str] | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Builds segments of indexes of keys, one after the other; see `_native.build_key_segment`."""

    def build(part: bytes) -> bytes:
        return _native.build_key_segment(location, options, _native.KeyTask(part)).to_bytes()

    yield from reported(build, batches)


def copy(
    location: str,
    options: Mapping[str, str] | None,
    target: str,
    target_options: Mapping[str, str] | None,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Copies files of one table to another; reports their sizes. See `_native.copy_files`."""
    for batch in batches:
        for text in batch.column(0).to_pylist():
            pairs = [(path, key) for path, key in json.loads(text)]
            try:
                sizes = _native.copy_files(location, options, target, target_options, pairs)
            except FileMissingError as e:
                # A retry would fail again.
                yield _reported([], str(e))
                return
            yield _reported([json.dumps(sizes).encode()], None)


def reported(convert: Callable[[Any], bytes], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Applies a function to each text, or each byte string, and reports the results in the form of
    `write_judged`."""
    for batch in batches:
        for item in batch.column(0).to_pylist():
            try:
                yield _reported([convert(item)], None)
            except tuple(REFUSED.values()) as e:
                yield _reported([], json.dumps({"kind": e.kind, "message": str(e)}))


def listed(
    location: str, options: dict[str, str] | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The files below directories of a table, as rows of an inventory."""
    import pyarrow as pa

    store = _native.RawStore.open(location, options)
    for batch in batches:
        for directory in batch.column(0).to_pylist():
            entries = store.list_all(directory)
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([f[0] for f in entries], pa.string()),
                    pa.array([f[1] for f in entries], pa.int64()),
                    pa.array([False] * len(entries), pa.bool_()),
                    pa.array([f[2] for f in entries], pa.int64()),
                ],
                names=["path", "length", "isDir", "modificationTime"],
            )


def delete(
    location: str, options: dict[str, str] | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Deletes files by lists of their keys; files that an earlier attempt deleted are ignored."""
    store = _native.RawStore.open(location, options)
    for batch in batches:
        for text in batch.column(0).to_pylist():
            store.delete_all(json.loads(text))
            yield _reported([], None)


def _reported(results: list[bytes], refusal: str | None) -> pa.RecordBatch:
    import pyarrow as pa

    refusals = [refusal] if refusal else []
    columns = [
        pa.array([*results, *(None for _ in refusals)], pa.binary()),
        pa.array([*(None for _ in results), *refusals], pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["result", "refusal"])


def write_unjudged(
    location: str,
    options: dict[str, str] | None,
    spec: records.WriteSpec,
    batches: Iterator[pa.RecordBatch],
    now_us: int,
) -> TaskResult:
    """Writes one task's rows unchecked; evaluates the table's rules here, in the session's time
    zone as far as the rows reveal it. `now_us` is the time of the whole write."""
    import pyarrow as pa

    # Most tasks have no rules to evaluate, so the module is imported on demand.
    from deltaplane.commands.row_rules import RuledRows

    def rows(first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> RuledRows:
        reader = pa.RecordBatchReader.from_batches(first.schema, itertools.chain([first], others))
        return RuledRows(spec, reader, location, zone=_zone(first.schema), now_us=now_us)

    def write(reader: pa.RecordBatchReader, task: int) -> list[_native.AddedFiles]:
        return [_native.write_files(location, options, spec, reader, task)]

    written, refusal = _written(batches, rows, write)
    return _native.AddedFiles.joined(written), refusal


def _zone(schema: pa.Schema) -> str:
    """The session's time zone: from the task's properties if someone set it, otherwise from the
    rows' timestamp type. If both are missing, expressions that depend on the zone are refused."""
    import pyarrow as pa
    from pyspark import TaskContext

    context = TaskContext.get()
    zone = context.getLocalProperty("spark.sql.session.timeZone") if context else None
    zones = [f.type.tz for f in schema if pa.types.is_timestamp(f.type) and f.type.tz is not None]
    return zone or (zones[0] if zones else "unknown")


def _written(
    batches: Iterator[pa.RecordBatch],
    rows_of: Callable[[pa.RecordBatch, Iterator[pa.RecordBatch]], _Judged | RuledRows],
    write: Callable[[pa.RecordBatchReader, int], list[T]],
) -> tuple[list[T], str | None]:
    """Writes the rows; files of failed attempts stay, but no commit names them."""
    from pyspark import TaskContext

    first = next(batches, None)
    if first is None:
        return [], None
    context = TaskContext.get()
    # The rows of a partition get the same identity values in every attempt; only one attempt is
    # committed.
    task = context.partitionId() if context else 0
    try:
        rows = rows_of(first, batches)
        try:
            return write(rows.reader, task), None
        except DeltaError:
            rows.raise_error()
            raise
    except tuple(REFUSED.values()) as e:
        return [], json.dumps({"kind": e.kind, "message": str(e)})


def raise_refusal(refusals: list[str], location: str) -> None:
    """Raises the first task's refusal on the driver.

    Raises:
        ConstraintViolationError, SchemaMismatchError, UnsupportedExpressionError,
            UnsupportedFeatureError: the task's refusal.
    """
    for text in refusals[:1]:
        refusal = json.loads(text)
        raise REFUSED[refusal["kind"]](refusal["message"], table=location)
