"""DELETE: removes the rows for which a condition is true.

Files whose rows all match are removed without being read. Rows of other files are marked in a
deletion vector, or the file is rewritten, depending on `delta.enableDeletionVectors`.
"""

from __future__ import annotations

import json
from dataclasses import replace

from deltaplane.commands.condition import RowSelection, condition_on
from deltaplane.commands.rewriting import CommandResult, Operation, Rewriting, Settings, Target, rewriting
from deltaplane.expr import Predicate

__all__ = ["delete", "delete_rows", "delete_says", "truncate"]


def delete(target: Target, predicate: Predicate | RowSelection | None, settings: Settings) -> CommandResult:
    """Deletes rows in one commit."""
    condition = condition_on(target.snapshot, predicate)
    return rewriting(target, _operation(condition), settings, lambda job: delete_rows(job, condition))


def truncate(target: Target, settings: Settings) -> CommandResult:
    """Removes all rows in one commit, with the operation of Spark's TRUNCATE TABLE in the
    history."""
    everything = condition_on(target.snapshot, None)
    operation = replace(everything.operation("TRUNCATE"), parameters={})

    def run(job: Rewriting) -> dict[str, int] | None:
        job.select_rows(everything)
        if job.native.picked_files == 0:
            return None
        done = job.finish()
        return job.commit({name: done[name] for name in ("numRemovedFiles", "executionTimeMs")})

    return rewriting(target, operation, settings, run)


def _operation(condition: RowSelection) -> Operation:
    """The command in the log's form."""
    return replace(condition.operation("DELETE"), parameters=delete_says(condition.sql))


def delete_says(condition: str | None) -> dict[str, str]:
    """The history's parameters of a DELETE: without a condition, `true`, as in delta-spark."""
    return {"predicate": json.dumps(["true" if condition is None else condition])}


def delete_rows(job: Rewriting, condition: RowSelection) -> dict[str, int] | None:
    """The steps of one DELETE."""
    rows = job.select_rows(condition)
    if job.native.picked_files == 0:
        return None
    # Vectors and removed files already imply the deleted rows (P130, P131).
    if job.native.copies_rows:
        job.native.record_picked("delete")
        job.copy_others()
    return job.commit({**job.finish(), "numDeletedRows": rows})
