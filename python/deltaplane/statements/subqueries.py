"""Commands on the rows that meet a condition with subqueries: found by DuckDB, or by Spark where a session is given.

Called by `delete` and `update`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from deltaplane.commands.condition import Which
from deltaplane.commands.rewriting import Done, Target
from deltaplane.exceptions import UnsupportedFeatureError
from deltaplane.queries.finding import FoundRows
from deltaplane.queries.syntax import TableName
from deltaplane.statements.on_spark import condition_on_spark
from deltaplane.statements.statement import Clause, Session, runs_tasks
from deltaplane.table import DeltaTable

if TYPE_CHECKING:
    from deltaplane.dry_run import DryRun
    from deltaplane.spark._conditions import Subqueried
    from deltaplane.spark._rewriting import SparkTarget

__all__ = ["Both", "run_where"]

# The command itself, here and by Spark's tasks.
Both = tuple[Callable[[Target, Which], Done], Callable[["SparkTarget", "Subqueried"], Done]]


def run_where(
    session: Session, where: Clause, name: TableName, table: DeltaTable, command: Both, always: Sequence[str]
) -> dict[str, Any] | DryRun:
    """Runs a command on the rows of a table that meet a condition; returns its metrics, `always` among them.

    Raises:
        UnsupportedFeatureError: a session of Spark Connect.
    """
    here, by_tasks = command
    spark = session.spark
    if spark is None:
        found = FoundRows(where.cursor, session.catalog, name, table, where.where)
        return table.run_command(lambda target: here(target, found), always)
    if not runs_tasks(spark):
        raise UnsupportedFeatureError(
            "a subquery in a condition needs a classic session: leave the session out, so that DuckDB runs it"
        )
    from deltaplane.spark._rewriting import SparkTarget

    with condition_on_spark(spark, where, name, table, session.catalog) as condition:
        alias = None if name.path is not None and name.alias is None else name.qualifiers[-1]

        def run(target: Target) -> Done:
            of = SparkTarget(target.location, target.snapshot, spark, table.storage_options, alias)
            return by_tasks(of, condition)

        return table.run_command(run, always)
