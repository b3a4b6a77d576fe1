"""Runs contestants in turn, each run in a separate process, and prints one table of ratios.

Independent of the measures. A measure passes its contestants and cases to `main`; the same file,
started with `--child`, is one run: set up, call, report times and peak memory as JSON.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

from support import results
from support.results import Line

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "bench"
SUBJECT = "deltaplane"
# Maximum duration of a run; a longer one hangs.
RUN_TIMEOUT_SECONDS = 900
# Files of a run below this size are deleted only after all runs, not between them.
KEPT_BYTES = 64 << 20
# Runs per contestant by scale.
ROUNDS = {"quick": 1, "small": 3, "full": 5}


@dataclass(frozen=True)
class Elsewhere:
    """The cost of a call in processes that it started."""

    cpu_s: float
    peak_mb: float


@dataclass(frozen=True)
class Traffic:
    """The requests of a call to a store: their number, their rounds (requests that begin after
    another one ended), their bytes in both directions, and the list price of a million calls."""

    requests: int
    rounds: int
    moved_mb: float
    usd_per_million: float


@dataclass(frozen=True)
class Task:
    """One contestant's prepared work: `prepare` is called before each call of `run`, which alone is
    timed.

    The result of `run` is checked afterwards: `answer` must be the same for all contestants,
    `failed` need not.
    """

    run: Callable[[], Any]
    answer: Callable[[Any], int] = int
    size_bytes: Callable[[Any], int] | None = None
    prepare: Callable[[], object] | None = None
    failed: Callable[[Any], int] | None = None
    elsewhere: Callable[[Any], Elsewhere] | None = None
    # The seconds that count, if they are a part of those of `run`.
    seconds: Callable[[Any], float] | None = None
    # Called after each call of `run`.
    traffic: Callable[[], Traffic] | None = None


# Builds a task from a case's arguments and an empty folder that is deleted afterwards.
Contestant = Callable[[Mapping[str, Any], Path], Task]


@dataclass(frozen=True)
class Case:
    """One piece of work. `calls` is the number of timed calls in each process, after one untimed
    call if there is more than one.

    `arguments` may be a function, called when the case runs, so that unneeded logs are never made.
    With `series` and `size` the case is a point of a growth curve; `target` names its target.
    Adjacent cases with the same `together` run in one process, in turn, if starting one costs more
    than the case: the memory of such a case includes that of the earlier ones.
    """

    name: str
    contestants: Sequence[str]
    arguments: Mapping[str, Any] | Callable[[], Mapping[str, Any]] = field(default_factory=dict)
    calls: int = 1
    expected: int | None = None
    series: str = ""
    size: int | None = None
    target: str = ""
    together: str = ""


def main(
    measure: str,
    contestants: Mapping[str, Contestant],
    cases: Callable[[argparse.Namespace], list[Case]],
    arguments: Callable[[argparse.ArgumentParser], None],
) -> None:
    """Runs the command line of one measure."""
    options = parser(arguments).parse_args()
    if options.child:
        print(json.dumps(runs_of_process(contestants, json.load(sys.stdin))), flush=True)
        # The figures are printed; the duration of the interpreter's exit with a peer's threads
        # isn't measured.
        os._exit(0)
    _require_release(options.quick)
    CACHE.mkdir(parents=True, exist_ok=True)
    rounds = options.rounds or ROUNDS[scale_of(options)]
    facts = results.facts_now(scale_of(options))
    lines: list[Line] = []
    for group in _groups([case for case in cases(options) if options.only in case.name]):
        # Peers that aren't installed don't take part.
        here = [name for name in group[0].contestants if name in contestants]
        chosen = [name for name in here if name == SUBJECT or options.against in name]
        # The very first runs load shared files from the disk; later cases only load their own
        # files. A case in a shared process has untimed calls before.
        uncounted = [] if group[0].together else chosen[:1] if lines else chosen
        lines_of_group = _measured(measure, [replace(case, contestants=chosen) for case in group], rounds, uncounted)
        results.keep(CACHE / "results", lines_of_group, facts)
        lines += lines_of_group
    results.show(lines, facts, options.json)


def _groups(cases: Sequence[Case]) -> list[list[Case]]:
    """Groups the cases by process."""
    groups: list[list[Case]] = []
    for case in cases:
        if groups and case.together and case.together == groups[-1][0].together:
            groups[-1].append(case)
        else:
            groups.append([case])
    return groups


def parser(arguments: Callable[[argparse.ArgumentParser], None]) -> argparse.ArgumentParser:
    """The options of every measure, and its own arguments."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument("--quick", action="store_true", help="smallest sizes, any build: shows only that it runs")
    scale.add_argument("--full", action="store_true", help="the sizes that the targets speak of")
    parser.add_argument("--rounds", type=int, help="runs of each contestant that count")
    parser.add_argument("--json", action="store_true", help="one JSON object a line instead of a table")
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    parser.add_argument("--against", default="", help="only peers whose name contains this, beside deltaplane")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments(parser)
    return parser


