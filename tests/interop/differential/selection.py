"""The scenarios that the arguments of a run select. Uses no engine."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

from interop.differential import record
from interop.differential.families import all_scenarios
from interop.differential.scenarios import Scenario

UNRECORDED = "--unrecorded"


def selected(arguments: Sequence[str]) -> list[Scenario]:
    """Scenarios whose names match a pattern, all without one; after `--unrecorded` only those that
    the record lacks."""
    patterns = [argument for argument in arguments if argument != UNRECORDED]
    known = record.read() if UNRECORDED in arguments else {}
    return [
        scenario
        for scenario in all_scenarios()
        if scenario.digest() not in known
        and (not patterns or any(fnmatch.fnmatch(scenario.name, pattern) for pattern in patterns))
    ]
