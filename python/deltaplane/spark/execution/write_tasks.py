"""What runs on executors: rows of one task, judged by the table's rules, to data files. No driver,
no commit."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

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

__all__ = [
    "REFUSED",
    "TaskResult",
    "arrange",
    "copy",
    "delete",
    "delete_rows",
    "listed",
    "raise_refusal",
    "told",
    "write_changed",
    "write_judged",
    "write_unjudged",
]

# What is wrong with the rows themselves: trying again would find the same, so the driver is told
# instead of Spark.
REFUSED: dict[str, type[DeltaError]] = {
    cls.default_kind: cls
    for cls in (ConstraintViolationError, SchemaMismatchError, UnsupportedExpressionError, UnsupportedFeatureError)
}

# A task's adds, and why it refused its rows, if it did.
TaskResult = tuple[list[str], "str | None"]


class _Judged:
    """Rows of which Spark has judged each: the last column says what is wrong with it, and isn't
    written."""

    def __init__(self, first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> None:
        import pyarrow as pa

        self._error: ConstraintViolationError | None = None
        batches = map(self._passed, itertools.chain([first], others))
        self.reader = pa.RecordBatchReader.from_batches(pa.schema(list(first.schema)[:-1]), batches)

    def raise_error(self) -> None:
        """Raises what ended the stream, if something did."""
        if self._error is not None:
            raise self._error

    def _passed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        told = batch.column(batch.num_columns - 1).drop_null()
        if len(told):
            self._error = ConstraintViolationError(told[0].as_py())
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
    """Writes one task's rows, judged by Spark, in the shape of `mapInArrow`: columns `add` and
    `refusal`, one of them set in each row. Without `keep` the files are made, and stored
    nowhere."""

    def write(reader: pa.RecordBatchReader, task: int) -> list[str]:
        return _native.write_files(location, options, spec, reader, task, keep)

    yield _reported(*_written(batches, _Judged, write))


def write_changed(
    location: str,
    options: dict[str, str] | None,
    spec: records.TaskSpec,
    change: str | None,
    first_task: int | None,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Writes rows of a command that changes a table, as `write_judged` does; what was done stands
    in `add`.

    `spec` is that of the command's tasks. With `first_task` the rows are new in the table, and this
    is the number of the job's first task."""

    def write(reader: pa.RecordBatchReader, task: int) -> list[str]:
        number = (first_task or 0) + task
        return [_native.write_rows(location, options, spec, reader, change, first_task is not None, number)]

    yield _reported(*_written(batches, _Judged, write))


def delete_rows(
    location: str,
    options: dict[str, str] | None,
    spec: records.TaskSpec,
    deletes: list[int],
    records: bool,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Takes rows out of the files of one task, which stand there in whole; see
    `_native.take_out_rows`."""
    import pyarrow as pa

    first = next(batches, None)
    if first is None:
        return
    rows = pa.RecordBatchReader.from_batches(first.schema, itertools.chain([first], batches))
    yield _reported([_native.take_out_rows(location, options, spec, rows, deletes, records)], None)


def arrange(
    location: str, options: dict[str, str] | None, spec: str, memory_bytes: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Moves groups of files, one after the other; see `_native.arrange_group`."""
    yield from told(lambda group: [_native.arrange_group(location, options, spec, group, memory_bytes)], batches)


def copy(
    location: str,
    options: Mapping[str, str] | None,
    target: str,
    target_options: Mapping[str, str] | None,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Copies files of one table to another; tells their sizes. See `_native.copy_files`."""
    for batch in batches:
        for text in batch.column(0).to_pylist():
            pairs = [(path, key) for path, key in json.loads(text)]
            try:
                sizes = _native.copy_files(location, options, target, target_options, pairs)
            except FileMissingError as e:
                # Another attempt would find the same.
                yield _reported([], str(e))
                return
            yield _reported([json.dumps(sizes)], None)


def told(of: Callable[[str], list[str]], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a function says of each text, in the shape of `write_judged`."""
    for batch in batches:
        for text in batch.column(0).to_pylist():
            try:
                yield _reported(of(text), None)
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
            found = store.list_all(directory)
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([f[0] for f in found], pa.string()),
                    pa.array([f[1] for f in found], pa.int64()),
                    pa.array([False] * len(found), pa.bool_()),
                    pa.array([f[2] for f in found], pa.int64()),
                ],
                names=["path", "length", "isDir", "modificationTime"],
            )


def delete(
    location: str, options: dict[str, str] | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Deletes files by lists of their keys; a task that runs again finds some of them gone."""
    store = _native.RawStore.open(location, options)
    for batch in batches:
        for text in batch.column(0).to_pylist():
            store.delete_all(json.loads(text))
            yield _reported([], None)


def _reported(adds: list[str], refusal: str | None) -> pa.RecordBatch:
    import pyarrow as pa

    rows = [(add, None) for add in adds] + ([(None, refusal)] if refusal else [])
    columns = [pa.array([row[i] for row in rows], pa.string()) for i in range(2)]
    return pa.RecordBatch.from_arrays(columns, names=["add", "refusal"])


def write_unjudged(
    location: str,
    options: dict[str, str] | None,
    spec: records.WriteSpec,
    batches: Iterator[pa.RecordBatch],
    now_us: int,
) -> TaskResult:
    """Writes one task's rows as they came; the table's rules are evaluated here, at the session's
    time zone as far as the rows tell it. `now_us` is the time of the whole write."""
    import pyarrow as pa

    # Most tasks have no rules to evaluate.
    from deltaplane.commands.row_rules import RuledRows

    def rows(first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> RuledRows:
        reader = pa.RecordBatchReader.from_batches(first.schema, itertools.chain([first], others))
        return RuledRows(spec, reader, location, zone=_zone(first.schema), now_us=now_us)

    def write(reader: pa.RecordBatchReader, task: int) -> list[str]:
        return _native.write_files(location, options, spec, reader, task)

    return _written(batches, rows, write)


def _zone(schema: pa.Schema) -> str:
    """The session's time zone: as Spark tells its tasks where somebody has set it, else as the
    rows' instants have it. Where neither knows, what depends on it is refused."""
    import pyarrow as pa
    from pyspark import TaskContext

    context = TaskContext.get()
    told = context.getLocalProperty("spark.sql.session.timeZone") if context else None
    zones = [f.type.tz for f in schema if pa.types.is_timestamp(f.type) and f.type.tz is not None]
    return told or (zones[0] if zones else "unknown")


def _written(
    batches: Iterator[pa.RecordBatch],
    rows_of: Callable[[pa.RecordBatch, Iterator[pa.RecordBatch]], _Judged | RuledRows],
    write: Callable[[pa.RecordBatchReader, int], list[str]],
) -> TaskResult:
    """An attempt that fails leaves files that no log names."""
    from pyspark import TaskContext

    first = next(batches, None)
    if first is None:
        return [], None
    context = TaskContext.get()
    # The rows of a partition get the same identity values in every attempt, of which one is
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
            UnsupportedFeatureError: as the task did.
    """
    for text in refusals[:1]:
        refusal = json.loads(text)
        raise REFUSED[refusal["kind"]](refusal["message"], table=location)
