"""The rows on which expressions are compared: extreme values of every type, and further ones drawn
by hypothesis.

Contains no expression.
"""

from __future__ import annotations

import datetime as dt
import decimal
import os
import random
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

# Number of drawn rows besides the extremes; the seed is fixed, so that two runs compare the same.
DRAWN = int(os.environ.get("DELTAPLANE_PARITY_ROWS", "60"))
SEED = int(os.environ.get("DELTAPLANE_PARITY_SEED", "20240229"))

INF, NAN = float("inf"), float("nan")
UTC = dt.timezone.utc


def _whole(bits: int) -> tuple[list[Any], st.SearchStrategy[Any]]:
    bound = 1 << (bits - 1)
    edges = [0, 1, -1, 2, 7, -7, 10, bound - 1, -bound, bound // 2, -bound + 1]
    return edges, st.one_of(st.integers(-20, 20), st.integers(-bound, bound - 1))


def _floats(width: int) -> tuple[list[Any], st.SearchStrategy[Any]]:
    edges = [0.0, -0.0, 1.0, -1.5, 2.5, 3.5, 0.5, -0.5, NAN, INF, -INF, 9.3e18, -9.3e18, 2147483648.0, 127.5, 1e10]
    edges += [3.4e38, -1e-10, 9.223372036854775807e18, 32768.0]
    if width == 32:
        edges = [float(pa.scalar(e, pa.float32()).as_py()) for e in edges]
    return edges, st.one_of(st.floats(-100, 100, width=width), st.floats(width=width))


def _decimals(precision: int, scale: int) -> tuple[list[Any], st.SearchStrategy[Any]]:
    # Enough digits for the widest type: Python's default would round.
    context = decimal.Context(prec=60)
    most = 10**precision - 1
    unscaled = [0, 1, -1, 5, -5, 15, 25, -25, 150, 250, -250, 350, most, -most, most // 2, 12345678, 99, 50]
    edges = [decimal.Decimal(u).scaleb(-scale, context) for u in unscaled if abs(u) <= most]
    drawn = st.one_of(st.integers(-1000, 1000), st.integers(-most, most))
    return edges, drawn.map(lambda u: decimal.Decimal(max(min(u, most), -most)).scaleb(-scale, context))


_LETTERS = "aabbcAZ09 ,.-_%\\/'\té\u0301ßΣİ😀日"
_TEXT = [
    "",
    " ",
    "a",
    "abc",
    "ABC abc",
    "  padded  ",
    "a,b,,c",
    "😀abc",
    "e\u0301x",
    "日本語",
    "\t x\n",
    "a%b_c",
    "é",
    "aaa",
    "b",
]
# Characters that `.` and `$` of a regular expression distinguish.
_LINES = [
    *(
        "a",
        "a\n",
        "a\r",
        "a\r\n",
        "a\n\n",
        "a\n\r",
        "a\u0085",
        "a\u2028",
        "a\u2029b",
        "b\na",
        "\r\n",
        "\n",
        "\x0b",
        "\x1c",
        "\xa0x",
    ),
    *("x@y.com", "x@yzcom", "X@y.org", "x@y.org\n", "١", "ｄ", "aab", "a b", "a-b", "a^b", "à", "A"),
]
_NUMBERS = [
    "0",
    " 12 ",
    "-7",
    "+5",
    "1.5",
    "1e3",
    "",
    "abc",
    "2147483648",
    "9223372036854775808",
    "NaN",
    "inf",
    "-Infinity",
]
_NUMBERS += [
    "1_000",
    "0x10",
    ".5",
    "5.",
    "1e400",
    "-1e400",
    "1e-400",
    "1d",
    "2.5F",
    "12345.678",
    "-0",
    "-0.0",
    "0.005",
    "1 2",
    "true",
]
_NUMBERS += [
    "\t9\n",
    "127",
    "128",
    "00012",
    "99999999999999999999",
    "-.5",
    "+.5e1",
    "infinity",
    "nan",
    "12345678.125",
    "1E5",
    "\u00a05",
]
_BOOLEANS = ["true", "FALSE", " t ", "f", "y", "no", "1", "0", "", "2", "yes", "TrUe", "on"]
_DATES = [
    "2024-02-29",
    "2023-02-29",
    "0001-01-01",
    "9999-12-31",
    "2024-1-5",
    "2024",
    "2024-13-01",
    " 2020-06-01 ",
    "2020-06",
    "junk",
]
_DATES += ["2020-06-01T10", "2020-06-01 x", "2020-06-01x", "", "20200601", "1969-12-31", "2020-06-31", "2020-00-01"]
_TIMES = [
    "2024-02-29 12:34:56",
    "2024-02-29T12:34:56.123456",
    "1969-12-31 23:59:59.999999",
    "2024-02-29 25:00:00",
    "2024-02-29",
]
_TIMES += [
    "2024-02-29 12:34:56Z",
    "2024-02-29 12:34:56+02:00",
    "2024-02-29 12:34:56-11:30",
    "2024-02-29 12:34:60",
    "x",
    "",
    "2024",
]
_TIMES += [
    "2024-02-29 1:2:3",
    "2024-02-29 12:34:56.1",
    "0001-01-01 00:00:00",
    "9999-12-31 23:59:59.999999",
    "2024-02-30 00:00:00",
]
# Times with missing parts, zones of several forms, and invalid times.
_TIMES += ["2024-02-29 12:34", "2024-02-29T7", "2024-02-29 12:", "2024-02-29T", "12:34:56", "2024-02-29 12:34:56+0:00"]
_TIMES += [f"2024-02-29 12:34:56{zone}" for zone in (" GMT-1", ".5UTC+2", "+18:01", "Europe/Berlin", "+0530", "z")]
_TIMES += ["2024-02-29 12:34:56.123456789", "2024-2-9 12:34:56 UTC", "2024-02", "2024-02-29 "]


def _chosen(edges: list[str]) -> tuple[list[Any], st.SearchStrategy[Any]]:
    return edges, st.sampled_from(edges)


_DAYS = [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1970, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29)]
_DAYS += [dt.date(2024, 1, 31), dt.date(2021, 1, 3), dt.date(2020, 12, 31), dt.date(1582, 10, 10), dt.date(1900, 2, 28)]
_CLOCKS = [dt.datetime(d.year, d.month, d.day, 23, 59, 59, 999999) for d in _DAYS]
_CLOCKS += [
    dt.datetime(1970, 1, 1),
    dt.datetime(1969, 12, 31, 23, 59, 59, 500000),
    dt.datetime(2024, 2, 29, 1, 2, 3, 45),
]
_SOME_CLOCKS = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30))

