"""Renders a report as one self-contained HTML page with inline SVG and without scripts.

Uses the report's facts; doesn't access the table. The extra `deltaplane[report]` installs jinja2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from deltaplane.report import charts
from deltaplane.report.advice import ACT, FINE, WATCH, lookup_files, lookup_share
from deltaplane.report.charts import Bar, Mark
from deltaplane.report.growth import OTHERS
from deltaplane.report.templates import rendered
from deltaplane.report.words import bytes_text, count_of, duration, moment, number, percent

if TYPE_CHECKING:
    from deltaplane.report.bins import Bin
    from deltaplane.report.growth import Commits, Point
    from deltaplane.report.health import Column, Health

__all__ = ["page"]

LEVELS = {ACT: "Act", WATCH: "Watch", FINE: "Fine"}


def page(health: Health) -> str:
    """Renders the whole document.

    Raises:
        ImportError: jinja2 isn't installed; the message tells how to install it.
    """
    return rendered("page.html", health=health, levels=LEVELS, **_drawn(health))


def _drawn(health: Health) -> dict[str, Any]:
    """The charts, and figures that only the page needs."""
    return {
        "sizes_chart": _sizes(health.files.bins, "file"),
        "growth_charts": [] if len(health.growth) < 2 else [_size_growth(health.growth), _file_growth(health.growth)],
        "rate_chart": None if health.commits is None else _rate(health.commits),
        "rate_names": [] if health.commits is None else _names(health.commits),
        "rate_rows": [] if health.commits is None else _rate_rows(health.commits),
        "partition_chart": None if health.partitions is None else _sizes(health.partitions.bins, "partition"),
        "vector_chart": _shares(health.vectors.bins),
        "column_rows": [_row(column, health) for column in health.columns],
        "read_by": _engines(health),
        "meter": charts.meter,
        "missing_size": any(p.size_bytes is None for p in health.growth),
    }


def _sizes(bins: Sequence[Bin], what: str) -> str:
    bars = [
        Bar(
            bytes_text(b.low),
            f"{bytes_text(b.low)} to {bytes_text(b.high)}: {count_of(b.count, what)}, {bytes_text(b.total)} together",
            ((0, b.count),),
        )
        for b in bins
    ]
    return charts.columns(f"How many {what}s have which size", bars, f"size of a {what}", f"{what}s", edges=True)


def _size_growth(points: Sequence[Point]) -> str:
    known = [p for p in points if p.size_bytes is not None]
    marks = [Mark(x, p.size_bytes or 0, _note(p)) for x, p in zip(_times(known), known, strict=True)]
    return charts.line("The table's size over time", marks, _x_words(known), _x_title(known), "size", of_bytes=True)


def _file_growth(points: Sequence[Point]) -> str:
    marks = [Mark(x, p.files, _note(p)) for x, p in zip(_times(points), points, strict=True)]
    return charts.line("The table's files over time", marks, _x_words(points), _x_title(points), "files")


def _note(point: Point) -> str:
    size = "" if point.size_bytes is None else f", {bytes_text(point.size_bytes)}"
    return f"version {number(point.version)}, {moment(point.timestamp_ms)}: {count_of(point.files, 'file')}{size}"


# A shorter time span in milliseconds can't label an axis; the axis then shows versions.
_LEAST_SPAN = 10_000
_DAY_MS = 86_400_000


def _by_time(points: Sequence[Point]) -> bool:
    return len(points) > 1 and points[-1].timestamp_ms - points[0].timestamp_ms >= _LEAST_SPAN


def _times(points: Sequence[Point]) -> list[float]:
    return [float(p.timestamp_ms if _by_time(points) else p.version) for p in points]


def _x_title(points: Sequence[Point]) -> str:
    return "time (UTC)" if _by_time(points) else "version"


def _x_words(points: Sequence[Point]) -> charts.Words:
    if not _by_time(points):
        return number
    form = _form(points[-1].timestamp_ms - points[0].timestamp_ms)
    return lambda x: moment(x, form)


def _form(span_ms: int) -> str:
    """The shortest time format that distinguishes the times of such a span."""
    if span_ms < _DAY_MS // 12:
        return "%H:%M:%S"
    if span_ms < 3 * _DAY_MS:
        return "%d %b %H:%M"
    return "%Y-%m-%d"


def _names(commits: Commits) -> list[str]:
    """The operations with a colour of their own, in the order of the colours."""
    ranked: dict[str, int] = {}
    for period in commits.periods:
        for name, count in period.counts.items():
            ranked[name] = ranked.get(name, 0) + count
    return sorted(ranked, key=lambda name: (name == OTHERS, -ranked[name], name))


def _rate(commits: Commits) -> str:
    names = _names(commits)
    # A period is labelled by its start.
    hours = "%H:%M" if commits.last_ms - commits.first_ms < _DAY_MS else "%d %b %H:%M"
    form = "%Y-%m-%d" if commits.period_ms >= _DAY_MS else hours
    bars = []
    for period in commits.periods:
        counts = [(number_of, name, period.counts.get(name, 0)) for number_of, name in enumerate(names)]
        said = ", ".join(f"{name}: {number(count)}" for _, name, count in counts if count) or "none"
        parts = tuple((colour, float(count)) for colour, _, count in counts if count)
        bars.append(Bar(moment(period.start_ms, form), f"from {moment(period.start_ms)}: {said}", parts))
    return charts.columns(
        "How many commits there were",
        bars,
        f"time (UTC), each column {duration(commits.period_ms)}",
        "commits",
        edges=True,
    )


def _rate_rows(commits: Commits) -> list[list[str]]:
    names = _names(commits)
    return [[moment(p.start_ms), *(number(p.counts.get(n, 0)) for n in names)] for p in commits.periods if p.counts]


def _shares(bins: Sequence[Bin]) -> str:
    bars = [
        Bar(
            f"{100 * b.low:.0f} %",
            f"{100 * b.low:.0f} to {100 * b.high:.0f} %: {count_of(b.count, 'file')}",
            ((0, b.count),),
        )
        for b in bins
    ]
    name = "How many files have which share of their rows deleted"
    return charts.columns(name, bars, "share of a file's rows that is deleted", "files", edges=True)


def _row(column: Column, health: Health) -> dict[str, Any]:
    """A row of the table of columns."""
    depth = column.depth
    share = lookup_share(column, health)
    notes = []
    for b in depth.bins:
        depth_text = f"{number(b.low)}" if b.high - b.low <= 1 else f"{number(b.low)} to {number(b.high - 1)}"
        notes.append(f"{depth_text} files over a value: {percent(b.count / (2 * depth.files))} of the bounds")
    return {
        "column": column,
        "files": lookup_files(column, health),
        "most": depth.most + column.unknown,
        "share": share,
        "level": "" if share <= 0.1 else "watch" if share <= 0.5 else "act",
        "spark": charts.sparkline(
            f"How many files lie over a value of {column.name}", [b.count for b in depth.bins], notes
        ),
    }


def _engines(health: Health) -> list[dict[str, Any]]:
    """Each engine's versions, grouped by equal capabilities."""
    rows: list[dict[str, Any]] = []
    for engine in health.compatibility.engines:
        lacks = ", ".join(dict.fromkeys([*engine.missing_to_read, *engine.missing_to_write]))
        rows.append(
            {
                "engine": engine.engine,
                "versions": engine.versions,
                "reads": engine.reads,
                "writes": engine.writes,
                "lacks": lacks,
            }
        )
    return rows
