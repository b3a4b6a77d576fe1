"""Gives tasks the access to the stores that the driver has. Internal to `deltaplane.spark`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from deltaplane.io.session_options import carried_for

if TYPE_CHECKING:
    import pyarrow as pa

    Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

__all__ = ["with_access"]


def with_access(task: Task, *stores: tuple[str, Mapping[str, str] | None]) -> Task:
    """A task for `mapInArrow` that opens stores, each named by its location and the job's options,
    with the driver's session options. They are a part of the pickled function, which no plan and no
    log shows."""
    carried = carried_for(stores)
    if carried is None:
        return task

    def with_options(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        carried.receive()
        yield from task(batches)

    return with_options
