"""Runs README.md's examples with a wheel on combinations of versions, and records what ran in
docs/versions.md. `make versions` runs it; versions.toml lists the combinations.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from datetime import date
from pathlib import Path
from typing import Any

from archives import DIST, ROOT, version
from check_wheel import README_SECONDS, locked, needs_spark, run_steps, runnable
from environments import Environment, interpreter

PAGE = ROOT / "docs/versions.md"
EXTRAS = ("local", "pandas", "polars", "cli", "report")
# PySpark comes as source: its wheel, 450 MB of archives, isn't packed again. What is imported is
# compiled then.
UNPACKED = ("--no-compile", "--config-settings=--build-option=--compression=stored")
SHOWN = ("pyspark", "pyarrow", "duckdb", "pandas", "polars")
HEAD = """# Versions that ran together

README.md's examples ran with a wheel on these combinations, each in an environment of its own that
has no Rust. `lowest` has each package at the lower bound of its extra, `locked` has those of
requirements/dev.lock, which CI runs all tests with, and `newest` the newest that the bounds allow.
A dash under Java is an environment without Java and PySpark. `make versions` runs what
`packaging/versions.toml` lists and writes this page. CI runs all tests on Python 3.11, PySpark 4.2
and Java 17, `make test-sparks` those of Spark on PySpark 3.5, 4.0, 4.1 and 4.3, and `make
test-lowest` those without Spark on the lowest versions.

"""
COLUMNS = ("Python", "Java", *SHOWN, "chosen", "wheel", "day", "steps")


def lowest(extras: tuple[str, ...]) -> list[str]:
    """Each requirement of the package and of these extras at its lower bound."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = [*project["dependencies"], *(r for e in extras for r in project["optional-dependencies"][e])]
    bounds = {re.split(r"[><=]", text)[0]: re.search(r">=([\d.]+)", text) for text in requirements}
    return [f"{name}=={bound[1]}" for name, bound in bounds.items() if bound]


def java_home(version: int) -> str:
    """The folder of a Java of this version."""
    homes = [os.environ.get("JAVA_HOME"), *map(str, sorted(Path("/usr/lib/jvm").glob("*")))]
    for home in filter(None, homes):
        program = Path(home, "bin/java")
        if program.exists():
            shown = subprocess.run([str(program), "-version"], capture_output=True, text=True)
            # Java 8 calls itself 1.8.
            if re.search(rf'version "(1\.)?{version}\b', shown.stderr):
                return home
    raise FileNotFoundError(f"no Java {version} on this machine")


def combination(wheel: Path, built: str, run: dict[str, Any]) -> dict[str, str]:
    """Installs one combination and runs the examples; returns its row.

    Args:
        wheel: what is installed.
        built: what the page calls it.
        run: a table of versions.toml.

    Raises:
        RuntimeError: an example failed, with the end of what it printed.
    """
    has_spark = "java" in run
    extras = (*EXTRAS, "spark") if has_spark else EXTRAS
    with tempfile.TemporaryDirectory() as scratch:
        home = java_home(run["java"]) if has_spark else None
        environment = Environment(Path(scratch, "environment"), interpreter(run["python"]), home)
        chosen = Path(scratch, "chosen.txt")
        texts = {"lowest": "\n".join(lowest(extras)), "locked": locked(), "newest": ""}
        chosen.write_text("\n".join([texts[run["packages"]], *run.get("pins", [])]))
        environment.install([f"{wheel}[{','.join(extras)}]"], "-c", str(chosen), *UNPACKED)
        steps = [step for step in runnable((ROOT / "README.md").read_text()) if has_spark or not needs_spark(step)]
        done = run_steps(steps, environment.python, Path(scratch), environment.variables, README_SECONDS)
        if done.returncode:
            raise RuntimeError(done.stdout[done.stdout.rfind("\n--- ") :][:6000])
        listed = environment.run(
            "import json, platform; from importlib import metadata\n"
            "print(json.dumps({d.name.lower(): d.version for d in metadata.distributions()}"
            " | {'python': platform.python_version()}))"
        )
    installed = json.loads(listed)
    row = {"Python": installed["python"], "Java": str(run.get("java", "–"))}
    row |= {name: installed.get(name, "–") for name in SHOWN}
    return row | {
        "chosen": run["packages"],
        "wheel": built,
        "day": date.today().isoformat(),
        "steps": f"{len(steps)} ran",
    }


def page(rows: list[dict[str, str]]) -> str:
    """The page with a row for each combination that ran."""
    lines = [f"| {' | '.join(COLUMNS)} |", f"|{' --- |' * len(COLUMNS)}"]
    lines += [f"| {' | '.join(row[column] for column in COLUMNS)} |" for row in rows]
    return HEAD + "\n".join(lines) + "\n"


def recorded(text: str) -> list[dict[str, str]]:
    """The rows of a page."""
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if re.match(r"\| \d", line)]
    return [dict(zip(COLUMNS, line, strict=True)) for line in lines]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheel", type=Path, help="default: the newest of dist")
    parser.add_argument(
        "--only", type=int, action="append", help="number of a combination, from 1; keeps the others' rows"
    )
    parser.add_argument("--profile", default="wheel", help="the Cargo profile that the wheel was built with")
    arguments = parser.parse_args()
    wheel = arguments.wheel or max(DIST.glob("*.whl"), key=lambda path: path.stat().st_mtime)
    runs = tomllib.loads((ROOT / "packaging/versions.toml").read_text())["run"]
    rows = {(row["Python"].rpartition(".")[0], row["Java"], row["chosen"]): row for row in recorded(PAGE.read_text())}
    failed = 0
    for number, run in enumerate(runs, 1):
        if arguments.only and number not in arguments.only:
            continue
        key = (run["python"], str(run.get("java", "–")), run["packages"])
        rows.pop(key, None)
        try:
            rows[key] = combination(wheel.resolve(), f"{version()}, profile {arguments.profile}", run)
        except (RuntimeError, subprocess.CalledProcessError, FileNotFoundError) as e:
            failed += 1
            print(f"{key}: {e}", file=sys.stderr)
        else:
            print(rows[key], flush=True)
    PAGE.write_text(page([rows[key] for key in sorted(rows)]))
    sys.exit(f"{failed} failed" if failed else 0)


if __name__ == "__main__":
    main()
