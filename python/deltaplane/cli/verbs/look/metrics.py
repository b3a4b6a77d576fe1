"""`deltaplane metrics`: figures of tables for Prometheus.

Uses the public API only.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import typer

from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, StoreOptions, store_options
from deltaplane.cli.exit_codes import exit_code
from deltaplane.cli.fleets import fleet_reports
from deltaplane.exceptions import DeltaError
from deltaplane.report.health import Health

__all__ = ["metrics"]

EXAMPLES = ("deltaplane metrics 's3://bucket/*/orders'", "deltaplane metrics sqlite:///lake.db --json")


class _Metric(NamedTuple):
    """A gauge: its name behind `deltaplane_table_`, its meaning, and its value by a table's
    facts."""

    name: str
    meaning: str
    value: Callable[[Health], float | None]


def _age(moment_ms: int | None) -> float | None:
    return None if moment_ms is None else round(time.time() - moment_ms / 1000, 3)


_METRICS = (
    _Metric("version", "The newest version.", lambda f: f.version),
    _Metric("last_commit_age_seconds", "Seconds since the newest commit.", lambda f: _age(f.timestamp_ms)),
    _Metric("files", "Data files of the newest version.", lambda f: f.files.count),
    _Metric("bytes", "Bytes of these files.", lambda f: f.files.size_bytes),
    _Metric("rows", "Rows of these files, where all have statistics.", lambda f: f.files.rows),
    _Metric("small_files", "Files that OPTIMIZE would join.", lambda f: f.files.small_files),
    _Metric("deleted_rows", "Rows that deletion vectors hide.", lambda f: f.vectors.deleted_rows),
    _Metric("removed_files", "Removed files within the retention.", lambda f: f.tombstones["kept_files"]),
    _Metric("vacuum_files", "Removed files that VACUUM may delete.", lambda f: f.tombstones["expired_files"]),
    _Metric("vacuum_bytes", "Bytes of these files.", lambda f: f.tombstones["expired_bytes"]),
    _Metric("log_commits", "Commits in the log.", lambda f: f.log["commits"]["files"]),
    _Metric("log_bytes", "Bytes of commits, checkpoints and sidecars.", lambda f: _log_bytes(f.log)),
    _Metric(
        "commits_since_checkpoint",
        "Commits that opening the table reads.",
        lambda f: f.log["commits_since_checkpoint"]["files"],
    ),
    _Metric("oldest_commit_age_seconds", "Age of the oldest commit.", lambda f: _age(f.log["oldest_commit_ms"])),
    _Metric("advice_to_act", "Advice of the report that has a cost now.", lambda f: _count(f, "act")),
    _Metric("advice_to_watch", "Advice of the report that will have a cost.", lambda f: _count(f, "watch")),
)


def _log_bytes(log: dict[str, Any]) -> int:
    return sum(log[part]["size_bytes"] for part in ("commits", "checkpoints", "sidecars", "compactions", "checksums"))


def _count(facts: Health, level: str) -> int:
    return sum(advice.level == level for advice in facts.advice)


def metrics(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="TARGET…", help="Locations, patterns with * and ?, @FILE with a target a line, catalogs."
        ),
    ],
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Prints figures of tables in Prometheus' text format: size, age, files for OPTIMIZE and
    VACUUM, log, advice. A table that can't be read has deltaplane_table_up 0; the exit code is that
    of the last one."""
    code, values = 0, {}
    for table, facts in fleet_reports(targets, store_options(option)):
        if isinstance(facts, DeltaError):
            code, values[table.location] = exit_code(facts), {"up": 0.0}
            continue
        measured = {metric.name: metric.value(facts) for metric in _METRICS}
        values[table.location] = {"up": 1.0, **{name: value for name, value in measured.items() if value is not None}}
    if json:
        render.print_json(values)
    else:
        print(_text(values), end="")
    if code:
        raise typer.Exit(code)


def _text(values: dict[str, dict[str, float]]) -> str:
    """The exposition format: https://prometheus.io/docs/instrumenting/exposition_formats/"""
    lines = []
    for name, meaning in (("up", "Whether the table can be read."), *((m.name, m.meaning) for m in _METRICS)):
        full = f"deltaplane_table_{name}"
        lines += [f"# HELP {full} {meaning}", f"# TYPE {full} gauge"]
        lines += [
            f'{full}{{table="{_escaped(table)}"}} {of_table[name]:.15g}'
            for table, of_table in values.items()
            if name in of_table
        ]
    return "\n".join(lines) + "\n"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
