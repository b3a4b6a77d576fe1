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
    found, wanted = Counter(canonical_rows(actual)), Counter(canonical_rows(expected))
    lost, more = list((wanted - found).elements()), list((found - wanted).elements())
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
        found, wanted = (_sorted([_flat(column) for column in table.columns]) for table in (actual, expected))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return False
    return bool(found.equals(wanted))


def _sorted(columns: list[pa.ChunkedArray]) -> pa.Table:
    table = pa.table(columns, names=[f"c{i}" for i in range(len(columns))])
    return table.take(pc.sort_indices(table, [(name, "ascending") for name in table.column_names]))


def _flat(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column whose values are equal for Arrow exactly if they are for the corpus."""
    of = type_text(column.type)
    if ty.is_nested(column.type) or isinstance(column.type, pa.BaseExtensionType):
        raise pa.ArrowTypeError(of)
    if of in ("string", "binary"):
        return column.cast(pa.large_string() if of == "string" else pa.large_binary())
    if of.startswith("timestamp"):
        return column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    if ty.is_floating(column.type):
        bits = pa.uint32() if of == "float" else pa.uint64()
        parts = [pc.if_else(pc.is_nan(chunk), pa.scalar(float("nan"), chunk.type), chunk) for chunk in column.chunks]
        return pa.chunked_array([part.view(bits) for part in parts], type=bits)
    return column


def type_text(of: pa.DataType) -> str:
    """A type's text, the same for all layouts of one type; integers, floats and decimals keep their
    widths."""
    if isinstance(of, pa.BaseExtensionType):
        return type_text(of.storage_type)
    if ty.is_dictionary(of) or ty.is_run_end_encoded(of):
        return type_text(of.value_type)
    if ty.is_timestamp(of):
        return "timestamp" if of.tz else "timestamp_ntz"
    if ty.is_string(of) or ty.is_large_string(of) or ty.is_string_view(of):
        return "string"
    if _is_binary(of):
        return "binary"
    if ty.is_date(of):
        return "date"
    if ty.is_decimal(of):
        return f"decimal({of.precision}, {of.scale})"
    if is_variant(of):
        return "variant"
    if ty.is_map(of):
        return f"map<{type_text(of.key_type)}, {type_text(of.item_type)}>"
    if _is_list(of):
        return f"list<{type_text(of.value_type)}>"
    if ty.is_struct(of):
        return f"struct<{', '.join(f'{field.name}: {type_text(field.type)}' for field in of)}>"
    return str(of)


def is_variant(of: pa.DataType) -> bool:
    """Whether a struct is a variant: two binary fields of these names."""
    names = {field.name for field in of} if ty.is_struct(of) else set()
    return names == {"metadata", "value"} and of.num_fields == 2 and all(_is_binary(field.type) for field in of)


def _is_binary(of: pa.DataType) -> bool:
    checks = (ty.is_binary, ty.is_large_binary, ty.is_binary_view, ty.is_fixed_size_binary)
    return any(check(of) for check in checks)


def _is_list(of: pa.DataType) -> bool:
    checks = (ty.is_list, ty.is_large_list, ty.is_fixed_size_list, ty.is_list_view, ty.is_large_list_view)
    return any(check(of) for check in checks)


def _values(column: pa.ChunkedArray) -> list[Hashable]:
    of = column.type
    if isinstance(of, pa.BaseExtensionType):
        return _values(pa.chunked_array([chunk.storage for chunk in column.chunks], type=of.storage_type))
    if ty.is_timestamp(of):
        # Numbers have no limit of years; digits that would be lost are an error.
        column = column.cast(pa.timestamp("us", of.tz)).cast(pa.int64())
    elif ty.is_date32(of):
        column = column.cast(pa.int32())
    convert = _convert(column.type)
    return [None if value is None else convert(value) for value in column.to_pylist()]


def _convert(of: pa.DataType) -> Convert:
    """What makes a value of a type comparable and hashable; nulls inside stay nulls."""
    if isinstance(of, pa.BaseExtensionType):
        return _convert(of.storage_type)
    if is_variant(of):
        return lambda value: Variant(value["metadata"], value["value"]).decoded()
    if ty.is_floating(of):
        return _float
    if ty.is_decimal(of):
        return str
    if ty.is_struct(of):
        fields = [(field.name, _or_null(_convert(field.type))) for field in of]
        return lambda value: tuple(convert(value[name]) for name, convert in fields)
    if ty.is_map(of):
        key, item = _or_null(_convert(of.key_type)), _or_null(_convert(of.item_type))
        return lambda value: tuple(sorted(((key(a), item(b)) for a, b in value), key=repr))
    if _is_list(of):
        element = _or_null(_convert(of.value_type))
        return lambda value: tuple(element(one) for one in value)
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
    def _numbers(data: bytes, at: int, count: int, width: int) -> list[int]:
        return [int.from_bytes(data[i : i + width], "little") for i in range(at, at + count * width, width)]

    def _at(self, at: int) -> Hashable:
        kind, head = self.value[at] & 3, self.value[at] >> 2
        if kind == 0:
            return self._primitive(at, head)
        if kind == 1:
            return ("text", self.value[at + 1 : at + 1 + head].decode())
        is_object = kind == 2
        offset_width, is_large = (head & 3) + 1, head >> (4 if is_object else 2) & 1
        count_width = 4 if is_large else 1
        (count,) = self._numbers(self.value, at + 1, 1, count_width)
        at += 1 + count_width
        ids: list[int] = []
        if is_object:
            id_width = (head >> 2 & 3) + 1
            ids = self._numbers(self.value, at, count, id_width)
            at += count * id_width
        offsets = self._numbers(self.value, at, count, offset_width)
        inner = [self._at(at + (count + 1) * offset_width + offset) for offset in offsets]
        if is_object:
            return ("object", tuple(sorted(zip((self.names[i] for i in ids), inner, strict=True), key=repr)))
        return ("array", tuple(inner))

    def _primitive(self, at: int, kind: int) -> Hashable:
        def signed(count: int, start: int = at + 1) -> int:
            return int.from_bytes(self.value[start : start + count], "little", signed=True)

        if kind in _WHOLE:
            return ("number", decimal.Decimal(signed(_WHOLE[kind])))
        if kind in _DECIMAL:
            with decimal.localcontext() as context:
                context.prec = 60
                return ("number", decimal.Decimal(signed(_DECIMAL[kind], at + 2)).scaleb(-self.value[at + 1]))
        if kind in (15, 16):
            (count,) = self._numbers(self.value, at + 1, 1, 4)
            data = self.value[at + 5 : at + 5 + count]
            return ("binary", data) if kind == 15 else ("text", data.decode())
        others: dict[int, Callable[[], Hashable]] = {
            0: lambda: ("null",),
            1: lambda: ("bool", True),
            2: lambda: ("bool", False),
            7: lambda: _float(struct.unpack_from("<d", self.value, at + 1)[0]),
            11: lambda: ("date", signed(4)),
            12: lambda: ("timestamp", signed(8) * 1000),
            13: lambda: ("timestamp_ntz", signed(8) * 1000),
            14: lambda: ("float32", self.value[at + 1 : at + 5]),
            17: lambda: ("time", signed(8)),
            18: lambda: ("timestamp", signed(8)),
            19: lambda: ("timestamp_ntz", signed(8)),
            20: lambda: ("uuid", self.value[at + 1 : at + 17]),
        }
        if kind not in others:
            raise ValueError(f"the variant has a value of the unknown kind {kind}")
        return others[kind]()
