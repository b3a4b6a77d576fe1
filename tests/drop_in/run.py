"""`make drop-in DELTA_RS=/path`: runs delta-rs's own Python tests on deltalake and on
`deltaplane.deltalake`, and says which pass.

The tests aren't part of this repository: the caller has a checkout of delta-rs with them.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
REASONS = HERE / "reasons.toml"
# Tests of what users see; the others need servers, or measure.
MARKERS = "not integration and not benchmark and not no_pyarrow and not lakefs"
# Of the tests that pass on deltalake, at least this share passes on deltaplane.
LEAST = 0.97


@dataclass(frozen=True)
class Comparison:
    """Names of tests that pass on deltalake, and of these the ones that pass on deltaplane; for the
    others what pytest said."""

    public: set[str]
    passed: set[str]
    said: dict[str, str]

    @property
    def ratio(self) -> float:
        """The share that passes."""
        return len(self.passed) / len(self.public) if self.public else 0.0

    @property
    def failed(self) -> list[str]:
        """The others, in order."""
        return sorted(self.public - self.passed)


def outcomes(report: Path) -> dict[str, tuple[str, str]]:
    """Test → `passed`, `failed` or `skipped`, and the first line of what pytest said."""
    outcome_by_test = {}
    for case in ET.parse(report).getroot().iter("testcase"):
        name = f"{case.get('classname', '').rpartition('tests.')[2]}::{case.get('name')}"
        bad = [child for child in case if child.tag in ("failure", "error", "skipped")]
        kind = "passed" if not bad else "skipped" if bad[0].tag == "skipped" else "failed"
        outcome_by_test[name] = (kind, (bad[0].get("message") or "").partition("\n")[0][:300] if bad else "")
    return outcome_by_test


def reason_of(test: str, reasons: Mapping[str, Sequence[str]]) -> str | None:
    """Why a test isn't expected to pass: the reason under which its name, or its name up to a
    bracket,
    is listed."""
    names = {test, test.partition("[")[0]}
    return next((reason for reason, tests in reasons.items() if names & set(tests)), None)


def run(delta_rs: Path, chosen: Sequence[str], *, alias: bool, seconds: int, report: Path) -> None:
    """Runs the tests in a copy, since they write to their own tables."""
    with tempfile.TemporaryDirectory(prefix="drop-in-") as scratch:
        copy = Path(scratch)
        shutil.copytree(delta_rs / "python" / "tests", copy / "python" / "tests")
        data = Path("crates/test/tests/data")
        shutil.copytree(delta_rs / data, copy / data)
        start = copy / "start"
        start.mkdir()
        # For the interpreters that tests start as well.
        if alias:
            (start / "sitecustomize.py").write_text("import deltaplane.deltalake as d\nd.install()\n")
        shutil.copy(HERE / "absent_packages.py", start)
        path = os.pathsep.join([str(start), str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
        settings = ["-o", "addopts=", "-o", f"markers={_markers(delta_rs)}", "-p", "absent_packages"]
        limits = ["--timeout", str(seconds), "-p", "no:cacheprovider", "-p", "no:xdist", "-q", "-m", MARKERS]
        tests = [str(copy / "python" / "tests" / name) for name in chosen] or [str(copy / "python" / "tests")]
        command = [sys.executable, "-m", "pytest", *settings, *limits, f"--junitxml={report}", *tests]
        variables = {"PYTHONPATH": path, "TMPDIR": scratch, "PYTHONDONTWRITEBYTECODE": "1"}
        subprocess.run(command, cwd=copy / "python", env={**os.environ, **variables}, check=False)


def _markers(delta_rs: Path) -> str:
    """delta-rs's markers, for pytest's settings."""
    settings = tomllib.loads((delta_rs / "python" / "pyproject.toml").read_text())
    return "\n".join(settings["tool"]["pytest"]["ini_options"]["markers"])


def compare(theirs: Mapping[str, tuple[str, str]], ours: Mapping[str, tuple[str, str]]) -> Comparison:
    """What passes on both."""
    public = {name for name, (kind, _) in theirs.items() if kind == "passed"}
    passed = {name for name in public if ours.get(name, ("", ""))[0] == "passed"}
    absent = ("failed", "the test wasn't found")
    return Comparison(public, passed, {name: ours.get(name, absent)[1] for name in public - passed})


def main() -> int:
    """Runs, writes `drop-in.json`, prints the figures; 1 if a test fails that isn't expected to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("delta_rs", type=Path, help="a checkout of delta-io/delta-rs")
    parser.add_argument("tests", nargs="*", help="files of tests, by default all")
    parser.add_argument("--out", type=Path, default=ROOT / ".cache" / "drop-in", help="where results go")
    parser.add_argument("--again", action="store_true", help="use deltalake's results of the last run")
    parser.add_argument("--timeout", type=int, default=120, help="seconds for one test")
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    for name, alias in (("deltalake", False), ("deltaplane", True)):
        report = out / f"{name}.xml"
        if not (arguments.again and not alias and report.exists()):
            run(arguments.delta_rs.resolve(), arguments.tests, alias=alias, seconds=arguments.timeout, report=report)
    ours = outcomes(out / "deltaplane.xml")
    theirs = outcomes(out / "deltalake.xml")
    if arguments.tests:
        theirs = {name: outcome for name, outcome in theirs.items() if name in ours}
    result = compare(theirs, ours)
    reasons = tomllib.loads(REASONS.read_text())
    reason_by_test = {name: reason_of(name, reasons) for name in result.failed}
    unexpected = [name for name, reason in reason_by_test.items() if reason is None]
    rows = [{"test": name, "reason": reason_by_test[name], "said": result.said[name]} for name in result.failed]
    figures = {"passed": len(result.passed), "public": len(result.public), "ratio": round(result.ratio, 4)}
    (out / "drop-in.json").write_text(json.dumps({**figures, "failed": rows}, indent=1))
    for reason, count in Counter(reason_by_test.values()).most_common():
        print(f"{count:4} {reason or 'not expected'}")
    for name in unexpected:
        print(f"not expected: {name}: {result.said[name]}")
    print(f"{figures['passed']} of {figures['public']} tests pass ({result.ratio:.1%}); {out / 'drop-in.json'}")
    return int(bool(unexpected) or (not arguments.tests and result.ratio < LEAST))


if __name__ == "__main__":
    sys.exit(main())
