"""Runs commands on the rows that satisfy a condition: DuckDB evaluates subqueries, or Spark the
whole condition if a session is passed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from deltaplane.commands.condition import RowSelection
from deltaplane.commands.rewriting import CommandResult, Target
from deltaplane.exceptions import UnsupportedFeatureError
from deltaplane.queries.cursor import quoted
from deltaplane.queries.row_finder import FoundRows
from deltaplane.queries.sources import Catalog
from deltaplane.queries.syntax import TableName
from deltaplane.statements.common.on_spark import condition_on_spark
from deltaplane.statements.common.statement import Clause, Session, runs_tasks
from deltaplane.table.delta_table import DeltaTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltaplane.commands.dry_run import DryRun
    from deltaplane.spark.dml.conditions import Subqueried
    from deltaplane.spark.dml.rewriting import SparkTarget

__all__ = ["Both", "run_where", "target_on_spark"]

# The command's function in this process, and the function that runs it by Spark's tasks.
Both = tuple[Callable[[Target, RowSelection], CommandResult], Callable[["SparkTarget", "Subqueried"], CommandResult]]


def run_where(
    session: Session, where: Clause, name: TableName, table: DeltaTable, command: Both, always: Sequence[str]
) -> dict[str, Any] | DryRun:
    """Runs a command on the matching rows of a table; returns its metrics, including every name of
    `always`.

    Raises:
        UnsupportedFeatureError: the session is one of Spark Connect.
    """
    here, by_tasks = command
    spark = session.spark
    if spark is None:
        matching_rows = FoundRows(where.cursor, session.catalog, name, table, where.where)
        return table.run_command(lambda target: here(target, matching_rows), always)
    if not runs_tasks(spark):
        raise UnsupportedFeatureError(
            "a subquery in a condition needs a classic session: leave the session out, so that DuckDB runs it"
        )
    with condition_on_spark(spark, where, name, table, session.catalog) as condition:

        def run(target: Target) -> CommandResult:
            return by_tasks(target_on_spark(target, spark, name, table, session.catalog), condition)

        return table.run_command(run, always)


def target_on_spark(
    target: Target, spark: SparkSession, name: TableName, table: DeltaTable, catalog: Catalog
) -> SparkTarget:
    """A command's table; Spark's expressions may qualify its columns by the statement's name for
    it."""
    from deltaplane.spark.dml.rewriting import SparkTarget
    from deltaplane.spark.jvm.location import absolute_location
    from deltaplane.spark.jvm.names import qualified_name

    alias = None if name.path is not None and name.alias is None else name.qualifiers[-1]
    qualifiers = name.qualifiers
    if name.alias is None and catalog.by_session:
        parts = name.parts if name.path is None else ("spark_catalog", *name.parts)
        # Spark's catalog stores its names in lower case.
        qualifiers = parts if name.path else tuple(qualified_name(spark, ".".join(map(quoted, parts))).split("."))
        qualifiers = tuple(part.replace("`", "") for part in qualifiers)
    # Tasks run in other processes, which have other working directories.
    location = absolute_location(target.location)
    return SparkTarget(location, target.snapshot, spark, table.storage_options, alias, qualifiers=qualifiers)
