"""What runs on executors: rows of one task to data files. No driver, no session, no commit.

Called by the functions that `deltaplane.spark._write` and `_datasource` hand to Spark.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltaplane import _native
from deltaplane.exceptions import (
    ConstraintViolationError,
    DeltaError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["REFUSED", "TaskResult", "raise_refusal", "write_files", "write_result_batches"]

# What is wrong with the rows themselves: trying again would find the same, so the driver is told instead of Spark.
REFUSED: dict[str, type[DeltaError]] = {
    cls.default_kind: cls for cls in (ConstraintViolationError, SchemaMismatchError, UnsupportedFeatureError)
}

# A task's adds, and why it refused its rows, if it did.
TaskResult = tuple[list[str], "str | None"]


def write_files(
    location: str, options: dict[str, str] | None, spec: str, batches: Iterator[pa.RecordBatch]
) -> TaskResult:
    """Writes one task's rows; an attempt that fails leaves files that no log names."""
    import pyarrow as pa
    from pyspark import TaskContext

    first = next(batches, None)
    if first is None:
        return [], None
    reader = pa.RecordBatchReader.from_batches(first.schema, itertools.chain([first], batches))
    try:
        context = TaskContext.get()
        # The rows of a partition get the same identity values in every attempt, of which one is committed.
        task = context.partitionId() if context else 0
        return _native.write_files(location, options, spec, reader, task), None
    except tuple(REFUSED.values()) as e:
        return [], json.dumps({"kind": e.kind, "message": str(e)})


def write_result_batches(
    location: str, options: dict[str, str] | None, spec: str, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """`write_files` in the shape of `mapInArrow`: columns `add` and `refusal`, one of them set in each row."""
    import pyarrow as pa

    adds, refusal = write_files(location, options, spec, batches)
    rows = [(add, None) for add in adds] + ([(None, refusal)] if refusal else [])
    columns = [pa.array([row[i] for row in rows], pa.string()) for i in range(2)]
    yield pa.RecordBatch.from_arrays(columns, names=["add", "refusal"])


def raise_refusal(refusals: list[str], location: str) -> None:
    """Raises the first task's refusal on the driver.

    Raises:
        ConstraintViolationError, SchemaMismatchError, UnsupportedFeatureError: as the task did.
    """
    for text in refusals[:1]:
        refusal = json.loads(text)
        raise REFUSED[refusal["kind"]](refusal["message"], table=location)
