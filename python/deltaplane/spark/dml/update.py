"""UPDATE on Spark: rows are found once and kept, taken out of their files, and written with new
values."""

from __future__ import annotations

from collections.abc import Mapping

from deltaplane.commands.merge.assignments import AssignedColumns
from deltaplane.commands.rewriting import CommandResult, Operation, Rewriting, Settings, rewriting
from deltaplane.spark.dml.conditions import SparkCondition, Subqueried
from deltaplane.spark.dml.rewriting import (
    ACT,
    Expression,
    SparkTarget,
    Work,
    column,
    refuse_chance,
    refuse_row_sets,
    row_expressions,
)
from deltaplane.spark.jvm.schema import quoted

__all__ = ["update"]


def update(
    target: SparkTarget,
    values: Mapping[str, Expression],
    condition: Expression | Subqueried | None,
    settings: Settings,
    *,
    reads_others: bool = False,
) -> CommandResult:
    """Updates rows in one commit; returns its metrics under delta-spark's names, without any if
    nothing was to do. Without values rows are written as they were, as delta-spark does.
    `reads_others`: values may be made of any row of the table."""
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
            given = [column(value) for value in values.values()]
            old = {f["name"]: table[quoted(f["name"])] for f in work.fields}
            # Before the first job, as delta-spark's analysis does, also where the condition is met
            # by no row.
            with row_expressions("a new value"):
                refuse_row_sets(rows.select(*given), rows, "a new value")
                refuse_chance(rows.select(*given), "a new value")
            work.check(work.changed(rows, old, assigned, given))
            counts = work.delete_rows(rows.withColumn(ACT, F.lit(0)), [], always_recorded=True)
            new = work.changed(rows, old, assigned, given)
            if not counts:
                return None
            written = work.write([new], "update_postimage")
        finally:
            rows.unpersist()
        return job.commit({**job.finish(), "numUpdatedRows": written})

    others = which.reads_others or reads_others
    operation = Operation("UPDATE", which.parameters, which.tree, condition=which.text, reads_others=others)
    return rewriting(target, operation, settings, run)
