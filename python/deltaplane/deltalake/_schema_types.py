"""deltalake's classes of column types: their JSON, and their Arrow types as arro3.

The core converts to Arrow. A type is a value of the schema's JSON behind deltalake's attributes.
"""

from __future__ import annotations

import json
import re
import warnings
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from deltaplane import _native
from deltaplane.schema import PrimitiveType as _Checked

if TYPE_CHECKING:
    from arro3.core import DataType as ArrowType
    from arro3.core import Field as ArrowField
    from arro3.core import Schema as ArrowSchema

T = TypeVar("T")

_DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)")


def _dumps(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _value(text: str) -> Any:
    """What a text in JSON holds: schemas and metadata cross deltalake's API as such texts."""
    return json.loads(text)


class _Type:
    """A type: equal to others of its class with the same JSON."""

    _kind = ""

    def to_value(self) -> Any:
        """The type as a decoded value of the schema's JSON; each subclass has its own."""
        raise NotImplementedError

    @property
    def type(self) -> str:
        """The kind of type, or a primitive type's name."""
        return self._kind

    def to_json(self) -> str:
        """The type as JSON text."""
        return _dumps(self.to_value())

    def to_arrow(self) -> ArrowType:
        """The Arrow type, as arro3's."""
        return Field("x", _data_type(self)).to_arrow().type

    def __arrow_c_schema__(self) -> object:
        return self.to_arrow().__arrow_c_schema__()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return bool(self.to_value() == other.to_value())

    # Objects that can change have no hash; mypy takes the assignment for one of another type.
    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return _of_json, (self.to_json(),)


class PrimitiveType(_Type):
    """A primitive type by its name, such as `long` or `decimal(10,2)`.

    >>> PrimitiveType("long")
    PrimitiveType("long")
    """

    def __init__(self, data_type: str) -> None:
        decimal = _DECIMAL.fullmatch(data_type.replace(" ", ""))
        if decimal is not None and (int(decimal[1]) > 38 or int(decimal[2]) > 38):
            raise ValueError(f"invalid type string: {data_type}, precision/scale can't be larger than 38")
        try:
            _Checked(data_type)
        except ValueError:
            more = ", precision/scale can't be larger than 38" if data_type.startswith("decimal") else ""
            raise ValueError(f"invalid type string: {data_type}{more}") from None
        self._name = data_type

    @property
    def type(self) -> str:
        """The name."""
        return self._name

    def to_value(self) -> Any:
        """The name."""
        return self._name

    @staticmethod
    def from_json(type_json: str) -> PrimitiveType:
        """The type of a JSON text."""
        return _of_class(PrimitiveType, _of_json(type_json), "Type is not primitive")

    @staticmethod
    def from_arrow(data_type: Any) -> PrimitiveType:
        """The type for an Arrow type."""
        return _of_class(PrimitiveType, _of_arrow(data_type), "Type is not primitive")

    def __repr__(self) -> str:
        return f'PrimitiveType("{self._name}")'


class VariantType(_Type):
    """A variant: any value with its type.

    >>> VariantType().to_json()
    '"variant"'
    """

    _kind: Literal["variant"] = "variant"

    def to_value(self) -> Any:
        """`variant`."""
        return "variant"

    @staticmethod
    def from_json(type_json: str) -> VariantType:
        """The type of a JSON text."""
        return _of_class(VariantType, _of_json(type_json), "Type is not variant")

    @staticmethod
    def from_arrow(data_type: Any) -> VariantType:
        """The type for an Arrow type."""
        return _of_class(VariantType, _of_arrow(data_type), "Type is not variant")

    def __repr__(self) -> str:
        return "VariantType()"


class ArrayType(_Type):
    """A list of elements of one type.

    >>> ArrayType("long")
    ArrayType(PrimitiveType("long"), contains_null=True)
    """

    _kind: Literal["array"] = "array"

    def __init__(self, element_type: DataType | str, contains_null: bool = True) -> None:
        self._element, self._contains_null = _data_type(element_type), contains_null

    @property
    def element_type(self) -> DataType:
        """The type of the elements."""
        return self._element

    @property
    def contains_null(self) -> bool:
        """Whether elements may be null."""
        return self._contains_null

    def to_value(self) -> Any:
        """The type as a decoded value of the schema's JSON."""
        return {"type": "array", "elementType": self._element.to_value(), "containsNull": self._contains_null}

    @staticmethod
    def from_json(type_json: str) -> ArrayType:
        """The type of a JSON text."""
        return _of_class(ArrayType, _of_json(type_json), "Type is not an array")

    @staticmethod
    def from_arrow(data_type: Any) -> ArrayType:
        """The type for an Arrow type."""
        return _of_class(ArrayType, _of_arrow(data_type), "Type is not an array")

    def __repr__(self) -> str:
        return f"ArrayType({self._element!r}, contains_null={self._contains_null})"


class MapType(_Type):
    """Keys of one type, each with a value of one type."""

    _kind: Literal["map"] = "map"

    def __init__(self, key_type: DataType | str, value_type: DataType | str, value_contains_null: bool = True) -> None:
        self._key, self._value = _data_type(key_type), _data_type(value_type)
        self._value_contains_null = value_contains_null

    @property
    def key_type(self) -> DataType:
        """The type of the keys."""
        return self._key

    @property
    def value_type(self) -> DataType:
        """The type of the values."""
        return self._value

    @property
    def value_contains_null(self) -> bool:
        """Whether values may be null."""
        return self._value_contains_null

    def to_value(self) -> Any:
        """The type as a decoded value of the schema's JSON."""
        return {
            "type": "map",
            "keyType": self._key.to_value(),
            "valueType": self._value.to_value(),
            "valueContainsNull": self._value_contains_null,
        }

    @staticmethod
    def from_json(type_json: str) -> MapType:
        """The type of a JSON text."""
        return _of_class(MapType, _of_json(type_json), "Type is not a map")

    @staticmethod
    def from_arrow(data_type: Any) -> MapType:
        """The type for an Arrow type."""
        return _of_class(MapType, _of_arrow(data_type), "Type is not a map")

    def __repr__(self) -> str:
        return f"MapType({self._key!r}, {self._value!r}, value_contains_null={self._value_contains_null})"


class Field:
    """A column, or a part of a struct. Metadata other than texts and whole numbers become their
    JSON
    text.

    >>> Field("x", "integer", metadata={"note": {"y": 3}}).metadata
    {'note': '{"y":3}'}
    """

    def __init__(
        self, name: str, type: DataType | str, nullable: bool = True, metadata: dict[str, Any] | None = None
    ) -> None:
        self._name, self._type, self._nullable = name, _data_type(type), nullable
        values = _value(json.dumps(metadata or {}))
        self._metadata = {key: _metadata_value(value) for key, value in values.items()}

    @property
    def name(self) -> str:
        """The name."""
        return self._name

    @property
    def type(self) -> DataType:
        """The type."""
        return self._type

    @property
    def nullable(self) -> bool:
        """Whether values may be null."""
        return self._nullable

    @property
    def metadata(self) -> dict[str, Any]:
        """A copy of the metadata."""
        return dict(self._metadata)

    def to_value(self) -> dict[str, Any]:
        """The field as a decoded value of the schema's JSON."""
        kind = self._type.to_value()
        return {"name": self._name, "type": kind, "nullable": self._nullable, "metadata": self._metadata}

    def to_json(self) -> str:
        """The field as JSON text."""
        return _dumps(self.to_value())

    @staticmethod
    def from_json(field_json: str) -> Field:
        """The field of a JSON text."""
        try:
            return _field(_value(field_json))
        except (ValueError, KeyError, TypeError) as e:
            raise ValueError(f"not the JSON of a field: {e}") from None

    def to_arrow(self) -> ArrowField:
        """The Arrow field, as arro3's."""
        return Schema([self]).to_arrow().field(0)

    @staticmethod
    def from_arrow(field: Any) -> Field:
        """The field for an Arrow field."""
        import arro3.core

        return Schema.from_arrow(arro3.core.Schema([arro3.core.Field.from_arrow(field)])).fields[0]

    def __arrow_c_schema__(self) -> object:
        return self.to_arrow().__arrow_c_schema__()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Field):
            return NotImplemented
        return self.to_value() == other.to_value()

    # Objects that can change have no hash; mypy takes the assignment for one of another type.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        metadata = f", metadata={self._metadata!r}" if self._metadata else ""
        return f"Field({self._name}, {self._type!r}, nullable={self._nullable}{metadata})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Field.from_json, (self.to_json(),)


