"""Values in filters stay exact: nanoseconds, timestamps outside of Python's datetime, scalars of
libraries."""

from __future__ import annotations

import datetime as dt
import operator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import InvalidArgumentError, SchemaMismatchError

OPERATORS = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
# Microseconds around 1970, around the neighbours of the values, and a null.
MICROS = [-1, 0, 1, -1_000_000, 1_704_067_200_000_000, 1_704_067_200_000_001, -62_135_596_800_000_000, None]
NANOS = [base + below for base in (-1000, 0, 1000, 1_704_067_200_000_000_000) for below in (0, 1, 500, 999)]


def forms(nanos: int, zoned: bool) -> list[Any]:
    """One timestamp in the types of each library."""
    made: list[Any] = [
        pa.scalar(nanos, pa.timestamp("ns", "UTC" if zoned else None)),
        pd.Timestamp(nanos, tz="UTC" if zoned else None),
        str(np.datetime64(nanos, "ns")).replace("T", " "),
    ]
    if zoned:
        made.append(pd.Timestamp(nanos, tz="UTC").tz_convert("America/New_York"))
        made.append(pa.scalar(nanos, pa.timestamp("ns", "America/New_York")))
    else:
        made.append(np.datetime64(nanos, "ns"))
        made.append(np.array(np.datetime64(nanos, "ns")))
        if abs(nanos) < 10**15:
            made.append(np.datetime64(nanos * 1000, "ps"))
    return made


def table_of(path: Path, data_type: pa.DataType, *, partitioned: bool) -> DeltaTable:
    rows = pa.table({"t": pa.array(MICROS, pa.int64()).cast(data_type), "micros": pa.array(MICROS, pa.int64())})
    write_deltalake(str(path), rows, partition_by=["t"] if partitioned else None)
    return DeltaTable(str(path))


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("zoned", [False, True])
def test_moments_are_compared_to_the_nanosecond(tmp_path: Path, zoned: bool, partitioned: bool) -> None:
    table = table_of(tmp_path / "t", pa.timestamp("us", "UTC" if zoned else None), partitioned=partitioned)
    known = [m for m in MICROS if m is not None]

    def matches(condition: tuple[str, str, Any]) -> list[int]:
        by_filter = table.to_pyarrow_table(filters=[condition])["micros"].to_pylist()
        if partitioned:
            assert sorted(table.to_pyarrow_table(partitions=[condition])["micros"].to_pylist()) == sorted(by_filter)
            assert len(table.files(partition_filters=[condition])) == len(by_filter)
        return sorted(by_filter)

    for number, nanos in enumerate(NANOS):
        values = forms(nanos, zoned)
        # Each form with some operators, all operators with a few values: all pairs take too long.
        for place, (name, compare) in enumerate(OPERATORS.items()):
            value = values[(number + place) % len(values)]
            expected = sorted(m for m in known if compare(m * 1000, nanos))
            assert matches(("t", name, value)) == expected, (name, nanos, value)
        value = values[number % len(values)]
        others = [pd.Timestamp(0, tz="UTC" if zoned else None), value]
        expected = sorted(m for m in known if m * 1000 in (0, nanos))
        assert matches(("t", "in", others)) == expected, nanos
        assert matches(("t", "not in", others)) == sorted(set(known) - set(expected)), nanos
        assert matches(("t", "in", [value])) == [m for m in known if m * 1000 == nanos], nanos
        assert matches(("t", "not in", [value])) == sorted(m for m in known if m * 1000 != nanos), nanos


def test_a_date_is_compared_with_moments_to_the_nanosecond(tmp_path: Path) -> None:
    days = [dt.date(2023, 12, 31), dt.date(2024, 1, 1), None]
    write_deltalake(str(tmp_path / "t"), pa.table({"d": pa.array(days, pa.date32())}))
    table = DeltaTable(str(tmp_path / "t"))
    just_after = pd.Timestamp("2024-01-01 00:00:00.000000001")
    for op, rows in {"<": 2, "<=": 2, "=": 0, "!=": 2, ">": 0, ">=": 0}.items():
        assert table.to_pyarrow_table(filters=[("d", op, just_after)]).num_rows == rows, op


def test_scalars_of_libraries_mean_their_values(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "i": pa.array([1, 2], pa.int64()),
            "s": ["a", "b"],
            "d": pa.array([dt.date(2024, 1, 1), dt.date(2024, 1, 2)]),
            "x": pa.array([0.5, 1.5]),
            "b": pa.array([b"\xff", b"a"]),
            "o": pa.array([True, False]),
            "far": pa.array([253_402_300_800_000_000, -62_135_596_800_000_001], pa.timestamp("us")),
        }
    )
    write_deltalake(str(tmp_path / "t"), rows)
    table = DeltaTable(str(tmp_path / "t"))
    for column, value in [
        ("i", np.int32(1)),
        ("i", pa.scalar(1, pa.int8())),
        ("i", np.array(1)),
        ("s", np.str_("a")),
        ("s", pa.scalar("a", pa.dictionary(pa.int32(), pa.string()))),
        ("s", pa.scalar("a", pa.large_string())),
        ("d", np.datetime64("2024-01-01")),
        ("d", pa.scalar(dt.date(2024, 1, 1))),
        ("d", pa.scalar(1_704_067_200_000, pa.date64())),
        ("x", np.float32(0.5)),
        ("x", pa.scalar(0.5)),
        ("b", pa.scalar(b"\xff", pa.binary(1))),
        ("o", np.bool_(True)),
        # Outside of the years of Python's datetime.
        ("far", np.datetime64("10000-01-01T00:00:00", "s")),
        ("far", pa.scalar(253_402_300_800_000_000, pa.timestamp("us"))),
    ]:
        matches = table.to_pyarrow_table(filters=[(column, "=", value)])
        assert matches["i"].to_pylist() == [1], (column, value)
        assert table.delete([(column, "=", value)], dry_run=True).rows["numDeletedRows"] == 1


@pytest.mark.parametrize("value", [pd.NaT, np.datetime64("NaT"), pd.NA, dt.timedelta(1), object()])
def test_what_is_no_value_is_refused_by_the_column_s_name(tmp_path: Path, value: Any) -> None:
    table = table_of(tmp_path / "t", pa.timestamp("us"), partitioned=False)
    for condition in [("t", "=", value), ("t", "in", [value])]:
        with pytest.raises(InvalidArgumentError, match="`t`"):
            table.to_pyarrow_table(filters=[condition])


def test_new_values_are_never_cut(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", pa.timestamp("us"), partitioned=False)
    for value in forms(1500, zoned=False)[:2]:
        with pytest.raises(SchemaMismatchError, match="`t`"):
            table.update(new_values={"t": value})
    assert table.version() == 0
    table.update(new_values={"t": pd.NaT})
    assert table.to_pyarrow_table()["t"].null_count == len(MICROS)
