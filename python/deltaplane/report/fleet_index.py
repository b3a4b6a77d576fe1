"""Reports of many tables as a folder of pages, with an index of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deltaplane.report.advice import ACT, FINE, WATCH, Advice
from deltaplane.report.health import Health
from deltaplane.report.page import LEVELS, page
from deltaplane.report.templates import rendered

__all__ = ["Reported", "write_pages"]

_URGENT_FIRST = (ACT, WATCH, FINE)


@dataclass(frozen=True)
class Reported:
    """A table with its report, or with the error for which there is none."""

    table: str
    health: Health | None
    error: str = ""
    page: str = ""

    @property
    def level(self) -> str:
        """The level of the most urgent advice."""
        levels = [] if self.health is None else [advice.level for advice in self.health.advice]
        return next((level for level in _URGENT_FIRST if level in levels), FINE)

    @property
    def urgent(self) -> list[Advice]:
        """The advice of that level, unless all is fine."""
        if self.health is None or self.level == FINE:
            return []
        return [advice for advice in self.health.advice if advice.level == self.level]

    @property
    def _rank(self) -> tuple[bool, int, str]:
        return self.health is not None, _URGENT_FIRST.index(self.level), self.table


def write_pages(tables: Sequence[Reported], folder: Path) -> Path:
    """Writes a page for each table that can be read, and `index.html`, which links them.

    Returns:
        The path of the index.

    Raises:
        ImportError: jinja2 isn't installed.
        OSError: the folder can't be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    entries, taken = [], {"index.html"}
    for reported in tables:
        if reported.health is None:
            entries.append(reported)
            continue
        name = _free_name(reported.table, taken)
        (folder / name).write_text(page(reported.health), "utf-8")
        entries.append(Reported(reported.table, reported.health, page=name))
    index = folder / "index.html"
    index.write_text(
        rendered("fleet_index.html", entries=sorted(entries, key=lambda e: e._rank), levels=LEVELS), "utf-8"
    )
    return index


def _free_name(table: str, taken: set[str]) -> str:
    """A file name by the last two parts of a location, with a number if another table has it."""
    parts = [re.sub(r"[^A-Za-z0-9._-]+", "-", part).strip("-.") for part in re.split(r"[/:]+", table) if part]
    stem = "-".join(part for part in parts[-2:] if part) or "table"
    name, number = f"{stem}.html", 1
    while name.lower() in taken:
        number += 1
        name = f"{stem}-{number}.html"
    taken.add(name.lower())
    return name
