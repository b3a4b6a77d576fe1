"""Runs every scenario on both engines, one after the other, and prints the shares of the classes.

Outcomes are kept in `.cache/differential`: a run that was interrupted goes on. Records
delta-spark's facts of the scenarios that ran; ends with 1 if a difference isn't listed. Arguments:
patterns of scenarios' names; `--unrecorded` leaves out the scenarios that the record has. The
directory `tests` is on Python's path.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from interop.differential import differences, record
from interop.differential.comparison import compared, facts
from interop.differential.families import all_scenarios
from interop.differential.scenarios import Scenario
from interop.differential.selection import selected

CACHE = Path(__file__).resolve().parents[3] / ".cache" / "differential"


def main(*arguments: str) -> int:
    scenarios = selected(arguments)
    CACHE.mkdir(parents=True, exist_ok=True)
    # Ours changes with the checkout, delta-spark's only with its version.
    (CACHE / "deltaplane.jsonl").unlink(missing_ok=True)
    for engine in ("delta-spark", "deltaplane"):
        with tempfile.TemporaryDirectory() as scratch:
            command = [sys.executable, str(Path(__file__).with_name("run_engine.py")), engine]
            subprocess.run([*command, str(_outcomes(engine)), scratch, *arguments], check=True)
    ours, theirs = _read("deltaplane"), _read("delta-spark")
    unlisted = report(scenarios, ours, theirs)
    record.write(theirs.values(), all_scenarios())
    return 1 if unlisted else 0


def report(scenarios: list[Scenario], ours: dict[str, Any], theirs: dict[str, Any]) -> int:
    """Prints the differences that aren't listed, and the shares; returns the number of the
    former."""
    known, used = differences.read(), set()
    counts: Counter[str] = Counter()
    unlisted = 0
    for scenario in scenarios:
        if scenario.digest() not in ours or scenario.digest() not in theirs:
            continue
        pair = (facts(outcomes[scenario.digest()]) for outcomes in (ours, theirs))
        for verdict in compared(scenario.name, *pair):
            counts[verdict.kind if verdict.step >= 0 else f"{verdict.kind} at the end"] += 1
            if verdict.kind in ("same", "consequence"):
                continue
            listed = differences.reason(known, scenario, verdict)
            if listed is not None:
                used.add(listed.reason)
                continue
            unlisted += 1
            text = scenario.steps[verdict.step].text if verdict.step >= 0 else "the rows at the end"
            print(f"{verdict.kind}: {scenario.name}: {text}\n  {verdict.ours}\n  {verdict.theirs}")
    total = sum(count for kind, count in counts.items() if not kind.endswith("at the end"))
    print(f"{len(scenarios)} scenarios, {total} steps, {unlisted} differences that aren't listed")
    for kind, count in counts.most_common():
        print(f"{kind:24} {count:6} {100 * count / total:6.2f} %")
    for difference in known:
        if difference.reason not in used:
            print(f"not seen: {difference.reason}")
    return unlisted


def _outcomes(engine: str) -> Path:
    return CACHE / f"{engine}.jsonl"


def _read(engine: str) -> dict[str, Any]:
    lines = _outcomes(engine).read_text().splitlines()
    return {outcome["digest"]: outcome for outcome in map(json.loads, lines)}


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
