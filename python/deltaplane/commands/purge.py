"""REORG … APPLY (PURGE): writes files anew that still hold what the table has no more.

Those are rows that a deletion vector deletes, columns that were dropped, and values in a type that
was widened since. No row changes, so no other writer is in the way unless it touches the same
files.
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
