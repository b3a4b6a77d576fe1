"""Every measure at its smallest: its cases can be made, deltaplane gives their answers, and every target is measured."""

from __future__ import annotations

import importlib
import os
import zipfile
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from harness import Case
    from pyspark.sql import SparkSession

BENCHES = Path(__file__).resolve().parents[2] / "benches"
# Those that start Spark, and the numbers without which they don't.
ON_SPARK = {"bench_spark_partitions": ["--partitions", "3", "--rows", "9"], "bench_spark_plan": ["--files", "20"]}
MEASURES = sorted(path.stem for path in BENCHES.glob("bench_*.py") if path.stem not in ON_SPARK)
# Beside --quick: fewer processes, less to write.
OPTIONS = {
    "bench_concurrent": ["--processes", "2"],
    "bench_append": ["--rows", "1000"],
    "bench_scan": ["--rows", "1000"],
}


def cases_of(module: ModuleType, *options: str) -> list[Case]:
    import harness
    import sizes

    arguments = getattr(module, "arguments", sizes.arguments)
    found: list[Case] = module.cases(harness.parser(arguments).parse_args(["--quick", *options]))
    return found


def wheel(folder: Path) -> Path:
    path = folder / "some-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("some.py", "")
    return path


@pytest.mark.parametrize("name", MEASURES)
def test_deltaplane_gives_the_answer_of_each_case(name: str, benches: Path, tmp_path: Path) -> None:
    benches.mkdir()
    options = ["--wheel", str(wheel(tmp_path))] if name == "bench_start" else OPTIONS.get(name, [])
    check_answers(importlib.import_module(name), options, tmp_path)


@pytest.mark.spark
@pytest.mark.parametrize("name", ON_SPARK)
def test_deltaplane_gives_the_answers_on_spark(
    name: str, spark: SparkSession, benches: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    benches.mkdir()
    # A measure may say where its own session's Spark is, which isn't this one's.
    monkeypatch.setenv("SPARK_HOME", os.environ.get("SPARK_HOME", ""))
    check_answers(importlib.import_module(name), ON_SPARK[name], tmp_path)


@pytest.mark.parametrize("name", ON_SPARK)
def test_spark_is_started_only_where_numbers_are_given(name: str) -> None:
    assert cases_of(importlib.import_module(name)) == []


def check_answers(module: ModuleType, options: list[str], tmp_path: Path) -> None:
    """One run of each case by deltaplane."""
    import harness

    cases = cases_of(module, *options)
    assert cases
    assert len({case.name for case in cases}) == len(cases), "a case's figures are found by its name"
    for number, case in enumerate(cases):
        assert set(case.contestants) <= module.CONTESTANTS.keys(), case.name
        scratch = tmp_path / f"scratch-{number}"
        scratch.mkdir()
        order = {
            "contestant": "deltaplane",
            "arguments": harness.given(case),
            "calls": case.calls,
            "scratch": str(scratch),
        }
        done = harness.one_run(module.CONTESTANTS, order)
        assert case.expected is None or done["answer"] == case.expected, case.name
        assert (done["failed"], len(done["seconds"])) == (0, case.calls), case.name


def test_every_goal_is_measured_and_its_contestants_are_asked(benches: Path, tmp_path: Path) -> None:
    """A tag or a name that no case has would never be seen, and nobody would miss it."""
    from targets import GOALS

    benches.mkdir()
    asked: dict[str, set[str]] = {}
    for name in MEASURES:
        options = ["--wheel", str(wheel(tmp_path))] if name == "bench_start" else []
        for case in cases_of(importlib.import_module(name), *options):
            asked.setdefault(case.target, set()).update(case.contestants)
    missing = {
        goal.tag: {"deltaplane", getattr(goal, "over", "deltaplane")} - asked.get(goal.tag, set()) for goal in GOALS
    }
    assert {tag: names for tag, names in missing.items() if names} == {}
