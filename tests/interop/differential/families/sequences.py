"""Seeded sequences of statements, which `random_statements` draws."""

from __future__ import annotations

from collections.abc import Iterator

from interop.commands.random_statements import random_sequence
from interop.differential.scenarios import Scenario, Step, scenario, some

# The tests of random sequences run others.
FIRST_SEED = 90_000
SEQUENCES = 30


def scenarios() -> Iterator[Scenario]:
    for seed in range(FIRST_SEED, FIRST_SEED + SEQUENCES):
        drawn = random_sequence(seed)
        yield scenario(f"sequences/{seed}", *(_step(text.replace("{t}", "t")) for text in drawn.statements))


def _step(text: str) -> str | Step:
    """A statement; of the results of OPTIMIZE and REORG, which have times, only the path."""
    return some(text, "path") if text.startswith(("OPTIMIZE", "REORG")) else text
