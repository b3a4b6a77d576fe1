"""The examples of README.md as steps that run one after the other, for the tests of the checkout
and of wheels. Needs nothing but Python; defines no rule.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_FENCE = re.compile(r"^```(bash|sh|console|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Commands that prepare a checkout or an environment, which already exists where steps run.
_SETTING_UP = ("git clone ", "cd ", "python -m venv ", "source ")

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
    """Whether a line of a shell prepares what exists already: its names are checked instead."""
    return re.match(r"(?:make|pip|python -m pip)\b", line) is not None or line.startswith(_SETTING_UP)


def runnable(markdown: str) -> list[tuple[str, str]]:
    """The steps that are run."""
    return [step for step in steps(markdown) if step[0] == "python" or not is_checked_only(step[1])]


def needs_spark(step: tuple[str, str]) -> bool:
    """Whether a step starts a Spark session, and so needs Java."""
    kind, code = step
    return re.search(r"\bspark\.|import spark\b" if kind == "python" else r"^deltaplane demo\b", code) is not None


def run_steps(
    chosen: Sequence[tuple[str, str]], python: str | Path, folder: Path, environment: Mapping[str, str], seconds: float
) -> subprocess.CompletedProcess[str]:
    """Runs steps in order with an interpreter, in an empty folder `work` below this one.

    Args:
        chosen: the steps.
        python: the interpreter.
        folder: gets the folder `work` and two files.
        environment: all variables of the process.
        seconds: how long the steps may take together.
    """
    script, listed, work = folder / "runner.py", folder / "steps.json", folder / "work"
    script.write_text(_RUNNER)
    listed.write_text(json.dumps(list(chosen)))
    work.mkdir()
    return subprocess.run(
        [str(python), str(script), str(listed)],
        cwd=work,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
    )
