"""Keys at the ends of their types' ranges: no row is duplicated or lost, whichever way finds the
rows.

Python's calendar covers the years 1 to 9999, a column's types cover more; a value that passes
through a text or a `datetime` is lost.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, sql, write_deltalake
from deltaplane.exceptions import ConstraintViolationError, InvalidArgumentError

UTC, NTZ = pa.timestamp("us", "UTC"), pa.timestamp("us")
LONGS = [-(2**63), -(2**63) + 1, -1, 2**63 - 2, 2**63 - 1]
# The last instant of 9999 west of Greenwich, and the one before year 1.
MOMENTS = [253_402_318_799_000_000, -62_135_596_800_000_001, *LONGS]
DAYS = [-719_164, -719_163, 2_932_896, 2_932_897, -(2**31), -(2**31) + 1, 2**31 - 2, 2**31 - 1]
DIGITS = 10**38 - 1


def days(values: list[int]) -> pa.Array:
    return pa.array(values, pa.int32()).cast(pa.date32())


def moments(data_type: pa.DataType) -> Callable[[list[int]], pa.Array]:
    return lambda values: pa.array(values, pa.int64()).cast(data_type)


def decimals(scale: int) -> Callable[[list[int]], pa.Array]:
    return lambda values: pa.array([decimal.Decimal(v).scaleb(-scale, EXACT) for v in values], pa.decimal128(38, scale))


EXACT = decimal.Context(prec=60)
# A function that makes the column, its extreme values, and more than 64 others, so that keys are
# looked up by range.
KEYS: dict[str, tuple[Callable[[list[Any]], pa.Array], list[Any], list[Any]]] = {
    **{
        f"int{bits}": (
            lambda v, bits=bits: pa.array(v, getattr(pa, f"int{bits}")()),
            [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 0],
            list(range(20, 100)),
        )
        for bits in (8, 16, 32, 64)
    },
    "float": (
        lambda v: pa.array(v, pa.float32()),
        [float("-inf"), float("inf"), float("nan"), -0.0, 1e-45],
        [float(i) for i in range(1, 80)],
    ),
    "double": (
        lambda v: pa.array(v, pa.float64()),
        [float("-inf"), float("inf"), float("nan"), 0.0, 5e-324, 1.7976931348623157e308],
        [float(i) for i in range(1, 80)],
    ),
    "decimal(38,0)": (decimals(0), [DIGITS, -DIGITS, 0], list(range(20, 100))),
    "decimal(38,38)": (decimals(38), [DIGITS, -DIGITS, 1], list(range(20, 100))),
    "string": (
        lambda v: pa.array(v, pa.string()),
        ["", "\U0010ffff", "\uffff", "a" * 5000, "\x01", "é", "e\u0301", "a\0b", "a"],
        [f"k{i}" for i in range(80)],
    ),
    "binary": (
        lambda v: pa.array(v, pa.binary()),
        [b"", b"\xff" * 40, b"\0", b"a"],
        [b"k%d" % i for i in range(80)],
    ),
    "boolean": (lambda v: pa.array(v, pa.bool_()), [True, False], []),
    "date": (days, DAYS, list(range(100, 180))),
    "timestamp": (moments(UTC), MOMENTS, list(range(100, 180))),
    "timestamp_ntz": (moments(NTZ), MOMENTS, list(range(100, 180))),
}
MATCHING = {"source_alias": "s", "target_alias": "t"}
# Types whose values are valid names of folders in a file system.
PARTITIONED = ("int8", "int64", "decimal(38,0)", "boolean", "date", "timestamp", "timestamp_ntz")


def bits(column: pa.ChunkedArray) -> list[Any]:
    """The values in a form that Python can hold, in order."""
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        column = column.cast(pa.int32() if pa.types.is_date(column.type) else pa.int64())
    return sorted(map(repr, column.to_pylist()))


def check_keys(path: str, rows: pa.Table, partition_by: str | None) -> None:
    write_deltalake(path, rows, partition_by=partition_by)
    count = rows.num_rows

    def same(what: str) -> None:
        table = DeltaTable(path).to_pyarrow_table()
        assert bits(table["x"]) == bits(rows["x"]), what

    same("written")
    for on in ("t.x = s.x", "t.x <=> s.x")[: 1 if count > 64 else 2]:
        merger = DeltaTable(path).merge(rows, on, **MATCHING).when_matched_update_all()
        done = merger.when_not_matched_insert_all().execute()
        assert (done["num_target_rows_updated"], done["num_target_rows_inserted"]) == (count, 0), on
        same(on)
    for options in ({"replace_using": ["x"]}, {"replace_on": "t.x = s.x", **MATCHING}):
        write_deltalake(path, rows, mode="overwrite", **options)
        same(str(options))
    # Each key by itself, so that it prunes files.
    for start in range(0 if count > 64 else min(count, 4)):
        done = DeltaTable(path).merge(rows.slice(start, 1), "t.x = s.x", **MATCHING).when_matched_delete().execute()
        assert done["num_target_rows_deleted"] == 1
    done = DeltaTable(path).merge(rows, "t.x = s.x", **MATCHING).when_matched_delete().execute()
    assert DeltaTable(path).count() == 0


@pytest.mark.parametrize("kind", KEYS)
def test_keys_are_found_by_their_exact_values(tmp_path: Path, kind: str) -> None:
    make, extreme, others = KEYS[kind]
    for number, values in enumerate((extreme, [*extreme, *others])):
        rows = pa.table({"x": make(values), "v": list(range(len(values)))})
        check_keys(str(tmp_path / f"t{number}"), rows, None)
    if kind in PARTITIONED:
        check_keys(str(tmp_path / "p"), pa.table({"x": make(extreme), "v": list(range(len(extreme)))}), "x")


@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamp_ntz"])
def test_versions_differ_by_far_keys(tmp_path: Path, kind: str) -> None:
    path, (make, extreme, _) = str(tmp_path / "t"), KEYS[kind]
    for value in (1, 2):
        rows = pa.table({"x": make(extreme), "v": [value] * len(extreme)})
        write_deltalake(path, rows, mode="overwrite")
    difference = DeltaTable(path).diff(0, 1, keys=["x"])
    difference = difference.read_all() if isinstance(difference, pa.RecordBatchReader) else difference
    assert bits(pa.chunked_array(difference["x"])) == bits(pa.chunked_array([make(extreme)]))
    assert set(difference["change"].to_pylist()) == {"update"}


def test_conditions_take_moments_whose_utc_year_is_no_year_of_pythons(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    west, east = (datetime.timezone(datetime.timedelta(hours=h)) for h in (-5, 5))
    last = datetime.datetime(9999, 12, 31, 23, 59, 59, 1, tzinfo=west)
    first = datetime.datetime(1, 1, 1, tzinfo=east)
    moments = pa.array([253_402_318_799_000_001, -62_135_614_800_000_000, 0], pa.int64()).cast(UTC)
    write_deltalake(path, pa.table({"at": moments, "n": [1, 2, 3]}))
    table = DeltaTable(path)
    assert [table.to_pyarrow_table(filters=[("at", "=", m)])["n"].to_pylist() for m in (last, first)] == [[1], [2]]
    assert table.to_pyarrow_table(filters=[("at", "in", [last, first])])["n"].to_pylist() == [1, 2]
    assert table.to_pyarrow_table(filters=[("at", "<", last), ("at", ">", first)])["n"].to_pylist() == [3]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("date", "DATE '-0001-12-30'"),
        ("date", "DATE '+10000-01-01'"),
        ("timestamp", "TIMESTAMP '+10000-01-01 04:59:59'"),
    ],
)
def test_partitions_of_far_days_are_overwritten(tmp_path: Path, kind: str, value: str) -> None:
    path, tables = str(tmp_path / "t"), {"t": str(tmp_path / "t")}
    make, extreme, _ = KEYS[kind]
    write_deltalake(path, pa.table({"d": make(extreme[:0]), "n": pa.array([], pa.int64())}), partition_by="d")
    for number in (1, 2):
        sql(f"INSERT OVERWRITE t PARTITION (d = {value}) SELECT {number}", tables=tables)
    assert DeltaTable(path).to_pyarrow_table()["n"].to_pylist() == [2]
    assert sql(f"DELETE FROM t WHERE d = {value}", tables=tables) is not None
    assert DeltaTable(path).count() == 0


def test_refusals_show_far_values(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"d": days([0]), "at": moments(UTC)([0])}))
    DeltaTable(path).alter.add_constraint({"later": "d >= DATE '1970-01-01' OR at > TIMESTAMP '1970-01-01 00:00:00'"})
    with pytest.raises(ConstraintViolationError, match="0000-12-30"):
        write_deltalake(path, pa.table({"d": days([-719_164]), "at": moments(UTC)([-1])}), mode="append")
    with pytest.raises(InvalidArgumentError, match="10000-01-01"):
        sql("SELECT * FROM t TIMESTAMP AS OF DATE '+10000-01-01'", tables={"t": path})
