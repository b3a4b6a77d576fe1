"""UPDATE: gives columns new values in the rows for which a condition is true.

Old rows are marked in deletion vectors, or their files' other rows written anew, as `delta.enableDeletionVectors`
says; changed rows keep their ids (P142). Called by `deltaplane.table`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltaplane.arrow_io import Scan
from deltaplane.commands.assignments import Assignments
from deltaplane.commands.changed_rows import ChangedRows
from deltaplane.commands.condition import Condition
from deltaplane.commands.rewriting import Done, Rewriting, Settings, Target, rewriting
from deltaplane.expr import Predicate

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["update"]


def update(target: Target, assignments: Assignments, predicate: Predicate | None, settings: Settings) -> Done:
    """Updates rows in one commit."""
    condition = Condition(target.snapshot, predicate)

    def run(job: Rewriting) -> dict[str, int] | None:
        job.pick(condition)
        if job.native.picked_files == 0:
            return None
        job.reads_picked()
        job.native.record_picked("update_preimage")
        job.copy_others()
        with job.phase("change"):
            job.write(lambda: _changed(job, assignments), "update_postimage")
        return job.commit({**job.finish(), "numUpdatedRows": job.native.written_rows})

    return rewriting(target, condition.operation("UPDATE"), settings, run)


def _changed(job: Rewriting, assignments: Assignments) -> Iterator[pa.RecordBatch]:
    """The picked rows with their new values, as the table's rules want them."""
    old = Scan(job.native.picked())
    ruled = ChangedRows(job.native.spec, assignments.columns)
    for batch in old:
        yield ruled(assignments.apply(batch))
