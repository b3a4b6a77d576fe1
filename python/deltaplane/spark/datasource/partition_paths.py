"""Paths inside of a Delta table that name one of its partitions, as `table/day=2024-01-31`."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

from deltaplane import _native
from deltaplane.exceptions import InvalidArgumentError
from deltaplane.spark.jvm.location import absolute_location, split_options

__all__ = ["partition_path"]

_NULL = "__HIVE_DEFAULT_PARTITION__"


def partition_path(path: str, options: Mapping[str, str] | None) -> tuple[str, dict[str, str | None]] | None:
    """The location of the table that a path without a table of its own is inside of, and the
    partition values that the path names; None if no table is above it. Directories above the
    parent are searched as far as they have the form `column=value`.

    Raises:
        InvalidArgumentError: a part of the path isn't `column=value`, or not with a partition
            column.

    >>> import pyarrow as pa
    >>> from deltaplane import write_deltalake
    >>> rows = pa.table({"day": ["31"], "shop": ["b"], "x": [1]})
    >>> _ = write_deltalake("memory://doc-partition/t", rows, partition_by=["day", "shop"])
    >>> partition_path("memory://doc-partition/t/day=31/shop=%C3%84", None)
    ('memory://doc-partition/t', {'day': '31', 'shop': 'Ä'})
    """
    store = split_options(options)[0]
    root, fragments = path.rstrip("/"), list[str]()
    while True:
        root, slash, last = root.rpartition("/")
        if not slash or not root or root.endswith((":", ":/")):
            return None
        fragments.insert(0, last)
        if _native.is_table(absolute_location(root), store):
            return root, _values(absolute_location(root), store, fragments)
        if "=" not in last:
            return None


def _values(location: str, store: dict[str, str] | None, fragments: list[str]) -> dict[str, str | None]:
    own = {name.lower(): name for name in _native.Snapshot.open(location, store).info.partition_columns}
    shown, values = "/".join(fragments), dict[str, str | None]()
    for fragment in fragments:
        column, equals, value = fragment.partition("=")
        if not equals:
            raise InvalidArgumentError(
                f"the path is inside of a Delta table, and names no partition of the form column=value: {shown}",
                table=location,
            )
        name = own.get(unquote(column).lower())
        if name is None:
            raise InvalidArgumentError(
                f"the path is inside of a Delta table that isn't partitioned by `{column}`: {shown}", table=location
            )
        values[name] = None if value == _NULL else unquote(value)
    return values
