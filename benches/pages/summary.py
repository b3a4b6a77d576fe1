"""Writes docs/benchmarks.md: compares the measures' newest results with the targets, and lists the
judged figures.

    python benches/pages/summary.py [--results FOLDER ...] [--output FILE]

The figures are those of report.py. Sections of measures without results here stay unchanged, since
some measures take hours or another machine. `make bench-summary` runs it after the measures.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

from report import amount, described, measured_on, newest, ordered
from support.charts import exponent, last_step
from support.harness import CACHE
from support.results import TRAFFIC, Facts, Line, load
from support.targets import GOALS, SIZES, Goal, Seen

OUTPUT = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
HEAD = """# Benchmarks

The results of `make bench`, written by `make bench-summary`: don't edit this page. Contestants run
in turn, each run in a separate process, and their answers are compared. Ratios are of one run;
below 1, deltaplane is better. On Spark, CPU and memory are those of all processes: the JVM,
Python's workers and the driver. The machine was shared with other work, which affects times more
than CPU.
"""
JUDGED = (
    "Targets are judged at their own size, or at the largest measured size, which the last column then states. "
    "Targets without figures: "
)
MEASURED = "Measured on "


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, nargs="+", default=[CACHE / "results"], help="folders of lines")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="the page")
    options = parser.parse_args()
    results = load(sorted(file for folder in options.results for file in folder.glob("*.jsonl")))
    if not results:
        sys.exit(f"{options.results} hold no results: run a measure first")
    before = options.output.read_text() if options.output.exists() else ""
    options.output.write_text(summary(results, before))
    print(options.output)


def summary(results: Sequence[tuple[Line, Facts]], before: str = "") -> str:
    """The page of these lines; rows and sections without new lines are taken from the page
    `before`."""
    chosen, older = newest(results), Page(before)
    lines = [line for line, _ in chosen]
    rows = []
    for goal in ordered(GOALS):
        seen = goal.seen(lines)
        if row := older.targets.get(goal.says) if seen is None else _target(goal, seen):
            rows.append(row)
    others = sorted({goal.id for goal in GOALS} - {row[0] for row in rows}, key=lambda id: (id[0], int(id[1:])))
    parts = [
        HEAD,
        "## Targets\n",
        wrapped(f"{JUDGED}{', '.join(others) or 'none'} (defined in benches/support/targets.py).") + "\n",
        _table(["", "target", "at most", "seen", ""], rows),
    ]
    tags = {goal.tag for goal in GOALS}
    sections = dict(older.sections)
    for measure in dict.fromkeys(line.measure for line in lines):
        own = [pair for pair in chosen if pair[0].measure == measure]
        # A curve is shown completely if one of its points is judged.
        curves = {line.series for line, _ in own if line.target in tags and line.series}
        judged = [(line, facts) for line, facts in own if line.target in tags or line.series in curves]
        if judged:
            sections[_title(measure)] = _section(measure, judged)
    return "\n".join([*parts, *(sections[title] for title in sorted(sections))])


class Page:
    """The content of an existing page: the targets' rows by text, and each measure's section by
    title."""

    def __init__(self, text: str) -> None:
        head, *sections = text.split("\n## ")
        titled = {section.split("\n", 1)[0]: section for section in sections}
        rows = [_cells(line) for line in titled.pop("Targets", "").splitlines() if line.startswith("| ")]
        self.targets = {row[1]: row for row in rows}
        # Older pages had one such line for all measures.
        measured = [line for line in head.splitlines() if line.startswith(MEASURED)]
        self.sections = {title: self._section(section, measured) for title, section in titled.items()}

    def _section(self, text: str, measured: Sequence[str]) -> str:
        if not any(line.startswith(MEASURED) for line in text.splitlines()):
            about, table = text.split("\n\n| ", 1)
            text = "\n\n".join([about, *measured, f"| {table}"])
        return f"## {text.rstrip()}\n"


def wrapped(text: str) -> str:
    """Prose in lines of at most 100 columns."""
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _title(measure: str) -> str:
    return f"{measure[:1].upper()}{measure[1:]}"


def _section(measure: str, judged: Sequence[tuple[Line, Facts]]) -> str:
    """A measure's figures and their growth."""
    lines = [line for line, _ in judged]
    parts = [f"## {_title(measure)}\n", *(f"{wrapped(text)}\n" for text in described(measure)[:1])]
    parts.append(wrapped(f"{MEASURED}{'; '.join(measured_on([facts for _, facts in judged]))}.") + "\n")
    parts.append(_figures(lines))
    grown = [row for series in dict.fromkeys(line.series for line in lines) for row in _growth(series, lines)]
    if grown:
        parts.append("Fitted growth with the size n, where there are three sizes at least:\n")
        parts.append(_table(["series", "contestant", "sizes", "time", "CPU", "CPU, last step", "memory"], grown))
    return "\n".join(parts)


def _growth(series: str, lines: Sequence[Line]) -> list[list[str]]:
    rows = []
    for contestant in dict.fromkeys(line.contestant for line in lines):
        own = [line for line in lines if line.contestant == contestant and line.series == series and line.size]

        def points(figure: str, own: Sequence[Line] = own) -> list[tuple[float, float]]:
            return [(line.size or 0, getattr(line, figure)) for line in own]

        if exponent(points("cpu_s")) is not None:
            sizes = [line.size or 0 for line in own]
            ks = [exponent(points("median_s")), exponent(points("cpu_s")), last_step(points("cpu_s"))]
            powers = ["" if k is None else f"n^{k:.2f}" for k in [*ks, exponent(points("peak_mb"))]]
            rows.append(["" if rows else series, contestant, f"{min(sizes):,} to {max(sizes):,}", *powers])
    return rows


def _target(goal: Goal, seen: Seen) -> list[str]:
    verdict = "met" if seen.value <= goal.at_most else "missed"
    if (seen.size or 0) < SIZES.get(goal.id, 0):
        verdict += f" at {seen.size or 0:,}, but the target is for {SIZES[goal.id]:,}"
    return [goal.id, goal.says, amount(goal.at_most, goal.unit), amount(seen.value, goal.unit), verdict]


def _figures(lines: Sequence[Line]) -> str:
    rows, last = [], ""
    sends = any(line.requests is not None for line in lines)
    for line in lines:
        rows.append(
            [
                "" if line.case == last else line.case,
                line.contestant,
                *(f"{s * 1000:,.4g}" for s in (line.median_s, line.cpu_s)),
                f"{line.peak_mb:,.0f}",
                "" if line.size_mb is None else f"{line.size_mb:,.3g}",
                *(line.traffic if sends else ()),
                *(f"{ratio:.2f}x" for ratio in (line.ratio_median, line.ratio_cpu, line.ratio_peak)),
            ]
        )
        last = line.case
    head = ["case", "contestant", "ms", "CPU ms", "peak MB", "files MB", *(TRAFFIC if sends else ())]
    return _table([*head, "time", "CPU", "memory"], rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '¦') for cell in cells)} |" for cells in lines) + "\n"


if __name__ == "__main__":
    main()
