"""The crash points: runs an operation once for each call that it makes to its store, and stops the
store at that call. Afterwards another process must find the table in its old or its new state, and
can continue. `python -m crash.points` from `tests/` tries all of them and writes
docs/reliability/crash_points.json; `test_points.py` tries some.
"""

from __future__ import annotations

import functools
import json
import logging
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crash.memory_s3 import UUID, Bucket, MemoryS3, in_every_run, memory_s3
from crash.operations import OPERATIONS, Base, Operation
from deltaplane import DeltaTable
from deltaplane.exceptions import DeltaError, FileMissingError, StoreUnavailableError, VersionNotFoundError
from verifier import problems

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "docs" / "reliability" / "crash_points.json"
WRITES = ("PUT", "POST", "DELETE")
COUNTING = "delta.requireCheckpointProtectionBeforeVersion"
# Approximate number of points per operation in a short run.
SOME = 6
OUTCOMES = ("old", "new", "between", "the same")
Seen = dict[str, Any]


@dataclass
class Tried:
    """The outcomes of one operation at its points."""

    operation: str
    calls: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    # Outcomes of single failed calls, in a process that survives.
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
        # Versions that the operation itself cleans up may be missing; no others.
        versions = self.all_versions(bucket)
        self.outcomes: dict[object, str] = {}
        self.cleaned = {version for version in self.versions if versions.get(version) is None}

    # --- what others find ---------------------------------------------------------------------------------------------

    def seen(self, bucket: str) -> Seen:
        """All observations of a new process about the table."""
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
        """The rows of each former version; None for an unreadable one."""
        uri, versions = f"s3://{bucket}/t", {}
        for version in range((self.old["version"] or 0) + 1 if self.old["version"] is not None else 0):
            try:
                table = DeltaTable(uri, version=version, storage_options=self.server.client()[1])
                versions[version] = rows_of(table)
            except VersionNotFoundError:
                versions[version] = None
        return versions

    def manifests_of(self, bucket: str) -> dict[str, bytes]:
        """The manifests for other engines."""
        held = self.server.buckets[bucket].items()
        return {
            k: stored.body.replace(bucket.encode(), b"bucket") for k, stored in held if "_symlink_format_manifest" in k
        }

    def check_sound(self, bucket: str, outcome: str = "new") -> None:
        """The verifier, an independent reading of the protocol, finds no problem."""
        if self.operation.mends and outcome == "old":
            return
        with tempfile.TemporaryDirectory() as directory:
            self.server.to_disk(bucket, Path(directory))
            if (Path(directory) / "t" / "_delta_log" / f"{0:020}.json").exists():
                assert problems(f"{directory}/t") == []

    # --- one point ----------------------------------------------------------------------------------------------------

    def point(self, call: int) -> tuple[str, int]:
        """A call by its form, and its number among the calls of this form."""
        forms = [in_every_run(text) for text in self.calls[:call]]
        return forms[-1], forms.count(forms[-1])

    def crash(self, call: int, does_it: bool) -> str:
        """Stops the process's store at a call; returns the state that others find: old, new, or
        between for an operation of several steps."""
        bucket = self.server.bucket(self.before)
        client, options = self.server.client(fails_at=self.point(call), does_it=does_it)
        error = attempt(self.operation, f"s3://{bucket}/t", options)
        assert client.dead, f"{self.operation.name} made {len(client.calls)} calls this time"
        if error is not None:
            # A dead store is reported as unavailable, whatever the call.
            assert isinstance(error, StoreUnavailableError), repr(error)
        # Read calls leave the store unchanged, so equal states are examined once.
        shape = self.shape(bucket)
        if shape not in self.outcomes:
            self.outcomes[shape] = self.look(bucket)
        outcome = self.outcomes[shape]
        assert error is not None or outcome == "new", f"the call succeeded, but the table is {outcome}"
        return outcome

    def shape(self, bucket: str) -> tuple[tuple[str, bool], ...]:
        """The objects' names without random parts, and whether each is unchanged."""
        held = self.server.buckets[bucket]
        return tuple(sorted((UUID.sub("", key), self.before.get(key) is stored) for key, stored in held.items()))

    def look(self, bucket: str) -> str:
        """The state that others find, after checking that they can continue."""
        outcome = self.outcome(self.seen(bucket))
        then = self.all_versions(bucket)
        lost = {v for v, rows in then.items() if rows is None and self.versions[v] is not None}
        assert lost <= self.cleaned, f"versions {lost} are gone"
        assert sorted(lost) == list(range(len(lost))), f"a gap among the versions that are gone: {lost}"
        assert all(rows == self.versions[v] for v, rows in then.items() if rows is not None)
        self.check_sound(bucket, outcome)
        self.go_on(bucket, outcome)
        return outcome

    def outcome(self, seen: Seen) -> str:
        for outcome, expected in (("new", self.new), ("old", self.old)):
            # An interrupted operation may have cleaned up a part of the history.
            least, most = sorted((seen["history"], expected["history"]), key=len)
            if {**seen, "history": None} == {**expected, "history": None} and most[: len(least)] == least:
                return outcome if self.operation.commits else "the same"
        assert self.operation.steps, f"neither old nor new: {seen}"
        assert seen["rows"] == self.old["rows"]
        assert self.old["version"] < seen["version"] < self.new["version"]
        return "between"

    def go_on(self, bucket: str, outcome: str) -> None:
        """Another process repeats an operation that wasn't done, or uses one that was."""
        uri, options = f"s3://{bucket}/t", self.server.client()[1]
        if outcome == "new" and self.operation.commits:
            DeltaTable(uri, storage_options=options).create_checkpoint()
        else:
            self.operation.run(uri, options)
        actual, expected = without_steps(self.seen(bucket)), without_steps(self.new)
        assert actual == expected, [(actual[name], expected[name]) for name in actual if actual[name] != expected[name]]
        assert self.manifests_of(bucket) == self.manifests
        self.check_sound(bucket)

    def hiccup(self, call: int, does_it: bool) -> str:
        """One call gets no answer in a surviving process: the operation succeeds, or reports the
        store and did nothing."""
        bucket = self.server.bucket(self.before)
        _, options = self.server.client(fails_at=self.point(call), does_it=does_it, lives_on=True)
        error = attempt(self.operation, f"s3://{bucket}/t", options)
        seen = self.seen(bucket)
        outcome = self.outcome(seen)
        self.check_sound(bucket, outcome)
        if error is None:
            assert outcome != "old", f"the call succeeded, but: {seen}"
            return "succeeded"
        assert isinstance(error, StoreUnavailableError), repr(error)
        assert outcome != "new", f"the call failed, but: {seen}"
        return "failed"


