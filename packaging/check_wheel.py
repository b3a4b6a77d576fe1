"""Checks wheels as users and registries will take them: their size and content, their tags and
metadata by the registries' own tools, and README.md's examples in an environment without Rust and
Java. `make check-wheel` runs it; with `--bare` it needs Python alone.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from zipfile import ZipFile

from archives import DIST, ROOT, TOOLS
from environments import ABSENT, Environment, interpreter

sys.path.insert(0, str(ROOT / "tests"))
from structure.readme import needs_spark, run_steps, runnable

# What a download may cost, in bytes.
LARGEST = 15_000_000
# What an import may add to the start of an interpreter, in seconds.
SLOWEST_IMPORT = 0.030
LICENSES = ("LICENSE", "NOTICE", "THIRD-PARTY-LICENSES")
# The extras that README.md's examples need without Spark.
EXTRAS = "local,pandas,polars,cli,report"
README_SECONDS = 600

# Writes and reads a table with pyarrow alone, which is all that the package requires.
BASE = """
import os, tempfile
import pyarrow as pa
from deltaplane import DeltaTable, write_deltalake
os.chdir(tempfile.mkdtemp())
write_deltalake("t", pa.table({"x": [1, 2, 3], "day": ["a", "b", "b"]}), partition_by=["day"])
assert DeltaTable("t").scan(["x"], "day = 'b'").to_arrow().column("x").to_pylist() == [2, 3]
assert [c["operation"] for c in DeltaTable("t").history()] == ["WRITE"]
"""


def size(wheel: Path) -> Iterator[str]:
    """Problems: more bytes than a download may cost."""
    if wheel.stat().st_size > LARGEST:
        yield f"{wheel.stat().st_size:,} bytes, of at most {LARGEST:,}"


def content(wheel: Path) -> Iterator[str]:
    """Problems: a file that users need is missing, one that they don't is there, or a path of this
    machine is in one."""
    with ZipFile(wheel) as files:
        names = files.namelist()
        dist_info = names[-1].partition("/")[0]
        needed = [f"{dist_info}/licenses/{name}" for name in LICENSES]
        needed += ["deltaplane/py.typed", "deltaplane/_native.pyi", "deltaplane/__init__.py"]
        yield from (f"{name} is missing" for name in needed if name not in names)
        if not any(f"{dist_info}/sboms/" in name for name in names):
            yield "no bill of materials"
        for name in names:
            if not name.startswith(("deltaplane/", f"{dist_info}/")) or "__pycache__" in name:
                yield f"{name} doesn't belong there"
        private = re.compile(rb"|".join(re.escape(str(path).encode()) for path in {ROOT, Path.home() / ".cargo"}))
        for name in names:
            if match := private.search(files.read(name)):
                yield f"{name} names {match[0].decode()}"


def audits(wheel: Path) -> Iterator[str]:
    """Problems by the registries' own tools: twine of the metadata, abi3audit of the symbols of
    Python, and auditwheel of the platform's."""
    archives = [wheel, *wheel.parent.glob("deltaplane-*[0-9].tar.gz")]
    commands = [
        [TOOLS / "twine", "check", "--strict", *archives],
        [TOOLS / "abi3audit", "--strict", "--report", wheel],
    ]
    for command in commands:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        if done.returncode:
            yield f"{command[0].name}: {done.stdout}{done.stderr}"
    if "manylinux" in wheel.name:
        shown = subprocess.run([str(TOOLS / "auditwheel"), "show", str(wheel)], capture_output=True, text=True)
        text = " ".join(shown.stdout.split())
        match = re.search(r'consistent with the following platform tag: "(\w+)"', text)
        if match is None or match[1] not in wheel.name:
            yield f"auditwheel: {match[1] if match else shown.stdout + shown.stderr}"
        else:
            print(f"  auditwheel: {match[1]}")


def examples(wheel: Path, python: Path) -> Iterator[str]:
    """Problems of an environment that has the wheel and what it requires, then the extras that
    README.md's examples need."""
    with tempfile.TemporaryDirectory() as scratch:
        environment = Environment(Path(scratch, "environment"), python)
        yield from (f"{name} is in the environment" for name in environment.programs(ABSENT))
        constraints = Path(scratch, "constraints.txt")
        constraints.write_text(locked())
        environment.install([str(wheel)], "-c", str(constraints))
        environment.run(BASE)
        bare = environment.seconds("pass", 15)
        added = environment.seconds("import deltaplane", 15) - bare
        print(f"  import deltaplane: {added * 1000:.1f} ms above {bare * 1000:.1f} ms of bare Python")
        if added > SLOWEST_IMPORT:
            yield f"the import adds {added * 1000:.1f} ms, of at most {SLOWEST_IMPORT * 1000:.0f}"
        environment.install([f"{wheel}[{EXTRAS}]"], "-c", str(constraints))
        steps = [step for step in runnable((ROOT / "README.md").read_text()) if not needs_spark(step)]
        done = run_steps(steps, environment.python, Path(scratch), environment.variables, README_SECONDS)
        print(f"  README.md: {len(steps)} steps without Spark")
        if done.returncode:
            yield f"README.md's examples:\n{done.stdout[done.stdout.rfind(chr(10) + '--- ') :][:6000]}"


# The Pythons that requirements/dev.lock is for.
_LOCKED = "python_version >= '3.11'"


def locked() -> str:
    """The versions of requirements/dev.lock as constraints, so that a day's new release doesn't
    decide; without digests, which pip would ask of every package. Development needs Python 3.11:
    an older one gets the newest versions that it has."""
    lines = (ROOT / "requirements/dev.lock").read_text().splitlines()
    pins = [line.removesuffix("\\").strip() for line in lines if re.match(r"[\w.-]+==", line)]
    parts = [pin.partition(";") for pin in pins]
    markers = [f"({marker.strip()}) and {_LOCKED}" if marker else _LOCKED for _, _, marker in parts]
    return "\n".join(f"{pin.strip()} ; {marker}" for (pin, _, _), marker in zip(parts, markers, strict=True))


def check(wheel: Path, checks: dict[str, Callable[[Path], Iterator[str]]]) -> list[str]:
    """Prints each check's outcome; returns all problems."""
    problems: list[str] = []
    print(f"{wheel.name}: {wheel.stat().st_size:,} bytes")
    for name, find in checks.items():
        print(f"  {name} …", flush=True)
        problems += [f"{name}: {problem}" for problem in find(wheel)]
    return problems


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheels", nargs="*", type=Path, help="default: the newest of dist")
    parser.add_argument("--bare", action="store_true", help="leave out the registries' tools")
    parser.add_argument("--python", action="append", help="run README's examples on these versions (default: this one)")
    arguments = parser.parse_args()
    newest = sorted(DIST.glob("*.whl"), key=lambda path: path.stat().st_mtime)[-1:]
    wheels = [path.resolve() for path in arguments.wheels or newest]
    if not wheels:
        sys.exit("dist has no wheel: run `make wheel`")
    pythons = [interpreter(version) for version in arguments.python or []] or [Path(sys.executable)]
    checks: dict[str, Callable[[Path], Iterator[str]]] = {"size": size, "content": content}
    if not arguments.bare:
        checks["audits"] = audits
    for python in pythons:
        checks[f"examples on {python}"] = partial(examples, python=python)
    problems = [problem for wheel in wheels for problem in check(wheel, checks)]
    if problems:
        sys.exit("\n".join(problems))
    print("all checks passed")


if __name__ == "__main__":
    main()
