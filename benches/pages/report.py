"""Renders all measures' newest results as one self-contained HTML page: targets, growth curves,
tables.

    python benches/pages/report.py [--results FOLDER] [--output FILE]

A case's figures are those of its newest run; runs of a release build take precedence.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from support.charts import Points, colour_of, exponent, last_step, log_log
from support.harness import CACHE
from support.results import TRAFFIC, Facts, Line, load
from support.targets import GOALS, SIZES, SUBJECT, Goal

BENCHES = Path(__file__).resolve().parents[1]
RELEASE = "release"

STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.45 system-ui, sans-serif; color: #1d2733; background: #fff; max-width: 1180px; margin: 2rem auto;
       padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .4rem; }
p { margin: .3rem 0 .8rem; max-width: 75ch; } .scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: .22rem .6rem; text-align: right; white-space: nowrap; border-bottom: 1px solid #e4e9ee; }
th { color: #5a6773; font-weight: 600; } .text { text-align: left; white-space: normal; }
tr.ours td { background: #f2f7fd; } .met { color: #1d7a34; } .missed { color: #b3261e; } .none { color: #7b8794; }
.charts { display: flex; flex-wrap: wrap; gap: 1rem; } svg text { font: 11px system-ui, sans-serif; fill: #5a6773; }
svg text.title { font-size: 12px; font-weight: 600; fill: #1d2733; } svg .grid { stroke: #e4e9ee; }
.key { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .3em; }
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=CACHE / "results", help="folder of the measures' lines")
    parser.add_argument("--output", type=Path, default=CACHE / "report.html", help="the page")
    options = parser.parse_args()
    results = load(sorted(options.results.glob("*.jsonl")))
    if not results:
        sys.exit(f"{options.results} holds no results: run a measure first, such as {BENCHES.name}/bench_open.py")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(page(results))
    print(options.output)


def page(results: Sequence[tuple[Line, Facts]]) -> str:
    """The page of these lines, which are in the order of writing."""
    chosen = newest(results)
    lines = [line for line, _ in chosen]
    body = [
        "<h1>deltaplane: measures</h1>",
        _measured_on([facts for _, facts in chosen]),
        "<h2>Targets</h2>",
        "<p>Judged at the size that the target speaks of, or at the largest that was measured, and open while that is less. Ratios are of "
        "one run; x: deltaplane's figure over the other's, or its greatest over its smallest.</p>",
        _targets(lines),
        "<h2>Growth</h2>",
        "<p>Medians on two logarithmic axes. The exponent k of n<sup>k</sup> is fitted to each curve, and to its last "
        "step alone, where what doesn't grow weighs least: 0 is flat, 1 is proportional.</p>",
        *_growth(lines),
    ]
    for measure in sorted({line.measure for line in lines}):
        body += _measure(measure, [pair for pair in chosen if pair[0].measure == measure])
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>deltaplane: measures</title>',
            f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>',
            *body,
            "</body></html>\n",
        ]
    )


def newest(results: Sequence[tuple[Line, Facts]]) -> list[tuple[Line, Facts]]:
    """For each case the lines of one run: the newest one of a release build, else the newest
    one."""
    runs: dict[tuple[str, str], dict[tuple[bool, str], list[tuple[Line, Facts]]]] = {}
    for line, facts in results:
        run = (facts.build_profile == RELEASE, facts.at)
        runs.setdefault((line.measure, line.case), {}).setdefault(run, []).append((line, facts))
    return [pair for of_case in runs.values() for pair in of_case[max(of_case)]]


# --- what it was measured on ------------------------------------------------------------------------------------------


def _measured_on(facts: Sequence[Facts]) -> str:
    text = f"<p>{escape('; '.join(measured_on(facts)))}.</p>"
    if any(f.build_profile != RELEASE for f in facts):
        text += '<p class="missed">Some figures are of a build that isn\'t optimised: they mean nothing.</p>'
    return text


def measured_on(facts: Sequence[Facts]) -> list[str]:
    """Date, machine and versions of the measurements."""
    first = min(f.at for f in facts)[:10]
    last = max(f.at for f in facts)[:10]
    peers = {f"{name} {version}" for f in facts for name, version in f.peers.items()}
    return [
        first if first == last else f"{first} to {last}",
        *sorted({f"{f.cpu_model}, {f.cpus} CPUs" for f in facts}),
        *sorted({f"deltaplane {f.core_version} {f.commit}".rstrip() + f" ({f.build_profile} build)" for f in facts}),
        *sorted({f"Python {f.python}" for f in facts}),
        ", ".join(sorted(peers)),
    ]


# --- targets ----------------------------------------------------------------------------------------------------------


def _targets(lines: Sequence[Line]) -> str:
    rows = [_target(goal, lines) for goal in ordered(GOALS)]
    return _table(["", "target", "at most", "seen", "at size", ""], 2, rows)


def ordered(goals: Iterable[Goal]) -> list[Goal]:
    """The log's targets first, then the others by their ids."""
    return sorted(goals, key=lambda goal: (goal.id[0] != "T", goal.id[0], int(goal.id[1:])))


