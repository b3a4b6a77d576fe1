"""Resolves which names are columns of a table, for parsers of expressions that have no table.

Imports nothing, because every table's API imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deltaplane._native import TableSchema

__all__ = ["NO_COLUMNS", "Columns", "columns_of"]

# Whether the parts of a name denote a column.
Columns = Callable[[Sequence[str]], bool]


def NO_COLUMNS(parts: Sequence[str]) -> bool:
    """Accepts no name: for conditions on a table that isn't open."""
    return False


def columns_of(schema: Callable[[], TableSchema], *aliases: str | None) -> Columns:
    """The columns of a schema and their fields, ignoring case, with or without a table's alias.
    Asks for the schema at the first name only.

    >>> import pyarrow as pa
    >>> from deltaplane import _native
    >>> schema = _native.TableSchema.of_arrow(pa.schema([("s", pa.struct([("f", pa.int64())]))]))
    >>> known = columns_of(lambda: schema, "t")
    >>> known(["S"]), known(["t", "s", "f"]), known(["s", "g"])
    (True, True, False)
    """
    called = {alias.lower() for alias in aliases if alias is not None}
    fields: list[object] = []

    def known(parts: Sequence[str]) -> bool:
        if not fields:
            fields.append(schema().to_value()["fields"])
        behind = len(parts) > 1 and parts[0].lower() in called and _leads(fields[0], parts[1:])
        return behind or _leads(fields[0], parts)

    return known


def _leads(fields: object, parts: Sequence[str]) -> bool:
    first, *rest = parts
    for field in fields if isinstance(fields, list) else ():
        if field["name"].lower() == first.lower():
            field_type = field["type"]
            return not rest or (isinstance(field_type, dict) and _leads(field_type.get("fields"), rest))
    return False
