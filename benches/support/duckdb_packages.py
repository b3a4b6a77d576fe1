"""A DuckDB of its own, with the extensions that make data and read Delta tables: an extension is
made for one version of DuckDB. requirements/benches.lock has them; they are installed separately
when first needed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from support import harness

LOCK = Path(__file__).resolve().parents[2] / "requirements" / "benches.lock"
INSTALL_SECONDS = 600


def folder() -> Path:
    """The folder of the installed packages, for `sys.path` or PYTHONPATH."""
    installed = harness.CACHE / f"packages-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]}"
    if not installed.exists():
        unfinished = installed.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps"]
        _run([*pip, "--target", str(unfinished), "-r", str(LOCK)])
        unfinished.rename(installed)
    return installed


def extension(name: str) -> str:
    """The file of an extension, for LOAD."""
    return str(next(folder().glob(f"duckdb_extension_{name}/extensions/*/{name}.duckdb_extension")))


def run(program: str, *arguments: str | Path) -> None:
    """Runs a program in a process that imports this DuckDB."""
    _run([sys.executable, "-c", program, *map(str, arguments)], PYTHONPATH=str(folder()))


def _run(command: list[str], **environment: str) -> None:
    done = subprocess.run(
        command,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"{command[:4]} failed:\n{done.stderr[-4000:]}")


def generated(benchmark: str, program: str, scale: float) -> Path:
    """The folder of a benchmark's data at a scale, made if it doesn't exist: `program` gets the
    path of the extension that generates the data, the scale, and the folder to write to."""
    made = harness.CACHE / f"{benchmark}-{scale:g}"
    if not made.exists():
        unfinished = made.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        run(program, extension(benchmark), f"{scale:g}", unfinished)
        unfinished.rename(made)
    return made