def scale_of(options: argparse.Namespace) -> str:
    """The scale: quick, small or full."""
    return "quick" if options.quick else "full" if options.full else "small"


def _require_release(quick: bool) -> None:
    from deltaplane import _native

    if _native.build_profile != "release" and not quick:
        sys.exit(f"the installed core is a {_native.build_profile} build, whose figures mean nothing: make release")


# --- one run ----------------------------------------------------------------------------------------------------------


def runs_of_process(contestants: Mapping[str, Contestant], order: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Runs one contestant's cases of this process, each with a folder of its own."""
    runs = []
    for number, case in enumerate(order["cases"]):
        scratch = Path(order["scratch"]) / str(number)
        scratch.mkdir()
        runs.append(one_run(contestants, {"contestant": order["contestant"], "scratch": str(scratch), **case}))
    return runs


def one_run(contestants: Mapping[str, Contestant], order: Mapping[str, Any]) -> dict[str, Any]:
    """Sets one contestant up and calls it in this process. `order` has its name, the case's
    arguments and number of calls, and the usable folder.
    """
    task = contestants[order["contestant"]](order["arguments"], Path(order["scratch"]))
    prepare = task.prepare or (lambda: None)
    if order["calls"] > 1:
        prepare()
        task.run()
    before_kb = _memory_kb("VmRSS")
    seconds, cpu, elsewhere_mb = [], [], [0.0]
    traffic: list[dict[str, float]] = []
    result: Any = None
    for _ in range(order["calls"]):
        result = None
        prepare()
        cpu_began, began = time.process_time(), time.perf_counter()
        result = task.run()
        took = time.perf_counter() - began
        seconds.append(took if task.seconds is None else task.seconds(result))
        cpu.append(time.process_time() - cpu_began)
        if task.traffic is not None:
            traffic.append(asdict(task.traffic()))
        if task.elsewhere is not None:
            other = task.elsewhere(result)
            cpu[-1] += other.cpu_s
            elsewhere_mb.append(other.peak_mb)
    peak_kb = _memory_kb("VmHWM")
    if task.elsewhere is not None:
        peak_kb, before_kb = int(max(elsewhere_mb) * 1024), 0
    return {
        "seconds": seconds,
        "cpu": cpu,
        "peak_mb": peak_kb / 1024,
        "added_mb": max(0, peak_kb - before_kb) / 1024,
        "answer": task.answer(result),
        "failed": 0 if task.failed is None else task.failed(result),
        "traffic": traffic,
        "size_bytes": None if task.size_bytes is None else task.size_bytes(result),
    }


def _memory_kb(name: str) -> int:
    """A memory figure of this process. `getrusage` isn't suitable: its maximum starts with the
    parent's."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    raise OSError(f"/proc/self/status has no {name}: memory is measured on Linux only")


def used_by_this_process() -> Elsewhere:
    """The cost of this process, for processes that a call starts, which return it."""
    return Elsewhere(time.process_time(), _memory_kb("VmHWM") / 1024)


# --- all runs of one case ---------------------------------------------------------------------------------------------


def _measured(measure: str, group: Sequence[Case], rounds: int, uncounted: Sequence[str]) -> list[Line]:
    """Runs A B A B, so that a temporary slowdown of the machine affects all contestants.
    `uncounted` run once before."""
    orders = [{"arguments": resolved_arguments(case), "calls": case.calls} for case in group]
    names, what = group[0].contestants, group[0].together or group[0].name
    for name in uncounted:
        _run(what, name, orders)
    runs: dict[str, list[list[dict[str, Any]]]] = {name: [] for name in names}
    for turn in range(rounds):
        for name in names:
            _progress(f"{measure}: {what}: {name}, run {turn + 1} of {rounds}")
            runs[name].append(_run(what, name, orders))
    _progress("")
    of_cases = [{name: [run[number] for run in many] for name, many in runs.items()} for number in range(len(group))]
    return [line for case, of_case in zip(group, of_cases, strict=True) for line in _lines(measure, case, of_case)]


def _lines(measure: str, case: Case, runs: Mapping[str, list[dict[str, Any]]]) -> list[Line]:
    """Each contestant's figures, if all gave the same answer."""
    answers = {name: run["answer"] for name, many in runs.items() for run in many}
    expected = answers[SUBJECT] if case.expected is None else case.expected
    wrong = {name: answer for name, answer in answers.items() if answer != expected}
    if wrong:
        sys.exit(f"{measure}: {case.name}: expected {expected}, got {wrong}: no figure counts")
    figures = {name: _figures(many) for name, many in runs.items()}
    subject = figures[SUBJECT]
    return [
        Line(
            measure=measure,
            case=case.name,
            contestant=name,
            series=case.series,
            size=case.size,
            target=case.target,
            answer=answers[name],
            failed=sum(run["failed"] for run in runs[name]),
            runs=len(runs[name]) * case.calls,
            **own,
            size_mb=None if (size := runs[name][-1]["size_bytes"]) is None else size / 1e6,
            ratio_best=_ratio(subject["best_s"], own["best_s"]),
            ratio_median=_ratio(subject["median_s"], own["median_s"]),
            ratio_cpu=_ratio(subject["cpu_s"], own["cpu_s"]),
            ratio_peak=_ratio(subject["peak_mb"], own["peak_mb"]),
        )
        for name, own in figures.items()
    ]


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text}\033[K", end="", file=sys.stderr, flush=True)


def _ratio(subject: float, other: float) -> float:
    """If a clock is too coarse for both, they count as equal."""
    return subject / other if other > 0 else 1.0


def _figures(runs: list[dict[str, Any]]) -> dict[str, Any]:
    seconds = [s for run in runs for s in run["seconds"]]
    return {
        "best_s": min(seconds),
        "median_s": median(seconds),
        "mean_s": fmean(seconds),
        "tail_s": sorted(seconds)[-1 - len(seconds) // 100],
        "cpu_s": median(s for run in runs for s in run["cpu"]),
        "peak_mb": median(run["peak_mb"] for run in runs),
        "added_mb": median(run["added_mb"] for run in runs),
        **_traffic([call for run in runs for call in run["traffic"]]),
    }


def _traffic(calls: list[dict[str, float]]) -> dict[str, float]:
    """Medians; nothing for a measure without a store."""
    names = [field.name for field in fields(Traffic)] if calls else []
    return {name: median(call[name] for call in calls) for name in names}


def resolved_arguments(case: Case) -> dict[str, Any]:
    """Resolves a case's arguments and makes the required files."""
    return dict(case.arguments() if callable(case.arguments) else case.arguments)


def _remove(scratch: Path) -> None:
    """Deletes small files only at the end: for five seconds after a deletion, ext4 without a
    journal searches for an inode that wasn't freed recently, which would slow down the next
    contestant's new files.
    """
    size = sum(path.lstat().st_size for path in scratch.rglob("*"))
    if size > KEPT_BYTES:
        shutil.rmtree(scratch, ignore_errors=True)
    else:
        atexit.register(shutil.rmtree, scratch, ignore_errors=True)


def _run(what: str, contestant: str, cases: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    scratch = Path(tempfile.mkdtemp(prefix="scratch-", dir=CACHE))
    # Flushes the last run's pending writes, which would slow down this run.
    os.sync()
    order = {"contestant": contestant, "scratch": str(scratch), "cases": cases}
    command = [sys.executable, sys.argv[0], "--child"]
    timeout = RUN_TIMEOUT_SECONDS * len(cases)
    # Installed packages are compiled to bytecode: a process that can't store it would compile them
    # each time.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    # Passed by standard input, since an order may exceed the maximum length of an argument.
    done = subprocess.run(
        command,
        input=json.dumps(order),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env=environment,
    )
    _remove(scratch)
    if done.returncode != 0:
        sys.exit(f"{what}: {contestant} failed:\n{done.stderr}")
    report: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return report
