"""CLONE: what becomes of the target. The core names or copies files and commits.

Called by `deltaplane.care` and, with tasks that copy, by `deltaplane.spark`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from deltaplane import _native
from deltaplane.commands.progress import Told, telling

__all__ = ["Clone", "clone"]


@dataclass(frozen=True)
class Clone:
    """What a caller asks for."""

    shallow: bool = True
    replace: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False


def clone(
    source: _native.Snapshot,
    target: tuple[str, Mapping[str, str] | None],
    what: Clone,
    commit: dict[str, Any],
    progress: Told | None = None,
    copies: Callable[[list[tuple[str, str]]], list[int] | None] | None = None,
) -> dict[str, int]:
    """The metrics. `target` is a location and the options of its store; `copies` is asked first to copy files, by their paths
    in the source and in the clone, and gives their sizes if it did."""
    request = {
        "shallow": what.shallow,
        "replace": what.replace,
        "properties": dict(what.properties),
        "dry_run": what.dry_run,
        "commit": commit,
    }
    done = _native.clone_table(source, *target, json.dumps(request), telling(progress), copies)
    metrics: dict[str, int] = json.loads(done)["metrics"]
    return metrics
