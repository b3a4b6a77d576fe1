"""The known differences between the engines, in `differences.toml`, each with its reason.

Uses no engine.
"""

from __future__ import annotations

import fnmatch
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from interop.differential.comparison import Verdict
from interop.differential.scenarios import Scenario

FILE = Path(__file__).with_name("differences.toml")


@dataclass(frozen=True)
class Difference:
    """Steps of these scenarios (patterns of names) and statements (a regular expression) may have
    one of these classes."""

    reason: str
    classes: tuple[str, ...]
    scenarios: tuple[str, ...] = ("*",)
    statement: str = ""


def read() -> list[Difference]:
    """All known differences."""
    entries = tomllib.loads(FILE.read_text())["difference"]
    return [Difference(**{k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()}) for entry in entries]


def reason(known: Sequence[Difference], scenario: Scenario, verdict: Verdict) -> Difference | None:
    """The first known difference that explains a verdict."""
    text = scenario.steps[verdict.step].text if verdict.step >= 0 else "the rows at the end"
    for difference in known:
        if (
            verdict.kind in difference.classes
            and any(fnmatch.fnmatchcase(verdict.scenario, pattern) for pattern in difference.scenarios)
            and re.search(difference.statement, text)
        ):
            return difference
    return None
