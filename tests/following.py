"""Whether the installed Spark lets a Python data source follow a table: versions before 4.2 can't
limit micro-batches."""

from __future__ import annotations

from importlib.metadata import version

import pytest

_SPARK = tuple(map(int, version("pyspark").split(".")[:2]))
BY_DATA_SOURCE = _SPARK >= (4, 2)
# The available ways to read a stream.
READS = ("native", "data source") if BY_DATA_SOURCE else ("native",)
# The available ways to write one.
WRITES = ("native", "data source") if _SPARK >= (4, 1) else ("native",)

needs_data_source = pytest.mark.skipif(not BY_DATA_SOURCE, reason="the data source follows tables from Spark 4.2 on")
