"""The table properties that say which columns have an index of keys, and building these indexes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deltaplane import _native
    from deltaplane.io import records

__all__ = ["ON_WRITE", "build_indexes", "has_indexes", "indexed_columns", "indexed_together"]

# Followed by the column's name in files, or by those of several in parentheses.
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
    return frozenset(field["name"] for field in fields if configuration.get(_PREFIX + _name_in_files(field)) == "keys")


def indexed_together(fields: Sequence[Mapping[str, Any]], configuration: Mapping[str, str]) -> list[tuple[str, ...]]:
    """The names of the columns of each index of several columns.

    >>> indexed_together([{"name": "a"}, {"name": "b"}], {"deltaplane.index.(b,a)": "b,a"})
    [('b', 'a')]
    """
    names = {_name_in_files(field): field["name"] for field in fields}
    listed = [value.split(",") for key, value in configuration.items() if key == f"{_PREFIX}({value})"]
    # Commas of names are written as %2C.
    columns = [[name.replace("%2C", ",").replace("%25", "%") for name in several] for several in listed]
    return [
        tuple(names[name] for name in several)
        for several in columns
        if len(several) > 1 and names.keys() >= set(several)
    ]


def _name_in_files(field: Mapping[str, Any]) -> str:
    return str(field.get("metadata", {}).get("delta.columnMapping.physicalName", field["name"]))


def build_indexes(snapshot: _native.Snapshot, rebuild: bool = False) -> list[records.KeyIndex]:
    """Brings a table's indexes of keys up to date with a version, or with `rebuild` builds them
    from all of its files, in this process; their states."""
    from deltaplane import _native

    return _native.IndexBuild.begin(snapshot, rebuild, 1).run()
