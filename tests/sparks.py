"""Which tests apply to the Spark that runs them: each condition names the versions and the reason.

Also gives the tests, on PySpark 3.5, the names of PySpark 4 by which they make schemas and look at
results.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyspark
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

__all__ = [
    "TASK_ERROR",
    "VERSION",
    "is_at_least",
    "needs_sources",
    "needs_spark",
    "needs_stream_sinks",
    "only_before",
    "prepare_pyspark_3",
]


def _numbers(version: str) -> tuple[int, int]:
    major, minor, *_ = version.split(".")
    return int(major), int(minor)


VERSION = _numbers(pyspark.__version__)


def is_at_least(version: str) -> bool:
    """Whether this Spark is a version or newer."""
    return _numbers(version) <= VERSION


def needs_spark(version: str, reason: str) -> pytest.MarkDecorator:
    """Skips a test on each Spark before a version, for a reason that says what those lack."""
    return pytest.mark.skipif(not is_at_least(version), reason=f"Spark before {version} {reason}")


# What PySpark raises for a job with a failed task: 3.5 has no class of its own for that.
TASK_ERROR: type[Exception] = PySparkException if is_at_least("4.0") else Py4JJavaError

needs_sources = needs_spark("4.0", "has no data sources in Python, so that the format needs `enable`")

needs_stream_sinks = needs_spark("4.1", "gives a data source in Python no streams of Arrow data to write")


def only_before(version: str, reason: str) -> pytest.MarkDecorator:
    """Skips a test of a refusal on the Sparks that have what is refused."""
    return pytest.mark.skipif(is_at_least(version), reason=f"Spark from {version} {reason}")


def prepare_pyspark_3() -> None:
    """Gives the tests, on PySpark 3.5, `DataFrame.toArrow`, `createDataFrame` of Arrow tables,
    `DataType.fromDDL` and `getCondition` of errors.

    The package itself doesn't use them where PySpark lacks them
    (tests/structure/test_older_pyspark.py).
    """
    if VERSION >= (4, 0):
        return
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, _parse_datatype_string

    from deltaplane.spark.jvm.older_pyspark import arrow_table, frame_of_arrow

    theirs = SparkSession.createDataFrame

    def created(spark: SparkSession, data: Any, *args: Any, **kwargs: Any) -> DataFrame:
        return frame_of_arrow(spark, data) if isinstance(data, pa.Table) else theirs(spark, data, *args, **kwargs)

    DataFrame.toArrow = arrow_table
    SparkSession.createDataFrame = created
    DataType.fromDDL = staticmethod(_parse_datatype_string)
    PySparkException.getCondition = lambda error: error.getErrorClass()