def _target(goal: Goal, lines: Sequence[Line]) -> tuple[str, list[str]]:
    seen = goal.seen(lines)
    limit = amount(goal.at_most, goal.unit)
    if seen is None:
        return "", [goal.id, escape(goal.says), limit, "", "", '<span class="none">not measured</span>']
    met = seen.value <= goal.at_most
    verdict = '<span class="met">met</span>' if met else '<span class="missed">missed</span>'
    if (seen.size or 0) < SIZES.get(goal.id, 0):
        verdict += ', but the target is for <span class="none">' + f"{SIZES[goal.id]:,}</span>"
    size = "" if seen.size is None else f"{seen.size:,}"
    return "", [goal.id, escape(goal.says), limit, amount(seen.value, goal.unit), size, verdict]


def amount(value: float, unit: str) -> str:
    """A figure with its unit, for people."""
    if unit == "s":
        return f"{value * 1000:,.3g} ms" if value < 10 else f"{value:,.0f} s"
    return f"{value:,.3g} {unit}".strip() if unit != "x" else f"{value:.3g}x"


# --- growth -----------------------------------------------------------------------------------------------------------


def _growth(lines: Sequence[Line]) -> list[str]:
    parts = []
    for series in dict.fromkeys(line.series for line in lines if line.series):
        of_series = [line for line in lines if line.series == series]
        if len({line.size for line in of_series if line.size}) >= 2:
            parts.append(_curves(series, of_series))
    return parts or ["<p>No measure was run at more than one size.</p>"]


def _curves(series: str, lines: Sequence[Line]) -> str:
    seconds = _points(lines, "median_s")
    memory = _points(lines, "peak_mb")
    rows = []
    for number, name in enumerate(seconds):
        key = f'<span class="key" style="background:{colour_of(number)}"></span>{escape(name)}'
        sizes = f"{min(x for x, _ in seconds[name]):,.0f} to {max(x for x, _ in seconds[name]):,.0f}"
        cells = [_power(exponent(seconds[name])), _power(last_step(seconds[name])), _power(exponent(memory[name]))]
        rows.append((name, [key, sizes, *cells]))
    return "\n".join(
        [
            f"<h3>{escape(series[:1].upper() + series[1:])}</h3>",
            '<div class="charts">',
            log_log(f"{series}: time", seconds, "size", "seconds"),
            log_log(f"{series}: peak memory", memory, "size", "MB"),
            "</div>",
            _table(["contestant", "sizes", "time", "time, last step", "memory"], 1, rows),
        ]
    )


def _points(lines: Sequence[Line], figure: str) -> dict[str, Points]:
    curves: dict[str, list[tuple[float, float]]] = {}
    for line in lines:
        if line.size:
            curves.setdefault(line.contestant, []).append((line.size, getattr(line, figure)))
    return {name: sorted(points) for name, points in curves.items()}


def _power(k: float | None) -> str:
    return '<span class="none">too few sizes</span>' if k is None else f"n<sup>{k:.2f}</sup>"


# --- tables -----------------------------------------------------------------------------------------------------------


def _measure(measure: str, results: Sequence[tuple[Line, Facts]]) -> list[str]:
    head = ["case", "contestant", "median ms", "best ms", "p99 ms", "CPU ms", "peak MB", "added MB", "files MB", "runs"]
    sends = any(line.requests is not None for line, _ in results)
    head += [*(TRAFFIC if sends else ()), "time", "CPU", "memory"]
    rows, last = [], ""
    for line, _ in results:
        cells = [
            "" if line.case == last else escape(line.case),
            escape(line.contestant) + (f", {line.failed:,} failed" if line.failed else ""),
            *("" if s is None else f"{s * 1000:,.4g}" for s in (line.median_s, line.best_s, line.tail_s, line.cpu_s)),
            f"{line.peak_mb:,.0f}",
            f"{line.added_mb:,.0f}",
            "" if line.size_mb is None else f"{line.size_mb:,.3g}",
            str(line.runs),
            *(line.traffic if sends else ()),
            *(f"{ratio:.2f}x" for ratio in (line.ratio_median, line.ratio_cpu, line.ratio_peak)),
        ]
        rows.append((line.contestant, cells))
        last = line.case
    dates = sorted(
        {f"{facts.at[:16].replace('T', ' ')} ({facts.scale}, {facts.build_profile})" for _, facts in results}
    )
    return [
        f"<h2>{escape(measure)}</h2>",
        *(f"<p>{escape(text)}</p>" for text in described(measure)),
        f"<p>Measured {escape(', '.join(dates))}. The last three columns: deltaplane's figure over this row's.</p>",
        _table(head, 2, rows),
    ]


def described(measure: str) -> list[str]:
    """The paragraphs of a measure's module docstring."""
    name = f"bench_{measure.replace(' ', '_')}.py"
    path = next(BENCHES.rglob(name), None)
    text = "" if path is None else ast.get_docstring(ast.parse(path.read_text())) or ""
    return [" ".join(paragraph.split()) for paragraph in text.split("\n\n") if paragraph]


def _table(head: Sequence[str], texts: int, rows: Iterable[tuple[str, Sequence[str]]]) -> str:
    """The first `texts` columns are text. Each row has a contestant, so that deltaplane's is
    highlighted, and its cells as HTML."""
    kinds = [' class="text"' if i < texts else "" for i in range(len(head))]
    parts = ["".join(f"<th{kind}>{name}</th>" for kind, name in zip(kinds, head, strict=True))]
    for contestant, cells in rows:
        row = "".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(kinds, cells, strict=True))
        parts.append(f'</tr><tr class="ours">{row}' if contestant == SUBJECT else f"</tr><tr>{row}")
    return f'<div class="scroll"><table><tr>{"".join(parts)}</tr></table></div>'


if __name__ == "__main__":
    main()
