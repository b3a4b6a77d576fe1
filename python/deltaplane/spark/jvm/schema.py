"""Converts Spark schemas to Delta schemas and back: the same JSON, except for metadata that
concerns only one of both.

Internal to `deltaplane.spark`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from deltaplane.exceptions import UnsupportedFeatureError
from deltaplane.spark.jvm.spark_versions import has_variant

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


__all__ = ["LENGTHS", "delta_schema", "delta_schema_json", "quoted", "shown"]

# The metadata key under which Spark stores CHAR and VARCHAR types.
LENGTHS = "__CHAR_VARCHAR_TYPE_STRING"

# Prefixes of field metadata that a frame inherits from its sources. In a Delta schema, such
# metadata would declare features (column mapping, generated or default values) that the written
# table doesn't have, or have no meaning.
_INHERITED_PREFIXES = ("delta.", "__")
# Column metadata that only writers need.
_HIDDEN = ("delta.columnMapping.", "delta.generationExpression", "delta.identity.", "delta.typeChanges")
_INHERITED = frozenset({"CURRENT_DEFAULT", "EXISTS_DEFAULT"})
_VARIANT = "variant"
# The keys of a schema's JSON under which a type may be.
_TYPES = ("type", "elementType", "keyType", "valueType")
_NULLABLE = frozenset({"nullable", "containsNull", "valueContainsNull"})


def delta_schema_json(schema: StructType, *, nullable: bool = False, keeps_lengths: bool = False) -> str:
    """As `delta_schema`, as JSON text."""
    return json.dumps(delta_schema(schema, nullable=nullable, keeps_lengths=keeps_lengths))


def delta_schema(schema: StructType, *, nullable: bool = False, keeps_lengths: bool = False) -> dict[str, Any]:
    """The Delta schema of a frame, with comments, and with nullability unless `nullable` makes all
    of it nullable. `keeps_lengths` keeps CHAR and VARCHAR columns (P102)."""
    original = schema.jsonValue()
    cleaned = _clean(original)
    if keeps_lengths:
        for column, field in zip(original["fields"], cleaned["fields"], strict=True):
            field["metadata"] |= {key: value for key, value in column["metadata"].items() if key == LENGTHS}
    made: dict[str, Any] = _nullable(cleaned) if nullable else cleaned
    return made


def quoted(name: str) -> str:
    """Quotes a column's name for Spark.

    >>> quoted("a.b")
    '`a.b`'
    """
    return "`" + name.replace("`", "``") + "`"


def shown(node: Any) -> Any:
    """The JSON of a schema or type without metadata that only writers need.

    Raises:
        UnsupportedFeatureError: a type that this version of Spark doesn't have.
    """
    if isinstance(node, list):
        return [shown(item) for item in node]
    if not isinstance(node, dict):
        return node
    if not has_variant() and _VARIANT in (node.get(key) for key in _TYPES):
        column = f"the column {node['name']}" if "name" in node else "a nested field"
        raise UnsupportedFeatureError(
            f"{column} is of the type variant, which Spark has from version 4.0: read the table with Spark 4, or with "
            "DeltaTable and deltaplane.sql, which need no Spark"
        )
    return {key: shown(value) for key, value in node.items() if not key.startswith(_HIDDEN)}


def _nullable(node: Any) -> Any:
    """The JSON with everything nullable, at every depth: a query without nulls within a struct
    doesn't promise that the struct itself is never null."""
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
