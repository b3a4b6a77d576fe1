"""Spark schemas as Delta schemas and back: the same JSON, apart from metadata that only one of them
should see.

Called within `deltaplane.spark`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


__all__ = ["LENGTHS", "delta_schema", "delta_schema_json", "quoted", "shown"]

# The key under which Spark notes a type with lengths of texts.
LENGTHS = "__CHAR_VARCHAR_TYPE_STRING"

# Field metadata that a frame inherits from where its columns came from. In a Delta schema these
# would declare features (column mapping, generated or default values) that the table to be written
# doesn't have, or mean nothing.
_INHERITED_PREFIXES = ("delta.", "__")
# What only writers need to know of a column.
_HIDDEN = ("delta.columnMapping.", "delta.generationExpression", "delta.identity.", "delta.typeChanges")
_INHERITED = frozenset({"CURRENT_DEFAULT", "EXISTS_DEFAULT"})
_NULLABLE = frozenset({"nullable", "containsNull", "valueContainsNull"})


def delta_schema_json(schema: StructType, *, nullable: bool = False, keeps_lengths: bool = False) -> str:
    """As `delta_schema`, as JSON text."""
    return json.dumps(delta_schema(schema, nullable=nullable, keeps_lengths=keeps_lengths))


def delta_schema(schema: StructType, *, nullable: bool = False, keeps_lengths: bool = False) -> dict[str, Any]:
    """The Delta schema of a frame's columns, comments kept, and nullability unless all are to be
    `nullable`, at every depth. `keeps_lengths`: columns of CHAR and VARCHAR stay such ones
    (P102)."""
    given = schema.jsonValue()
    found = _clean(given)
    if keeps_lengths:
        for column, field in zip(given["fields"], found["fields"], strict=True):
            field["metadata"] |= {key: value for key, value in column["metadata"].items() if key == LENGTHS}
    made: dict[str, Any] = _nullable(found) if nullable else found
    return made


def quoted(name: str) -> str:
    """A column's name for Spark, whatever characters are in it.

    >>> quoted("a.b")
    '`a.b`'
    """
    return "`" + name.replace("`", "``") + "`"


def shown(node: Any) -> Any:
    """A schema's or type's JSON without what only writers need to know."""
    if isinstance(node, list):
        return [shown(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {key: shown(value) for key, value in node.items() if not key.startswith(_HIDDEN)}


def _nullable(node: Any) -> Any:
    """The same where everything may be null, at every depth: that a query gives no null within a
    struct says nothing of the struct itself, which then couldn't be null either."""
    if isinstance(node, list):
        return [_nullable(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: True if key in _NULLABLE else value if key == "metadata" else _nullable(value)
        for key, value in node.items()
    }


def _clean(node: Any) -> Any:
    if isinstance(node, list):
        return [_clean(item) for item in node]
    if not isinstance(node, dict):
        return node
    if node.get("type") == "udt":
        return _clean(node["sqlType"])
    cleaned = {key: _clean(value) for key, value in node.items() if key != "metadata"}
    if "metadata" in node:
        cleaned["metadata"] = {
            key: value
            for key, value in node["metadata"].items()
            if key not in _INHERITED and not key.startswith(_INHERITED_PREFIXES)
        }
    return cleaned
