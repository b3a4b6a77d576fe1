"""UPDATE on Spark: finds and caches the rows once, removes them from their files, and writes them
with new values."""

from __future__ import annotations

from collections.abc import Mapping

from deltaplane.commands.merge.assignments import AssignedColumns
from deltaplane.commands.rewriting import CommandResult, Operation, Rewriting, Settings
from deltaplane.io.tracing import traced
from deltaplane.spark.dml.conditions import SparkCondition, Subqueried
from deltaplane.spark.dml.follow_up import rewriting_by_tasks
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
from deltaplane.spark.jvm.schema import quoted

__all__ = ["update"]


@traced("UPDATE")
def update(
    target: SparkTarget,
    values: Mapping[str, Expression],
    condition: Expression | Subqueried | None,
    settings: Settings,
    *,
    reads_others: bool = False,
) -> CommandResult:
    """Updates rows in one commit; returns its metrics under delta-spark's names, or none if nothing
    was committed. Without values rows are written unchanged, as in delta-spark. `reads_others`:
    values may depend on any row of the table."""
    with row_expressions("the condition"):
        which = SparkCondition(target, condition)

    def run(job: Rewriting) -> dict[str, int] | None:
        from pyspark.sql import functions as F

        work = Work(job, target)
        table = target.frame(work.stored_ids)
        assigned = AssignedColumns(work.fields, target.alias)
        for number, name in enumerate(values):
            assigned.add(name, number)
        job.reads(which.tree)
        with row_expressions("the condition"):
            rows = which.met(table).persist()
        try:
            new_values = [column(value) for value in values.values()]
            old = {f["name"]: table[quoted(f["name"])] for f in work.fields}
            # Checks before the first job, as delta-spark's analysis does, even if no row matches
            # the condition.
            new = NewRows(rows, old, assigned, new_values)
            with row_expressions("a new value"):
                refuse_row_sets(new.valued, rows, "a new value")
                refuse_chance(new.valued, "a new value")
            work.check(work.without_ids(new))
            counts = work.delete_rows(rows.withColumn(ACT, F.lit(0)), [], always_recorded=True)
            if not counts:
                return None
            written = work.write([work.changed(new)], "update_postimage")
        finally:
            rows.unpersist()
        return job.commit({**job.finish(), "numUpdatedRows": written})

    others = which.reads_others or reads_others
    operation = Operation("UPDATE", which.parameters, which.tree, condition=which.text, reads_others=others)
    return rewriting_by_tasks(target, operation, settings, run)
