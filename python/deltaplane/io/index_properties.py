"""The table properties that say which columns have an index of keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deltaplane import _native

__all__ = ["ON_WRITE", "has_indexes", "indexed_columns"]

# Followed by the column's name in files.
_PREFIX = "deltaplane.index."
# Whether writers extend the indexes after each commit.
ON_WRITE = "deltaplane.buildIndexesOnWrite"


def has_indexes(snapshot: _native.Snapshot) -> bool:
    """Whether the table has an index of keys."""
    return any(key.startswith(_PREFIX) for key in snapshot.info.configuration)


def indexed_columns(fields: Sequence[Mapping[str, Any]], configuration: Mapping[str, str]) -> frozenset[str]:
    """The names of the columns with an index among a schema's fields, in Delta's JSON.

    >>> sorted(indexed_columns([{"name": "a"}, {"name": "b"}], {"deltaplane.index.a": "keys"}))
    ['a']
    """
    in_files = "delta.columnMapping.physicalName"
    return frozenset(
        field["name"]
        for field in fields
        if configuration.get(_PREFIX + field.get("metadata", {}).get(in_files, field["name"])) == "keys"
    )