_LISTS_OF_INTS = [[], [1], [1, None, 3], [3, 1, 2, 1], [None], [2147483647, -2147483648]]
_LISTS_OF_TEXT = [[], ["a"], ["b", None, "a"], ["", "é", "a,b"], [None, None]]
_LISTS_OF_DOUBLES = [[], [NAN, 1.0], [0.0, -1.0, None], [INF, NAN, -INF]]

COLUMNS: dict[str, tuple[pa.DataType, tuple[list[Any], st.SearchStrategy[Any]]]] = {
    **{f"b{i}": (pa.int8(), _whole(8)) for i in (1, 2)},
    **{f"s{i}": (pa.int16(), _whole(16)) for i in (1, 2)},
    **{f"i{i}": (pa.int32(), _whole(32)) for i in (1, 2)},
    **{f"l{i}": (pa.int64(), _whole(64)) for i in (1, 2)},
    **{f"f{i}": (pa.float32(), _floats(32)) for i in (1, 2)},
    **{f"d{i}": (pa.float64(), _floats(64)) for i in (1, 2)},
    "m1": (pa.decimal128(10, 2), _decimals(10, 2)),
    "m2": (pa.decimal128(7, 4), _decimals(7, 4)),
    "m3": (pa.decimal128(38, 10), _decimals(38, 10)),
    "m4": (pa.decimal128(5, 0), _decimals(5, 0)),
    "k": (pa.int32(), (list(range(-6, 8)), st.integers(-6, 8))),
    "n": (pa.int32(), ([0, 5, 20, 21, -1, 12, 31, 29, 13], st.integers(-40, 40))),
    "y": (pa.int32(), ([2024, 1900, 1, 9999, 2023], st.integers(1, 9999))),
    **{f"t{i}": (pa.string(), (_TEXT, st.text(st.sampled_from(_LETTERS), max_size=8))) for i in (1, 2)},
    "c": (pa.string(), (["a", "b", ",", " ", "", "é", "ab", "x"], st.text(st.sampled_from("ab, xé"), max_size=2))),
    "tl": (pa.string(), _chosen(_LINES)),
    "tn": (pa.string(), _chosen(_NUMBERS)),
    "to": (pa.string(), _chosen(_BOOLEANS)),
    "td": (pa.string(), _chosen(_DATES)),
    "tt": (pa.string(), _chosen(_TIMES)),
    **{f"o{i}": (pa.bool_(), ([True, False], st.booleans())) for i in (1, 2)},
    "x": (pa.binary(), ([b"", b"abc", "é".encode(), b"\x00\x01", b"a" * 70], st.binary(max_size=8))),
    "xt": (pa.binary(), ([b"", b"abc", "é😀".encode()], st.text(max_size=5).map(str.encode))),
    **{f"dt{i}": (pa.date32(), (_DAYS, st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31)))) for i in (1, 2)},
    **{f"ts{i}": (pa.timestamp("us", "UTC"), (_CLOCKS, _SOME_CLOCKS)) for i in (1, 2)},
    **{f"nz{i}": (pa.timestamp("us"), (_CLOCKS, _SOME_CLOCKS)) for i in (1, 2)},
    "ai": (pa.list_(pa.int32()), (_LISTS_OF_INTS, st.lists(st.one_of(st.none(), st.integers(-5, 5)), max_size=5))),
    "at": (pa.list_(pa.string()), (_LISTS_OF_TEXT, st.lists(st.sampled_from(["a", "b", None, ""]), max_size=4))),
    "ad": (pa.list_(pa.float64()), (_LISTS_OF_DOUBLES, st.lists(st.floats(-9, 9), max_size=4))),
    "mp": (pa.map_(pa.string(), pa.int32()), ([[], [("a", 1)], [("a", None), ("b", 2)]], st.just([("", 0)]))),
    "st": (
        pa.struct([("X", pa.int32()), ("y", pa.string())]),
        ([{"X": 1, "y": "a"}, {"X": None, "y": None}], st.just({"X": -5, "y": ""})),
    ),
    # All digits are behind the point.
    "m5": (pa.decimal128(2, 2), _decimals(2, 2)),
    "m6": (pa.decimal128(4, 4), _decimals(4, 4)),
    "m7": (pa.decimal128(38, 38), _decimals(38, 38)),
}


def table(drawn: int = DRAWN, seed: int = SEED) -> pa.Table:
    """All columns: the first rows combine the extremes at different paces, the others mix extremes,
    draws and nulls."""

    rows = 70 + drawn
    chance = random.Random(seed)
    columns = {}
    for name, (kind, (edges, strategy)) in COLUMNS.items():
        pool = edges + _drawn(strategy, drawn, seed)
        picked = [chance.choice(edges) if i % 2 else chance.choice(pool) for i in range(rows)]
        columns[name] = pa.array([None if chance.random() < 0.06 else v for v in picked], kind)
    return pa.table(columns)


def _drawn(strategy: st.SearchStrategy[Any], count: int, seed: int) -> list[Any]:
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded

    values: list[Any] = []
    checks = list(HealthCheck)

    @seeded(seed)
    @settings(max_examples=count, database=None, phases=[Phase.generate], suppress_health_check=checks, deadline=None)
    @given(strategy)
    def draw(value: Any) -> None:
        values.append(value)

    draw()
    return values
