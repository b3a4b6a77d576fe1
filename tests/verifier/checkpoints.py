"""Checks checkpoints: their columns, one action per row, sidecars, and that their state equals the
replay of the commits."""

from __future__ import annotations

import json
import urllib.parse
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from verifier.actions import FIELDS, Action, State, check_action
from verifier.files import resolved
from verifier.findings import Findings, Json, key_of, parsed
from verifier.schemas import supported

_TEXTS = "map<string, string"
# Field → the beginning of its type's text in a Parquet checkpoint.
_TYPES = {
    "add": {"path": "string", "size": "int64", "modificationTime": "int64", "dataChange": "bool", "stats": "string"}
    | {"partitionValues": _TEXTS, "tags": _TEXTS, "deletionVector": "struct<", "baseRowId": "int64"}
    | {"defaultRowCommitVersion": "int64"},
    "remove": {"path": "string", "deletionTimestamp": "int64", "dataChange": "bool", "size": "int64"}
    | {"partitionValues": _TEXTS},
    "txn": {"appId": "string", "version": "int64", "lastUpdated": "int64"},
    "protocol": {"minReaderVersion": "int32", "minWriterVersion": "int32"}
    | {"readerFeatures": "list<", "writerFeatures": "list<"},
    "metaData": {"id": "string", "schemaString": "string", "partitionColumns": "list<", "configuration": _TEXTS}
    | {"createdTime": "int64", "format": "struct<"},
    "domainMetadata": {"domain": "string", "configuration": "string", "removed": "bool"},
}
_IN_SIDECARS = {"add", "remove"}
_IN_CHECKPOINTS = set(FIELDS) - {"cdc", "commitInfo"}
_PARSED = ("stats_parsed", "partitionValues_parsed")


def checkpoint_actions(findings: Findings, where: str, log: Path, files: list[str]) -> list[Action]:
    """The actions of a checkpoint's files and of their sidecars."""
    actions: list[Action] = []
    for name in sorted(files):
        actions += _file_actions(findings, f"{where} {name}", log / name, _IN_CHECKPOINTS)
    for sidecar in [action for kind, action in actions if kind == "sidecar"]:
        own, path = f"{where} sidecar {sidecar['path']}", urllib.parse.unquote(sidecar["path"])
        file = log / "_sidecars" / path if "/" not in path else resolved(log.parent, sidecar["path"])
        if not file.exists():
            findings.add(own, "it is missing")
            continue
        size = file.stat().st_size
        findings.unless(size == sidecar["sizeInBytes"], own, f"it has {size} bytes, not {sidecar['sizeInBytes']}")
        actions += _file_actions(findings, own, file, _IN_SIDECARS)
    for kind, action in actions:
        if kind in FIELDS:
            check_action(findings, where, kind, {k: v for k, v in action.items() if k not in _PARSED})
    return actions


def _file_actions(findings: Findings, where: str, file: Path, allowed: set[str]) -> list[Action]:
    if file.suffix == ".json":
        lines = [json.loads(line) for line in file.read_text().splitlines() if line.strip()]
        for line in lines:
            findings.unless(len(line) == 1, where, f"a line has {len(line)} actions")
        return [(kind, action) for line in lines for kind, action in line.items()]
    try:
        table = pq.read_table(file)
    except (pa.ArrowException, OSError) as e:
        findings.add(where, f"it can't be read: {e}")
        return []
    _check_columns(findings, where, table.schema, allowed)
    read_actions: list[Action] = []
    for index, row in enumerate(table.to_pylist()):
        actions = [(kind, action) for kind, action in row.items() if action is not None]
        findings.unless(len(actions) == 1, where, f"row {index} has {len(actions)} actions")
        read_actions += [(kind, _as_json(kind, action)) for kind, action in actions]
    return read_actions


def _check_columns(findings: Findings, where: str, schema: pa.Schema, allowed: set[str]) -> None:
    for field in schema:
        # Old writers created columns for every action, which are empty.
        findings.unless(field.name in allowed | set(FIELDS), where, f"it has the column {field.name}")
        for part in field.type if pa.types.is_struct(field.type) else ():
            wanted, is_type = _TYPES.get(field.name, {}).get(part.name), str(part.type).replace("large_", "")
            fits = wanted is None or is_type.startswith(wanted)
            findings.unless(fits, where, f"{field.name}.{part.name} is {is_type}, not {wanted}")
    if allowed is _IN_CHECKPOINTS:
        missing = {"metaData", "protocol"} - set(schema.names)
        findings.unless(not missing, where, f"it has no columns {missing}")