@functools.cache
def state_of(server: MemoryS3, base: Base | None) -> Bucket:
    """An operation's initial table, shared by operations with the same base."""
    bucket = server.bucket({})
    if base is not None:
        base.make(f"s3://{bucket}/t", server.client()[1])
        server.aged(bucket, base.days_old)
    return server.buckets[bucket]


def rows_of(table: DeltaTable) -> list[str]:
    """The table's rows; a word for a table that lost a file."""
    try:
        rows = table.to_pyarrow_table().to_pylist()
    except FileMissingError:
        return ["a file is missing"]
    return sorted(json.dumps(row, default=str) for row in rows)


def without_steps(seen: Seen) -> Seen:
    """The state without the number of commits and without a property that counts them, since these
    may differ if an operation was continued."""
    plain = {name: value for name, value in seen.items() if name not in ("version", "history")}
    plain["configuration"] = [(key, value) for key, value in seen["configuration"] if key != COUNTING]
    return plain


def attempt(operation: Operation, uri: str, options: dict[str, str]) -> DeltaError | None:
    """The typed error of an operation, if any; any other exception fails the test."""
    try:
        operation.run(uri, options)
    except DeltaError as e:
        return e
    return None


def choose_all(calls: list[str]) -> Iterable[tuple[int, bool]]:
    """Every call: not executed, and for writing calls also executed without an answer."""
    for number, call in enumerate(calls, 1):
        yield number, False
        if call.startswith(WRITES):
            yield number, True


def choose_some(calls: list[str]) -> Iterable[tuple[int, bool]]:
    """Some of the log's writes, except the optional checksums, and of manifests; `choose_all`
    covers the rest."""
    chosen = []
    for number, does_it in choose_all(calls):
        method, path = calls[number - 1].split(" ", 1)
        counts = any(part in path for part in ("/_delta_log/", "/_symlink_format_manifest/")) or path.endswith(
            "?delete"
        )
        if method in WRITES and counts and not path.endswith(".crc"):
            chosen.append((number, does_it))
    return chosen[:: max(1, len(chosen) // SOME)]


def explore(server: MemoryS3, operation: Operation, choose: Callable[[list[str]], Iterable[tuple[int, bool]]]) -> Tried:
    """Tries an operation's chosen points."""
    points = Points(server, operation)
    for number, does_it in choose(points.calls):
        where = f"{operation.name}: call {number} ({points.calls[number - 1]}), {'done' if does_it else 'not done'}"
        try:
            points.tried.outcomes[points.crash(number, does_it)] += 1
            if points.calls[number - 1].startswith(WRITES):
                points.tried.hiccups[points.hiccup(number, does_it)] += 1
        except AssertionError as e:
            raise AssertionError(f"{where}: {e}") from e
    return points.tried


def main(names: list[str]) -> None:
    """Tries all operations and writes the outcomes; for named operations it only prints them."""
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
            "A process may die at any call to the store, before or after the call took effect: every operation leaves the"
            " table in its old or its new state, with the rows, columns, properties, history and older versions of that state.",
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
