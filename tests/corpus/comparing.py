"""Owns what equal tables are for the corpus: names and types in order, rows as a multiset, values
exactly.

Text and bytes have one type each whatever Arrow's layout, timestamps are microseconds, -0.0 isn't
0.0, variants are compared by their values. Knows no table.
"""

from __future__ import annotations

import decimal
import struct
from collections import Counter
from collections.abc import Callable, Hashable
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as ty

Convert = Callable[[Any], Hashable]
_NAN = ("float", "nan")
_SHOWN = 3
# A variant's kinds → their bytes, of whole numbers and of decimals' digits.
_WHOLE = {3: 1, 4: 2, 5: 4, 6: 8}
_DECIMAL = {8: 4, 9: 8, 10: 16}


def compare(actual: pa.Table, expected: pa.Table) -> str:
    """What differs, or an empty text."""
    names = [[f"{f.name}: {type_text(f.type)}" for f in table.schema] for table in (actual, expected)]
    if names[0] != names[1]:
        return f"the columns are {names[0]}, expected {names[1]}"
    if _are_same(actual, expected):
        return ""
    actual_rows, wanted = Counter(canonical_rows(actual)), Counter(canonical_rows(expected))
    lost, more = list((wanted - actual_rows).elements()), list((actual_rows - wanted).elements())
    if actual.num_rows == expected.num_rows and not lost and not more:
        return ""
    shown = [[repr(row)[:300] for row in part[:_SHOWN]] for part in (lost, more)]
    return (
        f"{actual.num_rows} rows, expected {expected.num_rows}: "
        f"{len(lost)} are missing, such as {shown[0]}, {len(more)} are too many, such as {shown[1]}"
    )


def canonical_rows(table: pa.Table) -> list[tuple[Hashable, ...]]:
    """Each row as values that are equal exactly if the rows are."""
    columns = [_values(column) for column in table.columns]
    return list(zip(*columns, strict=True))


def _are_same(actual: pa.Table, expected: pa.Table) -> bool:
    """Whether tables without nested columns are equal, by Arrow alone: quicker than row by row.
    False where it can't tell."""
    try:
        columns, wanted = (_sorted([_flat(column) for column in table.columns]) for table in (actual, expected))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return False
    return bool(columns.equals(wanted))


def _sorted(columns: list[pa.ChunkedArray]) -> pa.Table:
    table = pa.table(columns, names=[f"c{i}" for i in range(len(columns))])
    return table.take(pc.sort_indices(table, [(name, "ascending") for name in table.column_names]))


