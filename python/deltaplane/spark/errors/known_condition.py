"""One row of the table of delta-spark's conditions: what a condition is known by."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.errors import AnalysisException, PySparkException

from deltaplane.exceptions import DeltaError

__all__ = ["Known"]


class Known(NamedTuple):
    """A condition, and by what an error of ours is known as it: its class, a part of its text, and
    a part of what was done (a statement, or `Class.method`). `location` and `version` name the
    parameters that have the table's; `spark`: what PySpark raises; `in_folder`: the location is a
    local folder."""

    condition: str
    kind: type[DeltaError]
    says: str = ""
    doing: str = ""
    location: str = ""
    spark: type[PySparkException] = AnalysisException
    in_folder: bool = False
    version: str = ""
