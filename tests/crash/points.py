"""Owns the crash points: an operation runs once for each call that it makes to its store, and the
store is gone at that call. Afterwards others must find the table as it was or as it should be, and
can go on. `python -m crash.points` from `tests/` tries all of them and writes
docs/reliability/crash_points.json; `test_points.py` some.
"""

from __future__ import annotations

import functools
import json
import logging
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crash.memory_s3 import Bucket, MemoryS3, memory_s3
from crash.operations import OPERATIONS, Base, Operation
from deltaplane import DeltaTable
from deltaplane.exceptions import DeltaError, FileMissingError, StoreUnavailableError, VersionNotFoundError
from verifier import problems

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "docs" / "reliability" / "crash_points.json"
# Names that are random in each run.
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
WRITES = ("PUT", "POST", "DELETE")
COUNTING = "delta.requireCheckpointProtectionBeforeVersion"
# About as many points of an operation are tried in a short run.
SOME = 6
OUTCOMES = ("old", "new", "between", "the same")
Seen = dict[str, Any]


@dataclass
class Tried:
    """What became of one operation at its points."""

    operation: str
    calls: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    # The same calls failing once, for a process that lives.
    hiccups: Counter[str] = field(default_factory=Counter)


class Points:
    """One operation with the states before and after it."""

    def __init__(self, server: MemoryS3, operation: Operation) -> None:
        self.server, self.operation = server, operation
        self.tried = Tried(operation.name)
        self.before = state_of(server, operation.base)
        bucket = server.bucket(self.before)
        self.old = self.seen(bucket)
        self.versions = self.all_versions(bucket)
        bucket = server.bucket(self.before)
        client, options = server.client()
        operation.run(f"s3://{bucket}/t", options)
        self.calls = list(client.calls)
        self.tried.calls = len(self.calls)
        self.new = self.seen(bucket)
        self.manifests = self.manifests_of(bucket)
        self.check_sound(bucket)
        assert operation.commits == (self.old["version"] != self.new["version"]), operation.name
        # What the operation itself cleans up is not there any more; nothing else may go.
        kept = self.all_versions(bucket)
        self.outcomes: dict[object, str] = {}
        self.cleaned = {version for version in self.versions if kept.get(version) is None}

    # --- what others find ---------------------------------------------------------------------------------------------

    def seen(self, bucket: str) -> Seen:
        """All that a fresh process finds of the table."""
        uri, options = f"s3://{bucket}/t", self.server.client()[1]
        if not DeltaTable.is_deltatable(uri, options):
            return {"version": None, "history": []}
        table = DeltaTable(uri, storage_options=options)
        protocol = table.protocol()
        said = {
            "version": table.version(),
            "rows": rows_of(table),
            "schema": table.schema().to_json(),
            "configuration": sorted(table.metadata().configuration.items()),
            "name": table.metadata().name,
            "protocol": [sorted(part) if isinstance(part, list) else part for part in protocol],
            "domains": sorted(table.domain_metadata().items()),
            "history": [entry["operation"] for entry in table.history()],
        }
        plain: Seen = json.loads(UUID.sub("UUID", json.dumps(said, default=str)))
        return plain

    def all_versions(self, bucket: str) -> dict[int, list[str] | None]:
        """The rows of each version that the table had; None where it can't be had any more."""
        uri, found = f"s3://{bucket}/t", {}
        for version in range((self.old["version"] or 0) + 1 if self.old["version"] is not None else 0):
            try:
                table = DeltaTable(uri, version=version, storage_options=self.server.client()[1])
                found[version] = rows_of(table)
            except VersionNotFoundError:
                found[version] = None
        return found

    def manifests_of(self, bucket: str) -> dict[str, bytes]:
        """The lists of files that other engines read."""
        held = self.server.buckets[bucket].items()
        return {k: one.body.replace(bucket.encode(), b"bucket") for k, one in held if "_symlink_format_manifest" in k}

    def check_sound(self, bucket: str, outcome: str = "new") -> None:
        """The verifier, an independent reading of the protocol, finds no problem."""
        if self.operation.mends and outcome == "old":
            return
        with tempfile.TemporaryDirectory() as directory:
            self.server.to_disk(bucket, Path(directory))
            if (Path(directory) / "t" / "_delta_log" / f"{0:020}.json").exists():
                assert problems(f"{directory}/t") == []

    # --- one point ----------------------------------------------------------------------------------------------------

    def crash(self, at: int, does_it: bool) -> str:
        """The process's store dies at a call; what others find then: old, new, or between in an
        operation of steps."""
        bucket = self.server.bucket(self.before)
        client, options = self.server.client(fails_at=at, does_it=does_it)
        told = attempt(self.operation, f"s3://{bucket}/t", options)
        assert client.dead, f"{self.operation.name} made {len(client.calls)} calls this time"
        if told is not None:
            # A dead store is unavailable, whatever was asked of it.
            assert isinstance(told, StoreUnavailableError), repr(told)
        # Calls that read leave the store as it was found before: looked at once.
        shape = self.shape(bucket)
        if shape not in self.outcomes:
            self.outcomes[shape] = self.look(bucket)
        outcome = self.outcomes[shape]
        assert told is not None or outcome == "new", f"it told of success, but the table is {outcome}"
        return outcome

    def shape(self, bucket: str) -> tuple[tuple[str, bool], ...]:
        """Which objects there are, whatever is drawn for their names, and which of them are as they
        were."""
        held = self.server.buckets[bucket]
        return tuple(sorted((UUID.sub("", key), self.before.get(key) is stored) for key, stored in held.items()))

    def look(self, bucket: str) -> str:
        """What others find, and whether they can go on."""
        outcome = self.outcome(self.seen(bucket))
        then = self.all_versions(bucket)
        lost = {v for v, rows in then.items() if rows is None and self.versions[v] is not None}
        assert lost <= self.cleaned, f"versions {lost} are gone"
        assert sorted(lost) == list(range(len(lost))), f"a gap among the versions that are gone: {lost}"
        assert all(rows == self.versions[v] for v, rows in then.items() if rows is not None)
        self.check_sound(bucket, outcome)
        self.go_on(bucket, outcome)
        return outcome

    def outcome(self, found: Seen) -> str:
        for outcome, expected in (("new", self.new), ("old", self.old)):
            # An operation may be cut off when it has cleaned up a part of the history.
            least, most = sorted((found["history"], expected["history"]), key=len)
            if {**found, "history": None} == {**expected, "history": None} and most[: len(least)] == least:
                return outcome if self.operation.commits else "the same"
        assert self.operation.steps, f"neither old nor new: {found}"
        assert found["rows"] == self.old["rows"]
        assert self.old["version"] < found["version"] < self.new["version"]
        return "between"

    def go_on(self, bucket: str, outcome: str) -> None:
        """Another process repeats what isn't done, or uses what is."""
        uri, options = f"s3://{bucket}/t", self.server.client()[1]
        if outcome == "new" and self.operation.commits:
            DeltaTable(uri, storage_options=options).create_checkpoint()
        else:
            self.operation.run(uri, options)
        found, expected = without_steps(self.seen(bucket)), without_steps(self.new)
        assert found == expected, [(found[name], expected[name]) for name in found if found[name] != expected[name]]
        assert self.manifests_of(bucket) == self.manifests
        self.check_sound(bucket)

    def hiccup(self, at: int, does_it: bool) -> str:
        """One call gets no answer and the process lives: it succeeds, or tells of the store and did
        nothing."""
        bucket = self.server.bucket(self.before)
        _, options = self.server.client(fails_at=at, does_it=does_it, lives_on=True)
        told = attempt(self.operation, f"s3://{bucket}/t", options)
        found = self.seen(bucket)
        outcome = self.outcome(found)
        self.check_sound(bucket, outcome)
        if told is None:
            assert outcome != "old", f"told of success, but: {found}"
            return "succeeded"
        assert isinstance(told, StoreUnavailableError), repr(told)
        assert outcome != "new", f"told of failure, but: {found}"
        return "failed"


