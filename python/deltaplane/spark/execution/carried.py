"""Gives tasks the access to the stores that the driver has. Internal to `deltaplane.spark`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from deltaplane.io.session_options import carried_for, files_options
from deltaplane.spark.execution.vended import hadoop_settings, vended_provider
from deltaplane.spark.jvm.session_catalogs import is_name

if TYPE_CHECKING:
    import pyarrow as pa

    Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

__all__ = ["files_place", "place_of", "scan_settings", "with_access"]


def place_of(location: str, files: str) -> str:
    """The location of a table's files for Spark's file systems: that in the caller's words
    (`s3a://` is `s3://` in a snapshot), or for a name in a catalog `files` in Hadoop's notation."""
    return re.sub(r"^s3://", "s3a://", files) if is_name(location) else location


def files_place(location: str, options: Mapping[str, str] | None, place: str) -> tuple[str, dict[str, str] | None]:
    """Where tasks open the files of a table, and with which options: a table of a catalog by the
    place of its files, without the catalog and its token. Only the driver asks the catalog.

    Args:
        location, options: the table, as the driver opens it.
        place: the location of its files.
    """
    if not is_name(location):
        return location, None if options is None else dict(options)
    return place, files_options(location, options, place, vended_provider) or None


def scan_settings(location: str, options: Mapping[str, str] | None, place: str) -> dict[str, str]:
    """Hadoop's settings by which Spark's own scan opens the files of a table in a catalog with the
    credentials that the catalog hands out; none for other tables, and where the session has
    credentials of its own.

    Args:
        location, options, place: as in `files_place`.

    Raises:
        NativeScanUnavailable: the catalog hands out credentials that no setting gives to Hadoop.
    """
    if not is_name(location):
        return {}
    return hadoop_settings(place, files_options(location, options, place, vended_provider))


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