class StructType(_Type):
    """Named fields in order."""

    _kind: Literal["struct"] = "struct"

    def __init__(self, fields: list[Field]) -> None:
        self._fields = list(fields)

    @property
    def fields(self) -> list[Field]:
        """A copy of the list of fields."""
        return list(self._fields)

    def to_value(self) -> Any:
        """The type as a decoded value of the schema's JSON."""
        return {"type": "struct", "fields": [field.to_value() for field in self._fields]}

    @staticmethod
    def from_json(type_json: str) -> StructType:
        """The type of a JSON text."""
        return _of_class(StructType, _of_json(type_json), "Type is not a struct")

    @staticmethod
    def from_arrow(data_type: Any) -> StructType:
        """The type for an Arrow type."""
        return _of_class(StructType, _of_arrow(data_type), "Type is not a struct")

    def __repr__(self) -> str:
        return f"StructType({self._fields!r})"


class Schema(StructType):
    """The columns of a table.

    >>> Schema([Field("x", "integer")]).to_json()
    '{"type":"struct","fields":[{"name":"x","type":"integer","nullable":true,"metadata":{}}]}'
    """

    @property
    def invariants(self) -> list[tuple[str, str]]:
        """Path and condition of each column with an invariant."""
        invariants = [(field.name, field.metadata.get("delta.invariants")) for field in self._fields]
        return [(name, _value(text)["expression"]["expression"]) for name, text in invariants if text]

    @staticmethod
    def from_json(schema_json: str) -> Schema:
        """The schema of a JSON text."""
        return Schema(StructType.from_json(schema_json).fields)

    def json(self) -> dict[str, Any]:
        """The schema as a decoded value: deprecated in deltalake, which has `to_json`."""
        warnings.warn(
            "Schema.json() is deprecated. Use json.loads(Schema.to_json()) instead.", DeprecationWarning, stacklevel=2
        )
        value: dict[str, Any] = self.to_value()
        return value

    # deltalake gives a schema where its base class gives a type.
    def to_arrow(self, as_large_types: bool = False) -> ArrowSchema:  # type: ignore[override]
        """The columns as arro3's schema; `as_large_types`: with 64-bit offsets."""
        import arro3.core

        if not as_large_types:
            return arro3.core.Schema.from_arrow(_native.TableSchema(self.to_json()))
        import pyarrow as pa

        from deltaplane.table.arrow_dataset import with_large_types

        return arro3.core.Schema.from_arrow(with_large_types(pa.schema(self)))

    @staticmethod
    def from_arrow(data_type: Any) -> Schema:
        """The schema for an Arrow schema."""
        if isinstance(data_type, Schema):
            return data_type
        return Schema.from_json(_native.TableSchema.of_arrow(data_type).to_json())

    def __arrow_c_schema__(self) -> object:
        return _native.TableSchema(self.to_json()).__arrow_c_schema__()

    def __repr__(self) -> str:
        return f"Schema({self._fields!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Schema.from_json, (self.to_json(),)


