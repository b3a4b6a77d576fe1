"""UPDATE: assigns new values to columns in the rows for which a condition is true.

Old rows are marked in deletion vectors, or their files are rewritten, depending on
`delta.enableDeletionVectors`; if possible, only the assigned columns are rewritten. Changed rows
keep their ids (P142).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltaplane.commands.changed_rows import ChangedRows, PatchedRows
from deltaplane.commands.condition import RowSelection, condition_on
from deltaplane.commands.merge.assignments import Assignments
from deltaplane.commands.rewriting import PATCHED_BYTES, CommandResult, Rewriting, Settings, Target, rewriting
from deltaplane.expr import Predicate
from deltaplane.io.arrow import Scan

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["update"]


def update(
    target: Target, assignments: Assignments, predicate: Predicate | RowSelection | None, settings: Settings
) -> CommandResult:
    """Updates rows in one commit."""
    condition = condition_on(target.snapshot, predicate)

    def run(job: Rewriting) -> dict[str, int] | None:
        job.select_rows(condition)
        if job.native.picked_files == 0:
            return None
        job.reads_picked()
        patched = job.native.patch_columns(sorted(assignments.columns), PATCHED_BYTES) if settings.free else 0
        job.native.record_picked("update_preimage")
        job.copy_others()
        with job.phase("change"):
            if patched < job.native.picked_files:
                job.write(lambda: _changed(job, assignments), "update_postimage")
            if patched:
                job.patch(lambda: _patched(job, assignments))
        return job.commit({**job.finish(), "numUpdatedRows": job.native.written_rows})

    return rewriting(target, condition.operation("UPDATE"), settings, run)


def _changed(job: Rewriting, assignments: Assignments) -> Iterator[pa.RecordBatch]:
    """The selected rows with their new values, after the table's rules."""
    old = Scan(job.native.picked())
    ruled = ChangedRows(job.native.spec, assignments.columns)
    for batch in old:
        yield ruled(assignments.apply(batch))


def _patched(job: Rewriting, assignments: Assignments) -> Iterator[pa.RecordBatch]:
    """The new values of the selected rows in patched files, with the rows' positions."""
    patched = PatchedRows(job.native.spec, assignments)
    for batch in Scan(job.native.patched_places(patched.reads)):
        yield patched(batch)
