"""The commits of a table: a list of dicts, which can be Arrow data with delta-spark's columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deltaplane.io.html import table_html

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["CommitHistory"]

# The columns in notebooks; the others are seldom set.
_SHOWN = ("version", "timestamp", "operation", "operationParameters", "operationMetrics", "userMetadata", "engineInfo")


class CommitHistory(list[dict[str, Any]]):
    """The `commitInfo` of each commit, newest first, with `version` and `timestamp` (ms since the
    epoch).

    >>> CommitHistory([{"version": 0, "timestamp": 5, "operation": "WRITE"}]).to_arrow()["operation"].to_pylist()
    ['WRITE']
    """

    def to_arrow(self) -> pa.Table:
        """A row for each commit, with the columns of delta-spark's `DESCRIBE HISTORY`: `version`
        (int64), `timestamp` (ms in UTC), `operation` (text), `operationParameters` and
        `operationMetrics` (text to text), `isBlindAppend` (bool), …; null where a commit has
        none."""
        from deltaplane.report.describe import rows_of_history

        return rows_of_history(self)

    def _repr_html_(self) -> str:
        return table_html(_SHOWN, [[entry.get(name, "") for name in _SHOWN] for entry in self])
