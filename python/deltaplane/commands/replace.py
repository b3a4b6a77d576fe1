"""Overwrites of some rows: new rows replace those that satisfy a condition, or those that match new
ones.

Files that the condition selects completely are removed without being read; others are changed as by
DELETE.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaplane import _native
from deltaplane.commands.condition import PredicateSelection
from deltaplane.commands.merge.clauses import Clause
from deltaplane.commands.merge.run import Merge, merge
from deltaplane.commands.rewriting import CommandResult, Operation, Rewriting, Settings, Target, rewriting
from deltaplane.commands.row_rules import BatchRules, RowRules, not_selected
from deltaplane.exceptions import InvalidArgumentError
from deltaplane.expr.program import Check, compile_boolean
from deltaplane.io import records

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Matching", "overwrite_says", "replace_matching", "replace_where", "write_metrics"]

# Names of the rewrite's metrics in a write.
_WRITE = {"numAddedFiles": "numFiles", "numAddedBytes": "numOutputBytes"}


def replace_where(
    target: Target,
    rows: pa.RecordBatchReader,
    condition: str,
    settings: Settings,
    *,
    merge_schema: bool,
    reads_others: bool,
) -> CommandResult:
    """Replaces the rows that satisfy a condition, in one commit. Each new row must satisfy it, too;
    with `reads_others` the new rows may depend on any row of the table."""
    chosen = PredicateSelection(target.snapshot, condition)
    incoming = records.IncomingRequest(_native.TableSchema.of_arrow(rows.schema), merge_schema)
    parameters = overwrite_says({"predicate": condition}, merge_schema=merge_schema)
    operation = Operation("WRITE", parameters, chosen.tree, incoming, condition=chosen.sql, reads_others=reads_others)

    def run(job: Rewriting) -> dict[str, int]:
        deleted = job.select_rows(chosen)
        # Vectors and removed files already imply the deleted rows, new files the added ones (P130,
        # P131).
        recorded = job.native.copies_rows or (settings.as_delta_rs and job.native.records_changes)
        if recorded:
            job.native.record_picked("delete")
            job.copy_others()
        check = compile_boolean(condition, job.native.spec.schema, now_us=time.time_ns() // 1000)
        with job.phase("insert"):
            new = sum(job.insert(batch, "insert" if recorded else None) for batch in _ruled(job, rows, check))
        return job.commit(write_metrics(job.finish(), deleted, new))

    return rewriting(target, operation, settings, run)


def overwrite_says(which: Mapping[str, str], *, merge_schema: bool) -> dict[str, Any]:
    """The history's parameters of such an overwrite, like those of one that replaces whole
    files."""
    grows = {"canMergeSchema": True} if merge_schema else {}
    return {"mode": "Overwrite", "partitionBy": "[]", **which, **grows}


def write_metrics(summary: Mapping[str, int], deleted: int | None, new: int) -> dict[str, int | None]:
    """Combines the metrics of files (`Rewriting.finish`) and of rows, under delta-spark's names."""
    files = {_WRITE.get(name, name): value for name, value in summary.items()}
    return {**files, "numDeletedRows": deleted, "numOutputRows": new + summary["numCopiedRows"]}


def _ruled(job: Rewriting, rows: pa.RecordBatchReader, check: Check) -> Iterator[pa.RecordBatch]:
    rules = BatchRules(RowRules.of_spec(job.native.spec, rows.schema.names))
    for batch in rows:
        ruled = rules(batch)
        broken = check.broken(ruled)
        if broken.num_rows:
            error = InvalidArgumentError(not_selected(check.sql) + check.shown(broken.slice(0, 1)))
            error.violating_rows = broken.num_rows
            raise error
        yield ruled


@dataclass(frozen=True)
class Matching:
    """Selects the replaced rows: those for which a condition over both is true with a new row, or
    that equal a new row in some columns. Null equals nothing.
    """

    condition: str
    says: Mapping[str, str]
    source_alias: str | None = None
    target_alias: str | None = None

    @classmethod
    def on(cls, condition: str, source_alias: str | None, target_alias: str | None) -> Matching:
        """Matches by a condition."""
        return cls(condition, {"replaceOn": condition}, source_alias, target_alias)

    @classmethod
    def using(cls, columns: Sequence[str]) -> Matching:
        """Matches by equal columns."""
        if not columns:
            raise InvalidArgumentError("replace_using names no column: say which ones tell what a new row replaces")
        names = ["`" + column.replace("`", "``") + "`" for column in columns]
        condition = " AND ".join(f"t.{name} = s.{name}" for name in names)
        return cls(condition, {"replaceUsing": json.dumps(list(columns))}, "s", "t")


def replace_matching(
    target: Target,
    rows: pa.RecordBatchReader,
    matching: Matching,
    settings: Settings,
    *,
    merge_schema: bool,
    reads_others: bool,
) -> CommandResult:
    """Replaces rows that match a new one, in one commit; without new rows nothing changes. With
    `reads_others` the new rows may depend on any row of the table."""
    what = Merge(
        source=rows,
        predicate=matching.condition,
        clauses=[Clause("matched", "delete"), Clause("source", "insert")],
        source_alias=matching.source_alias,
        target_alias=matching.target_alias,
        merge_schema=merge_schema,
        operation="WRITE",
        parameters=overwrite_says(matching.says, merge_schema=merge_schema),
        reads_others=reads_others,
    )
    return merge(target, what, settings)
