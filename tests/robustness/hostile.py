"""Runs a victim process over tables, with its requirements: no crash, no panic, no `Internal`
error, bounded time and memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
# Limit of the address space: threads' stacks and allocators' arenas reserve much more than they
# use.
LIMIT_MB = 6000
SECONDS = 20.0
# Limit above the process's initial memory: the largest hostile file is read as a whole and decoded
# once.
MEMORY_MB = 1500


@dataclass(frozen=True)
class Met:
    """A table for a victim; `everything` selects all actions or only a few."""

    path: Path
    everything: bool = True


@dataclass
class Outcomes:
    """A victim's outcomes with one table."""

    did: dict[str, dict[str, Any]] = field(default_factory=dict)
    died_at: str | None = None

    def faults(self) -> list[str]:
        """Violations of the requirements with any table."""
        problems = [] if self.died_at is None else [f"the process ended at {self.died_at}"]
        for action, outcome in self.did.items():
            if outcome["outcome"].startswith("untyped") or outcome["outcome"] == "Internal":
                problems.append(f"{action}: {outcome['outcome']}: {outcome['text'][:300]}")
            if outcome["seconds"] > SECONDS:
                problems.append(f"{action}: {outcome['seconds']:.1f} s")
            if outcome["mb"] > MEMORY_MB:
                problems.append(f"{action}: {outcome['mb']} MB")
        return problems


def meet(tables: Sequence[Met], limit_mb: int = LIMIT_MB) -> dict[Path, Outcomes]:
    """A victim's outcomes with each table; a new victim continues after one that died."""
    left, met = list(tables), dict[Path, Outcomes]()
    while left:
        done = _victim(left, limit_mb)
        met |= done
        left = left[len(done) :]
    return met


def _victim(tables: list[Met], limit_mb: int) -> dict[Path, Outcomes]:
    command = [sys.executable, "-m", "robustness.victim", str(limit_mb)]
    # Arenas for each thread would reserve unused address space.
    environment = {**os.environ, "MALLOC_ARENA_MAX": "2", "OMP_NUM_THREADS": "2", "PYTHONPATH": str(TESTS)}
    with subprocess.Popen(
        command,
        cwd=TESTS,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        # A victim that hangs is killed, and its last action identifies the cause.
        guard = threading.Timer(60 + 30 * len(tables), process.kill)
        guard.start()
        lines = (json.dumps({"path": str(table.path), "all": table.everything}) + "\n" for table in tables)
        said, _ = process.communicate("".join(lines))
        guard.cancel()
    met: dict[Path, Outcomes] = {}
    current, doing = Outcomes(), "start"
    for line in map(json.loads, said.splitlines()):
        if "table" in line:
            current = met[Path(line["table"])] = Outcomes()
        elif "starts" in line:
            doing = line["starts"]
        else:
            current.did[line["did"]] = line
    if process.returncode != 0:
        assert met, f"the victim didn't start ({process.returncode})"
        current.died_at = f"{doing} ({process.returncode})"
    return met
