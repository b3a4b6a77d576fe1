"""The health report of a table, from its log: files, growth, commits, partitions, clustering,
deleted rows, log size and compatible engines, with advice; as plain values and as one
self-contained HTML page.
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
    """A health report of one version of a table."""

    def __init__(self, facts: Health) -> None:
        self.facts = facts

    def __repr__(self) -> str:
        return f"HealthReport({self.facts.table!r}, version={self.facts.version})"

    def to_dict(self) -> dict[str, Any]:
        """Converts the report to plain values, for JSON."""
        return self.facts.to_dict()

    def to_html(self) -> str:
        """Renders one self-contained page without scripts or external resources, in light and dark
        colours.

        Raises:
            ImportError: jinja2 isn't installed (`pip install 'deltaplane[report]'`).
        """
        from deltaplane.report.page import page

        return page(self.facts)

    def _repr_html_(self) -> str:
        """Shows the page in a notebook, inside a frame that isolates its style."""
        from html import escape

        return f'<iframe srcdoc="{escape(self.to_html())}" style="width:100%;height:80vh;border:0"></iframe>'

    def write(self, path: str | PathLike[str]) -> None:
        """Writes the page to a file, replacing an existing one."""
        Path(path).write_text(self.to_html(), "utf-8")


def health_report(table: DeltaTable, commits: int, judged: AdviceReport | None = None) -> HealthReport:
    """Gathers a report of the table's current version; `DeltaTable.report` documents arguments and
    cost."""
    if commits < 1:
        raise InvalidArgumentError(f"commits is a number of commits, not {commits}")
    if judged is not None and (judged.table, judged.version) != (table.table_uri, table.version()):
        raise InvalidArgumentError(
            f"the advice is on version {judged.version} of {judged.table}, the report on version {table.version()} of "
            f"{table.table_uri}: take both of one version"
        )
    return HealthReport(gather(table, commits, judged))
