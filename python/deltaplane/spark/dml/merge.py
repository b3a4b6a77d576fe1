"""MERGE on Spark: one join finds the relevant pairs of rows and caches them; all further steps use
these pairs and the source.

The source is evaluated once. `commands.merge.columns` resolves the columns of the clauses.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from deltaplane import _native
from deltaplane.commands.merge.assignments import AssignedColumns
from deltaplane.commands.merge.clauses import Clause, said
from deltaplane.commands.merge.columns import MergeColumns, field_of, is_default, star_paths
from deltaplane.commands.merge.metrics import changed_rows, merge_metrics
from deltaplane.commands.rewriting import CommandResult, Operation, Rewriting, Settings
from deltaplane.exceptions import InvalidArgumentError
from deltaplane.io.index_properties import indexed_columns, indexed_together
from deltaplane.io.tracing import traced
from deltaplane.spark.dml.conditions import bound
from deltaplane.spark.dml.follow_up import rewriting_by_tasks
from deltaplane.spark.dml.merge_keys import SourceKeys
from deltaplane.spark.dml.rewriting import (
    ACT,
    Expression,
    NewRows,
    SparkTarget,
    Work,
    column,
    refuse_chance,
    refuse_row_sets,
    row_expressions,
)
from deltaplane.spark.errors.condition_of import condition_of
from deltaplane.spark.jvm.internals import Jvm
from deltaplane.spark.jvm.schema import delta_schema, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["SparkMerge", "merge"]

_log = logging.getLogger(__name__)

# Maximum number of times that the source is cached again after losing executors, and Spark's error
# in that case.
_ATTEMPTS = 4
_LOST_SOURCE = "Checkpoint block"

# Columns with the number of a source row, and with the number of the clause for a source row
# without a match.
_SOURCE_ROW = "__deltaplane_source_row"
_UNMATCHED_ACT = "__deltaplane_unmatched_act"
_MATCHED_ROW = "__deltaplane_matched_row"


@dataclass(frozen=True)
class SparkMerge:
    """A MERGE with the user's arguments. Conditions and values of clauses are Spark SQL or Spark's
    own expressions.

    `operation` and `parameters` replace MERGE in the history if the user called another command.
    With `reads_others` the source was derived from the table's own rows.
    """

    source: DataFrame
    condition: Expression
    clauses: Sequence[Clause]
    merge_schema: bool = False
    operation: str = "MERGE"
    parameters: Mapping[str, Any] | None = None
    reads_others: bool = False


@traced("MERGE")
def merge(target: SparkTarget, what: SparkMerge, settings: Settings) -> CommandResult:
    """Merges in one commit; returns its metrics under delta-spark's names, or none if nothing was
    committed.

    If an executor with a part of the cached source is lost, the merge starts over: nothing was
    committed by then.

    Raises:
        InvalidArgumentError: an invalid or nondeterministic clause, a column that neither table
            has, or several source rows that change one row.
        SchemaMismatchError: a value's type is incompatible with its column.
    """
    try:
        return _repeated(target, what, settings)
    except AnalysisException as e:
        if not (condition_of(e) or "").startswith("UNRESOLVED_COLUMN."):
            raise
        name = (e.getMessageParameters() or {}).get("objectName", "").replace("`", "")
        # Behind the first line is Spark's plan.
        reason = str(e).splitlines()[0].rstrip(";")
        raise InvalidArgumentError(f"the source has no column `{name}`, nor has the table: {reason}") from e


def _repeated(target: SparkTarget, what: SparkMerge, settings: Settings) -> CommandResult:
    """Merges, and begins again when executors were lost."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return _merged(target, what, settings)
        except Exception as e:
            if _LOST_SOURCE not in str(e):
                raise
            _log.warning("executors with the source of a merge were lost, which begins again: %s", e)
    return _merged(target, what, settings)


def _merged(target: SparkTarget, what: SparkMerge, settings: Settings) -> CommandResult:
    jvm = target.jvm
    # New columns of the table are nullable, as when a frame is written.
    fields = delta_schema(what.source.schema, nullable=True)["fields"]
    # Numbers and caches the rows, since a source may return different rows when it is evaluated
    # again.
    source = what.source.withColumn(_SOURCE_ROW, F.monotonically_increasing_id()).localCheckpoint()
    alias = jvm.alias_of(what.source)
    configuration = target.snapshot.info.configuration
    columns = MergeColumns(
        schema=target.snapshot.schema,
        source_fields=fields,
        clauses=what.clauses,
        target_alias=target.alias,
        merge_schema=what.merge_schema,
        widens=configuration.get("delta.enableTypeWidening") == "true",
    )
    text = _text(jvm, what.condition)
    for clause in what.clauses:
        columns.check_star(clause)
    of_target = columns.schema.to_value()["fields"]
    indexed = indexed_columns(of_target, configuration), indexed_together(of_target, configuration)
    keys = SourceKeys(text, (of_target, target.alias), (fields, alias), *indexed)
    run = _Run(target, what, columns, source, *keys.looked_up(source))
    says = what.parameters or _said(jvm, what, text)
    others = what.reads_others
    operation = Operation(what.operation, says, run.reads, columns.incoming, condition=text, reads_others=others)
    return rewriting_by_tasks(target, operation, settings, run)


