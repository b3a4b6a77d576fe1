"""Formats a schema's types as Spark shows them, without the metadata that writers store in columns.

Reads no statement.
"""

from __future__ import annotations

from typing import Any

from deltaplane.schema import ArrayType, DataType, MapType, StructType

__all__ = ["type_text", "without_notes"]

_TEXTS = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
# Prefixes and keys of the metadata that writers store in columns.
_NOTED = ("delta.columnMapping.", "delta.identity.highWaterMark")


def type_text(data_type: DataType) -> str:
    """Formats a type as Spark's DESCRIBE does.

    >>> from deltaplane.schema import Field
    >>> type_text(ArrayType(StructType([Field("a", "long"), Field("b", MapType("string", "integer"))])))
    'array<struct<a:bigint,b:map<string,int>>>'
    """
    if isinstance(data_type, ArrayType):
        return f"array<{type_text(data_type.element_type)}>"
    if isinstance(data_type, MapType):
        return f"map<{type_text(data_type.key_type)},{type_text(data_type.value_type)}>"
    if isinstance(data_type, StructType):
        return f"struct<{','.join(f'{f.name}:{type_text(f.type)}' for f in data_type.fields)}>"
    return _TEXTS.get(data_type.type, data_type.type)


def without_notes(node: Any) -> Any:
    """Removes the metadata that writers store in columns from the JSON of a schema, field or type,
    since no DDL statement contains it.

    >>> without_notes({"comment": "c", "delta.columnMapping.id": 1})
    {'comment': 'c'}
    """
    if isinstance(node, list):
        return [without_notes(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {key: without_notes(value) for key, value in node.items() if not key.startswith(_NOTED)}
