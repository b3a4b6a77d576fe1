"""Runs the Python and shell blocks of README.md in order in one empty folder; make and pip lines
are compared with the Makefile and pyproject.toml instead of being run.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from structure import repo

README = repo.ROOT / "README.md"
_FENCE = re.compile(r"^```(bash|sh|console|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Commands that prepare a checkout, which already exists here.
_SETTING_UP = ("git clone ", "cd ", "python -m venv ", "source ")
# Generous: a Spark session on a busy machine takes up to 40 s.
RUN_SECONDS = 540

# Runs the steps in one interpreter, so that a later block can use an earlier one's definitions.
_RUNNER = """
import json, subprocess, sys
if __name__ == "__main__":
    for kind, code in json.load(open(sys.argv[1])):
        print(f"--- {kind}: {code}", flush=True)
        if kind == "bash":
            subprocess.run(["bash", "-euo", "pipefail", "-c", code], check=True, stdin=subprocess.DEVNULL)
        else:
            exec(compile(code, "<README.md>", "exec"), globals())
"""


def steps(markdown: str) -> list[tuple[str, str]]:
    """(`python`, block) and (`bash`, line) in the document's order; a final backslash joins
    lines."""
    commands: list[tuple[str, str]] = []
    for language, block in _FENCE.findall(markdown):
        if language == "python":
            commands.append(("python", block))
        else:
            lines = (line.removeprefix("$ ").strip() for line in block.replace("\\\n", " ").splitlines())
            commands += [("bash", line) for line in lines if line and not line.startswith("#")]
    return commands


def is_checked_only(line: str) -> bool:
    return re.match(r"(?:make|pip|python -m pip)\b", line) is not None or line.startswith(_SETTING_UP)


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
    run = [step for step in steps(README.read_text()) if step[0] == "python" or not is_checked_only(step[1])]
    if not run:
        pytest.skip("README.md shows nothing to run")
    script, listed = tmp_path / "runner.py", tmp_path / "steps.json"
    script.write_text(_RUNNER)
    listed.write_text(json.dumps(run))
    work = tmp_path / "work"
    work.mkdir()
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    environment |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, str(script), str(listed)],
        cwd=work,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=RUN_SECONDS,
    )
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


def test_a_promise_not_kept_is_seen() -> None:
    assert wrong_commands(SAMPLE, {"demo"}, {"cli"}) == ["make paint", "deltaplane[moon]"]
