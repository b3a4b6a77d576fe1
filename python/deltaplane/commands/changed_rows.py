"""Applies the table's row rules to rows with new values, before they are written.

Used by UPDATE and MERGE.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from deltaplane.commands.row_rules import BatchRules, RowRules
from deltaplane.io.hidden_columns import ROW_COMMIT_VERSION

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaplane.commands.merge.assignments import Assignments
    from deltaplane.io import records

__all__ = ["ChangedRows", "PatchedRows", "rules_of_whole_rows"]


class ChangedRows:
    """Applies the rules of a job's spec to batches with the same columns; the columns in `assigned`
    have new values."""

    def __init__(self, spec: records.WriteSpec, assigned: Collection[str]) -> None:
        self._spec = spec
        # Generated columns are computed again from their sources; a changed row gets this commit's
        # version.
        generated = {rule.column for rule in spec.row_rules.generated}
        self._anew = (generated - set(assigned)) | {ROW_COMMIT_VERSION}
        self._rules: BatchRules | None = None

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Converts a batch to the rows to write.

        Raises:
            ConstraintViolationError: a row violates a rule.
        """
        present = [name for name in rows.schema.names if name not in self._anew]
        if self._rules is None:
            self._rules = BatchRules(RowRules.of_spec(self._spec, present))
        return self._rules(rows.select(present))


class PatchedRows:
    """New values for some columns of rows whose other columns stay, unread unless `reads` contains
    them.

    Only for tables without generated columns, since these might depend on any column.
    """

    def __init__(self, spec: records.WriteSpec, assignments: Assignments) -> None:
        self._assignments = assignments
        self._rules = rules_of_whole_rows(spec)
        self.reads = sorted(assignments.reads | self._rules.checked_columns)

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Converts a batch to rows with the new values.

        Raises:
            ConstraintViolationError: a row violates a rule.
        """
        return self._rules(self._assignments.apply(rows))


def rules_of_whole_rows(spec: records.WriteSpec) -> BatchRules:
    """A spec's rules for rows with all columns."""
    every = spec.schema.names
    return BatchRules(RowRules.of_spec(spec, every))
