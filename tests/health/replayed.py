"""A naive replay of a log: JSON commits one after the other.

Uses no deltaplane.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Replayed:
    """The live files after a version, and all files that were ever removed."""

    live: list[dict[str, Any]]
    removed: list[dict[str, Any]]

    @property
    def files(self) -> int:
        return len(self.live)

    @property
    def size_bytes(self) -> int:
        return sum(add["size"] for add in self.live)


def replayed(table: Path, until: int | None = None) -> Replayed:
    """The table after this version, or the newest one."""
    live: dict[tuple[str, str], dict[str, Any]] = {}
    removed = []
    for commit in sorted((table / "_delta_log").glob("*.json")):
        if commit.name.count(".") > 1 or (until is not None and int(commit.stem) > until):
            continue
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        for action in actions:
            if "remove" in action:
                removed.append(action["remove"])
                live.pop(_key(action["remove"]), None)
        for action in actions:
            if "add" in action:
                live[_key(action["add"])] = action["add"]
    return Replayed(list(live.values()), removed)


def _key(action: dict[str, Any]) -> tuple[str, str]:
    return action["path"], json.dumps(action.get("deletionVector"), sort_keys=True)
