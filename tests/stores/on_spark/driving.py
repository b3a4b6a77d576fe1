"""Runs a program of this folder, which has a JVM of its own, and returns what it printed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[2]


def run_driver(module: str, asked: Mapping[str, Any], place: Path, seconds: float) -> tuple[Any, str]:
    """The results of a program that is given `asked` as JSON, and all that it printed beside
    them."""
    run = subprocess.run(
        [sys.executable, "-m", module],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
        input=json.dumps(asked) + "\n",
        capture_output=True,
        text=True,
        timeout=seconds,
        cwd=place,
    )
    lines = [line for line in run.stdout.splitlines() if line.startswith("results ")]
    assert lines, run.stderr[-6000:]
    return json.loads(lines[0].removeprefix("results ")), run.stdout.replace(lines[0], "") + run.stderr