@functools.cache
def state_of(server: MemoryS3, base: Base | None) -> Bucket:
    """The table that an operation begins on; many begin on the same."""
    bucket = server.bucket({})
    if base is not None:
        base.make(f"s3://{bucket}/t", server.client()[1])
        server.aged(bucket, base.days_old)
    return server.buckets[bucket]


def rows_of(table: DeltaTable) -> list[str]:
    """Its rows; of a table that has lost a file a word."""
    try:
        rows = table.to_pyarrow_table().to_pylist()
    except FileMissingError:
        return ["a file is missing"]
    return sorted(json.dumps(row, default=str) for row in rows)


def without_steps(seen: Seen) -> Seen:
    """How many commits it took may differ where an operation is gone on with, and a property that
    counts them."""
    plain = {name: value for name, value in seen.items() if name not in ("version", "history")}
    plain["configuration"] = [(key, value) for key, value in seen["configuration"] if key != COUNTING]
    return plain


def attempt(operation: Operation, uri: str, options: dict[str, str]) -> DeltaError | None:
    """The typed error that an operation ended with, if any; every other one is a failure of the
    test."""
    try:
        operation.run(uri, options)
    except DeltaError as e:
        return e
    return None


def choose_all(calls: list[str]) -> Iterable[tuple[int, bool]]:
    """Every call: unmade, and for those that write made but not answered."""
    for at, call in enumerate(calls, 1):
        yield at, False
        if call.startswith(WRITES):
            yield at, True


