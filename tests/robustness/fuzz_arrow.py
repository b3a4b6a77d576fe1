"""Random Arrow data: every type in every layout (dictionary, view, run-end, sliced,
null-with-values), valid and damaged.

`case` writes a table of random data and reads it back; the result must equal the input, or be a
typed error if a type is unsupported or the data was damaged.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import deltaplane as dp
from deltaplane.exceptions import DeltaError, InternalError

Values = list[Any]

_EXACT = decimal.Context(prec=80)
_EPOCH = dt.datetime(1970, 1, 1)
_TEXTS = ["", "a", "ä🦆", "exactly 12 by", "a text that is too long to stand in a view by itself", "\x00", "x" * 70]


def expect(holds: object, text: str) -> None:
    """Fails a case."""
    if not holds:
        raise AssertionError(text)


def _integer(low: int, high: int) -> Callable[[random.Random], int]:
    return lambda r: r.choice([low, high, 0, r.randint(low, high)])


def _float(r: random.Random) -> float:
    return r.choice([0.0, -0.0, 1.5, -2.25, math.nan, math.inf, -math.inf, float(r.randint(-1000, 1000))])


def _text(r: random.Random) -> str:
    return r.choice(_TEXTS)


def _bytes(r: random.Random) -> bytes:
    return r.choice([b"", b"\xff\x00", b"plain", bytes(range(40))])


def _moment(r: random.Random) -> dt.datetime:
    return _EPOCH + dt.timedelta(seconds=r.randint(-(10**9), 10**9))


def _utc(r: random.Random) -> dt.datetime:
    return _moment(r).replace(tzinfo=dt.timezone.utc)


def _day(r: random.Random) -> dt.date:
    return r.choice([dt.date(1, 1, 1), dt.date(9999, 12, 31), _moment(r).date()])


def _decimal(digits: int, scale: int) -> Callable[[random.Random], decimal.Decimal]:
    top = 10**digits - 1
    return lambda r: decimal.Decimal(r.choice([0, top, -top, r.randint(-top, top)])).scaleb(-scale, _EXACT)


_PRIMITIVES: list[tuple[pa.DataType, Callable[[random.Random], Any]]] = [
    (pa.bool_(), lambda r: r.random() < 0.5),
    *(
        (t, _integer(-(2 ** (t.bit_width - 1)), 2 ** (t.bit_width - 1) - 1))
        for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64())
    ),
    *((t, _integer(0, 2**t.bit_width - 1)) for t in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())),
    (pa.float32(), _float),
    (pa.float64(), _float),
    *((t, _text) for t in (pa.string(), pa.large_string(), pa.string_view())),
    *((t, _bytes) for t in (pa.binary(), pa.large_binary(), pa.binary_view())),
    (pa.binary(3), lambda r: r.choice([b"abc", b"\xff\x00\x01"])),
    (pa.date32(), _day),
    (pa.date64(), _day),
    *((pa.timestamp(unit), _moment) for unit in ("s", "ms", "us", "ns")),
    *(
        (pa.timestamp(unit, zone), _utc)
        for unit, zone in (("s", "UTC"), ("ms", "Europe/Paris"), ("us", "+05:30"), ("ns", "UTC"))
    ),
    (pa.decimal32(7, 2), _decimal(7, 2)),
    (pa.decimal64(15, 0), _decimal(15, 0)),
    (pa.decimal128(38, 10), _decimal(38, 10)),
    (pa.decimal256(30, 5), _decimal(30, 5)),
    (pa.null(), lambda r: None),
]


def primitive(r: random.Random, n: int, nulls: bool = True) -> pa.Array:
    """An array of a random primitive type."""
    t, value = r.choice(_PRIMITIVES)
    return pa.array([None if nulls and r.random() < 0.2 else value(r) for _ in range(n)], t)


def _with_validity(r: random.Random, array: pa.Array) -> pa.Array:
    """The array with nulls over values that stay in the buffers."""
    if len(array) == 0 or array.null_count or array.offset or pa.types.is_null(array.type):
        return array
    bits = bytes(r.randrange(256) for _ in range(len(array) // 8 + 1))
    children: list[pa.Array] = []
    t = array.type
    if pa.types.is_struct(t):
        children = [array.field(i) for i in range(t.num_fields)]
    elif pa.types.is_map(t):
        return array
    elif t.num_fields:
        children = [array.values]
    buffers = array.buffers()[
        : t.num_buffers if not pa.types.is_string_view(t) and not pa.types.is_binary_view(t) else None
    ]
    if pa.types.is_dictionary(t) or pa.types.is_run_end_encoded(t):
        return array
    return pa.Array.from_buffers(t, len(array), [pa.py_buffer(bits), *buffers[1:]], children=children)


def _offsets(r: random.Random, rows: int, values: int) -> list[int]:
    return [0, *sorted(r.randint(0, values) for _ in range(rows - 1)), values] if rows else [0]


def nested(r: random.Random, n: int, depth: int) -> pa.Array:
    """An array of a random type in a random layout."""
    kind = r.choice(
        ["plain", "dictionary", "runs", "sliced", "masked", "struct", "list", "large_list", "fixed", "view", "map"]
    )
    if depth == 0 and kind not in ("dictionary", "runs", "sliced", "masked"):
        kind = "plain"
    match kind:
        case "dictionary":
            size = r.randint(1, 5)
            keys = [None if r.random() < 0.2 else r.randrange(size) for _ in range(n)]
            index = r.choice([pa.int8(), pa.uint8(), pa.int32(), pa.int64()])
            return pa.DictionaryArray.from_arrays(pa.array(keys, index), primitive(r, size))
        case "runs":
            ends = sorted(r.sample(range(1, n + 1), r.randint(1, n))) if n else []
            ends = [*ends[:-1], n] if ends else []
            index = r.choice([pa.int16(), pa.int32(), pa.int64()])
            return pa.RunEndEncodedArray.from_arrays(pa.array(ends, index), primitive(r, len(ends)))
        case "sliced":
            head, tail = r.randint(0, 9), r.randint(0, 9)
            return nested(r, head + n + tail, depth).slice(head, n)
        case "masked":
            return _with_validity(r, nested(r, n, depth) if r.random() < 0.5 else primitive(r, n, nulls=False))
        case "struct":
            names = ["x", "y z", "ünder"][: r.randint(1, 3)]
            return pa.StructArray.from_arrays([nested(r, n, depth - 1) for _ in names], names)
        case "list" | "large_list":
            values = nested(r, r.randint(0, 2 * n), depth - 1)
            array_class = pa.ListArray if kind == "list" else pa.LargeListArray
            return _with_validity(r, array_class.from_arrays(_offsets(r, n, len(values)), values))
        case "fixed":
            size = r.randint(1, 3)
            return _with_validity(r, pa.FixedSizeListArray.from_arrays(nested(r, n * size, depth - 1), size))
        case "view":
            values = nested(r, r.randint(1, 9), depth - 1)
            starts = [r.randint(0, len(values)) for _ in range(n)]
            array_class = r.choice([(pa.ListViewArray, pa.int32()), (pa.LargeListViewArray, pa.int64())])
            sizes = [r.randint(0, len(values) - a) for a in starts]
            return array_class[0].from_arrays(pa.array(starts, array_class[1]), pa.array(sizes, array_class[1]), values)
        case "map":
            offsets = _offsets(r, n, r.randint(0, 2 * n))
            keys = pa.array([f"k{i}" for i in range(offsets[-1])], r.choice([pa.string(), pa.large_string()]))
            return pa.MapArray.from_arrays(offsets, keys, nested(r, offsets[-1], depth - 1))
        case _:
            return primitive(r, n)


def plain(value: Any) -> Any:
    """A value in a form that is comparable between types: NaN equals NaN, numbers as decimals."""
    if isinstance(value, float):
        return ("nan",) if math.isnan(value) else decimal.Decimal(value) if math.isfinite(value) else repr(value)
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None) - (value.utcoffset() or dt.timedelta(0))
    return value


def without_void(t: pa.DataType) -> bool:
    """Whether a table supports the type: void isn't allowed at any depth of lists and maps, or in
    structs of nothing else."""
    if pa.types.is_dictionary(t) or pa.types.is_run_end_encoded(t):
        return without_void(t.value_type)
    inner = _inner(t)
    if pa.types.is_struct(t):
        return not all(map(_is_void, inner)) and all(without_void(i) for i in inner if not _is_void(i))
    return not any(map(_has_void, inner))


def _inner(t: pa.DataType) -> list[pa.DataType]:
    return [t.key_type, t.item_type] if pa.types.is_map(t) else [t.field(i).type for i in range(t.num_fields)]


def _is_void(t: pa.DataType) -> bool:
    if pa.types.is_dictionary(t) or pa.types.is_run_end_encoded(t):
        return _is_void(t.value_type)
    return pa.types.is_null(t)


def _has_void(t: pa.DataType) -> bool:
    if pa.types.is_dictionary(t) or pa.types.is_run_end_encoded(t):
        return _has_void(t.value_type)
    return pa.types.is_null(t) or any(map(_has_void, _inner(t)))


def _rows(column: Any) -> Values:
    return [plain(v) for v in column.to_pylist()]


def valid_case(r: random.Random, path: str) -> None:
    """Random columns, written in one to three batches, are read back unchanged."""
    n = r.choice([0, 1, 2, 7, 20, 70])
    columns = {f"c{i}": nested(r, n, r.randint(0, 3)) for i in range(r.randint(1, 3))}
    table = pa.table({"id": pa.array(range(n), pa.int64()), **columns})
    mapped = {"delta.columnMapping.mode": "name"}
    try:
        dp.write_deltalake(path, table.to_batches() or table, configuration=mapped)
    except DeltaError as e:
        expect(not isinstance(e, InternalError), f"{table.schema}: {e}")
        voids = [f.name for f in table.schema if not without_void(f.type)]
        expect(any(name in str(e) for name in voids), f"{table.schema}: {e}")
        return
    got = dp.DeltaTable(path).to_pyarrow_table().sort_by("id")
    for name in table.column_names:
        assert _rows(got[name]) == _rows(table[name]), f"{table.schema.field(name)}"


def damaged_case(r: random.Random, path: str) -> None:
    """A value that contradicts its type: refused with column and row if a reader could notice
    it."""
    n = r.randint(2, 30)
    row = r.randrange(n)
    bad = r.random() < 0.7
    values = [b"caf\xe9 in a text of some length" if i == row and bad else b"fine" * (i % 5) for i in range(n)]
    counterparts = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}
    text, binary = r.choice(list(counterparts.items()))
    raw = pa.array(values, binary)
    masked = r.random() < 0.3
    valid = bytes(0xFF & ~((1 << (row % 8)) if masked and row // 8 == i else 0) for i in range(n // 8 + 1))
    array: pa.Array = pa.Array.from_buffers(text, n, [pa.py_buffer(valid), *raw.buffers()[1:]])
    place = r.choice(["plain", "dictionary", "list", "struct", "sliced", "keys"])
    first = 0
    if place == "dictionary":
        array = pa.DictionaryArray.from_arrays(pa.array(range(n), pa.int16()), array)
    elif place == "list":
        array = pa.ListArray.from_arrays(range(n + 1), array)
    elif place == "struct":
        array = pa.StructArray.from_arrays([array], ["x"])
    elif place == "sliced":
        first = r.randint(0, row)
        array = array.slice(first)
    elif place == "keys":
        keys = pa.array([7 if i == row else 0 for i in range(n)], pa.int8())
        whole = pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), pa.array(["a"]))
        array = pa.DictionaryArray.from_buffers(whole.type, n, [None, keys.buffers()[1]], whole.dictionary)
        bad, masked = True, False
    table = pa.table({"id": pa.array(range(len(array))), "c": array})
    try:
        dp.write_deltalake(path, table)
    except DeltaError as e:
        expect(bad and not masked and not isinstance(e, InternalError), f"{place} {text}: {e}")
        expect("`c" in str(e) and f"row {row - first}:" in str(e), f"{place} {text} row {row - first}: {e}")
        expect(not dp.DeltaTable.is_deltatable(path), "a table of refused data")
    else:
        assert not bad or masked, f"{place} {text} row {row}: taken"
        assert dp.DeltaTable(path).count() == len(array)
