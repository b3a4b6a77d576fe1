"""Texts that belong to the thread that calls Spark, for what the JVM calls back meanwhile: PySpark
may run a call back in another thread of Python, but it comes from the same thread of the JVM.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["thread_value", "with_thread_value"]


@contextmanager
def with_thread_value(spark: Any, key: str, value: str) -> Iterator[None]:
    """Sets a text within the block."""
    context = spark.sparkContext
    before = context.getLocalProperty(key)
    context.setLocalProperty(key, value)
    try:
        yield
    finally:
        context.setLocalProperty(key, before)


def thread_value(spark: Any, key: str) -> str | None:
    """The text of the calling thread; None outside of a block."""
    value: str | None = spark.sparkContext.getLocalProperty(key)
    return value
