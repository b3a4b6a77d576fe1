"""Counts what jobs of Spark's tasks report. For tests of what the driver leaves to tasks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def counted_jobs(spark: SparkSession, module: ModuleType, setting: str) -> Iterator[list[int]]:
    """The number of reports of each job that a module runs, where two files are enough for a job by
    this setting."""
    spark.conf.set(setting, "2")
    reports: list[int] = []
    run = module.run_tasks

    def counted(frame: Any, task: Any, *rest: Any) -> Any:
        done = run(frame, task, *rest)
        reports.append(len(done[0]))
        return done

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "run_tasks", counted)
        yield reports
    spark.conf.unset(setting)
