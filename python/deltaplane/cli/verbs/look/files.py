"""`deltaplane files`: lists the data files.

Uses the public API only.
"""

from __future__ import annotations

from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, Limit, Location, StoreOptions, Version, Where, open_table

__all__ = ["files"]

EXAMPLES = ("deltaplane files /data/orders --where \"day = DATE '2024-01-31'\"",)


def files(
    location: Location,
    version: Version = None,
    option: StoreOptions = None,
    where: Where = None,
    limit: Limit = None,
    json: AsJson = False,
) -> None:
    """Lists the data files, or those that can have rows that match a condition."""
    table = open_table(location, version, option)
    actions = table._files()
    shown = [name for name in ("path", "size_bytes", "num_records", "partition") if name in actions.column_names]
    rows = actions.select(shown).to_pylist()
    if where is not None:
        matching = set(table.files(where))
        rows = [row for row in rows if row["path"] in matching]
    render.files(rows[:limit], len(rows), as_json=json)
