"""Column types of a Delta table as plain values, and their JSON and Arrow forms.

The Rust core converts to Arrow; this module defines only names and structure. Doesn't access a
table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from deltaplane import _native
from deltaplane.arguments import checked
from deltaplane.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ArrayType", "DataType", "Field", "MapType", "PrimitiveType", "Schema", "StructType"]

_PRIMITIVES = {
    *("string", "long", "integer", "short", "byte", "float", "double", "boolean", "binary"),
    *("date", "timestamp", "timestamp_ntz", "void", "variant"),
}
_DECIMAL = re.compile(r"decimal\(\s*\d{1,2}\s*,\s*\d{1,2}\s*\)")


def _dumps(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


@checked()
@dataclass(frozen=True)
class PrimitiveType:
    """A primitive type: `long`, `string`, `decimal(10,2)`, `timestamp`, `variant` …

    In Arrow a variant is a struct of the binary fields `metadata` and `value` under the extension
    type `arrow.parquet.variant`; `pyspark.sql.types.VariantVal(value, metadata).toPython()` decodes
    one (P154).

    Raises:
        InvalidArgumentError: no Delta type has this name.

    >>> PrimitiveType("decimal(10,2)").to_json()
    '"decimal(10,2)"'
    """

    type: str

    def __post_init__(self) -> None:
        if self.type not in _PRIMITIVES and not _DECIMAL.fullmatch(self.type):
            raise InvalidArgumentError(
                f"no Delta type is called {self.type!r}: use one of {', '.join(sorted(_PRIMITIVES))} or decimal(p,s)"
            )

    def to_value(self) -> object:
        """The type as a decoded value of the schema's JSON."""
        return self.type

    def to_json(self) -> str:
        """The type as schema JSON text."""
        return _dumps(self.to_value())

    def __repr__(self) -> str:
        return f'PrimitiveType("{self.type}")'


@checked()
@dataclass(frozen=True, init=False)
class ArrayType:
    """A list of elements of one type.

    >>> ArrayType("long", contains_null=False).to_json()
    '{"type":"array","elementType":"long","containsNull":false}'
    """

    element_type: DataType
    contains_null: bool

    def __init__(self, element_type: DataType | str, contains_null: bool = True) -> None:
        object.__setattr__(self, "element_type", _data_type(element_type))
        object.__setattr__(self, "contains_null", contains_null)

    @property
    def type(self) -> str:
        """`"array"`."""
        return "array"

    def to_value(self) -> object:
        """The type as a decoded value of the schema's JSON."""
        return {"type": "array", "elementType": self.element_type.to_value(), "containsNull": self.contains_null}

    def to_json(self) -> str:
        """The type as schema JSON text."""
        return _dumps(self.to_value())


@checked()
@dataclass(frozen=True, init=False)
class MapType:
    """Keys of one type, each with a value of one type.

    >>> MapType("string", "long").value_contains_null
    True
    """

    key_type: DataType
    value_type: DataType
    value_contains_null: bool

    def __init__(self, key_type: DataType | str, value_type: DataType | str, value_contains_null: bool = True) -> None:
        object.__setattr__(self, "key_type", _data_type(key_type))
        object.__setattr__(self, "value_type", _data_type(value_type))
        object.__setattr__(self, "value_contains_null", value_contains_null)

    @property
    def type(self) -> str:
        """`"map"`."""
        return "map"

    def to_value(self) -> object:
        """The type as a decoded value of the schema's JSON."""
        return {
            "type": "map",
            "keyType": self.key_type.to_value(),
            "valueType": self.value_type.to_value(),
            "valueContainsNull": self.value_contains_null,
        }

    def to_json(self) -> str:
        """The type as schema JSON text."""
        return _dumps(self.to_value())


@checked()
@dataclass(frozen=True, init=False)
class Field:
    """A column, or a part of a struct.

    >>> Field("amount", "decimal(10,2)", nullable=False)
    Field(amount, PrimitiveType("decimal(10,2)"), nullable=False)
    """

    name: str
    type: DataType
    nullable: bool
    metadata: dict[str, Any] = field(hash=False)

    def __init__(
        self, name: str, type: DataType | str, nullable: bool = True, metadata: Mapping[str, Any] | None = None
    ) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "type", _data_type(type))
        object.__setattr__(self, "nullable", nullable)
        object.__setattr__(self, "metadata", dict(metadata or {}))

    def to_value(self) -> dict[str, object]:
        """The field as a decoded value of the schema's JSON."""
        return {
            "name": self.name,
            "type": self.type.to_value(),
            "nullable": self.nullable,
            "metadata": self.metadata,
        }

    def to_json(self) -> str:
        """The field as schema JSON text."""
        return _dumps(self.to_value())

    def __repr__(self) -> str:
        return f"Field({self.name}, {self.type!r}, nullable={self.nullable})"


