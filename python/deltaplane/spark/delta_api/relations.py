"""Lets a session's analyser resolve Delta tables, by path and by name, in every query that Spark
runs.

The JVM's rule (`java/Relations`) calls back during analysis, on the thread that called Spark.
"""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from deltaplane.exceptions import DeltaError
from deltaplane.io.session_options import in_session
from deltaplane.spark.datasource.delta_options import versioned_path
from deltaplane.spark.delta_api.reader import Reader, StreamReader
from deltaplane.spark.delta_api.table_changes import called_changes
from deltaplane.spark.errors.refusals import refusal, sparks_refusal
from deltaplane.spark.jvm.internals import Jvm, NativeScanUnavailable
from deltaplane.spark.jvm.location import absolute_location
from deltaplane.spark.jvm.names import shown_path
from deltaplane.spark.jvm.thread_values import thread_value, with_thread_value
from deltaplane.spark.scan.read import read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Seen", "ask", "ask_no_more", "asks", "reading"]

_Run = Callable[["SparkSession", str], "DataFrame | None"]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
# What the thread's statement reads: a text of the thread that calls Spark names the record.
_READING = "deltaplane.reading"
_seen: dict[str, Seen] = {}


class Seen:
    """The locations of the tables that were resolved, and the versions pinned for some of them."""

    def __init__(self, held: Mapping[str, int]) -> None:
        self.held = {absolute_location(location): version for location, version in held.items()}
        self.locations: set[str] = set()

    def reads(self, location: str) -> bool:
        """Whether a table was resolved."""
        return absolute_location(location) in self.locations


@contextmanager
def reading(spark: Any, held: Mapping[str, int]) -> Iterator[Seen]:
    """Within the block, pins tables at some locations to a version, and records which tables Spark
    reads."""
    before = _seen.get(thread_value(spark, _READING) or "")
    seen = Seen({**(before.held if before is not None else {}), **held})
    number = uuid.uuid4().hex
    _seen[number] = seen
    try:
        with with_thread_value(spark, _READING, number):
            yield seen
    finally:
        del _seen[number]
        if before is not None:
            before.locations |= seen.locations


def ask(spark: SparkSession, run: _Run | None = None) -> bool:
    """Installs the callback in a session's analyser; returns whether it succeeded. `run` runs
    script statements about Delta tables and returns None for other statements."""
    try:
        jvm = Jvm.of(spark)
    except NativeScanUnavailable:
        return False
    return jvm.asks_for_relations(spark) or jvm.ask_for_relations(spark, _Answers(spark, run))


def ask_no_more(spark: SparkSession) -> None:
    """Removes the callback."""
    try:
        Jvm.of(spark).ask_no_more(spark)
    except NativeScanUnavailable:
        return


def asks(spark: SparkSession) -> bool:
    """Whether a session's analyser has the callback, so that its SQL finds Delta tables."""
    try:
        return Jvm.of(spark).asks_for_relations(spark)
    except NativeScanUnavailable:
        return False


class _Answers:
    """Answers the analyser's questions for one session. A question is a text with parts separated
    by NUL, see `java/Relations`."""

    def __init__(self, spark: SparkSession, run: _Run | None) -> None:
        self._session, self._run = weakref.ref(spark), run

    def apply(self, question: str, session: Any) -> Any:
        """Returns a JVM frame, or an error."""
        from pyspark.sql import SparkSession

        known = self._session()
        spark = known if known is not None else SparkSession(session.sparkContext(), session)
        try:
            with in_session(spark):
                return self._answer(spark, question)
        except DeltaError as e:
            kind, location, *_ = question.split("\0")
            return refusal(e, "SELECT" if kind in ("statement", "changes") else f"SELECT * FROM delta.`{location}`")
        except PySparkException as e:
            if not question.startswith("statement\0"):
                raise
            return sparks_refusal(e)

    def _answer(self, spark: SparkSession, question: str) -> Any:
        kind, location, *rest = question.split("\0")
        if kind == "statement":
            made = None if self._run is None else self._run(spark, location)
            return None if made is None else made._jdf
        if kind == "changes":
            return called_changes(spark, location)._jdf
        version, *pairs = rest
        options = dict(zip(pairs[::2], pairs[1::2], strict=True))
        place = shown_path(location)
        frame = _streamed(spark, place, options) if kind == "stream" else _rows(spark, place, version, options)
        return frame._jdf

    class Java:
        """The Java interface that this class implements, for py4j."""

        implements = ("java.util.function.BiFunction",)


def _rows(spark: SparkSession, location: str, version_text: str, options: Mapping[str, str]) -> Any:
    seen = _seen.get(thread_value(spark, _READING) or "")
    path, version, moment = versioned_path(location, None)
    if seen is not None:
        place = absolute_location(path)
        seen.locations.add(place)
        if place in seen.held and not version_text and not options and version is None and moment is None:
            return read(spark, path, seen.held[place])
    if version_text.startswith("micros "):
        then = _EPOCH + timedelta(microseconds=int(version_text.partition(" ")[2]))
        return read(spark, path, timestamp=then)
    reader = Reader(spark).format("delta").options(**options)
    if version_text:
        reader.option("versionAsOf", version_text.partition(" ")[2])
    return reader.load(location)


def _streamed(spark: SparkSession, location: str, options: Mapping[str, str]) -> Any:
    return StreamReader(spark).format("delta").options(**options).load(location)
