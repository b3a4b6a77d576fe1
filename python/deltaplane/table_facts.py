"""What a table says of itself, as plain values. Made by `DeltaTable`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Metadata", "ProtocolVersions"]


@dataclass(frozen=True)
class Metadata:
    """What the table says of itself. `created_time` is in milliseconds since 1970-01-01 UTC."""

    id: str
    name: str | None
    description: str | None
    partition_columns: list[str]
    created_time: int | None
    configuration: dict[str, str]


class ProtocolVersions(NamedTuple):
    """What a reader and a writer of the table must be able to do."""

    min_reader_version: int
    min_writer_version: int
    writer_features: list[str] | None
    reader_features: list[str] | None
