"""The figures of a table for monitoring: Prometheus' text and OpenTelemetry's gauges are made of
this one list."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import MappingProxyType
from typing import Any, NamedTuple

from deltaplane.report.health import Health

__all__ = ["DOWN", "METRICS", "Metric", "measure"]


class Metric(NamedTuple):
    """A gauge: its name behind `deltaplane_table_`, its meaning, its value by a table's facts (None
    if they don't have it), and its unit in UCUM."""

    name: str
    meaning: str
    value: Callable[[Health], float | None]
    unit: str = "1"


def _age(moment_ms: int | None) -> float | None:
    return None if moment_ms is None else round(time.time() - moment_ms / 1000, 3)


def _log_bytes(log: dict[str, Any]) -> int:
    return sum(log[part]["size_bytes"] for part in ("commits", "checkpoints", "sidecars", "compactions", "checksums"))


def _count(facts: Health, level: str) -> int:
    return sum(advice.level == level for advice in facts.advice)


METRICS = (
    Metric("up", "Whether the table can be read.", lambda _: 1.0),
    Metric("version", "The newest version.", lambda f: f.version),
    Metric("last_commit_age_seconds", "Seconds since the newest commit.", lambda f: _age(f.timestamp_ms), "s"),
    Metric("files", "Data files of the newest version.", lambda f: f.files.count),
    Metric("bytes", "Bytes of these files.", lambda f: f.files.size_bytes, "By"),
    Metric("rows", "Rows of these files, where all have statistics.", lambda f: f.files.rows),
    Metric("small_files", "Files that OPTIMIZE would join.", lambda f: f.files.small_files),
    Metric("deleted_rows", "Rows that deletion vectors hide.", lambda f: f.vectors.deleted_rows),
    Metric("removed_files", "Removed files within the retention.", lambda f: f.tombstones["kept_files"]),
    Metric("vacuum_files", "Removed files that VACUUM may delete.", lambda f: f.tombstones["expired_files"]),
    Metric("vacuum_bytes", "Bytes of these files.", lambda f: f.tombstones["expired_bytes"], "By"),
    Metric("log_commits", "Commits in the log.", lambda f: f.log["commits"]["files"]),
    Metric("log_bytes", "Bytes of commits, checkpoints and sidecars.", lambda f: _log_bytes(f.log), "By"),
    Metric(
        "commits_since_checkpoint",
        "Commits that opening the table reads.",
        lambda f: f.log["commits_since_checkpoint"]["files"],
    ),
    Metric("oldest_commit_age_seconds", "Age of the oldest commit.", lambda f: _age(f.log["oldest_commit_ms"]), "s"),
    Metric("advice_to_act", "Advice of the report that has a cost now.", lambda f: _count(f, "act")),
    Metric("advice_to_watch", "Advice of the report that will have a cost.", lambda f: _count(f, "watch")),
)

# The figures of a table that can't be read.
DOWN = MappingProxyType({"up": 0.0})


def measure(facts: Health) -> dict[str, float]:
    """The figures of a table by name, without those that its facts don't have."""
    values = {metric.name: metric.value(facts) for metric in METRICS}
    return {name: value for name, value in values.items() if value is not None}
