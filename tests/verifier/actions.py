"""Checks the fields of single actions, and replays actions to the state of a version. Reads no
file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from verifier.findings import FileKey, Findings, Json, key_of

Action = tuple[str, Json]

_VECTOR = ({"storageType": str, "pathOrInlineDv": str, "sizeInBytes": int, "cardinality": int}, {"offset": int})
_FILE = {"stats": str, "tags": dict, "deletionVector": dict, "baseRowId": int, "defaultRowCommitVersion": int}
# Action → its required and its optional fields with their types.
FIELDS: dict[str, tuple[dict[str, type], dict[str, type]]] = {
    "add": (
        {"path": str, "partitionValues": dict, "size": int, "modificationTime": int, "dataChange": bool},
        {**_FILE, "clusteringProvider": str},
    ),
    "remove": (
        {"path": str, "dataChange": bool},
        {**_FILE, "deletionTimestamp": int, "extendedFileMetadata": bool, "partitionValues": dict, "size": int},
    ),
    "metaData": (
        {"id": str, "format": dict, "schemaString": str, "partitionColumns": list, "configuration": dict},
        {"name": str, "description": str, "createdTime": int},
    ),
    "protocol": ({"minReaderVersion": int, "minWriterVersion": int}, {"readerFeatures": list, "writerFeatures": list}),
    "txn": ({"appId": str, "version": int}, {"lastUpdated": int}),
    "cdc": ({"path": str, "partitionValues": dict, "size": int, "dataChange": bool}, {"tags": dict}),
    "domainMetadata": ({"domain": str, "configuration": str, "removed": bool}, {}),
    "commitInfo": ({}, {}),
    "sidecar": ({"path": str, "sizeInBytes": int, "modificationTime": int}, {"tags": dict}),
    "checkpointMetadata": ({"version": int}, {"tags": dict}),
}
IN_COMMITS = set(FIELDS) - {"sidecar", "checkpointMetadata"}
IN_STATES = IN_COMMITS - {"cdc", "commitInfo"}


def _is(value: object, kind: type) -> bool:
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


def check_action(findings: Findings, where: str, kind: str, action: Json) -> None:
    """Checks that an action has its required fields, and that known fields have their types."""
    _check_fields(findings, where, kind, action, FIELDS[kind])
    for name in ("partitionValues", "tags"):
        for key, value in (action.get(name) or {}).items():
            findings.unless(value is None or isinstance(value, str), where, f"{kind}.{name}[{key}] is no string")
    if action.get("deletionVector") is not None:
        _check_fields(findings, where, "deletionVector", action["deletionVector"], _VECTOR)


def _check_fields(
    findings: Findings, where: str, kind: str, action: Json, spec: tuple[dict[str, type], dict[str, type]]
) -> None:
    required, optional = spec
    for name, expected in {**optional, **required}.items():
        value = action.get(name)
        if value is None:
            findings.unless(name not in required, where, f"{kind}.{name} is missing")
        else:
            findings.unless(
                _is(value, expected), where, f"{kind}.{name} is {type(value).__name__}, not {expected.__name__}"
            )


@dataclass
class State:
    """A version's state: live files and tombstones by their keys, application versions, domains,
    metadata, protocol."""

    live: dict[FileKey, Json] = field(default_factory=dict)
    dead: dict[FileKey, Json] = field(default_factory=dict)
    transactions: dict[str, int] = field(default_factory=dict)
    domains: dict[str, str] = field(default_factory=dict)
    metadata: Json | None = None
    protocol: Json | None = None

    def copy(self) -> State:
        copies = {name: dict(getattr(self, name)) for name in ("live", "dead", "transactions", "domains")}
        return replace(self, **copies)

    def apply(self, actions: Iterable[Action]) -> None:
        """Replays the actions of a commit, removals first, since their order doesn't matter."""
        actions = list(actions)
        for action in (a for kind, a in actions if kind == "remove" and "path" in a):
            self.live.pop(key_of(action), None)
            self.dead[key_of(action)] = action
        for kind, action in actions:
            if kind == "add" and "path" in action:
                self.live[key_of(action)] = action
                self.dead.pop(key_of(action), None)
            elif kind == "txn":
                self.transactions[action.get("appId", "")] = action.get("version", -1)
            elif kind == "domainMetadata":
                self.domains.pop(action.get("domain", ""), None)
                if not action.get("removed"):
                    self.domains[action.get("domain", "")] = action.get("configuration", "")
            elif kind == "metaData":
                self.metadata = action
            elif kind == "protocol":
                self.protocol = action

    @property
    def configuration(self) -> dict[str, str]:
        return (self.metadata or {}).get("configuration") or {}
