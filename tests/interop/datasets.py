"""The rows that the interop tests exchange: every type with its extremes, nested types, partition
values.

Uses pyarrow only. Contains values that every engine supports, none that only one supports.
"""

from __future__ import annotations

import math
from datetime import date, datetime, timezone
from decimal import Decimal

import pyarrow as pa

UTC = timezone.utc
LONG = "x" * 40


def _ts(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)


# Column → (type, its values). The first value of each is null; the longest list determines the
# number of rows.
_PRIMITIVES: dict[str, tuple[pa.DataType, list[object]]] = {
    "flag": (pa.bool_(), [None, True, False]),
    "byte": (pa.int8(), [None, -(2**7), -1, 0, 1, 2**7 - 1]),
    "short": (pa.int16(), [None, -(2**15), -1, 0, 1, 2**15 - 1]),
    "int": (pa.int32(), [None, -(2**31), -1, 0, 1, 2**31 - 1]),
    "long": (pa.int64(), [None, -(2**63), -1, 0, 2**53 + 1, 2**63 - 1]),
    "float": (pa.float32(), [None, math.nan, math.inf, -math.inf, -0.0, 0.0, 1e-45, 3.4028234663852886e38, 0.1]),
    "double": (pa.float64(), [None, math.nan, math.inf, -math.inf, -0.0, 0.0, 5e-324, 1.7976931348623157e308, 0.1]),
    "dec_small": (pa.decimal128(5, 2), [None, *map(Decimal, ("-999.99", "-0.01", "0.00", "0.10", "999.99"))]),
    "dec_money": (
        pa.decimal128(18, 4),
        [None, *map(Decimal, ("-99999999999999.9999", "0.0000", "0.1000", "99999999999999.9999"))],
    ),
    "dec_whole": (
        pa.decimal128(38, 0),
        [None, Decimal(-(10**38) + 1), Decimal(0), Decimal(2**64 + 1), Decimal(10**38 - 1)],
    ),
    "dec_deep": (
        pa.decimal128(38, 18),
        [
            None,
            Decimal("-99999999999999999999.999999999999999999"),
            Decimal("0.000000000000000001"),
            Decimal("1.000000000000000000"),
            Decimal("99999999999999999999.999999999999999999"),
        ],
    ),
    "text": (
        pa.string(),
        [
            None,
            "",
            " ",
            "a",
            LONG + "a",
            LONG + "b",
            "é",
            "\u00ff\ud7ff",
            "\U0010ffff" * 33,
            'q"u\\o\n\t\u0000te',
            "null",
        ],
    ),
    "bytes": (pa.binary(), [None, b"", b"\x00", bytes(range(256)), b"\xff" * 40]),
    "day": (
        pa.date32(),
        [None, date(1, 1, 1), date(1582, 10, 4), date(1970, 1, 1), date(2024, 2, 29), date(9999, 12, 31)],
    ),
    "moment": (
        pa.timestamp("us", tz="UTC"),
        [
            None,
            _ts(1, 1, 1),
            _ts(1582, 10, 4, 23, 59, 59, 999999),
            _ts(1969, 12, 31, 23, 59, 59, 999999),
            _ts(1970, 1, 1),
            _ts(2024, 2, 29, 12, 30, 15, 123456),
            _ts(9999, 12, 31, 23, 59, 59, 999999),
        ],
    ),
    "wall": (
        pa.timestamp("us"),
        [
            None,
            datetime(1, 1, 1),
            datetime(1969, 12, 31, 23, 59, 59, 999999),
            datetime(2024, 2, 29, 12, 30, 15, 123456),
            datetime(9999, 12, 31, 23, 59, 59, 999999),
        ],
    ),
}
ROWS = max(len(values) for _, values in _PRIMITIVES.values())


def primitives() -> pa.Table:
    """Every primitive type; each column cycles through its values, so that every row differs; `id`
    numbers them."""
    columns = {"id": pa.array(range(ROWS), pa.int64())}
    for name, (kind, values) in _PRIMITIVES.items():
        columns[name] = pa.array([values[i % len(values)] for i in range(ROWS)], kind)
    return pa.table(columns)


