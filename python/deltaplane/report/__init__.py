"""The health report of a table: what its log says of files, growth, commits, partitions,
clustering, deleted rows, the log itself and the engines that can read it, with advice; as plain
data, and as one HTML page that needs nothing else.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.report.health import Health, gather

if TYPE_CHECKING:
    from os import PathLike

    from deltaplane.advisor.advice import AdviceReport
    from deltaplane.table.delta_table import DeltaTable

__all__ = ["Health", "HealthReport", "health_report"]


class HealthReport:
    """What is to be said of one version of a table."""

    def __init__(self, facts: Health) -> None:
        self.facts = facts

    def __repr__(self) -> str:
        return f"HealthReport({self.facts.table!r}, version={self.facts.version})"

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return self.facts.to_dict()

    def to_html(self) -> str:
        """One page that is complete in itself: no script, nothing is loaded; light or dark as its
        reader prefers.

        Raises:
            ImportError: jinja2 isn't installed (`pip install 'deltaplane[report]'`).
        """
        from deltaplane.report.page import page

        return page(self.facts)

    def _repr_html_(self) -> str:
        """In a notebook, within a frame of its own, so that its style stays there."""
        from html import escape

        return f'<iframe srcdoc="{escape(self.to_html())}" style="width:100%;height:80vh;border:0"></iframe>'

    def write(self, path: str | PathLike[str]) -> None:
        """Writes the page to a file, in place of what is there."""
        Path(path).write_text(self.to_html(), "utf-8")


def health_report(table: DeltaTable, commits: int, judged: AdviceReport | None = None) -> HealthReport:
    """Gathers a report of the version that the table shows; `DeltaTable.report` says how and at
    which cost."""
    if commits < 1:
        raise InvalidArgumentError(f"commits is a number of commits, not {commits}")
    if judged is not None and (judged.table, judged.version) != (table.table_uri, table.version()):
        raise InvalidArgumentError(
            f"the advice is on version {judged.version} of {judged.table}, the report on version {table.version()} of "
            f"{table.table_uri}: take both of one version"
        )
    return HealthReport(gather(table, commits, judged))
