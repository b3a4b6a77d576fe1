"""Type widening (P153): wider data widens columns, older files are read as the newer type, pruning
loses no row."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import SchemaMismatchError, UnsupportedFeatureError

ON = {"delta.enableTypeWidening": "true"}

NARROW = pa.table(
    {
        "b": pa.array([1, None], pa.int8()),
        "i": pa.array([-5, 7], pa.int32()),
        "f": pa.array([1.1, -0.1], pa.float32()),
        "d": pa.array([date(2024, 1, 31), None], pa.date32()),
        "n": pa.array([Decimal("1.50"), Decimal("-99999999.99")], pa.decimal128(10, 2)),
        "s": pa.array(
            [{"x": 1, "l": [1, 2], "m": [(1, 1.5)]}, None],
            pa.struct([("x", pa.int16()), ("l", pa.list_(pa.int32())), ("m", pa.map_(pa.int8(), pa.float32()))]),
        ),
        "p": pa.array([1, 2], pa.int8()),
    }
)
WIDE = pa.table(
    {
        "b": pa.array([300], pa.int16()),
        "i": pa.array([2**40], pa.int64()),
        "f": pa.array([1.1], pa.float64()),
        "d": pa.array([datetime(2024, 2, 1, 12)], pa.timestamp("us")),
        "n": pa.array([Decimal("1.2345")], pa.decimal128(20, 4)),
        "s": pa.array(
            [{"x": 70000, "l": [2**40], "m": [(1000, 0.1)]}],
            pa.struct([("x", pa.int32()), ("l", pa.list_(pa.int64())), ("m", pa.map_(pa.int16(), pa.float64()))]),
        ),
        "p": pa.array([1000], pa.int16()),
    }
)


@pytest.fixture
def widened(tmp_path: Path) -> str:
    """Two rows in narrow files, one in a wide one, partitioned by `p`."""
    table = str(tmp_path / "t")
    write_deltalake(table, NARROW, configuration=ON, partition_by="p")
    write_deltalake(table, WIDE, mode="append", schema_mode="merge")
    return table


def changes(table: str) -> dict[str, Any]:
    fields = json.loads(DeltaTable(table).schema().to_json())["fields"]
    return {f["name"]: f["metadata"].get("delta.typeChanges") for f in fields}


def test_rows_of_every_file_have_the_new_types(widened: str) -> None:
    rows = DeltaTable(widened).to_pyarrow_table()
    assert [str(t) for t in rows.schema.types[:5]] == ["int16", "int64", "double", "timestamp[us]", "decimal128(20, 4)"]
    expected = NARROW.select(["b", "i", "f", "n", "p"]).cast(rows.select(["b", "i", "f", "n", "p"]).schema)
    rows_below = rows.filter(pa.compute.less(rows["p"], 1000)).sort_by("p")
    assert rows_below.select(expected.column_names).equals(expected)
    assert rows_below["d"].to_pylist() == [datetime(2024, 1, 31), None]
    assert rows_below["s"].to_pylist() == [{"x": 1, "l": [1, 2], "m": [(1, 1.5)]}, None]
    wide = rows.filter(pa.compute.equal(rows["p"], 1000))
    assert wide["s"].to_pylist() == WIDE["s"].to_pylist()
    assert DeltaTable(widened, version=0).to_pyarrow_table().schema.field("b").type == pa.int8()


def test_changes_are_recorded_and_kept(widened: str) -> None:
    recorded = changes(widened)
    assert recorded["b"] == [{"fromType": "byte", "toType": "short"}]
    assert recorded["d"] == [{"fromType": "date", "toType": "timestamp_ntz"}]
    assert recorded["n"] == [{"fromType": "decimal(10,2)", "toType": "decimal(20,4)"}]
    assert recorded["p"] == [{"fromType": "byte", "toType": "short"}]
    protocol = DeltaTable(widened).protocol()
    assert "typeWidening" in (protocol.reader_features or [])
    assert "timestampNtz" in (protocol.reader_features or [])
    again = pa.table({"b": pa.array([2**20], pa.int32()), "p": pa.array([3], pa.int8())})
    write_deltalake(widened, again, mode="append", schema_mode="merge")
    assert changes(widened)["b"] == [
        {"fromType": "byte", "toType": "short"},
        {"fromType": "short", "toType": "integer"},
    ]
    assert changes(widened)["d"] == recorded["d"]


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        ("b = 300", 1),
        ("b < 300", 1),
        ("i > 2147483647", 1),
        # The float 1.1 is 1.10000002384185791015625 as a double.
        ("f > 1.1", 1),
        ("f = 1.1", 1),
        ("f >= 1.1", 2),
        ("f < -0.1", 1),
        ("d >= timestamp_ntz'2024-01-31 00:00:00'", 2),
        ("d > timestamp_ntz'2024-01-31 00:00:00'", 1),
        ("n < 0", 1),
        ("n = 1.5", 1),
        ("s.x = 1", 1),
        ("p = 1", 1),
        ("p > 2", 1),
    ],
)
def test_pruning_loses_no_row(widened: str, condition: str, count: int) -> None:
    assert DeltaTable(widened).scan(predicate=condition).to_arrow().num_rows == count
    DeltaTable(widened).create_checkpoint()
    assert DeltaTable(widened).scan(predicate=condition).to_arrow().num_rows == count


def test_what_doesnt_widen_by_itself(tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    narrow, wide = pa.table({"x": pa.array([1], pa.int32())}), pa.table({"x": pa.array([1], pa.int64())})
    write_deltalake(table, narrow)
    with pytest.raises(SchemaMismatchError, match="`x`"):
        write_deltalake(table, wide, mode="append", schema_mode="merge")
    write_deltalake(table, narrow, mode="overwrite", schema_mode="overwrite", configuration=ON)
    other = str(tmp_path / "on")
    write_deltalake(other, narrow, configuration=ON)
    with pytest.raises(SchemaMismatchError, match="`x`"):
        write_deltalake(other, wide, mode="append")
    for kind in (pa.float64(), pa.decimal128(20, 2)):
        with pytest.raises(SchemaMismatchError, match="`x`"):
            write_deltalake(other, pa.table({"x": pa.array([1], kind)}), mode="append", schema_mode="merge")
    write_deltalake(other, narrow, mode="append", schema_mode="merge")
    assert changes(other) == {"x": None}


def test_an_unknown_change_is_refused_by_name(widened: str) -> None:
    log = Path(widened) / "_delta_log"
    text = (log / f"{1:020}.json").read_text()
    broken = text.replace('\\"toType\\":\\"short\\"', '\\"toType\\":\\"string\\"')
    assert broken != text
    (log / f"{1:020}.json").write_text(broken)
    with pytest.raises(UnsupportedFeatureError, match="DELTA_UNSUPPORTED_TYPE_CHANGE_IN_SCHEMA"):
        DeltaTable(widened)