@checked()
@dataclass(frozen=True, init=False)
class StructType:
    """Named fields in order: a struct column, or a whole table (`Schema`)."""

    fields: list[Field] = field(hash=False)

    def __init__(self, fields: Sequence[Field]) -> None:
        object.__setattr__(self, "fields", list(fields))

    @property
    def type(self) -> str:
        """`"struct"`."""
        return "struct"

    def to_value(self) -> object:
        """The type as a decoded value of the schema's JSON."""
        return {"type": "struct", "fields": [f.to_value() for f in self.fields]}

    def to_json(self) -> str:
        """The type as schema JSON text."""
        return _dumps(self.to_value())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.fields!r})"


@checked()
class Schema(StructType):
    """The columns of a table.

    Any Arrow library reads it through the Arrow C data interface; `to_arrow` returns a
    `pyarrow.Schema`.

    >>> schema = Schema([Field("id", "long", nullable=False), Field("tags", ArrayType("string"))])
    >>> schema.to_arrow()
    id: int64 not null
    tags: list<element: string>
      child 0, element: string
    """

    def to_arrow(self) -> pa.Schema:
        """The columns as a `pyarrow.Schema`, in whose types rows are read."""
        import pyarrow as pa

        return pa.schema(self)

    to_pyarrow = to_arrow

    def _repr_html_(self) -> str:
        from deltaplane.io.html import table_html

        rows = [
            (f.name, f.type.to_json().strip('"'), "" if f.nullable else "NOT NULL", f.metadata.get("comment", ""))
            for f in self.fields
        ]
        return table_html(("column", "type", "", "comment"), rows)

    @classmethod
    def from_json(cls, schema_json: str) -> Schema:
        """The schema from schema JSON text, as in a table's metadata.

        Raises:
            InvalidArgumentError: not a schema.

        >>> text = '{"type":"struct","fields":[{"name":"x","type":"integer","nullable":true,"metadata":{}}]}'
        >>> Schema.from_json(text)
        Schema([Field(x, PrimitiveType("integer"), nullable=True)])
        """
        try:
            parsed = _parse(json.loads(schema_json))
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            raise InvalidArgumentError(f"not the JSON of a table schema: {e}") from e
        if not isinstance(parsed, StructType):
            raise InvalidArgumentError(f"a table schema is a struct, not {parsed.type!r}")
        return cls(parsed.fields)

    @classmethod
    def from_arrow(cls, data: Any) -> Schema:
        """The Delta schema that can store every value of an Arrow schema (any object with
        `__arrow_c_schema__`).

        Raises:
            SchemaMismatchError: an Arrow type has no Delta counterpart.

        >>> import pyarrow as pa
        >>> Schema.from_arrow(pa.schema({"n": pa.uint8()})).fields
        [Field(n, PrimitiveType("short"), nullable=True)]
        """
        return cls.from_json(_native.TableSchema.of_arrow(data).to_json())

    def __arrow_c_schema__(self) -> object:
        return _native.TableSchema(self.to_json()).__arrow_c_schema__()


DataType = PrimitiveType | ArrayType | MapType | StructType


def _data_type(value: DataType | str) -> DataType:
    return PrimitiveType(value) if isinstance(value, str) else value


def _parse(value: Any) -> DataType:
    if isinstance(value, str):
        return PrimitiveType(value)
    kind = value["type"]
    if kind == "struct":
        return StructType(
            [Field(f["name"], _parse(f["type"]), f.get("nullable", True), f.get("metadata")) for f in value["fields"]]
        )
    if kind == "array":
        return ArrayType(_parse(value["elementType"]), value["containsNull"])
    if kind == "map":
        return MapType(_parse(value["keyType"]), _parse(value["valueType"]), value["valueContainsNull"])
    raise InvalidArgumentError(f"no Delta type is called {kind!r}")