def _as_json(kind: str, action: Json) -> Json:
    """A Parquet row in the log's form: without nulls, except those of partition values, and with
    maps as objects."""
    texts = {"partitionValues", "tags", "configuration"} if kind != "domainMetadata" else set()
    members = {k: dict(v) if k in texts else _without_nulls(v) for k, v in action.items() if v is not None}
    if kind == "metaData":
        members.setdefault("configuration", {})
        members.setdefault("partitionColumns", [])
        if isinstance(members.get("format"), dict):
            members["format"]["options"] = dict(members["format"].get("options") or {})
    return members


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    return value


def check_checkpoint(
    findings: Findings, version: int, actions: list[Action], named_by_uuid: bool, replayed: State | None
) -> None:
    """Checks one checkpoint by itself, and against the state from the commits."""
    where, kinds = f"checkpoint {version}", [kind for kind, _ in actions]
    state = State()
    # A checkpoint's removes are tombstones, regardless of earlier actions.
    state.apply(action for action in actions if action[0] == "remove")
    state.apply(action for action in actions if action[0] != "remove")
    for kind in ("metaData", "protocol"):
        findings.unless(kinds.count(kind) == 1, where, f"it has {kinds.count(kind)} actions {kind}")
    versions = [action["version"] for kind, action in actions if kind == "checkpointMetadata"]
    if versions:
        findings.unless(versions == [version], where, f"checkpointMetadata says {versions}")
        findings.unless("v2Checkpoint" in supported(state.protocol), where, "it is a V2 checkpoint without the feature")
    findings.unless(versions or not named_by_uuid, where, "it has a UUID in its name and no checkpointMetadata")
    adds = [key_of(action) for kind, action in actions if kind == "add"]
    findings.unless(len(adds) == len(set(adds)), where, "it adds a file twice")
    if replayed is not None:
        _compare(findings, where, state, replayed)


def _compare(findings: Findings, where: str, state: State, replayed: State) -> None:
    more, less = set(state.live) - set(replayed.live), set(replayed.live) - set(state.live)
    findings.unless(not more, where, f"it has {len(more)} live files more than the commits: {[*more][:2]}")
    findings.unless(not less, where, f"it has {len(less)} live files less than the commits: {[*less][:2]}")
    for key in set(state.live) & set(replayed.live):
        _compare_adds(findings, f"{where} {key[0]}", state, state.live[key], replayed.live[key])
    tombstones = set(state.dead) - set(replayed.dead)
    findings.unless(not tombstones, where, f"it has tombstones that no commit has: {[*tombstones][:2]}")
    # Old transactions may expire.
    expire = "delta.setTransactionRetentionDuration" in state.configuration
    same = (
        state.transactions.items() <= replayed.transactions.items()
        if expire
        else state.transactions == replayed.transactions
    )
    findings.unless(same, where, f"it has {state.transactions}, the commits {replayed.transactions}")
    findings.unless(state.domains == replayed.domains, where, f"it has {state.domains}, the commits {replayed.domains}")
    for name in ("protocol", "metadata"):
        own, other = _plain(getattr(state, name)), _plain(getattr(replayed, name))
        findings.unless(own == other, where, f"its {name} isn't that of the commits: {own}, {other}")


def _compare_adds(findings: Findings, where: str, state: State, own: Json, other: Json) -> None:
    for name in ("size", "modificationTime", "baseRowId", "defaultRowCommitVersion", "clusteringProvider"):
        findings.unless(own.get(name) == other.get(name), where, f"{name}: {own.get(name)}, {other.get(name)}")
    for name in ("partitionValues", "deletionVector"):
        a, b = ({k: v or None for k, v in (side.get(name) or {}).items()} for side in (own, other))
        findings.unless(a == b, where, f"{name}: {a}, in the commits {b}")
    if own.get("stats") is not None:
        findings.unless(
            _numbers(parsed(own["stats"])) == _numbers(parsed(other.get("stats"))), where, "other statistics"
        )
    elif other.get("stats") and state.configuration.get("delta.checkpoint.writeStatsAsJson", "true") == "true":
        findings.add(where, "it has lost the statistics")
    if own.get("stats_parsed") is not None and other.get("stats"):
        rows, said = own["stats_parsed"].get("numRecords"), parsed(other["stats"]).get("numRecords")
        findings.unless(rows == said, where, f"stats_parsed has {rows} rows, the commits {said}")


def _numbers(value: Any) -> Any:
    """Statistics without nulls, with 1.0 equal to 1."""
    if isinstance(value, dict):
        return {k: _numbers(v) for k, v in value.items() if v is not None}
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _plain(action: Json | None) -> Json:
    """Metadata or a protocol, without empty members, and with the features in no order."""
    members = {k: v for k, v in (action or {}).items() if v not in (None, [], {})}
    ordered = {k: sorted(v) if k.endswith("Features") else v for k, v in members.items()}
    return {k: parsed(v) if k == "schemaString" else v for k, v in ordered.items()}