def nested() -> pa.Table:
    """Lists, maps and structs, empty and null at each level."""
    item = pa.struct([("k", pa.string()), ("n", pa.decimal128(10, 2))])
    schema = pa.schema(
        [
            ("id", pa.int32()),
            ("list", pa.list_(pa.int64())),
            ("lists", pa.list_(pa.list_(pa.string()))),
            ("map", pa.map_(pa.string(), pa.float64())),
            (
                "record",
                pa.struct(
                    [("a", pa.int32()), ("inner", pa.struct([("b", pa.string()), ("at", pa.timestamp("us", "UTC"))]))]
                ),
            ),
            ("items", pa.list_(item)),
            ("by_day", pa.map_(pa.date32(), pa.list_(item))),
        ]
    )
    some = [{"k": "x", "n": Decimal("1.50")}, {"k": None, "n": None}, None]
    rows = [
        (
            1,
            [1, None, 3],
            [["a"], [], None, [None]],
            [("x", 1.5), ("y", None)],
            {"a": 1, "inner": {"b": "s", "at": _ts(2024, 1, 2)}},
            some,
            [(date(2024, 1, 1), some), (date(2024, 1, 2), None)],
        ),
        (2, [], [], [], {"a": None, "inner": None}, [], []),
        (3, None, None, None, None, None, None),
        (
            4,
            [2**63 - 1],
            [["é", ""]],
            [("", math.nan)],
            {"a": 2, "inner": {"b": None, "at": None}},
            [{"k": "", "n": Decimal("-1.00")}],
            [(date(1, 1, 1), [])],
        ),
    ]
    return pa.table([pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), schema, strict=True)], schema=schema)


# Values that directory escaping, the log's URI encoding or a naive reader could change.
AWKWARD = [
    "a/b",
    "a%b",
    "a%2Fb",
    "a b",
    "é",
    "日本",
    "}",
    "{",
    ":",
    "#",
    "?",
    "=",
    "&",
    "+",
    '"',
    "'",
    "\\",
    "a\tb",
    "[x]",
    "^",
    "*",
    "..x",
    "~",
    "%",
    "null",
]


def awkward_partitions() -> pa.Table:
    """Two partition columns named `p` and `q` with text that needs escaping, including nulls."""
    values = [None, *AWKWARD]
    return pa.table(
        {
            "p": pa.array(values, pa.string()),
            "q": pa.array(values[::-1], pa.string()),
            "x": pa.array(range(len(values)), pa.int32()),
        }
    )


PARTITION_TYPES: dict[str, tuple[pa.DataType, list[object]]] = {
    "flag": (pa.bool_(), [None, True, False]),
    "byte": (pa.int8(), [None, -(2**7), 5]),
    "short": (pa.int16(), [None, -(2**15), 5]),
    "int": (pa.int32(), [None, -(2**31), 5]),
    "long": (pa.int64(), [None, -(2**63), 2**63 - 1]),
    "float": (pa.float32(), [None, 0.1, -1.5]),
    "double": (pa.float64(), [None, 0.1, -1e300]),
    "dec": (pa.decimal128(38, 18), [None, Decimal("1.500000000000000000"), Decimal("-0.000000000000000001")]),
    "text": (pa.string(), [None, "a", "B"]),
    "bytes": (pa.binary(), [None, b"ab", b"zz"]),
    "day": (pa.date32(), [None, date(1, 1, 1), date(9999, 12, 31)]),
    "moment": (pa.timestamp("us", tz="UTC"), [None, _ts(2024, 2, 29, 12, 30, 15, 123456), _ts(1969, 12, 31, 23)]),
    "wall": (pa.timestamp("us"), [None, datetime(2024, 2, 29, 12, 30, 15, 123456), datetime(1969, 12, 31)]),
}


def partitioned_by(column: str) -> pa.Table:
    """A partition column `p` of one type, and `x`."""
    kind, values = PARTITION_TYPES[column]
    return pa.table({"x": pa.array(range(len(values)), pa.int32()), "p": pa.array(values, kind)})


def numbered(first: int, count: int) -> pa.Table:
    """`id` from `first` on, with a text and a date derived from it."""
    ids = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": pa.array([f"n{i}" for i in ids], pa.string()),
            "day": pa.array([date(2024, 1, 1 + i % 3) for i in ids], pa.date32()),
        }
    )
