"""The work that a table's properties ask for after a commit, by Spark's tasks: joining small files
and extending indexes of keys."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from deltaplane.commands.optimize import Layout, after_commit
from deltaplane.commands.rewriting import CommandResult, Operation, Rewriting, Settings, rewriting
from deltaplane.spark.dml.indexes import build_by_tasks
from deltaplane.spark.dml.optimize import optimize_by_tasks
from deltaplane.spark.dml.rewriting import SparkTarget

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from deltaplane import _native

__all__ = ["after_commit_by_tasks", "rewriting_by_tasks"]


def after_commit_by_tasks(
    spark: SparkSession,
    location: str,
    options: Mapping[str, str] | None,
    newest: Callable[[], _native.Snapshot],
) -> None:
    """Runs `commands.optimize.after_commit` with tasks."""

    def join(snapshot: _native.Snapshot, what: Layout) -> None:
        optimize_by_tasks(SparkTarget(location, snapshot, spark, options), what, Settings())

    after_commit(newest, join, partial(build_by_tasks, spark, (location, options)))


def rewriting_by_tasks(
    target: SparkTarget,
    operation: Operation,
    settings: Settings,
    run: Callable[[Rewriting], dict[str, int] | None],
) -> CommandResult:
    """Runs `commands.rewriting.rewriting`, and that work if it made a version."""
    done = rewriting(target, operation, settings, run)
    if isinstance(done, dict) and "version" in done and any(target.snapshot.follow_up):
        after_commit_by_tasks(target.spark, target.location, target.options, target.snapshot.update)
    return done
