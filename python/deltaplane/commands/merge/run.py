"""MERGE on the embedded engine: joins a source's rows to the table's, then updates, deletes and
inserts rows in one commit.

Reads the source once. Joins only the columns of the conditions, then reads the changed rows again
by position; or, where few rows can match, the table's rows once with all columns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaplane import _native
from deltaplane.commands.duckdb_engine import LocalEngine, Memory
from deltaplane.commands.merge.clauses import Clause, said, several_matches
from deltaplane.commands.merge.matching import (
    Members,
    any_of,
    index_names_files,
    key_members,
    rows_that_can_match,
)
from deltaplane.commands.merge.metrics import changed_rows, merge_metrics
from deltaplane.commands.merge.new_rows import NewRows
from deltaplane.commands.merge.plan import MergePlan
from deltaplane.commands.merge.sql import CREATE_MATCHED, MergeSql
from deltaplane.commands.merge.target_rows import TargetRows
from deltaplane.commands.phases import phase
from deltaplane.commands.rewriting import CommandResult, Operation, Rewriting, Settings, Target, rewriting
from deltaplane.expr.row_filter import understands
from deltaplane.io.arrow import in_table_types

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Merge", "merge"]

# Rows of a source that are few: the table's rows with their keys can be held in memory.
_HELD_SOURCES = 1 << 14


@dataclass(frozen=True)
class Merge:
    """A MERGE with the user's arguments; `source` returns record batches of `source_schema`. With
    `reads_others` the source was derived from the table's own rows, any of which may influence the
    result."""

    source: pa.RecordBatchReader
    predicate: str
    clauses: Sequence[Clause]
    source_alias: str | None = None
    target_alias: str | None = None
    merge_schema: bool = False
    memory: Memory | None = None
    operation: str = "MERGE"
    parameters: Mapping[str, Any] | None = None
    reads_others: bool = False


def merge(target: Target, what: Merge, settings: Settings) -> CommandResult:
    """Merges in one commit."""
    import pyarrow as pa

    source = in_table_types(what.source)
    # Casts lose the fields' metadata.
    source_schema = _native.TableSchema.of_arrow(what.source.schema)
    configuration = target.snapshot.info.configuration
    plan = MergePlan(
        schema=target.snapshot.schema,
        source_fields=source_schema.to_value()["fields"],
        predicate=what.predicate,
        clauses=what.clauses,
        source_alias=what.source_alias,
        target_alias=what.target_alias,
        merge_schema=what.merge_schema,
        widens=configuration.get("delta.enableTypeWidening") == "true",
    )
    incoming = plan.incoming
    with LocalEngine(what.memory) as engine:
        with phase(what.operation, target.location, "source"):
            engine.adopt("source", source, pa.schema(source_schema))
        matching = rows_that_can_match(target.snapshot, plan, engine)
        by_source = bool(plan.of_kind("not_matched_by_source"))
        parameters = what.parameters or _said(what)
        reads = None if by_source else matching
        others = what.reads_others
        operation = Operation(
            what.operation, parameters, reads, incoming, condition=what.predicate, reads_others=others
        )
        return rewriting(
            target, operation, settings, lambda job: _Run(job, target, plan, engine, matching).run(settings)
        )


def _said(what: Merge) -> dict[str, str]:
    return {
        "predicate": json.dumps([what.predicate]),
        "matchedPredicates": said(what.clauses, "matched"),
        "notMatchedPredicates": said(what.clauses, "not_matched"),
        "notMatchedBySourcePredicates": said(what.clauses, "not_matched_by_source"),
    }


class _Run:
    """The steps of one MERGE; every matching row of the table satisfies the tree `matching`."""

    def __init__(
        self, job: Rewriting, target: Target, plan: MergePlan, engine: LocalEngine, matching: _native.Predicate | None
    ) -> None:
        self._job, self._plan, self._engine, self._matching = job, plan, engine, matching
        self._snapshot = target.snapshot
        self._sql = MergeSql(plan, plan.bound(job.native.spec.schema))
        self._rows = TargetRows(target.snapshot, engine)
        self._new = NewRows(job, engine, self._sql, self._rows, plan.target_columns)
        self._read: list[_native.Predicate | None] = []
        # Number of rows that each clause changes.
        self._rows_of: dict[int, int] = {}

    def run(self, settings: Settings) -> dict[str, int] | None:
        """Runs the steps in order; returns the commit's metrics, None if there is nothing to
        commit."""
        job, engine = self._job, self._engine
        sources = engine.count("SELECT count(*) FROM source")
        engine.run(CREATE_MATCHED)
        if sources:
            with job.phase("join"):
                self._join(sources)
        if self._sql.changes_unmatched:
            with job.phase("unmatched"):
                self._join_unmatched()
        self._check_one_match(settings.as_delta_rs)
        rows = self._changed_rows()
        changed = rows["numTargetRowsUpdated"] + rows["numTargetRowsDeleted"] > 0
        if changed:
            job.pick_rows(lambda: self._rows.places(self._sql.places))
            self._new.change(list(self._rows_of), patches=settings.free, few=sum(self._rows_of.values()) <= sources)
        inserted = 0
        # Where no row changes, new files already imply the inserted rows.
        recorded = changed or (settings.as_delta_rs and job.native.records_changes)
        if sources and self._sql.inserts:
            with job.phase("insert"):
                inserted = sum(self._new.insert(n, recorded) for n in range(len(self._sql.inserts)))
        if not changed and not inserted:
            job.unchanged["numSourceRows"] = sources
            return None
        done = job.commit(merge_metrics(job.finish(), rows, sources, inserted))
        return {**done, "numTargetFilesScanned": self._rows.count}

    def _join(self, sources: int) -> None:
        """Finds the matching pairs of rows, with the clause that applies to each."""
        columns = sorted(self._plan.joined_columns)
        members = key_members(self._snapshot, self._plan, self._engine, sources)
        held = self._new.old_columns() if self._holds(sources, members) else []
        self._scan(columns, self._matching, members, held)
        self._engine.run(self._sql.join(columns))

    def _holds(self, sources: int, members: Members | None) -> bool:
        """Whether the search for matching rows reads, and holds, the values that changed rows keep:
        where few rows can match, and all of them have new rows."""
        configuration = self._snapshot.info.configuration
        # Rows of files that are copied, and hidden ids of rows, are read by themselves.
        marks = configuration.get("delta.enableDeletionVectors") == "true"
        tracks = configuration.get("delta.enableRowTracking") == "true"
        if sources > _HELD_SOURCES or not marks or tracks or self._sql.changes_unmatched:
            return False
        # A store's columns of a file come together, also if no row matches: that pays only where
        # nearly all files that are read have such a row.
        local = self._snapshot.uri.startswith("file:")
        return local or index_names_files(self._snapshot, self._plan, members, sources)

    def _join_unmatched(self) -> None:
        """Finds the table's rows without a match that a clause changes."""
        reads = self._plan.reads_by_source()
        condition = None if reads is None else _native.Predicate(reads)
        if condition is not None and not understands(self._snapshot, condition, checked_elsewhere=True):
            condition = None
        columns = sorted(self._plan.columns_by_source())
        self._scan(columns, condition)
        for statement in self._sql.join_unmatched(columns):
            self._engine.run(statement)

    def _scan(
        self,
        columns: Sequence[int],
        condition: _native.Predicate | None,
        members: Members | None = None,
        held: Sequence[str] = (),
    ) -> None:
        # For a dry run: both joins read files.
        self._read.append(condition)
        self._job.reads(any_of(self._read))
        self._rows.scan([self._plan.target_columns[n] for n in columns], condition, members, held)

    def _check_one_match(self, as_delta_rs: bool) -> None:
        """Refuses rows that several source rows change; several may delete one."""
        fine, rows = self._engine.counts(self._sql.count_several_matches(as_delta_rs=as_delta_rs))
        if rows:
            raise several_matches(rows)
        if fine:
            self._engine.run(self._sql.keep_first_match())

    def _changed_rows(self) -> dict[str, int]:
        """The numbers of changed rows, total and by kind."""
        counts = self._engine.count_rows(self._sql.rows_of_clauses)
        self._rows_of = {clause: rows for clause, rows, *_ in counts}
        return changed_rows([c.clause for c in self._sql.changing], self._rows_of)
