"""Each figure of the report, compared with a naive computation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaplane.io.records import CommitTotals
from deltaplane.report.bins import by_powers, by_share
from deltaplane.report.charts import _ceiling
from deltaplane.report.growth import OTHERS, commits, growth
from deltaplane.report.overlap import depth, sound
from deltaplane.report.partitions import gini, partitions
from deltaplane.report.words import moment

# No deadline, since the machine may be busy.
STEADY = settings(deadline=None)
# Types of bounds, with few distinct values.
VALUES: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "long": (pa.int64(), range(-4, 5)),
    "double": (pa.float64(), [-math.inf, -1.5, -0.0, 0.0, 0.25, 1e300, math.inf]),
    "text": (pa.string(), ["", "a", "ab", "ä", "z", "\U0010ffff"]),
    "bytes": (pa.binary(), [b"", b"\x00", b"a", b"\xff"]),
    "date": (pa.date32(), [date(1, 1, 1), date(1970, 1, 1), date(2026, 3, 1), date(9999, 12, 31)]),
    "time": (pa.timestamp("us", "UTC"), [datetime(2026, 3, d, tzinfo=timezone.utc) for d in (1, 2, 3)]),
    "decimal": (pa.decimal128(20, 2), [Decimal("-1.00"), Decimal("0.00"), Decimal("12345678901234567.89")]),
    "flag": (pa.bool_(), [False, True]),
}


def chunked(values: Sequence[Any], kind: pa.DataType, cut: int) -> pa.ChunkedArray:
    """The values in two chunks, since a file list has several."""
    return pa.chunked_array([pa.array(values[:cut], kind), pa.array(values[cut:], kind)], kind)


@st.composite
def bounds(draw: st.DrawFn) -> tuple[str, list[tuple[Any, Any]], list[int], int]:
    name = draw(st.sampled_from(list(VALUES)))
    value = st.sampled_from(list(VALUES[name][1]))
    pairs = [tuple(sorted(draw(st.tuples(value, value)))) for _ in range(draw(st.integers(0, 12)))]
    groups = draw(st.lists(st.integers(0, 2), min_size=len(pairs), max_size=len(pairs)))
    return name, pairs, groups, draw(st.integers(0, len(pairs)))


@STEADY
@given(bounds())
def test_depth(case: tuple[str, list[tuple[Any, Any]], list[int], int]) -> None:
    name, pairs, groups, cut = case
    kind = VALUES[name][0]
    lows, highs = (chunked([p[n] for p in pairs], kind, cut) for n in (0, 1))
    for by in (None, groups):
        figure = depth(lows, highs, None if by is None else chunked(by, pa.int32(), cut))
        met = [
            sum(low <= v <= high and (by is None or by[m] == by[n]) for m, (low, high) in enumerate(pairs))
            for n, pair in enumerate(pairs)
            for v in pair
        ]
        assert figure.files == len(pairs)
        assert figure.average == pytest.approx(sum(met) / len(met) if met else 0)
        assert figure.most == max(met, default=0)
        counts = {b.low: b.count for b in figure.bins if b.count}
        assert counts == {2**p: sum(m.bit_length() == p + 1 for m in met) for p in {m.bit_length() - 1 for m in met}}


def test_bounds_that_are_none() -> None:
    lows = pa.chunked_array([[1.0, None, 3.0, math.nan, 5.0, 2.0]])
    highs = pa.chunked_array([[2.0, 2.0, None, 9.0, math.nan, 1.0]])
    assert sound(lows, highs).to_pylist() == [True, False, False, False, False, False]


@STEADY
@given(st.lists(st.tuples(st.integers(0, 2**44), st.integers(1, 9))))
def test_bins_of_powers(values: list[tuple[int, int]]) -> None:
    numbers, weights = (pa.chunked_array([pa.array([v[n] for v in values], pa.int64())]) for n in (0, 1))
    bins = by_powers(numbers, weights)
    assert sum(b.count for b in bins) == sum(w for _, w in values)
    for b in bins:
        inside = [(v, w) for v, w in values if b.low <= v < b.high]
        assert (b.count, b.total) == (sum(w for _, w in inside), pytest.approx(sum(v * w for v, w in inside)))
    assert all(a.high == b.low for a, b in pairwise(bins))


@STEADY
@given(st.lists(st.integers(0, 40)), st.integers(1, 12))
def test_bins_of_shares(values: list[int], steps: int) -> None:
    bins = by_share(pa.chunked_array([pa.array([v / 40 for v in values], pa.float64())]), steps)
    assert sum(b.count for b in bins) == len(values)
    for n, b in enumerate(bins):
        assert b.count == sum(min(math.floor(v / 40 * steps), steps - 1) == n for v in values)


@STEADY
@given(st.lists(st.integers(0, 1000), min_size=1))
def test_gini(values: list[int]) -> None:
    n, total = len(values), sum(values)
    naive = sum(abs(a - b) for a in values for b in values) / (2 * n * total) if total else 0
    assert gini(pa.chunked_array([values])) == pytest.approx(naive, abs=1e-9)


@STEADY
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 99), st.none() | st.integers(0, 9)), min_size=1))
def test_partitions(files: list[tuple[str, int, int | None]]) -> None:
    keys, sizes, rows = (
        pa.chunked_array([pa.array([f[n] for f in files], kind)])
        for n, kind in enumerate((pa.string(), pa.int64(), pa.int64()))
    )
    figure = partitions(("p",), keys, sizes, rows, 2)
    naive = {
        key: (sum(f[0] == key for f in files), sum(f[1] for f in files if f[0] == key)) for key in {f[0] for f in files}
    }
    ranked = sorted(naive, key=lambda key: (-naive[key][1], key))
    assert [(p.values, p.files, p.size_bytes) for p in figure.largest] == [((k,), *naive[k]) for k in ranked[:2]]
    for p in figure.largest:
        counts = [f[2] for f in files if (f[0],) == p.values]
        assert p.rows == (None if None in counts else sum(t for t in counts if t is not None))
    assert figure.count == len(naive)
    assert figure.files_around == pytest.approx(sum(naive[f[0]][0] for f in files) / len(files))


def commit(version: int, **more: Any) -> CommitTotals:
    nothing = dict.fromkeys(("added_files", "added_bytes", "removed_files", "removed_bytes", "removed_unsized"), 0)
    times = {"timestamp_ms": 1_000_000 * version, "log_bytes": 9, "data_change": True}
    return CommitTotals(**{"version": version, **times, **nothing, "info": {}, **more})


@STEADY
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 99), st.booleans()), min_size=1), st.integers(0, 5))
def test_growth(steps: list[tuple[int, int, bool]], first: int) -> None:
    live: list[int] = [7] * first
    naive, totals = [], []
    for version, (adds, size, takes) in enumerate(steps):
        gone = live.pop() if takes and live else None
        live += [size] * adds
        removed = {} if gone is None else {"removed_files": 1, "removed_bytes": gone}
        totals.append(commit(version + 3, added_files=adds, added_bytes=adds * size, **removed))
        naive.append((version + 3, len(live), sum(live)))
    points = growth(totals, len(live), sum(live))
    assert [(p.version, p.files, p.size_bytes) for p in points] == naive


def test_growth_ends_where_the_log_does_not_tell() -> None:
    unsized = {"removed_files": 1, "removed_unsized": 1}
    put_in_again = {"added_files": 5, "added_bytes": 50, "data_change": False}
    added = {"added_files": 1, "added_bytes": 10}
    totals = [commit(1, **added), commit(2, **unsized), commit(3, **put_in_again), commit(4, **added)]
    assert [(p.version, p.files, p.size_bytes) for p in growth(totals, 5, 50)] == [
        (1, 5, None),
        (2, 4, 40),
        (3, 4, 40),
        (4, 5, 50),
    ]
    # A gap between versions; files that were added twice.
    assert [p.version for p in growth([commit(1), commit(3), commit(4)], 5, 50)] == [3, 4]
    assert [p.version for p in growth([commit(1), commit(2, added_files=9), commit(3)], 5, 50)] == [2, 3]
    assert growth([], 5, 50) == ()


def test_commits() -> None:
    spark, ours = "Apache-Spark/4.2.0 Delta-Lake/4.4.0", "deltaplane/0.1.0"
    infos: list[dict[str, Any]] = [
        {"operation": "WRITE", "engineInfo": spark, "readVersion": 0},
        {"operation": "WRITE", "engineInfo": spark, "readVersion": 0},
        {"operation": "MERGE", "engineInfo": spark, "readVersion": 0},
        {"operation": "MERGE", "engineInfo": ours, "readVersion": 1},
        {"operation": 7, "engineInfo": None, "readVersion": "3"},
        {"operation": "VACUUM END", "engineInfo": spark, "readVersion": True},
    ]
    figure = commits([commit(n + 1, info=info, added_files=n) for n, info in enumerate(infos)])
    assert figure is not None
    assert (figure.count, figure.first_version, figure.last_version) == (6, 1, 6)
    assert (figure.telling, figure.overtaken, figure.most_overtaken) == (3, 2, 2)
    assert [(o.name, o.commits, o.added_files) for o in figure.operations] == [
        ("MERGE", 2, 5),
        ("WRITE", 2, 1),
        ("(not named)", 1, 4),
        ("VACUUM END", 1, 5),
    ]
    assert figure.engines == {spark: 4, "(not named)": 1, ours: 1}
    assert (figure.last_vacuum_ms, figure.last_optimize_ms) == (6_000_000, None)
    assert sum(sum(p.counts.values()) for p in figure.periods) == 6
    assert commits([]) is None


@STEADY
@given(st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=30))
def test_periods_are_few_whatever_the_times(times: list[int]) -> None:
    figure = commits([commit(n, timestamp_ms=t, info={"operation": f"op {n}"}) for n, t in enumerate(sorted(times))])
    assert figure is not None
    assert len(figure.periods) <= 42
    assert sum(sum(p.counts.values()) for p in figure.periods) == len(times)
    for period in figure.periods:
        inside = [t for t in times if period.start_ms <= t < period.start_ms + figure.period_ms]
        assert sum(period.counts.values()) == len(inside)
    names = {name for p in figure.periods for name in p.counts}
    assert len(names) <= 6
    assert (OTHERS in names) == (len(times) > 6)
    assert moment(figure.first_ms)


@STEADY
@given(st.floats(0, 1e18), st.booleans())
def test_axes_end_above_what_they_show(most: float, of_bytes: bool) -> None:
    assert most <= _ceiling(most, of_bytes) <= max(4.0, 20 * most)
