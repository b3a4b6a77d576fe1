"""Resolves which names are columns of a table, for parsers of expressions that have no table.

Imports nothing, because every table's API imports it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

__all__ = ["NO_COLUMNS", "Columns", "columns_of"]

# Whether the parts of a name denote a column.
Columns = Callable[[Sequence[str]], bool]


def NO_COLUMNS(parts: Sequence[str]) -> bool:
    """Accepts no name: for conditions on a table that isn't open."""
    return False


def columns_of(schema_json: Callable[[], str], *aliases: str | None) -> Columns:
    """The columns of a schema and their fields, ignoring case, with or without a table's alias.
    Parses the schema at the first name only.

    >>> schema = '{"fields": [{"name": "s", "type": {"type": "struct", "fields": [{"name": "f", "type": "long"}]}}]}'
    >>> known = columns_of(lambda: schema, "t")
    >>> known(["S"]), known(["t", "s", "f"]), known(["s", "g"])
    (True, True, False)
    """
    called = {alias.lower() for alias in aliases if alias is not None}
    fields: list[object] = []

    def known(parts: Sequence[str]) -> bool:
        if not fields:
            fields.append(json.loads(schema_json())["fields"])
        behind = len(parts) > 1 and parts[0].lower() in called and _leads(fields[0], parts[1:])
        return behind or _leads(fields[0], parts)

    return known


def _leads(fields: object, parts: Sequence[str]) -> bool:
    first, *rest = parts
    for field in fields if isinstance(fields, list) else ():
        if field["name"].lower() == first.lower():
            of = field["type"]
            return not rest or (isinstance(of, dict) and _leads(of.get("fields"), rest))
    return False
