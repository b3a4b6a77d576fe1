"""Owns what a follower of a table asks for: what it reads, how much at once, and from where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltaplane.io.records.record import Record

if TYPE_CHECKING:
    from deltaplane._native import TableSchema


class TailLimits(Record):
    """How much is taken in one go; None is no bound."""

    files: int | None = None
    bytes: int | None = None
    versions: int | None = None


class TrackedColumns(Record):
    """The columns that a follower keeps to: those of a version, whose number is the last that is
    known to have them."""

    version: int
    id: str
    schema: TableSchema
    partition_columns: list[str]
    configuration: dict[str, str]
    min_reader_version: int
    min_writer_version: int
    reader_features: list[str] | None
    writer_features: list[str] | None


class ColumnSteps(Record):
    """How columns differ from older ones: paths of those renamed, dropped and of a wider type, and
    why rows can't go on."""

    renamed: list[str]
    dropped: list[str]
    widened: list[str]
    incompatible: str | None


class TailRequest(Record):
    """How a table is followed: which commits beside appends pass, which files are left out."""

    ignore_deletes: bool = False
    ignore_changes: bool = False
    skip_change_commits: bool = False
    exclude: str | None = None
    allow_data_loss: bool = False
    changes: bool = False
    waits_for_start: bool = False
    columns: TrackedColumns | None = None


class TailStart(Record):
    """Where a follower begins: after a version, which may be the newest one, with a version, with
    the first version from a time on, behind the newest one, or with all its rows."""

    after: int | None = None
    version: int | None = None
    timestamp_ms: int | None = None
    latest: bool = False


class SparkQuestion(Record):
    """A question of the JVM's file index: what is asked (`changed`, `prepare`, `size`, `files` or
    `list`), whether with statistics of columns, for which query, in which time zone, for which
    version an answer is known, and Catalyst's filters, each as `Expression.toJSON`."""

    asked: str
    statistics: bool
    query: str | None
    zone: str
    known_version: int | None
    filters: list[str]
