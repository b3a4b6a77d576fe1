"""Session builders with delta-spark's documented configuration, but without its jar."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.spark.jvm.internals import CATALOG, DELTA_CATALOG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql import SparkSession

__all__ = ["without_delta_sparks", "wrapped_builder"]

_PACKAGES = "spark.jars.packages"
# Settings with lists of names, and the prefixes of delta-spark's entries.
_LISTS = {
    "spark.sql.extensions": ("io.delta.sql.DeltaSparkSessionExtension",),
    _PACKAGES: tuple(f"io.delta:delta-{part}" for part in ("spark_", "core_", "storage:", "connect-")),
}


def without_delta_sparks(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a session without delta-spark's classes."""
    retained = {key: value for key, value in settings.items() if (key, value) != (CATALOG, DELTA_CATALOG)}
    for key, beginnings in _LISTS.items():
        names = [name.strip() for name in str(retained.pop(key, "")).split(",")]
        if others := [name for name in names if name and not name.startswith(beginnings)]:
            retained[key] = ",".join(others)
    return retained


def wrapped_builder(builder: Any, packages: Iterable[str] | None, taken: Callable[[SparkSession], None]) -> Any:
    """A builder with the same settings except delta-spark's, and with these Maven packages; calls
    `taken` with each created session."""
    from pyspark.sql import SparkSession

    if not isinstance(builder, SparkSession.Builder):
        raise InvalidArgumentError(f"a builder of sessions is needed, as SparkSession.builder is one, not {builder!r}")

    class Builder(SparkSession.Builder):
        """A session builder whose sessions have `enable` applied."""

        _options: dict[str, Any]

        def getOrCreate(self) -> SparkSession:
            self._options = without_delta_sparks(self._options)
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            spark = super().getOrCreate()
            taken(spark)
            return spark

    made = Builder()
    made._options.update(builder._options)
    if listed := [*filter(None, [made._options.get(_PACKAGES)]), *(packages or ())]:
        made._options[_PACKAGES] = ",".join(listed)
    return made
