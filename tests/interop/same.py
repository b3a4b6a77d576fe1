"""Equality of rows between engines: exact names, types and values, in any order of rows.

Widths, zones, precisions and the sign of zero count; Arrow's layouts of one type, nullability and
field metadata don't. Uses no engine.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Hashable
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.types as t

_EPOCH = datetime(1970, 1, 1)
_NAN = "NaN"


def assert_same(actual: pa.Table, expected: pa.Table) -> None:
    """Fails with the differing columns or rows."""
    assert columns(actual) == columns(expected), f"columns {columns(actual)}, expected {columns(expected)}"
    counted, wanted = Counter(rows(actual)), Counter(rows(expected))
    missing, extra = list((wanted - counted).elements()), list((counted - wanted).elements())
    assert missing + extra == [], f"missing {missing[:3]}, extra {extra[:3]} of {expected.num_rows} expected"


def columns(table: pa.Table) -> list[str]:
    """Each column as `name: type`, the same text for every layout of a type."""
    return [f"{f.name}: {type_text(f.type)}" for f in table.schema]


def type_text(kind: pa.DataType) -> str:
    """A type without its Arrow layout. A timestamp of another unit than microseconds shows it."""
    if t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind):
        return "string"
    if t.is_binary(kind) or t.is_large_binary(kind) or t.is_binary_view(kind):
        return "binary"
    if t.is_dictionary(kind):
        return type_text(kind.value_type)
    if t.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if t.is_timestamp(kind):
        return ("timestamp" if kind.tz else "timestamp_ntz") + ("" if kind.unit == "us" else f"[{kind.unit}]")
    if t.is_struct(kind):
        return "struct<" + ", ".join(f"{f.name}: {type_text(f.type)}" for f in kind) + ">"
    if t.is_map(kind):
        return f"map<{type_text(kind.key_type)}, {type_text(kind.item_type)}>"
    if t.is_list(kind) or t.is_large_list(kind) or t.is_list_view(kind) or t.is_large_list_view(kind):
        return f"list<{type_text(kind.value_type)}>"
    return str(kind)


def rows(table: pa.Table) -> list[tuple[Hashable, ...]]:
    """Every row as values that are equal exactly if the engines' values are."""
    values = [[_value(f.type)(v) for v in c.to_pylist()] for f, c in zip(table.schema, table.columns, strict=True)]
    return list(zip(*values, strict=True)) if values else [()] * table.num_rows


def _value(kind: pa.DataType) -> Callable[[Any], Hashable]:
    plain = _plain(kind)
    return lambda v: None if v is None else plain(v)


def _plain(kind: pa.DataType) -> Callable[[Any], Hashable]:
    if t.is_floating(kind):
        return lambda v: _NAN if v != v else struct.pack(">d", v)
    if t.is_decimal(kind):
        return str
    if t.is_timestamp(kind):
        return lambda v: (v.replace(tzinfo=None) - _EPOCH) // timedelta(microseconds=1)
    if t.is_struct(kind):
        fields = [(f.name, _value(f.type)) for f in kind]
        return lambda v: tuple(convert(v[name]) for name, convert in fields)
    if t.is_map(kind):
        key, item = _value(kind.key_type), _value(kind.item_type)
        return lambda v: frozenset((key(k), item(i)) for k, i in v)
    if t.is_nested(kind):
        element = _value(kind.value_type)
        return lambda v: tuple(element(e) for e in v)
    return lambda v: v
