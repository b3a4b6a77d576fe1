"""Results of runs: one line for each contestant of a case, shown as a table or as JSON, and stored
in a file.

Lines are appended to `.cache/bench/results/<measure>.jsonl`, each with machine, versions and date;
report.py reads them. Independent of the measures.
"""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

PEERS = ("deltalake", "pyarrow", "duckdb", "polars", "pyspark")


@dataclass(frozen=True)
class Facts:
    """The facts that all lines of one run share. `scale` is quick, small or full, `commit` the
    checkout's."""

    at: str
    scale: str
    core_version: str
    build_profile: str
    cpu_model: str
    cpus: int
    python: str
    peers: dict[str, str] = field(default_factory=dict)
    commit: str = ""


@dataclass(frozen=True)
class Line:
    """One contestant's figures in one case; ratios are deltaplane's figure divided by this one's:
    below 1, deltaplane is better.

    `series` and `size` locate the case on a growth curve, `target` names its target (targets.py).
    `tail_s` is the 99th percentile of the calls' seconds, the maximum of fewer than 100. `failed`:
    the number of the contestant's failed operations. Memory is that of the run's own process, or of
    the largest process that it started.
    """

    measure: str
    case: str
    contestant: str
    series: str
    size: int | None
    target: str
    answer: int
    failed: int
    runs: int
    best_s: float
    median_s: float
    mean_s: float
    cpu_s: float
    peak_mb: float
    added_mb: float
    size_mb: float | None
    ratio_best: float
    ratio_median: float
    ratio_cpu: float
    ratio_peak: float
    # None in lines from before this was measured.
    tail_s: float | None = None
    # Of measures of object stores: see harness.Traffic.
    requests: float | None = None
    rounds: float | None = None
    moved_mb: float | None = None
    usd_per_million: float | None = None

    @property
    def traffic(self) -> tuple[str, ...]:
        """The figures of the requests as text, in the order of `TRAFFIC`."""
        figures = (self.requests, self.rounds, self.moved_mb, self.usd_per_million)
        return tuple("" if figure is None else f"{figure:,.3g}" for figure in figures)


# Heads of the columns of `Line.traffic`.
TRAFFIC = ("requests", "rounds", "moved MB", "$ a million")


def facts_now(scale: str) -> Facts:
    """The facts of a measurement on this machine now."""
    from deltaplane import _native

    return Facts(
        at=dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds"),
        scale=scale,
        core_version=_native.__version__,
        build_profile=_native.build_profile,
        cpu_model=_cpu_model(),
        cpus=os.cpu_count() or 1,
        python=platform.python_version(),
        peers={name: importlib.metadata.version(name) for name in PEERS},
        commit=_commit(),
    )


def _commit() -> str:
    """Empty outside of a checkout; `-dirty` with uncommitted changes."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    folder = Path(__file__).resolve().parent
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout.strip()


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


# --- the file ---------------------------------------------------------------------------------------------------------


def keep(folder: Path, lines: Sequence[Line], facts: Facts) -> None:
    """Appends lines to the file of their measure."""
    folder.mkdir(parents=True, exist_ok=True)
    for line in lines:
        with (folder / f"{line.measure}.jsonl").open("a") as file:
            file.write(json.dumps({**asdict(line), **asdict(facts)}) + "\n")


def load(paths: Iterable[Path]) -> list[tuple[Line, Facts]]:
    """All lines of some files, in the order of writing.

    Raises:
        ValueError: an invalid line; the message has the file and the line's number.
    """
    results = []
    for path in paths:
        for number, text in enumerate(path.read_text().splitlines(), 1):
            try:
                results.append(_parsed(json.loads(text)))
            except (ValueError, TypeError, KeyError, AttributeError) as e:
                raise ValueError(f"{path}, line {number} is no result of a measure: {e!r}") from e
    return results


def _parsed(values: dict[str, Any]) -> tuple[Line, Facts]:
    of_facts = {name: values.pop(name) for name in Facts.__dataclass_fields__ if name in values}
    return Line(**values), Facts(**of_facts)


# --- the table --------------------------------------------------------------------------------------------------------


def show(lines: Sequence[Line], facts: Facts, as_json: bool) -> None:
    if as_json:
        for line in lines:
            print(json.dumps({**asdict(line), **asdict(facts)}))
        return
    head = [
        "case",
        "contestant",
        "answer",
        "best ms",
        "median ms",
        "p99 ms",
        "CPU ms",
        "peak MB",
        "added MB",
        "files MB",
    ]
    sends = any(line.requests is not None for line in lines)
    head += [*(TRAFFIC if sends else ()), "median", "CPU", "peak"]
    rows = [head]
    last = None
    for line in lines:
        rows.append(
            [
                "" if line.case == last else line.case,
                line.contestant,
                f"{line.answer:,}" + (f" ({line.failed:,} failed)" if line.failed else ""),
                *(f"{(s or 0) * 1000:,.1f}" for s in (line.best_s, line.median_s, line.tail_s, line.cpu_s)),
                f"{line.peak_mb:,.0f}",
                f"{line.added_mb:,.0f}",
                "" if line.size_mb is None else f"{line.size_mb:,.3g}",
                *(line.traffic if sends else ()),
                *(f"{r:.2f}x" for r in (line.ratio_median, line.ratio_cpu, line.ratio_peak)),
            ]
        )
        last = line.case
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    if lines:
        print(f"== {lines[0].measure}; the last three columns: deltaplane's figure over this row's")
    for row in rows:
        cells = [c.ljust(w) if i < 2 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        print("  ".join(cells).rstrip())
    print(flush=True)
