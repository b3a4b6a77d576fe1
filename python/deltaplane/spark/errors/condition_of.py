"""The condition of an error of Spark's, whose method has another name before PySpark 4, and of the
cause of a failed job, for which PySpark 3.5 has no class.

Doesn't know which conditions exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from py4j.protocol import Py4JJavaError

__all__ = ["condition_of", "parameters_of_cause"]


def condition_of(error: Any) -> str | None:
    """The condition of a PySpark exception, such as "TABLE_OR_VIEW_NOT_FOUND"; None without one."""
    ask = getattr(error, "getCondition", None) or error.getErrorClass
    condition: str | None = ask()
    return condition


def parameters_of_cause(error: Py4JJavaError, condition: str) -> Any:
    """The parameters of the condition among the causes of a failed job; None without such a
    cause."""
    from py4j.java_gateway import is_instance_of
    from pyspark import SparkContext

    thrown = error.java_exception
    while thrown is not None:
        is_sparks = is_instance_of(SparkContext._gateway, thrown, "org.apache.spark.SparkThrowable")
        if is_sparks and thrown.getErrorClass() == condition:
            return thrown.getMessageParameters()
        thrown = thrown.getCause()
    return None
