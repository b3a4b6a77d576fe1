"""Writes docs/benchmarks.md: what the measures' newest results say of the targets, with the figures that are judged.

    python benches/summary.py [--results FOLDER ...] [--output FILE]

The figures are those of report.py. Run by `make bench-summary`, after the measures.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from harness import CACHE
from report import amount, described, measured_on, newest, ordered
from results import Facts, Line, load
from targets import GOALS, SIZES, Goal, Seen

OUTPUT = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
HEAD = """# Benchmarks

What `make bench` measured, written by `make bench-summary`: don't edit it. Contestants run side by side, each run in a process
of its own, and their answers are compared. Ratios are of one run; below 1, deltaplane is ahead. On Spark CPU and memory are
those of all processes: the JVM, Python's workers and the driver. The machine was shared with other work, which shows in times
more than in CPU.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, nargs="+", default=[CACHE / "results"], help="folders of lines")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="the page")
    options = parser.parse_args()
    found = load(sorted(file for folder in options.results for file in folder.glob("*.jsonl")))
    if not found:
        sys.exit(f"{options.results} hold no results: run a measure first")
    options.output.write_text(summary(found))
    print(options.output)


def summary(found: Sequence[tuple[Line, Facts]]) -> str:
    """The page of these lines, in the order they were written."""
    chosen = newest(found)
    lines = [line for line, _ in chosen]
    parts = [HEAD, f"Measured on {'; '.join(measured_on([facts for _, facts in chosen]))}.\n", "## Targets\n"]
    seen = [(goal, seen) for goal in ordered(GOALS) if (seen := goal.seen(lines)) is not None]
    others = sorted({goal.id for goal in GOALS} - {goal.id for goal, _ in seen})
    parts += [
        "Judged at the largest size that was measured. Where the target speaks of a larger one, the last column says so. "
        f"Without figures here: {', '.join(others) or 'none'} (benches/targets.py says what they are).\n",
        _table(["", "target", "at most", "seen", ""], [_target(*pair) for pair in seen]),
    ]
    tags = {goal.tag for goal in GOALS}
    for measure in dict.fromkeys(line.measure for line in lines):
        judged = [line for line in lines if line.measure == measure and line.target in tags]
        if judged:
            parts += [f"## {measure[:1].upper()}{measure[1:]}\n", *(f"{text}\n" for text in described(measure)[:1])]
            parts.append(_figures(judged))
    return "\n".join(parts)


def _target(goal: Goal, seen: Seen) -> list[str]:
    verdict = "met" if seen.value <= goal.at_most else "missed"
    if (seen.size or 0) < SIZES.get(goal.id, 0):
        verdict += f" at {seen.size or 0:,}, but the target is for {SIZES[goal.id]:,}"
    return [goal.id, goal.says, amount(goal.at_most, goal.unit), amount(seen.value, goal.unit), verdict]


def _figures(lines: Iterable[Line]) -> str:
    rows, last = [], ""
    for line in lines:
        rows.append(
            [
                "" if line.case == last else line.case,
                line.contestant,
                *(f"{s * 1000:,.4g}" for s in (line.median_s, line.cpu_s)),
                f"{line.peak_mb:,.0f}",
                "" if line.size_mb is None else f"{line.size_mb:,.3g}",
                *(f"{ratio:.2f}x" for ratio in (line.ratio_median, line.ratio_cpu, line.ratio_peak)),
            ]
        )
        last = line.case
    return _table(["case", "contestant", "ms", "CPU ms", "peak MB", "files MB", "time", "CPU", "memory"], rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '¦') for cell in cells)} |" for cells in lines) + "\n"


if __name__ == "__main__":
    main()
