"""Checks a table's log: names without a gap, each commit against the state before it, checkpoints,
checksums, and every file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq

from verifier.actions import FIELDS, IN_COMMITS, IN_STATES, Action, State, check_action
from verifier.checkpoints import check_checkpoint, checkpoint_actions
from verifier.files import DataFile, resolved
from verifier.findings import Findings, Json, key_of, parsed
from verifier.schemas import MODE, PHYSICAL, check_metadata, check_partition_value, check_protocol, supported
from verifier.vectors import vector_path

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKSUM = re.compile(r"(\d{20})\.crc")
_COMPACTED = re.compile(r"(\d{20})\.(\d{20})\.compacted\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.(?:\d{10}\.(\d{10})\.|([0-9a-f-]{36})\.)?(?:parquet|json)")
_VECTORS = re.compile(r"deletion_vector_[0-9a-f-]{36}\.bin$")


class Log:
    """The files of a log by kind: version → name, and version → checkpoints → names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        names = sorted(path.name for path in folder.iterdir())
        self.commits = {int(m[1]): m[0] for name in names if (m := _COMMIT.fullmatch(name))}
        self.checksums = {int(m[1]): m[0] for name in names if (m := _CHECKSUM.fullmatch(name))}
        self.compacted = {(int(m[1]), int(m[2])): m[0] for name in names if (m := _COMPACTED.fullmatch(name))}
        self.checkpoints: dict[int, dict[tuple[str | None, str | None], list[str]]] = {}
        for name in names:
            if m := _CHECKPOINT.fullmatch(name):
                # The files of one checkpoint have the same number of parts, or a single one has a
                # UUID in its name.
                self.checkpoints.setdefault(int(m[1]), {}).setdefault((m[2], m[3]), []).append(name)


def check_log(findings: Findings, root: Path) -> None:
    """All checks of a table."""
    if not (root / "_delta_log").is_dir():
        findings.add("log", "there is no _delta_log")
        return
    log = Log(root / "_delta_log")
    states: dict[int, State] = {}
    for version, state in _replayed(findings, log):
        states[version] = state
    findings.unless(states, "log", "there is no version")
    _check_checkpoints(findings, log, states)
    _check_hint(findings, log)
    _check_compacted(findings, log, states)
    _check_checksums(findings, log, states)
    _check_files(findings, root, states)


def _replayed(findings: Findings, log: Log) -> Iterator[tuple[int, State]]:
    """Each version's state, from the oldest available one."""
    for before, after in pairwise(sorted(log.commits)):
        findings.unless(after == before + 1, "log", f"no commits between {before} and {after}")
    first = min(log.commits, default=max(log.checkpoints, default=0) + 1)
    state, paths, time = State(), set[str](), None
    if first > 0:
        bases = [version for version in log.checkpoints if version >= first - 1]
        if not bases:
            findings.add("log", f"it begins with {first}, and there is no checkpoint")
            return
        files = next(iter(log.checkpoints[min(bases)].values()))
        actions = checkpoint_actions(findings, f"checkpoint {min(bases)}", log.folder, files)
        state.apply((kind, action) for kind, action in actions if kind in IN_STATES)
        paths = {path for path, _ in state.live}
        yield min(bases), state.copy()
        first = min(bases) + 1
    for version in sorted(v for v in log.commits if v >= first):
        commit = Commit(findings, f"commit {version}", log.folder / log.commits[version], state)
        time = commit.check(paths, time)
        findings.unless(
            version > 0 or {"metaData", "protocol"} <= set(commit.kinds), "commit 0", "no protocol or metadata"
        )
        paths |= {action["path"] for kind, action in commit.actions if kind == "add"}
        state.apply(commit.actions)
        _check_row_ids(findings, f"commit {version}", state)
        yield version, state.copy()


