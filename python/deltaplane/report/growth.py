"""Summarises the log's commits: growth of the table, operations over time, and concurrent commits.

Uses the per-commit totals of the core; doesn't access the table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deltaplane.io import records

__all__ = ["Commits", "Operation", "Period", "Point", "commits", "growth"]

# Possible widths of a period in ms, from a minute to ten years; the narrowest with few enough
# periods is used.
_MINUTE, _HOUR, _DAY = 60_000, 3_600_000, 86_400_000
_WIDTHS = (
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14, 30, 91, 365, 3650)),
)
_PERIODS = 40
_OURS = "deltaplane"
_UNNAMED = "(not named)"
# Maximum number of operations and engines with a name of their own; the others are combined.
_MOST_NAMES = 6
# Maximum number of listed operations.
_MOST_LISTED = 12
OTHERS = "others"


@dataclass(frozen=True)
class Point:
    """The table's size after a version. `size_bytes` is None if a later commit removed files
    without recording their size."""

    version: int
    timestamp_ms: int
    files: int
    size_bytes: int | None


@dataclass(frozen=True)
class Operation:
    """Totals of all commits of one operation."""

    name: str
    commits: int
    added_files: int
    removed_files: int
    added_bytes: int
    removed_bytes: int
    last_ms: int


@dataclass(frozen=True)
class Period:
    """Number of commits per operation, in a period that starts at this time."""

    start_ms: int
    counts: dict[str, int]


@dataclass(frozen=True)
class Commits:
    """The analysed commits. `telling` is the number of commits with a plausible `readVersion`;
    `overtaken` of these were committed after foreign commits that they hadn't read, at most
    `most_overtaken` of them."""

    count: int
    first_version: int
    last_version: int
    first_ms: int
    last_ms: int
    operations: tuple[Operation, ...]
    engines: dict[str, int]
    period_ms: int
    periods: tuple[Period, ...]
    telling: int
    overtaken: int
    most_overtaken: int
    last_vacuum_ms: int | None
    last_optimize_ms: int | None


def growth(totals: Sequence[records.CommitTotals], files: int, size_bytes: int) -> tuple[Point, ...]:
    """The table's size after each commit, oldest first, computed backwards from its present size.

    Commits that only add existing files again (nothing removed, no row changed) are ignored.
    """
    points: list[Point] = []
    size: int | None = size_bytes
    expected = totals[-1].version if totals else 0
    for commit in reversed(totals):
        if commit.version != expected:
            break
        points.append(Point(commit.version, commit.timestamp_ms, files, size))
        expected -= 1
        if commit.data_change or commit.removed_files:
            files -= commit.added_files - commit.removed_files
            known = size is not None and not commit.removed_unsized
            size = size - commit.added_bytes + commit.removed_bytes if known and size is not None else None
        if files < 0 or (size is not None and size < 0):
            # A file was added twice, so earlier sizes are unknown.
            break
    return tuple(reversed(points))


def commits(totals: Sequence[records.CommitTotals]) -> Commits | None:
    """Summarises these commits, which must be in ascending order; None if there are none."""
    if not totals:
        return None
    named = [_name(c, "operation") for c in totals]
    shown = _shown(named)
    telling = [c for c in totals if _tells(c)]
    behind = [c.version - 1 - c.info["readVersion"] for c in telling]
    first, last = (min(c.timestamp_ms for c in totals), max(c.timestamp_ms for c in totals))
    # A log may contain arbitrary timestamps.
    width = next((w for w in _WIDTHS if (last - first) // w < _PERIODS), (last - first) // _PERIODS + 1)
    groups: dict[str, list[records.CommitTotals]] = {}
    for commit, name in zip(totals, named, strict=True):
        groups.setdefault(name, []).append(commit)
    return Commits(
        len(totals),
        totals[0].version,
        totals[-1].version,
        first,
        last,
        tuple(_operation(name, groups[name]) for name in _ranked(named)[:_MOST_LISTED]),
        _counts([_engine(c) for c in totals]),
        width,
        _periods(totals, [name if name in shown else OTHERS for name in named], first, last, width),
        len(telling),
        sum(n > 0 for n in behind),
        max(behind, default=0),
        _last(totals, named, "VACUUM END"),
        _last(totals, named, "OPTIMIZE"),
    )


def _name(commit: records.CommitTotals, key: str) -> str:
    value = commit.info.get(key)
    return value if isinstance(value, str) and value else _UNNAMED


def _engine(commit: records.CommitTotals) -> str:
    return _name(commit, "engineInfo")


def _tells(commit: records.CommitTotals) -> bool:
    read = commit.info.get("readVersion")
    # Commits of deltaplane record the version of their last rebase, which is always the previous
    # version.
    return type(read) is int and 0 <= read < commit.version and not _engine(commit).startswith(_OURS)


def _ranked(names: Sequence[str]) -> list[str]:
    return [name for name, _ in sorted(Counter(names).items(), key=lambda item: (-item[1], item[0]))]


def _shown(names: Sequence[str]) -> set[str]:
    ranked = _ranked(names)
    return set(ranked if len(ranked) <= _MOST_NAMES else ranked[: _MOST_NAMES - 1])


def _counts(names: Sequence[str]) -> dict[str, int]:
    shown = _shown(names)
    counted = Counter(name if name in shown else OTHERS for name in names)
    return dict(sorted(counted.items(), key=lambda item: (item[0] == OTHERS, -item[1], item[0])))


def _operation(name: str, commits: Sequence[records.CommitTotals]) -> Operation:
    def total(key: str) -> int:
        return sum(getattr(c, key) for c in commits)

    files, size = (total("added_files"), total("removed_files")), (total("added_bytes"), total("removed_bytes"))
    return Operation(name, len(commits), *files, *size, max(c.timestamp_ms for c in commits))


def _periods(
    totals: Sequence[records.CommitTotals], names: Sequence[str], first: int, last: int, width: int
) -> tuple[Period, ...]:
    start = first - first % width
    counts: list[Counter[str]] = [Counter() for _ in range((last - start) // width + 1)]
    for commit, name in zip(totals, names, strict=True):
        counts[(commit.timestamp_ms - start) // width][name] += 1
    return tuple(Period(start + n * width, dict(c)) for n, c in enumerate(counts))


def _last(totals: Sequence[records.CommitTotals], names: Sequence[str], operation: str) -> int | None:
    return max((c.timestamp_ms for c, n in zip(totals, names, strict=True) if n == operation), default=None)
