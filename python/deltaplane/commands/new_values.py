"""Converts Python values to the types of a table's columns by Spark's rules, at every depth.

Fields of structs are matched ignoring case; missing fields are null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltaplane import _native
from deltaplane.exceptions import InvalidArgumentError, SchemaMismatchError
from deltaplane.expr.program import compile_expressions
from deltaplane.expr.storing import stores
from deltaplane.expr.types import SparkType, of_json
from deltaplane.expr.values import has_nanoseconds, is_missing

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["constant"]

_MOMENTS = ("date", "timestamp", "timestamp_ntz")


def constant(name: str, value: Any, schema: pa.Schema, path: Sequence[str]) -> pa.Scalar:
    """The constant value of a column or field for every row.

    Raises:
        SchemaMismatchError: the value, or a part of it, is incompatible with the type; the message
            names the part.
    """
    import pyarrow as pa

    field: Any = schema
    for part in path:
        field = field.field(part) if isinstance(field, pa.Schema) else field.type.field(part)
    try:
        if has_nanoseconds(value):
            raise ValueError("it has nanoseconds, which no column of a table holds: round it to microseconds")
        return _array([value], field.type, "")[0]
    except (InvalidArgumentError, pa.ArrowException, TypeError, ValueError, OverflowError) as e:
        raise SchemaMismatchError(
            f"the column `{name}` of type {field.type} doesn't take the value {value!r}: {e}"
        ) from e


def _array(values: Sequence[Any], data_type: pa.DataType, path: str) -> pa.Array:
    """Python values as an array of a column's type; `path` locates them within the whole value."""
    import pyarrow as pa

    values = [None if is_missing(value) else value for value in values]
    if all(value is None for value in values):
        return pa.nulls(len(values), data_type)
    if pa.types.is_struct(data_type):
        return _structs(values, data_type, path)
    if pa.types.is_map(data_type):
        pairs = [None if value is None else _pairs(value, path) for value in values]
        keys = _array([key for row in pairs for key, _ in row or ()], data_type.key_type, f"{path}.key")
        items = _array([item for row in pairs for _, item in row or ()], data_type.item_type, f"{path}.value")
        if keys.null_count:
            raise ValueError(f"{_where(path)}a map has null as a key")
        return pa.MapArray.from_arrays(_offsets(pairs), keys, items, type=data_type)
    if pa.types.is_list(data_type):
        lists = [None if value is None else _list(value, path) for value in values]
        elements = _array([element for row in lists for element in row or ()], data_type.value_type, f"{path}.element")
        return pa.ListArray.from_arrays(_offsets(lists), elements, type=data_type)
    try:
        return _leaves(values, data_type)
    except (InvalidArgumentError, pa.ArrowException, TypeError, ValueError, OverflowError) as e:
        raise ValueError(f"{_where(path)}{e}") from e


def _structs(values: Sequence[Any], struct_type: pa.DataType, path: str) -> pa.Array:
    import pyarrow as pa

    names = {field.name.lower(): field.name for field in struct_type}
    rows = list[dict[str, Any]]()
    for value in values:
        row = dict[str, Any]()
        for key, part in [] if value is None else _pairs(value, path):
            own = names.get(str(key).lower())
            if own is None:
                raise ValueError(
                    f"{_where(path)}the struct has no field `{key}`, its fields are {', '.join(names.values())}"
                )
            if own in row:
                raise ValueError(f"{_where(path)}the field `{own}` has two values")
            row[own] = part
        rows.append(row)
    parts = [_array([row.get(field.name) for row in rows], field.type, f"{path}.{field.name}") for field in struct_type]
    mask = pa.array([value is None for value in values])
    return pa.StructArray.from_arrays(parts, fields=list(struct_type), mask=mask)


def _pairs(value: Any, path: str) -> list[tuple[Any, Any]]:
    """The entries of a mapping, or of a list of pairs."""
    if isinstance(value, Mapping):
        return list(value.items())
    pairs = _list(value, path)
    if not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in pairs):
        raise TypeError(f"{_where(path)}expected a mapping, found {value!r}")
    return [(key, part) for key, part in pairs]


def _list(value: Any, path: str) -> list[Any]:
    if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__iter__"):
        raise TypeError(f"{_where(path)}expected a list, found {value!r}")
    return list(value)


def _offsets(lists: Sequence[Sequence[Any] | None]) -> pa.Array:
    """The offset of each list among all elements, null for a null list; and the end of the last
    one."""
    import pyarrow as pa

    offsets, offset = list[int | None](), 0
    for items in lists:
        offsets.append(None if items is None else offset)
        offset += len(items or ())
    return pa.array([*offsets, offset], pa.int32())


def _leaves(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    """Values of a simple type, including None."""
    import pyarrow as pa

    plain = pa.array(values)
    inferred, to = _spark_type(plain.type), _spark_type(data_type)
    if inferred is None or to is None or not inferred.atomic:
        return pa.array(values, data_type)
    if not stores(inferred, to):
        raise TypeError(f"it is of type {inferred}")
    plainly = (inferred.numeric and to.numeric) or (inferred.name in _MOMENTS and to.name in _MOMENTS)
    if inferred != to and (not plainly or (inferred.integral and to.name == "decimal")):
        return _as_spark(plain, to)
    # Unlike a conversion of Python's values, a cast doesn't truncate values.
    return plain.cast(data_type)


def _as_spark(values: pa.Array, to: SparkType) -> pa.Array:
    """Casts values as Spark does."""
    import pyarrow as pa

    rows = pa.record_batch([values], ["v"])
    (column,) = compile_expressions([f"CAST(v AS {to})"], _native.TableSchema.of_arrow(rows.schema)).evaluate(rows)
    return column


def _spark_type(data_type: pa.DataType) -> SparkType | None:
    import pyarrow as pa

    if pa.types.is_null(data_type):
        return None
    return of_json(_native.TableSchema.of_arrow(pa.schema([("v", data_type)])).fields[0].data_type)


def _where(path: str) -> str:
    return f"at `{path.lstrip('.')}`: " if path else ""