def _read(findings: Findings, where: str, file: Path) -> list[Action]:
    actions: list[Action] = []
    for number, line in enumerate(file.read_bytes().split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as e:
            findings.add(where, f"line {number} is no JSON: {e}")
            continue
        if not isinstance(value, dict) or len(value) != 1 or not isinstance(next(iter(value.values())), dict):
            findings.add(where, f"line {number} isn't one action")
            continue
        ((kind, action),) = value.items()
        if kind in IN_COMMITS:
            check_action(findings, where, kind, action)
            actions.append((kind, action))
        else:
            findings.unless(kind not in FIELDS, where, f"there is the action {kind} in a commit")
    return actions


class Commit:
    """Checks a commit against the state before it."""

    def __init__(self, findings: Findings, where: str, file: Path, base: State) -> None:
        self.findings, self.where, self.base = findings, where, base
        self.actions = _read(findings, where, file)
        self.kinds = [kind for kind, _ in self.actions]
        self.info = next((action for kind, action in self.actions if kind == "commitInfo"), {})
        self.operation = str(self.info.get("operation", ""))
        after = State(metadata=base.metadata, protocol=base.protocol)
        after.apply(action for action in self.actions if action[0] in ("metaData", "protocol"))
        self.after, self.features = after, supported(after.protocol)

    def unless(self, holds: object, what: str) -> None:
        self.findings.unless(holds, self.where, what)

    def check(self, paths: set[str], time: int | None) -> int | None:
        """`paths` were added before, `time` is the previous commit's time; returns this commit's
        time."""
        for kind in ("metaData", "protocol", "commitInfo"):
            self.unless(self.kinds.count(kind) <= 1, f"there are {self.kinds.count(kind)} actions {kind}")
        self._check_protocol()
        if self.after.metadata and {"metaData", "protocol"} & set(self.kinds):
            check_metadata(self.findings, self.where, self.after.metadata, self.after.protocol)
        self._check_files(paths)
        for kind, action in self.actions:
            if kind == "domainMetadata":
                self.unless("domainMetadata" in self.features, "there is a domain without the feature")
            if kind == "txn" and isinstance(action.get("version"), int):
                before = self.base.transactions.get(action.get("appId", ""), action["version"])
                self.unless(action["version"] >= before, f"the application's version goes back from {before}")
        return self._check_time(time)

    def _check_protocol(self) -> None:
        for kind, action in self.actions:
            if kind != "protocol":
                continue
            check_protocol(self.findings, self.where, action)
            old = self.base.protocol
            may_fall = any(word in self.operation.upper() for word in ("DROP", "RESTORE", "CLONE"))
            if old and not may_fall:
                for name in ("minReaderVersion", "minWriterVersion"):
                    self.unless(action.get(name, 0) >= old[name], f"{name} falls from {old[name]}")

    def _check_time(self, time: int | None) -> int | None:
        if self.after.configuration.get("delta.enableInCommitTimestamps") != "true":
            return time
        own = self.info.get("inCommitTimestamp")
        is_first = self.kinds[:1] == ["commitInfo"] and own is not None
        self.unless(is_first, "the commit doesn't begin with its own time")
        self.unless(not is_first or time is None or own > time, f"its own time {own} isn't after {time}")
        return own if is_first else time

    def _check_files(self, paths: set[str]) -> None:
        removed = {key_of(action) for kind, action in self.actions if kind == "remove" and "path" in action}
        removed_paths, live_paths = {path for path, _ in removed}, {path for path, _ in self.base.live}
        added: set[str] = set()
        partitions = self._partition_types()
        for kind, action in self.actions:
            if kind not in ("add", "remove", "cdc") or "path" not in action:
                continue
            where = f"{self.where} {kind} {action['path'][-60:]}"
            if kind == "add":
                self.findings.unless(action["path"] not in added, where, "the path is added twice")
                self.findings.unless(key_of(action) not in removed, where, "it is added and removed")
                added.add(action["path"])
                if action["path"] in live_paths and action["path"] not in removed_paths:
                    # The same file again without a change of data has new tags or statistics.
                    again = key_of(action) in self.base.live and not action.get("dataChange")
                    self.findings.unless(again, where, "the path is live, and not removed")
                elif action["path"] not in live_paths and self.operation != "RESTORE":
                    self.findings.unless(action["path"] not in paths, where, "a removed file's path is used again")
                self._check_add(where, action)
            if kind == "remove":
                self._check_remove(where, action)
            if kind == "cdc":
                is_on = self.after.configuration.get("delta.enableChangeDataFeed") == "true"
                self.findings.unless(is_on, where, "the change data feed is off")
                self.findings.unless(not action.get("dataChange"), where, "dataChange is true")
            values = action.get("partitionValues")
            if values is not None and kind != "remove":
                same = set(values) == set(partitions)
                self.findings.unless(same, where, f"it has values of {sorted(values)}, not {sorted(partitions)}")
                for name, data_type in partitions.items():
                    check_partition_value(self.findings, where, data_type, values.get(name))

    def _partition_types(self) -> dict[str, object]:
        """The types of the partition columns by their names in the log."""
        metadata = self.after.metadata or {}
        fields = {field["name"]: field for field in (parsed(metadata.get("schemaString")) or {}).get("fields", [])}
        is_mapped = self.after.configuration.get(MODE, "none") != "none"
        fields_of_partitions = [fields[name] for name in metadata.get("partitionColumns") or [] if name in fields]
        return {
            f["metadata"].get(PHYSICAL, f["name"]) if is_mapped else f["name"]: f["type"] for f in fields_of_partitions
        }

    def _check_add(self, where: str, add: Json) -> None:
        has_vectors = "deletionVectors" in self.features
        self.findings.unless(
            has_vectors or not add.get("deletionVector"), where, "a deletion vector without the feature"
        )
        if "rowTracking" in self.features & supported(self.base.protocol):
            numbered = add.get("baseRowId") is not None and add.get("defaultRowCommitVersion") is not None
            suspended = self.after.configuration.get("delta.rowTrackingSuspended") == "true"
            self.findings.unless(numbered or suspended, where, "its rows have no ids")

    def _check_remove(self, where: str, remove: Json) -> None:
        # Dropping a feature leaves tombstones for the files of its vectors.
        is_known = key_of(remove) in self.base.live or _VECTORS.search(remove["path"])
        self.findings.unless(is_known, where, "it isn't live")
        if remove.get("extendedFileMetadata"):
            is_complete = remove.get("partitionValues") is not None and remove.get("size") is not None
            self.findings.unless(is_complete, where, "extendedFileMetadata without them")
        is_append_only = self.after.configuration.get("delta.appendOnly") == "true"
        self.findings.unless(not is_append_only or not remove.get("dataChange"), where, "the table is append-only")


def _check_row_ids(findings: Findings, where: str, state: State) -> None:
    if state.configuration.get("delta.enableRowTracking") != "true" or "delta.rowTracking" not in state.domains:
        return
    mark = parsed(state.domains["delta.rowTracking"]).get("rowIdHighWaterMark")
    ranges = sorted(
        (add["baseRowId"], add["baseRowId"] + (parsed(add.get("stats")) or {}).get("numRecords", 1) - 1)
        for add in state.live.values()
        if add.get("baseRowId") is not None
    )
    highest = max((last for _, last in ranges), default=-1)
    findings.unless(mark is None or highest <= mark, where, f"the highest row id {highest} is above the mark {mark}")
    for (_, last), (first, _) in pairwise(ranges):
        findings.unless(first > last, where, f"row ids up to {last} and from {first} on are those of two files")


def _check_checkpoints(findings: Findings, log: Log, states: dict[int, State]) -> None:
    for version, by_kind in sorted(log.checkpoints.items()):
        for (parts, uuid), files in by_kind.items():
            where = f"checkpoint {version}"
            if parts and len(files) != int(parts):
                findings.add(where, f"it has {len(files)} of {int(parts)} parts")
                continue
            actions = checkpoint_actions(findings, where, log.folder, files)
            # The oldest state may come from this very checkpoint.
            replayed = states.get(version) if version in log.commits else None
            is_base = version == min(states, default=None) and 0 not in log.commits
            check_checkpoint(findings, version, actions, uuid is not None, None if is_base else replayed)


def _check_hint(findings: Findings, log: Log) -> None:
    file = log.folder / "_last_checkpoint"
    if not file.exists():
        return
    hint, where = json.loads(file.read_text()), "_last_checkpoint"
    by_kind = log.checkpoints.get(hint["version"])
    if by_kind is None:
        findings.add(where, f"there is no checkpoint {hint['version']}")
        return
    findings.unless(isinstance(hint.get("size"), int), where, "it has no size")
    if parts := hint.get("parts"):
        findings.unless((f"{parts:010d}", None) in by_kind, where, f"there are no {parts} parts")
    if hint["version"] == max(log.checkpoints) and not hint.get("v2Checkpoint"):
        files = [name for name in next(iter(by_kind.values())) if name.endswith(".parquet")]
        rows = sum(pq.read_metadata(log.folder / name).num_rows for name in files)
        findings.unless(hint.get("size") == rows, where, f"size is {hint.get('size')}, there are {rows} actions")


def _check_compacted(findings: Findings, log: Log, states: dict[int, State]) -> None:
    for (first, last), name in log.compacted.items():
        if last not in states or (first > 0 and first - 1 not in states):
            continue
        where = f"compaction {first} to {last}"
        state = states[first - 1].copy() if first else State()
        state.apply(_read(findings, where, log.folder / name))
        wanted = states[last]
        findings.unless(set(state.live) == set(wanted.live), where, "its live files aren't those of the commits")
        for part in ("transactions", "domains", "metadata", "protocol"):
            findings.unless(getattr(state, part) == getattr(wanted, part), where, f"its {part} aren't the commits'")


def _check_checksums(findings: Findings, log: Log, states: dict[int, State]) -> None:
    for version, name in log.checksums.items():
        if (state := states.get(version)) is None:
            continue
        where, checksum = f"checksum {version}", json.loads((log.folder / name).read_text())
        wanted = {"numFiles": len(state.live), "tableSizeBytes": sum(add["size"] for add in state.live.values())}
        for key, value in wanted.items():
            findings.unless(checksum.get(key) in (None, value), where, f"{key} is {checksum.get(key)}, not {value}")
        for key, action, part in (
            ("metadata", state.metadata, "schemaString"),
            ("protocol", state.protocol, "minReaderVersion"),
            ("protocol", state.protocol, "minWriterVersion"),
        ):
            if checksum.get(key):
                same = parsed(checksum[key].get(part)) == parsed((action or {}).get(part))
                findings.unless(same, where, f"its {part} isn't the version's")


def _check_files(findings: Findings, root: Path, states: dict[int, State]) -> None:
    """Checks every file with the schema that it was added under. Files of older versions and their
    deletion vectors may be vacuumed."""
    newest, checked = states[max(states)].live if states else {}, set()
    for version, state in sorted(states.items()):
        for key, add in state.live.items():
            vector = vector_path(root, add.get("deletionVector"))
            parts = [resolved(root, add["path"]), *([vector] if vector else [])]
            is_there = key in newest or all(part.exists() for part in parts)
            if key in checked or not is_there or not state.metadata:
                continue
            checked.add(key)
            where = f"version {version} file {add['path'][-60:]}"
            try:
                DataFile(findings, where, root, add, state).check()
            except (KeyError, ValueError, TypeError, OSError) as e:
                findings.add(where, f"it can't be checked: {type(e).__name__} {e}")
