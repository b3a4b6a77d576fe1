"""A sample of the scenarios on deltaplane, beside the recorded facts of delta-spark.

`make differential` runs all of them on both engines, and records the facts again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deltaplane import spark as dp
from interop.differential import differences, record
from interop.differential.comparison import CLASSES, compared, digested, facts
from interop.differential.execution import run
from interop.differential.families import all_scenarios
from interop.differential.scenarios import Scenario

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# One of this many scenarios runs, from a start that may be changed.
EVERY = int(os.environ.get("DELTAPLANE_DIFFERENTIAL_EVERY", "72"))
FIRST = int(os.environ.get("DELTAPLANE_DIFFERENTIAL_FIRST", "0"))


@pytest.fixture
def enabled(spark: SparkSession) -> Iterator[SparkSession]:
    """The session with `enable` applied during the test."""
    dp.enable(spark)
    yield spark
    dp.disable(spark)


def recorded_scenarios() -> list[Scenario]:
    recorded = record.read()
    return [scenario for scenario in all_scenarios() if scenario.digest() in recorded]


def test_the_record_is_of_these_scenarios() -> None:
    scenarios, recorded = recorded_scenarios(), record.read()
    assert len(scenarios) == len(recorded), "scenarios changed: run `make differential`"
    assert sum(len(scenario.steps) for scenario in scenarios) > 2000
    assert len({scenario.name.split("/")[0] for scenario in scenarios}) > 10
    for scenario in scenarios:
        steps, rows = recorded[scenario.digest()]
        assert (len(steps), len(rows)) == (len(scenario.steps), len(scenario.tables)), scenario.name


def test_known_differences_name_classes_and_scenarios() -> None:
    known = differences.read()
    assert {kind for difference in known for kind in difference.classes} <= set(CLASSES) - {"same"}
    assert len({difference.reason for difference in known}) == len(known)


def test_a_sample_of_scenarios_does_what_delta_spark_did(enabled: SparkSession, tmp_path: Path) -> None:
    recorded, known = record.read(), differences.read()
    differs, compared_steps = [], 0
    for scenario in recorded_scenarios()[FIRST::EVERY]:
        outcome = run(enabled, scenario, tmp_path / "tables")
        steps, rows = facts(outcome)
        ours = [digested(step) for step in steps], {table: digested(fact) for table, fact in rows.items()}
        their_steps, their_rows = recorded[scenario.digest()]
        theirs = (their_steps, dict(zip(scenario.tables, their_rows, strict=True)))
        for verdict in compared(scenario.name, ours, theirs):
            compared_steps += 1
            if verdict.kind in ("same", "consequence") or differences.reason(known, scenario, verdict):
                continue
            statement = scenario.steps[verdict.step].text if verdict.step >= 0 else "the rows at the end"
            shown = outcome["steps"][verdict.step] if verdict.step >= 0 else outcome["rows"]
            differs.append(f"{scenario.name}, {statement}: {verdict.kind}, {str(shown)[:300]} beside {verdict.theirs}")
    assert differs == [], "\n".join(differs)
    assert compared_steps > 5
