"""deltalake's column types."""

from __future__ import annotations

from deltaplane.deltalake._schema_types import (
    ArrayType,
    Field,
    MapType,
    PrimitiveType,
    Schema,
    StructType,
    VariantType,
)

__all__ = ["ArrayType", "Field", "MapType", "PrimitiveType", "Schema", "StructType", "VariantType"]

DataType = PrimitiveType | MapType | StructType | ArrayType | VariantType