def _flat(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column whose values are equal for Arrow exactly if they are for the corpus."""
    name = type_text(column.type)
    if ty.is_nested(column.type) or isinstance(column.type, pa.BaseExtensionType):
        raise pa.ArrowTypeError(name)
    if name in ("string", "binary"):
        return column.cast(pa.large_string() if name == "string" else pa.large_binary())
    if name.startswith("timestamp"):
        return column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    if ty.is_floating(column.type):
        bits = pa.uint32() if name == "float" else pa.uint64()
        parts = [pc.if_else(pc.is_nan(chunk), pa.scalar(float("nan"), chunk.type), chunk) for chunk in column.chunks]
        return pa.chunked_array([part.view(bits) for part in parts], type=bits)
    return column


def type_text(data_type: pa.DataType) -> str:
    """A type's text, the same for all layouts of one type; integers, floats and decimals keep their
    widths."""
    if isinstance(data_type, pa.BaseExtensionType):
        return type_text(data_type.storage_type)
    if ty.is_dictionary(data_type) or ty.is_run_end_encoded(data_type):
        return type_text(data_type.value_type)
    if ty.is_timestamp(data_type):
        return "timestamp" if data_type.tz else "timestamp_ntz"
    if ty.is_string(data_type) or ty.is_large_string(data_type) or ty.is_string_view(data_type):
        return "string"
    if _is_binary(data_type):
        return "binary"
    if ty.is_date(data_type):
        return "date"
    if ty.is_decimal(data_type):
        return f"decimal({data_type.precision}, {data_type.scale})"
    if is_variant(data_type):
        return "variant"
    if ty.is_map(data_type):
        return f"map<{type_text(data_type.key_type)}, {type_text(data_type.item_type)}>"
    if _is_list(data_type):
        return f"list<{type_text(data_type.value_type)}>"
    if ty.is_struct(data_type):
        return f"struct<{', '.join(f'{field.name}: {type_text(field.type)}' for field in data_type)}>"
    return str(data_type)


def is_variant(data_type: pa.DataType) -> bool:
    """Whether a struct is a variant: two binary fields of these names."""
    names = {field.name for field in data_type} if ty.is_struct(data_type) else set()
    return (
        names == {"metadata", "value"}
        and data_type.num_fields == 2
        and all(_is_binary(field.type) for field in data_type)
    )


def _is_binary(data_type: pa.DataType) -> bool:
    checks = (ty.is_binary, ty.is_large_binary, ty.is_binary_view, ty.is_fixed_size_binary)
    return any(check(data_type) for check in checks)


def _is_list(data_type: pa.DataType) -> bool:
    checks = (ty.is_list, ty.is_large_list, ty.is_fixed_size_list, ty.is_list_view, ty.is_large_list_view)
    return any(check(data_type) for check in checks)


def _values(column: pa.ChunkedArray) -> list[Hashable]:
    data_type = column.type
    if isinstance(data_type, pa.BaseExtensionType):
        return _values(pa.chunked_array([chunk.storage for chunk in column.chunks], type=data_type.storage_type))
    if ty.is_timestamp(data_type):
        # Numbers have no limit of years; digits that would be lost are an error.
        column = column.cast(pa.timestamp("us", data_type.tz)).cast(pa.int64())
    elif ty.is_date32(data_type):
        column = column.cast(pa.int32())
    convert = _convert(column.type)
    return [None if value is None else convert(value) for value in column.to_pylist()]


def _convert(data_type: pa.DataType) -> Convert:
    """What makes a value of a type comparable and hashable; nulls inside stay nulls."""
    if isinstance(data_type, pa.BaseExtensionType):
        return _convert(data_type.storage_type)
    if is_variant(data_type):
        return lambda value: Variant(value["metadata"], value["value"]).decoded()
    if ty.is_floating(data_type):
        return _float
    if ty.is_decimal(data_type):
        return str
    if ty.is_struct(data_type):
        fields = [(field.name, _or_null(_convert(field.type))) for field in data_type]
        return lambda value: tuple(convert(value[name]) for name, convert in fields)
    if ty.is_map(data_type):
        key, item = _or_null(_convert(data_type.key_type)), _or_null(_convert(data_type.item_type))
        return lambda value: tuple(sorted(((key(a), item(b)) for a, b in value), key=repr))
    if _is_list(data_type):
        element = _or_null(_convert(data_type.value_type))
        return lambda value: tuple(element(item) for item in value)
    return lambda value: value


def _or_null(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _float(value: float) -> Hashable:
    return _NAN if value != value else ("float", struct.pack(">d", value))


class Variant:
    """A variant's bytes: numbers by their value, objects without the order of their keys."""

    def __init__(self, metadata: bytes, value: bytes) -> None:
        self.value = value
        width = (metadata[0] >> 6) + 1
        count = int.from_bytes(metadata[1 : 1 + width], "little")
        ends = self._numbers(metadata, 1 + width, count + 1, width)
        names = metadata[1 + width + (count + 1) * width :]
        self.names = [names[a:b].decode() for a, b in pairwise(ends)]

    def decoded(self) -> Hashable:
        return self._at(0)

    @staticmethod
    def _numbers(data: bytes, offset: int, count: int, width: int) -> list[int]:
        return [int.from_bytes(data[i : i + width], "little") for i in range(offset, offset + count * width, width)]

    def _at(self, start: int) -> Hashable:
        kind, head = self.value[start] & 3, self.value[start] >> 2
        if kind == 0:
            return self._primitive(start, head)
        if kind == 1:
            return ("text", self.value[start + 1 : start + 1 + head].decode())
        is_object = kind == 2
        offset_width, is_large = (head & 3) + 1, head >> (4 if is_object else 2) & 1
        count_width = 4 if is_large else 1
        (count,) = self._numbers(self.value, start + 1, 1, count_width)
        start += 1 + count_width
        ids: list[int] = []
        if is_object:
            id_width = (head >> 2 & 3) + 1
            ids = self._numbers(self.value, start, count, id_width)
            start += count * id_width
        offsets = self._numbers(self.value, start, count, offset_width)
        inner = [self._at(start + (count + 1) * offset_width + offset) for offset in offsets]
        if is_object:
            return ("object", tuple(sorted(zip((self.names[i] for i in ids), inner, strict=True), key=repr)))
        return ("array", tuple(inner))

    def _primitive(self, offset: int, kind: int) -> Hashable:
        def signed(count: int, start: int = offset + 1) -> int:
            return int.from_bytes(self.value[start : start + count], "little", signed=True)

        if kind in _WHOLE:
            return ("number", decimal.Decimal(signed(_WHOLE[kind])))
        if kind in _DECIMAL:
            with decimal.localcontext() as context:
                context.prec = 60
                return ("number", decimal.Decimal(signed(_DECIMAL[kind], offset + 2)).scaleb(-self.value[offset + 1]))
        if kind in (15, 16):
            (count,) = self._numbers(self.value, offset + 1, 1, 4)
            data = self.value[offset + 5 : offset + 5 + count]
            return ("binary", data) if kind == 15 else ("text", data.decode())
        others: dict[int, Callable[[], Hashable]] = {
            0: lambda: ("null",),
            1: lambda: ("bool", True),
            2: lambda: ("bool", False),
            7: lambda: _float(struct.unpack_from("<d", self.value, offset + 1)[0]),
            11: lambda: ("date", signed(4)),
            12: lambda: ("timestamp", signed(8) * 1000),
            13: lambda: ("timestamp_ntz", signed(8) * 1000),
            14: lambda: ("float32", self.value[offset + 1 : offset + 5]),
            17: lambda: ("time", signed(8)),
            18: lambda: ("timestamp", signed(8)),
            19: lambda: ("timestamp_ntz", signed(8)),
            20: lambda: ("uuid", self.value[offset + 1 : offset + 17]),
        }
        if kind not in others:
            raise ValueError(f"the variant has a value of the unknown kind {kind}")
        return others[kind]()
