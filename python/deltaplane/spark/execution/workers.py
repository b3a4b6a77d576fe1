"""Explains a failed job if the Python of Spark's workers is the cause, and names the remedy."""

from __future__ import annotations

import sys

__all__ = ["remedy"]

_SAME = (
    f"set PYSPARK_PYTHON to an interpreter like the driver's ({sys.version_info.major}.{sys.version_info.minor}), on every "
    "machine, before the session starts"
)
# Parts of a failed job's error text, with their meaning.
_CAUSES = (
    (
        "No module named 'deltaplane'",
        "the Python of Spark's workers doesn't have deltaplane: install it there, or set PYSPARK_PYTHON to an "
        "interpreter that has it before the session starts",
    ),
    ("PYTHON_VERSION_MISMATCH", f"Spark's workers run another version of Python than the driver: {_SAME}"),
    ("Cannot run program", f"Spark's workers have no Python where the session looks for it: {_SAME}"),
)


def remedy(error: Exception) -> str | None:
    """Cause and remedy, if the workers' Python made a job fail; None otherwise."""
    text = str(error)
    return next((meaning for cause, meaning in _CAUSES if cause in text), None)
