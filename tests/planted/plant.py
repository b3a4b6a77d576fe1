"""Plants each fault of faults.toml in a copy of the checkout and requires its test to fail.
`make planted` runs it; arguments select faults by a part of their names."""

from __future__ import annotations

import filecmp
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The copy is retained between runs, so that a run compiles only changes.
SCRATCH = ROOT / ".cache" / "planted"
# Packages whose features influence how dependencies are compiled: naming them together with a
# package lets cargo reuse the dependencies that `make test` has compiled, which saves minutes. None
# of them depends on the package.
BESIDE = {"deltaplane-protocol": ("deltaplane-store",), "deltaplane-log": ("deltaplane-data",)}
COPIED = (
    "rust/",
    "Cargo.toml",
    "Cargo.lock",
    "rust-toolchain",
    ".cargo/",
    "clippy.toml",
    "python/",
    "tests/",
    "pyproject.toml",
)
# Replaces a crate's name for changes of Python code, whose tests use the module built by
# `make develop`.
PYTHON = "python"
BUILT = "python/deltaplane/_native.abi3.so"


@dataclass(frozen=True)
class Fault:
    """A one-line change and the test that must fail with it: one of a crate, or a pytest node id if
    `package` is `python`."""

    name: str
    file: str
    before: str
    after: str
    package: str
    test: str
    target: str = ""

    @property
    def suite(self) -> tuple[str, ...]:
        """Cargo's arguments for the binary with the test, or Python's name."""
        if self.package == PYTHON:
            return (PYTHON,)
        named = (self.package, *BESIDE.get(self.package, ()))
        packages = [part for name in named for part in ("-p", name)]
        return (*packages, *(("--test", self.target) if self.target else ("--lib",)))

    @property
    def test_file(self) -> str:
        """The test's file, relative to the checkout."""
        if self.package == PYTHON:
            return self.test.split("::")[0]
        module = self.test.split("::")[:-1]
        room = f"rust/{self.package.removeprefix('deltaplane-')}"
        below = f"{room}/tests/{self.target}" if self.target else f"{room}/src"
        names = [f"{below}/{'/'.join(parts)}.rs" for parts in (module, module[:-1])]
        # Tests are in a file of their own, or in the file under test.
        return next((name for name in names if (ROOT / name).is_file()), names[0])

    def planted(self, text: str) -> str:
        """The file's text with the fault in it; ValueError unless `before` occurs exactly once."""
        count = text.count(self.before)
        if count != 1:
            raise ValueError(f"{self.file} holds the text to change {count} times, not once: {self.before}")
        return text.replace(self.before, self.after)


def faults() -> list[Fault]:
    """The registry, in its order."""
    with (Path(__file__).parent / "faults.toml").open("rb") as file:
        return [Fault(**entry) for entry in tomllib.load(file)["fault"]]


def copy_checkout(checkout: Path) -> None:
    """Updates the copy; unchanged files keep their times, so that they aren't compiled again."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    names = {n for n in [*listed.stdout.splitlines(), BUILT] if n.startswith(COPIED) and (ROOT / n).is_file()}
    for name in names:
        source, copy = ROOT / name, checkout / name
        if not copy.exists() or not filecmp.cmp(source, copy, shallow=False):
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(source.read_bytes())
    # The downloads of `make setup`, without which tests skip.
    if not (checkout / ".cache").exists():
        (checkout / ".cache").symlink_to(ROOT / ".cache")
    for old in checkout.rglob("*"):
        if old.is_file() and old.relative_to(checkout).as_posix() not in names:
            old.unlink()


def run_tests(checkout: Path, suite: Sequence[str], tests: Sequence[str]) -> tuple[set[str], set[str], str]:
    """The passed tests, the failed ones, and the output; no tests if nothing could be run."""
    if suite[0] == PYTHON:
        return run_pytest(checkout, tests)
    # Cargo stores the copy's crates beside those of the checkout, and compiles dependencies once
    # for both.
    environment = {**os.environ, "CARGO_TARGET_DIR": str(ROOT / "target")}
    command = ["cargo", "test", "--locked", *suite, "--", "--exact", *tests]
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    outcomes = dict(re.findall(r"^test (\S+) \.\.\. (ok|FAILED)$", done.stdout, re.MULTILINE))
    printed = done.stdout + done.stderr
    return (
        {t for t, end in outcomes.items() if end == "ok"},
        {t for t, end in outcomes.items() if end == "FAILED"},
        printed,
    )


def run_pytest(checkout: Path, tests: Sequence[str]) -> tuple[set[str], set[str], str]:
    """The same for pytest node ids, up to the first failure: a parametrized test fails if one of
    its cases does."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
    # A property test whose tables can't be verified is skipped after its first example.
    environment.setdefault("DELTAPLANE_SHARED", str(ROOT.parent / "shared"))
    python = ROOT / ".venv" / "bin" / "python"
    command = [str(python), "-m", "pytest", "-p", "no:cacheprovider", "-v", "-x", "--tb=short", *tests]
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    ends = re.findall(r"^(tests/\S+\.py::\w+).* (PASSED|SKIPPED|FAILED|ERROR)\b", done.stdout, re.MULTILINE)
    failed = {test for test, end in ends if end == "FAILED"}
    wrong = {test for test, end in ends if end != "PASSED"}
    return {test for test, _ in ends} - wrong, failed, done.stdout + done.stderr


def judge(fault: Fault, checkout: Path) -> str:
    """Empty if the test detected the fault, otherwise the reason why it didn't."""
    path = checkout / fault.file
    original = path.read_text()
    try:
        path.write_text(fault.planted(original))
        passed, failed, printed = run_tests(checkout, fault.suite, [fault.test])
    except ValueError as e:
        return str(e)
    finally:
        path.write_text(original)
        # Cargo knows the crates of both by their paths within the workspace: without a newer
        # source, it would take the one with the fault for the checkout's own.
        os.utime(ROOT / fault.file)
    if failed == {fault.test}:
        return ""
    if passed:
        return f"{fault.test} passes with it"
    return f"it can't be tried:\n{printed[-2000:]}"


def main(words: list[str]) -> int:
    chosen = [f for f in faults() if not words or any(word in f.name for word in words)]
    checkout = SCRATCH / "checkout"
    copy_checkout(checkout)
    unnoticed = 0
    for suite in dict.fromkeys(f.suite for f in chosen):
        tests = {f.test for f in chosen if f.suite == suite}
        passed, _, printed = run_tests(checkout, suite, sorted(tests))
        if passed != tests:
            print(f"without any fault these don't pass: {sorted(tests - passed)}\n{printed[-2000:]}")
            return 1
    for fault in sorted(chosen, key=lambda f: (f.package, f.file)):
        reason = judge(fault, checkout)
        unnoticed += bool(reason)
        print(f"{'UNNOTICED' if reason else 'noticed  '}  {fault.name}{': ' + reason if reason else ''}", flush=True)
    print(f"{len(chosen) - unnoticed} of {len(chosen)} planted faults were noticed")
    return 1 if unnoticed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
