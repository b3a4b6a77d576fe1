"""Which sessions are enabled, and Spark's own methods, which run for all other sessions."""

from __future__ import annotations

import weakref
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from deltaplane.spark.jvm.internals import is_connect

__all__ = ["MARK", "OriginalSession", "enabled_sessions", "is_enabled", "originals", "run_by_spark"]

enabled_sessions: weakref.WeakSet[SparkSession] = weakref.WeakSet()
# The original methods before the first `enable`, which handle all other calls.
originals: dict[tuple[type, str], Any] = {}
# The setting that marks an enabled session for the sessions that Spark copies from it, for example
# for the batches of a stream.
MARK = "spark.deltaplane.familiarNames"


def is_enabled(spark: Any) -> bool:
    """Whether a session is enabled, or is Spark's copy of such a session."""
    return spark in enabled_sessions or (not is_connect(spark) and spark.conf.get(MARK, None) == "true")


def run_by_spark(spark: SparkSession, text: str, *args: Any, **kwargs: Any) -> DataFrame:
    """Runs a statement by Spark's own `sql`."""
    run = originals.get((SparkSession, "sql"), SparkSession.sql)
    frame: DataFrame = run(spark, text, *args, **kwargs)
    return frame


class OriginalSession:
    """A session whose `sql` is Spark's own."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def sql(self, text: str) -> DataFrame:
        return run_by_spark(self._spark, text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)