DataType: TypeAlias = PrimitiveType | MapType | StructType | ArrayType | VariantType


def _metadata_value(value: Any) -> Any:
    is_kept = isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))
    return value if is_kept else _dumps(value)


def _data_type(value: Any) -> DataType:
    if isinstance(value, str):
        return PrimitiveType(value)
    if not isinstance(value, _Type):
        raise ValueError("Invalid data type")
    # Every subclass of `_Type` that can be made is a `DataType`.
    return value  # type: ignore[return-value]


def _field(value: Any) -> Field:
    return Field(value["name"], _parsed(value["type"]), value.get("nullable", True), value.get("metadata"))


def _parsed(value: Any) -> DataType:
    if value == "variant":
        return VariantType()
    if isinstance(value, str):
        return PrimitiveType(value)
    kind = value["type"]
    if kind == "struct":
        return StructType([_field(field) for field in value["fields"]])
    if kind == "array":
        return ArrayType(_parsed(value["elementType"]), value["containsNull"])
    if kind == "map":
        return MapType(_parsed(value["keyType"]), _parsed(value["valueType"]), value["valueContainsNull"])
    raise ValueError(f"no Delta type is called {kind!r}")


def _of_json(text: str) -> DataType:
    try:
        return _parsed(_value(text))
    except (ValueError, KeyError, TypeError) as e:
        raise ValueError(f"not the JSON of a type: {e}") from None


def _of_arrow(data_type: Any) -> DataType:
    import arro3.core

    kind = arro3.core.DataType.from_arrow(data_type)
    return Schema.from_arrow(arro3.core.Schema([arro3.core.Field("x", kind, nullable=True)])).fields[0].type


def _of_class(wanted: type[T], value: DataType, problem: str) -> T:
    if not isinstance(value, wanted):
        raise TypeError(problem)
    return value
