"""Runs advice within a budget, the highest gain per byte first; each step is a command of its
own."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from deltaplane.advisor.advice import Advice, AdviceReport, MaintenanceReport, MaintenanceStep
from deltaplane.advisor.advising import SAMPLE_ROWS, Asked, advise
from deltaplane.advisor.workload import Predicates
from deltaplane.commands.dry_run import DryRun
from deltaplane.commands.optimize import Layout
from deltaplane.commands.rewriting import Settings
from deltaplane.commands.vacuum import Vacuum, counted
from deltaplane.exceptions import DeltaConcurrentModificationException
from deltaplane.properties import commit_request

if TYPE_CHECKING:
    from deltaplane import _native

__all__ = ["Budget", "Maintained", "maintain"]

# Kinds of advice that `maintain` runs. The other kinds change properties or the protocol, which
# only the table's owner may decide.
_DONE = ("checkpoint", "vacuum", "optimize", "zorder", "purge", "index")
# Each kind runs once; a step may make another kind pay.
_MOST_ROUNDS = len(_DONE) + 1


class Maintained(Protocol):
    """The methods of `DeltaTable` that maintenance uses; `DeltaTable` itself is in a layer above
    this module."""

    _snapshot: _native.Snapshot

    @property
    def location(self) -> str: ...
    @property
    def table_uri(self) -> str: ...
    def version(self) -> int: ...
    def update_incremental(self) -> None: ...
    def create_checkpoint(self) -> None: ...
    def purge(self, *, dry_run: bool = False) -> Any: ...
    def _optimized(self, what: Layout, settings: Settings) -> dict[str, Any]: ...


@dataclass
class Budget:
    """The remaining budget: bytes of old files that may be rewritten, and the time until which
    steps may start (`time.monotonic`)."""

    bytes: int | None = None
    until: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether the time limit has passed."""
        return self.until is not None and time.monotonic() >= self.until

    def allows(self, size: int) -> bool:
        """Whether the remaining budget covers rewriting `size` bytes."""
        return self.bytes is None or size <= self.bytes

    def take(self, size: int) -> None:
        """Subtracts rewritten bytes from the budget."""
        if self.bytes is not None:
            self.bytes = max(self.bytes - size, 0)


def maintain(
    table: Maintained,
    budget: Budget,
    predicates: Predicates | None,
    dry_run: bool,
    progress: Callable[[MaintenanceStep], object] | None,
) -> MaintenanceReport:
    """Runs the steps that pay, or plans them."""
    table.update_incremental()
    run = _Run(table, budget, dry_run, progress, _advised(table, predicates))
    before = table.version()
    for _ in range(_MOST_ROUNDS):
        if not run.next_step():
            break
        if not dry_run:
            # A step changes the gain of the remaining ones, so the advice is computed again.
            table.update_incremental()
            run.advice = _advised(table, predicates)
    for item in run.advice:
        if item.kind not in run.seen:
            run.tell(MaintenanceStep(item.kind, "skipped", f"changes how the table is used, do it by hand: {item.why}"))
    return MaintenanceReport(table.table_uri, dry_run, before, table.version(), tuple(run.steps))


def _advised(table: Maintained, predicates: Predicates | None) -> AdviceReport:
    # Look-ups drawn from a sample don't justify rewriting all rows.
    return advise(table.location, table._snapshot, Asked(predicates, SAMPLE_ROWS, layouts=predicates is not None))


class _Run:
    """The state of one call: the steps so far."""

    def __init__(
        self,
        table: Maintained,
        budget: Budget,
        dry_run: bool,
        progress: Callable[[MaintenanceStep], object] | None,
        advice: AdviceReport,
    ) -> None:
        self.table, self.budget, self.dry_run, self.progress, self.advice = table, budget, dry_run, progress, advice
        self.steps: list[MaintenanceStep] = []
        self.seen: set[str] = set()

    def tell(self, step: MaintenanceStep) -> None:
        self.seen.add(step.kind)
        self.steps.append(step)
        if self.progress is not None:
            self.progress(step)

    def next_step(self) -> bool:
        """Runs the step with the highest gain; returns False if no step is left."""
        ordered = sorted(self.advice, key=lambda item: -item.gain_per_byte)
        step = next((item for item in ordered if item.kind in _DONE and item.kind not in self.seen), None)
        if step is None:
            return False
        if self.budget.is_over:
            self.tell(MaintenanceStep(step.kind, "skipped", f"no time is left: {step.why}"))
            return True
        try:
            taken = getattr(self, f"_{step.kind}")(step)
        except DeltaConcurrentModificationException as e:
            taken = MaintenanceStep(step.kind, "lost", f"another writer came first: {e}")
        self.budget.take(taken.bytes_rewritten)
        self.tell(taken)
        return True

    @property
    def _state(self) -> str:
        return "planned" if self.dry_run else "done"

    def _checkpoint(self, advice: Advice) -> MaintenanceStep:
        if not self.dry_run:
            self.table.create_checkpoint()
        return MaintenanceStep("checkpoint", self._state, advice.why)

    def _vacuum(self, advice: Advice) -> MaintenanceStep:
        # Uses the table's own retention, with the check enabled.
        report = counted(self.table._snapshot, Vacuum(dry_run=self.dry_run), commit_request(None, None))
        details = {name: getattr(report, name) for name in ("directories", "files", "size_bytes", "version")}
        return MaintenanceStep("vacuum", self._state, advice.why, details=details)

    def _index(self, advice: Advice) -> MaintenanceStep:
        details = {}
        if not self.dry_run:
            from deltaplane.io.index_properties import build_indexes

            states = build_indexes(self.table._snapshot)
            details = {", ".join(state.columns): state.to_dict() for state in states}
        return MaintenanceStep("index", self._state, advice.why, details=details)

    def _optimize(self, advice: Advice) -> MaintenanceStep:
        return self._arranged(advice, Layout())

    def _zorder(self, advice: Advice) -> MaintenanceStep:
        return self._arranged(advice, Layout(columns=advice.columns, curve=advice.curve))

    def _arranged(self, advice: Advice, what: Layout) -> MaintenanceStep:
        what = replace(
            what, dry_run=self.dry_run, most_bytes=self.budget.bytes, until=self.budget.until, commit_interval=0
        )
        done = self.table._optimized(what, Settings())
        if not done["numBatches"]:
            return MaintenanceStep(advice.kind, "skipped", f"no group of files fits into what is left: {advice.why}")
        size = done["numBytesToRewrite"] if self.dry_run else json.loads(done["filesRemoved"])["totalSize"]
        return MaintenanceStep(advice.kind, self._state, advice.why, size, done)

    def _purge(self, advice: Advice) -> MaintenanceStep:
        result: DryRun = self.table.purge(dry_run=True)
        if not result.changed:
            return MaintenanceStep("purge", "skipped", "nothing is left to purge")
        if not self.budget.allows(result.bytes_removed):
            return MaintenanceStep("purge", "skipped", f"beyond the bytes that are left: {advice.why}")
        details = result.to_dict() if self.dry_run else self.table.purge()
        return MaintenanceStep("purge", self._state, advice.why, result.bytes_removed, details)
