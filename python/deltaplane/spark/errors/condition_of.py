"""The condition of an error of Spark's, whose method has another name before PySpark 4.

Doesn't know which conditions exist.
"""

from __future__ import annotations

from typing import Any

__all__ = ["condition_of"]


def condition_of(error: Any) -> str | None:
    """The condition of a PySpark exception, such as "TABLE_OR_VIEW_NOT_FOUND"; None without one."""
    ask = getattr(error, "getCondition", None) or error.getErrorClass
    condition: str | None = ask()
    return condition
