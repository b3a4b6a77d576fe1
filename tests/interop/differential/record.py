"""delta-spark's facts of the scenarios that were run, kept in `delta_spark_facts.txt`.

A line has a scenario's digest, its steps and the rows of its tables at the end. A refusal is `!`
with its conditions, an accepted step the digests of its facts. The first line names the version of
delta-spark. Uses no engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from interop.differential.comparison import Facts, digested, facts
from interop.differential.scenarios import Scenario
from interop.jars import DELTA_VERSION

FILE = Path(__file__).with_name("delta_spark_facts.txt")
_HEAD = f"delta-spark {DELTA_VERSION}"
_LETTERS = {"rows": "r", "columns": "c", "tables": "t", "history": "h"}
_NAMES = {letter: name for name, letter in _LETTERS.items()}


def write(outcomes: Iterable[Mapping[str, Any]], scenarios: Iterable[Scenario]) -> None:
    """Writes the facts of outcomes, in the order of the scenarios. Scenarios without an outcome
    keep the facts that were recorded before, if there are any."""
    by_digest = {outcome["digest"]: outcome for outcome in outcomes}
    head, *before = FILE.read_text().splitlines()
    earlier = {line.split(" ", 1)[0]: line for line in before if head == _HEAD}
    lines = [_HEAD]
    for scenario in scenarios:
        if scenario.digest() not in by_digest:
            lines += [earlier[scenario.digest()]] if scenario.digest() in earlier else []
            continue
        steps, rows = facts(by_digest[scenario.digest()])
        texts = " ".join(_text(digested(step)) for step in steps)
        at_the_end = " ".join(_text(digested(rows[table])) for table in scenario.tables)
        lines.append(f"{scenario.digest()} {texts} | {at_the_end}".rstrip())
    FILE.write_text("\n".join(lines) + "\n")


def read() -> dict[str, tuple[list[Facts], list[Facts]]]:
    """Steps and tables of each scenario by its digest.

    Raises:
        ValueError: the facts are those of another version of delta-spark.
    """
    head, *lines = FILE.read_text().splitlines()
    if head != _HEAD:
        raise ValueError(f"{FILE.name} is of {head}, and the jars are {_HEAD}: run `make differential`")
    recorded = {}
    for line in lines:
        steps, _, rows = line.partition(" |")
        digest, *texts = steps.split(" ")
        recorded[digest] = ([_facts(text) for text in texts], [_facts(text) for text in rows.split()])
    return recorded


def _text(step: Facts) -> str:
    if "refused" in step:
        return "!" + ",".join(step["refused"])
    return ".".join(_LETTERS[name] + value for name, value in step.items()) or "-"


def _facts(text: str) -> Facts:
    if text.startswith("!"):
        return {"refused": [name for name in text[1:].split(",") if name]}
    return {} if text == "-" else {_NAMES[part[0]]: part[1:] for part in text.split(".")}
