"""The result of a search for erased values: traces, each with what ends it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any, Literal

from deltaplane.io.html import TextInNotebooks

__all__ = ["ErasureReport", "Place", "Trace"]

Place = Literal[
    "rows", "deleted rows", "older versions", "unreferenced files", "change files", "statistics", "commands",
    "partition values", "metadata", "index", "cache",
]  # fmt: skip


@dataclass(frozen=True)
class Trace:
    """A place that still has an erased value.

    Attributes: `place`, the kind of place; `path`, relative to the table's location; `what`, what
    was found; `until_ms`, when it can be deleted, in milliseconds since 1970, or None if no time
    ends it; `next`, what ends it.
    """

    place: Place
    path: str
    what: str
    until_ms: int | None
    next: str


@dataclass(frozen=True)
class ErasureReport(TextInNotebooks):
    """What a search for erased rows found.

    Attributes: `table`, its location; `version`, the inspected one; `where`, the condition;
    `objects`, how many objects were searched; `traces`; `not_searched`, paths of objects in formats
    that the search doesn't read.
    """

    table: str
    version: int
    where: str
    objects: int
    traces: list[Trace]
    not_searched: list[str]

    @property
    def is_erased(self) -> bool:
        """Whether nothing was found, and nothing was left out."""
        return not self.traces and not self.not_searched

    def to_dict(self) -> dict[str, Any]:
        """Converts the report to plain values, for JSON."""
        return {**asdict(self), "is_erased": self.is_erased}

    def __str__(self) -> str:
        lines = [f"{self.table}, version {self.version}: {self.objects:,} objects searched for {self.where}"]
        lines += [f"{t.place}: {t.path or '.'}: {t.what}; {_until(t.until_ms)}{t.next}" for t in self.traces]
        lines += [f"not searched: {path}" for path in self.not_searched]
        if self.is_erased:
            lines.append("nothing found")
        return "\n".join(lines)


def _until(until_ms: int | None) -> str:
    if until_ms is None:
        return ""
    moment = datetime.fromtimestamp(until_ms / 1000, tz=timezone.utc)
    return f"from {moment:%Y-%m-%d %H:%M} UTC on: "
