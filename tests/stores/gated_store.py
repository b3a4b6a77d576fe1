"""A commit service over the local disk whose commits a test may delay, precede or fail."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from deltaplane import LogStore, register_log_store


@dataclass
class Gate:
    """Controls the commits of one table: `table` is its location with the gate, `base` the location
    without it."""

    table: str
    base: str
    open: threading.Event = field(default_factory=threading.Event)
    # Released once for each commit that reaches the gate.
    came: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    # Called once, before a commit is tried.
    before: Callable[[], object] | None = None
    # Raised `failures` times, instead of a commit or after it.
    failure: Exception | None = None
    failures: int = 1
    fails_after: bool = False
    # While set, reading commits fails.
    blind: bool = False

    def put(self) -> object:
        """The part of `LogStore.put_if_absent` before the base store's call."""
        self.came.release()
        assert self.open.wait(3600)
        before, self.before = self.before, None
        if before is not None:
            before()
        return NotImplemented


class _Gated(LogStore):
    def __init__(self, gate: Gate) -> None:
        self.gate, self.base, self.base_options = gate, gate.base, {}

    def put_if_absent(self, path: str, data: bytes) -> bool:
        gate = self.gate
        if not path.endswith(".json"):
            return NotImplemented
        gate.put()
        failure = gate.failure
        if failure is None or gate.failures == 0:
            return NotImplemented
        gate.failures -= 1
        if gate.fails_after:
            Path(gate.base, path).write_bytes(data)
        raise failure

    def read(self, path: str) -> bytes:
        if self.gate.blind and path.endswith(".json"):
            raise TimeoutError("the line is dead")
        return NotImplemented


def gated(folder: Path) -> Gate:
    """A gate, closed, for the table in a folder."""
    gate = Gate(f"test-gated://{folder.parent.name}/{folder.name}", str(folder))
    _GATES[gate.table] = gate
    register_log_store("test-gated", lambda location, _: _Gated(_GATES[location]))
    return gate


_GATES: dict[str, Gate] = {}
