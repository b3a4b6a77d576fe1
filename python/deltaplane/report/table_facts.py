"""A table's metadata and protocol as plain values, made by `DeltaTable`; and deltalake's names of
table features."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from deltaplane import _native

__all__ = ["Metadata", "ProtocolVersions", "TableFeatures", "clustering_of"]

_DOMAIN = "delta.clustering"
_PHYSICAL = "delta.columnMapping.physicalName"


@dataclass(frozen=True)
class Metadata:
    """The table's metadata. `created_time` is in milliseconds since 1970-01-01 UTC."""

    id: str
    name: str | None
    description: str | None
    partition_columns: list[str]
    created_time: int | None
    configuration: dict[str, str]


class ProtocolVersions(NamedTuple):
    """The protocol versions and features that readers and writers must support."""

    min_reader_version: int
    min_writer_version: int
    writer_features: list[str] | None
    reader_features: list[str] | None


class TableFeatures(Enum):
    """deltalake's names of table features, for `DeltaTable.alter.add_feature`, which also accepts
    the protocol's names as strings. The core knows both spellings and the meanings."""

    ColumnMapping = auto()
    DeletionVectors = auto()
    TimestampWithoutTimezone = auto()
    V2Checkpoint = auto()
    AppendOnly = auto()
    Invariants = auto()
    CheckConstraints = auto()
    ChangeDataFeed = auto()
    GeneratedColumns = auto()
    IdentityColumns = auto()
    RowTracking = auto()
    DomainMetadata = auto()
    IcebergCompatV1 = auto()
    VariantType = auto()
    VariantTypePreview = auto()
    TimestampNanos = auto()


def clustering_of(domains: Mapping[str, str], schema: _native.TableSchema) -> list[str]:
    """Dotted paths of the clustering columns that these domains define; empty for a table without
    clustering (P152)."""
    said = domains.get(_DOMAIN)
    if said is None:
        return []
    columns = []
    for path in json.loads(said)["clusteringColumns"]:
        fields, names = schema.to_value()["fields"], []
        for part in path:
            # A name that the schema lacks is shown unchanged.
            field = next(
                (f for f in fields if f["metadata"].get(_PHYSICAL, f["name"]) == part), {"name": part, "type": ""}
            )
            names.append(field["name"])
            fields = field["type"].get("fields", []) if isinstance(field["type"], dict) else []
        columns.append(".".join(names))
    return columns