def choose_some(calls: list[str]) -> Iterable[tuple[int, bool]]:
    """Some of the writes of the log, without its checksums, which nobody needs, and of manifests;
    the rest is `choose_all`'s."""
    chosen = []
    for at, does_it in choose_all(calls):
        method, path = calls[at - 1].split(" ", 1)
        counts = any(part in path for part in ("/_delta_log/", "/_symlink_format_manifest/")) or path.endswith(
            "?delete"
        )
        if method in WRITES and counts and not path.endswith(".crc"):
            chosen.append((at, does_it))
    return chosen[:: max(1, len(chosen) // SOME)]


def explore(server: MemoryS3, operation: Operation, choose: Callable[[list[str]], Iterable[tuple[int, bool]]]) -> Tried:
    """Tries an operation's chosen points."""
    points = Points(server, operation)
    for at, does_it in choose(points.calls):
        where = f"{operation.name}: call {at} ({points.calls[at - 1]}), {'done' if does_it else 'not done'}"
        try:
            points.tried.outcomes[points.crash(at, does_it)] += 1
            if points.calls[at - 1].startswith(WRITES):
                points.tried.hiccups[points.hiccup(at, does_it)] += 1
        except AssertionError as e:
            raise AssertionError(f"{where}: {e}") from e
    return points.tried


def main(names: list[str]) -> None:
    """Tries all operations and writes what was seen; of those that are named only prints it."""
    logging.getLogger("deltaplane").setLevel(logging.CRITICAL)
    began = time.monotonic()
    with memory_s3() as server:
        tried = []
        for operation in [o for o in OPERATIONS if not names or o.name in names]:
            tried.append(explore(server, operation, choose_all))
            print(tried[-1], flush=True)
    if names:
        return
    total, once = sum((t.outcomes for t in tried), Counter()), sum((t.hiccups for t in tried), Counter())
    report = {
        "title": "Crash points",
        "claims": [
            "Whatever call to the store is the last one of a process, before or after it did its work, every operation"
            " leaves the table as it was or as it should be, for rows, columns, properties, history and older versions.",
            "The operation can be done again by another process, and an independent verifier finds no fault, before"
            " and after that.",
            "Operations of several commits (`between`) leave a sound table with the same rows after each of them.",
            "A process that gets no answer to one call and lives on succeeds, or says StoreUnavailable and has changed"
            " nothing: a commit whose answer was lost is recognised.",
        ],
        "figures": {
            "operations": len(tried),
            "crash points": total.total(),
            "left as it was": total["old"],
            "done": total["new"],
            "between two commits of one operation": total["between"],
            "where the operation leaves the table's content alone": total["the same"],
            "neither": total.total() - sum(total[outcome] for outcome in OUTCOMES),
            "calls of a living process without an answer": once.total(),
            "of these the operation succeeded": once["succeeded"],
            "of these it said so and changed nothing": once["failed"],
            "seconds": round(time.monotonic() - began),
        },
        "tables": [
            {
                "head": [
                    "operation",
                    "calls",
                    "crash points",
                    *OUTCOMES,
                    "one answer lost: succeeded",
                    "failed, nothing changed",
                ],
                "rows": [
                    [
                        t.operation,
                        t.calls,
                        t.outcomes.total(),
                        *(t.outcomes[o] for o in OUTCOMES),
                        t.hiccups["succeeded"],
                        t.hiccups["failed"],
                    ]
                    for t in tried
                ],
            }
        ],
        "how": "cd tests && ../.venv/bin/python -m crash.points",
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
