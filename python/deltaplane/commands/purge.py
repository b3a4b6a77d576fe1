"""REORG … APPLY (PURGE): rewrites files that contain removed data.

Removed data are rows deleted by vectors, dropped columns, and values of a type that was widened
later. No row changes, so only writers of the same files conflict.
"""

from __future__ import annotations

from deltaplane.commands.condition import PredicateSelection
from deltaplane.commands.rewriting import CommandResult, Operation, Rewriting, Settings, Target, rewriting
from deltaplane.exceptions import UnsupportedExpressionError
from deltaplane.expr import Predicate

__all__ = ["purge"]


def purge(target: Target, partitions: Predicate | None, settings: Settings) -> CommandResult:
    """Rewrites files in one commit."""
    condition = PredicateSelection(target.snapshot, partitions)

    def run(job: Rewriting) -> dict[str, int] | None:
        if condition.check is not None or not job.native.selects_files:
            raise UnsupportedExpressionError("files are chosen by partition columns alone: leave others out")
        with job.phase("find"):
            outdated = job.native.pick_outdated()
        if not outdated:
            return None
        job.reads_picked()
        job.copy_others()
        return job.commit(job.finish())

    parameters = {**condition.parameters, "applyPurge": True}
    return rewriting(
        target,
        Operation("REORG", parameters, condition.tree, data_change=False, condition=condition.sql),
        settings,
        run,
    )