def _said(jvm: Jvm, what: SparkMerge, text: str) -> dict[str, str]:
    clauses = [Clause(c.kind, c.action, None if c.condition is None else _text(jvm, c.condition)) for c in what.clauses]
    return {
        "predicate": json.dumps([text]),
        "matchedPredicates": said(clauses, "matched"),
        "notMatchedPredicates": said(clauses, "not_matched"),
        "notMatchedBySourcePredicates": said(clauses, "not_matched_by_source"),
    }


def _text(jvm: Jvm, expression: Expression) -> str:
    return expression if isinstance(expression, str) else jvm.text_of(expression)


class _Run:
    """The steps of one MERGE. In the cached pairs `ACT` is the number of the clause that changes
    the row, if any."""

    def __init__(
        self,
        target: SparkTarget,
        what: SparkMerge,
        columns: MergeColumns,
        source: DataFrame,
        sources: int,
        pruning: Sequence[Column],
        trees: Sequence[Any],
    ) -> None:
        self._target, self._what, self._columns = target, what, columns
        self._source, self._sources = source, sources
        self._matched = columns.of_kind("matched")
        self._by_source = columns.of_kind("not_matched_by_source")
        self._inserts = columns.of_kind("not_matched")
        # All rows of the source, whether they match or not.
        self._adds = columns.of_kind("source")
        self._changing = [*self._matched, *self._by_source]
        known = [] if self._by_source else bound(target, [_native.Predicate(tree) for tree in trees])
        self._pruning = [] if self._by_source else pruning
        # The updated rows by the number of their clause, made where their values are checked.
        self._updates: dict[int, NewRows] = {}
        self.reads = _native.Predicate.all_of(known)

    def __call__(self, job: Rewriting) -> dict[str, int] | None:
        """Runs the steps in order; returns the commit's metrics, None if there is nothing to
        commit."""
        work = Work(job, self._target)
        job.reads(self.reads)
        # One frame for all steps: expressions resolve its columns by identity, not only by name.
        self._table = self._target.frame(work.stored_ids)
        with row_expressions("the condition", "DELTA_AGGREGATION_NOT_SUPPORTED"):
            pairs = self._pairs()
        # Cached before the values are checked, so that Spark's optimiser gets the cached rows and
        # not the join, whose files it would plan once more.
        pairs.persist()
        try:
            with row_expressions("a value of a clause"):
                self._check_values(work, pairs)
            counts = self._change(work, pairs) if self._changing else {}
            inserted = self._insert(work, pairs, bool(counts)) if self._sources else 0
        finally:
            pairs.unpersist()
        # As in delta-spark, columns are added even if no row has a value for them.
        if not counts and not inserted and not self._columns.adds_columns:
            job.unchanged["numSourceRows"] = self._sources
            return None
        rows = changed_rows(self._changing, counts)
        return job.commit(merge_metrics(job.finish(), rows, self._sources, inserted))

    def _check_values(self, work: Work, pairs: DataFrame) -> None:
        """Makes Spark analyse the values of every clause, even if no row will use them."""
        for number, clause in enumerate(self._changing):
            if clause.action == "update":
                self._updates[number] = self._updated(work, pairs, number)
                self._check_frame(work, work.without_ids(self._updates[number]), pairs)
        for clause in self._inserts:
            self._check_frame(work, self._new_rows(work, self._source, clause), self._source)

    def _check_frame(self, work: Work, new: DataFrame, original: DataFrame) -> None:
        refuse_row_sets(new, original, "a value of a clause")
        work.check(new)

    # --- which rows ---------------------------------------------------------------------------------------------------

    def _pairs(self) -> DataFrame:
        """The pairs that a clause changes, the matching pairs if rows are inserted, and the rows
        without a match that a clause changes."""
        table, source = self._table, self._source
        for condition in self._pruning:
            table = table.where(condition)
        if self._by_source:
            table = table.withColumn(_UNMATCHED_ACT, _first(self._by_source, len(self._matched)))
        joined = table.join(source, column(self._what.condition), "left" if self._by_source else "inner")
        if not self._changing:
            return joined.select(source[_SOURCE_ROW]).distinct()
        act = _first(self._matched, 0)
        if self._by_source:
            act = F.when(source[_SOURCE_ROW].isNull(), F.col(_UNMATCHED_ACT)).otherwise(act)
        own_columns = [self._table[quoted(name)] for name in self._table.columns]
        pairs = joined.select(*own_columns, *(source[quoted(name)] for name in source.columns), act.alias(ACT))
        refuse_chance(pairs, "the condition of a clause")
        refuse_row_sets(pairs, source, "the condition of a clause")
        wanted = F.col(ACT).isNotNull()
        return pairs.where(wanted | F.col(_SOURCE_ROW).isNotNull() if self._inserts else wanted)

    # --- what becomes of them -----------------------------------------------------------------------------------------

    def _change(self, work: Work, pairs: DataFrame) -> dict[int, int]:
        """Removes changed rows from their files and writes the updated ones; returns their number
        by clause."""
        deletes = [n for n, clause in enumerate(self._changing) if clause.action == "delete"]
        counts = work.delete_rows(pairs.where(F.col(ACT).isNotNull()), deletes, always_recorded=True)
        updates = [n for n, clause in enumerate(self._changing) if clause.action == "update" and n in counts]
        work.write([work.changed(self._updates[n]) for n in updates], "update_postimage")
        return counts

    def _updated(self, work: Work, pairs: DataFrame, number: int) -> NewRows:
        """The rows that a clause updates, with their new values."""
        clause = self._changing[number]
        rows = pairs.where(F.col(ACT) == number)
        if clause.kind == "not_matched_by_source":
            rows = rows.select(*[self._table[quoted(name)] for name in self._table.columns])
        old = {name: self._table[quoted(name)] for name in self._columns.target_columns}
        assigned, values, stay_null = AssignedColumns(work.fields), [], dict[int, list[str]]()
        for n, (name, path, value) in enumerate(self._values(clause, work.fields)):
            if name is None:
                stay_null[n] = path
            else:
                assigned.add_path(name, path, n)
            values.append(value)
        for n, path in stay_null.items():
            assigned.keep_null(path, n)
        return NewRows(rows, old, assigned, values, evolves=self._what.merge_schema)

    def _insert(self, work: Work, pairs: DataFrame, changed: bool) -> int:
        """Writes the rows that the clauses insert; returns their number."""
        if self._adds:
            return self._added(work, self._source, self._adds[0], changed)
        if not self._inserts:
            return 0
        matched = pairs.select(F.col(_SOURCE_ROW).alias(_MATCHED_ROW)).where(F.col(_MATCHED_ROW).isNotNull())
        others = self._source.join(matched, self._source[_SOURCE_ROW] == F.col(_MATCHED_ROW), "left_anti")
        others = others.withColumn(ACT, _first(self._inserts, 0))
        refuse_chance(others, "the condition of a clause")
        refuse_row_sets(others, self._source, "the condition of a clause")
        inserted = 0
        for number, clause in enumerate(self._inserts):
            inserted += self._added(work, others.where(F.col(ACT) == number), clause, changed)
        return inserted

    def _added(self, work: Work, rows: DataFrame, clause: Clause, changed: bool) -> int:
        return work.write([self._new_rows(work, rows, clause)], "insert" if changed else None, inserts=True)

    def _new_rows(self, work: Work, rows: DataFrame, clause: Clause) -> DataFrame:
        columns, values = list[str](), []
        for name, path, value in self._values(clause, work.fields):
            assert name is not None
            columns.append(self._columns.inserted_column(name, path, work.fields, columns))
            values.append(value)
        # Structs in rows without changes may lack fields, as in an append.
        return work.inserted(rows, columns, values, lacks=self._what.merge_schema or clause.kind == "source")

    def _values(
        self, clause: Clause, fields: Sequence[Mapping[str, Any]]
    ) -> list[tuple[str | None, list[str], Column]]:
        """The values that a clause assigns: name, path and value. An entry without a name is the
        path of a struct of which `*` assigns some fields, with whether the source's struct is null:
        if both are null the struct stays null.
        """
        if clause.values is None:
            names = self._columns.starred(clause, fields)
            if clause.action == "insert" or not self._what.merge_schema:
                return [(name, [name], self._source[quoted(name)]) for name in names]
            source = delta_schema(self._what.source.schema)["fields"]
            return [pair for name in names for pair in self._star_values(name, fields, source)]
        # Without values, as in delta-spark, the row stays unchanged, or an inserted row gets the
        # table's own values.
        values: list[tuple[str | None, list[str], Column]] = []
        for name, expression in clause.values.items():
            of_default = isinstance(expression, str) and is_default(expression)
            value = self._columns.default(name, fields) if of_default else expression
            values.append((name, self._columns.path(name), column(value)))
        return values

    def _star_values(
        self, name: str, fields: Sequence[Mapping[str, Any]], source: Sequence[Mapping[str, Any]]
    ) -> Iterator[tuple[str | None, list[str], Column]]:
        """The values that `*` of an update assigns to a column if the schema evolves."""
        own, brought = field_of(fields, name), field_of(source, name)
        assert own is not None
        assert brought is not None
        for path, keeps_null in star_paths([name], own["type"], brought["type"]):
            value = self._source[quoted(name)]
            for part in path[1:]:
                value = value.getField(part)
            yield (None, path, value.isNull()) if keeps_null else (".".join(path), path, value)


def _first(clauses: Sequence[Clause], number: int) -> Column:
    """The number of the first clause that applies, counted from `number`; null if none applies."""
    none = F.lit(None).cast("int")
    numbered = [(F.lit(number + n), clause.condition) for n, clause in enumerate(clauses)]
    return reduce(
        lambda rest, clause: clause[0] if clause[1] is None else F.when(column(clause[1]), clause[0]).otherwise(rest),
        reversed(numbered),
        none,
    )
