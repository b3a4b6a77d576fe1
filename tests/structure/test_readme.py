"""Runs the Python and shell blocks of README.md in order in one empty folder; make and pip lines
are compared with the Makefile and pyproject.toml instead of being run.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from pathlib import Path

import pytest

from structure import repo
from structure.readme import is_checked_only, needs_spark, run_steps, runnable, steps

README = repo.ROOT / "README.md"
# Generous: a Spark session on a busy machine takes up to 40 s.
RUN_SECONDS = 540


def wrong_commands(markdown: str, targets: set[str], extras: set[str]) -> list[str]:
    """The make targets and extras in a document that don't exist."""
    lines = [line.split("#")[0] for kind, line in steps(markdown) if kind == "bash" and is_checked_only(line)]
    words = [word for line in lines if line.startswith("make ") for word in line.split()[1:]]
    promised = [
        part for line in lines for names in re.findall(r"deltaplane\[([\w,-]+)\]", line) for part in names.split(",")
    ]
    missing = [f"make {word}" for word in words if "=" not in word and not word.startswith("-") and word not in targets]
    return missing + [f"deltaplane[{extra}]" for extra in promised if extra not in extras]


def test_make_targets_and_extras_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (repo.ROOT / "Makefile").read_text(), re.MULTILINE))
    project = tomllib.loads((repo.ROOT / "pyproject.toml").read_text())["project"]
    assert wrong_commands(README.read_text(), targets, set(project["optional-dependencies"])) == []


@pytest.mark.slow
def test_commands_and_examples_run(tmp_path: Path) -> None:
    chosen = runnable(README.read_text())
    if not chosen:
        pytest.skip("README.md shows nothing to run")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    environment |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    done = run_steps(chosen, sys.executable, tmp_path, environment, RUN_SECONDS)
    assert done.returncode == 0, done.stdout[-6000:]


# --- the checks can fail ---

SAMPLE = """
```bash
# set up
git clone x && cd x
make demo
make paint PYTHON=python3 -j1
pip install 'deltaplane[cli,moon]'
deltaplane info \\
    t
```
```python
x = 1
```
```json
{}
```
"""


def test_steps_are_read_in_order() -> None:
    assert [step for step in steps(SAMPLE) if not is_checked_only(step[1])] == [
        ("bash", "deltaplane info      t"),
        ("python", "x = 1\n"),
    ]


def test_steps_that_need_java_are_known() -> None:
    assert [needs_spark(step) for step in runnable(README.read_text())].count(True) >= 1
    assert needs_spark(("python", "from deltaplane import spark as dp"))
    assert needs_spark(("bash", "deltaplane demo"))
    assert not needs_spark(("python", "import deltaplane  # with `spark=`"))
    assert not needs_spark(("bash", "deltaplane info spark"))


def test_a_promise_not_kept_is_seen() -> None:
    assert wrong_commands(SAMPLE, {"demo"}, {"cli"}) == ["make paint", "deltaplane[moon]"]
