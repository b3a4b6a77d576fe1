"""Cached frames after a commit of this session: what is cached of a table that changed is computed anew when it is asked for.

As delta-spark does after its commands. Called by writers, commands and statements of a session.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from deltaplane.spark._internals import Jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["recache"]

_log = logging.getLogger(__name__)


def recache(spark: SparkSession) -> None:
    """Lets go of cached rows of Delta tables that have a newer version, in this session and those beside it; frames of one
    version keep theirs. What a commit did stands whatever becomes of the cache, so nothing is raised."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    jvm = Jvm.known(spark)
    if jvm is None:
        # No frame of ours was ever made in this JVM.
        return
    try:
        jvm.recache(spark)
    except (Py4JError, PySparkException) as e:
        # Spark takes an entry out before it plans it anew, so no old row stays.
        _log.warning(
            "a cached frame of a table that was written to can't be computed anew, and is cached no more: %s", e
        )
