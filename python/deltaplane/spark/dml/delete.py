"""DELETE on Spark: one job finds the rows, another removes them from their files; whole files are
removed without being read."""

from __future__ import annotations

from pyspark.sql import functions as F

from deltaplane.commands.condition import PredicateSelection
from deltaplane.commands.delete import delete_rows, delete_says
from deltaplane.commands.rewriting import CommandResult, Operation, Rewriting, Settings
from deltaplane.io.tracing import traced
from deltaplane.spark.dml.conditions import SparkCondition, Subqueried
from deltaplane.spark.dml.follow_up import rewriting_by_tasks
from deltaplane.spark.dml.rewriting import ACT, Expression, SparkTarget, Work, row_expressions
from deltaplane.spark.jvm.places import FILE, ROW

__all__ = ["delete"]


@traced("DELETE")
def delete(target: SparkTarget, condition: Expression | Subqueried | None, settings: Settings) -> CommandResult:
    """Deletes rows in one commit; returns its metrics under delta-spark's names, or none if nothing
    was committed."""
    with row_expressions("the condition"):
        which = SparkCondition(target, condition)

    def run(job: Rewriting) -> dict[str, int] | None:
        if which.is_exact and job.native.selects_files:
            return delete_rows(job, PredicateSelection(target.snapshot, which.plain))
        job.reads(which.tree)
        with row_expressions("the condition"):
            rows = which.met(target.frame()).select(FILE, ROW, F.lit(0).alias(ACT)).persist()
        try:
            counts = Work(job, target).delete_rows(rows, [0], always_recorded=False)
        finally:
            rows.unpersist()
        if not counts:
            return None
        return job.commit({**job.finish(), "numDeletedRows": counts[0]})

    operation = Operation(
        "DELETE", delete_says(which.text), which.tree, condition=which.text, reads_others=which.reads_others
    )
    return rewriting_by_tasks(target, operation, settings, run)
