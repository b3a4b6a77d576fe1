"""Refreshes cached frames after a commit of this session: Spark computes cached rows of the changed
table again.

delta-spark does the same after its commands.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from deltaplane.spark.jvm.internals import Jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["recache"]

_log = logging.getLogger(__name__)


def recache(spark: SparkSession) -> None:
    """Drops cached rows of Delta tables that have a newer version, in this session and its
    siblings; frames of a fixed version keep theirs. Raises nothing, since a failure of the cache
    doesn't undo the commit."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    jvm = Jvm.known(spark)
    if jvm is None:
        # No deltaplane frame was ever created in this JVM.
        return
    try:
        jvm.recache(spark)
    except (Py4JError, PySparkException) as e:
        # Spark removes an entry before it plans the entry again, so no stale row remains.
        _log.warning(
            "a cached frame of a table that was written to can't be computed again, and is no longer cached: %s", e
        )
