"""One row of the table of delta-spark's error conditions, with the pattern that identifies it."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.errors import AnalysisException, PySparkException

from deltaplane.exceptions import DeltaError

__all__ = ["Known"]


class Known(NamedTuple):
    """A condition, and the pattern of the errors that have it: class, a part of the text, and a
    part of the operation (a statement, or `Class.method`). `location` and `version` name the
    parameters that receive the table's; `spark` is the class that PySpark raises; `in_folder`: the
    location is a local folder."""

    condition: str
    kind: type[DeltaError]
    says: str = ""
    doing: str = ""
    location: str = ""
    spark: type[PySparkException] = AnalysisException
    in_folder: bool = False
    version: str = ""
