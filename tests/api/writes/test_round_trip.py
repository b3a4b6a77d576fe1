"""Rows of every kind of data frame are written and read back unchanged."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, write_deltalake

UTC = dt.timezone.utc

EVERY_TYPE = pa.table(
    {
        "string": pa.array(["ä", "", None], pa.string()),
        "long": pa.array([2**63 - 1, -(2**63), None], pa.int64()),
        "integer": pa.array([2**31 - 1, -(2**31), None], pa.int32()),
        "short": pa.array([32767, -32768, None], pa.int16()),
        "byte": pa.array([127, -128, None], pa.int8()),
        "float": pa.array([1.5, -0.0, None], pa.float32()),
        "double": pa.array([1e308, float("inf"), None], pa.float64()),
        "boolean": pa.array([True, False, None], pa.bool_()),
        "binary": pa.array([b"\x00\xff", b"", None], pa.binary()),
        "date": pa.array([dt.date(1, 1, 1), dt.date(9999, 12, 31), None], pa.date32()),
        "timestamp": pa.array(
            [dt.datetime(1, 1, 1, tzinfo=UTC), dt.datetime(2024, 3, 10, 16, 34, 56, 123456, UTC), None],
            pa.timestamp("us", "UTC"),
        ),
        "decimal": pa.array([Decimal("99999999.99"), Decimal("-0.01"), None], pa.decimal128(10, 2)),
        "wide": pa.array([Decimal(10**37), Decimal(-(10**37)), None], pa.decimal128(38, 0)),
        "array": pa.array([[{"k": "a", "n": 1}], [], None], pa.list_(pa.struct({"k": pa.string(), "n": pa.int64()}))),
        "map": pa.array([[("a", 1)], [], None], pa.map_(pa.string(), pa.int64())),
        "struct": pa.array(
            [{"x": 1, "y": None}, {"x": None, "y": "z"}, None], pa.struct({"x": pa.int64(), "y": pa.string()})
        ),
    }
)


def rows(table: Any) -> list[dict[str, Any]]:
    return DeltaTable(table).to_pyarrow_table().to_pylist()


def test_every_type_keeps_its_values(tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    write_deltalake(path, EVERY_TYPE)
    back = DeltaTable(path).to_pyarrow_table()
    assert back.to_pylist() == EVERY_TYPE.to_pylist()
    assert back.schema.names == EVERY_TYPE.schema.names


def test_timestamps_without_zone_are_their_own_type(tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    data = pa.table({"t": pa.array([dt.datetime(2024, 3, 10, 2, 30)], pa.timestamp("us"))})
    write_deltalake(path, data)
    assert DeltaTable(path).to_pyarrow_table()["t"].to_pylist() == [dt.datetime(2024, 3, 10, 2, 30)]
    assert DeltaTable(path).schema().fields[0].type.to_json() == '"timestamp_ntz"'


def test_nanoseconds_that_are_microseconds_go_in(tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    moments = pa.array([1_710_000_000_123_456_000], pa.timestamp("ns", "UTC"))
    write_deltalake(path, pa.table({"t": moments}))
    assert DeltaTable(path).to_pyarrow_table()["t"].cast(pa.int64()).to_pylist() == [1_710_000_000_123_456]


def test_nullability_goes_to_the_table(tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("x", pa.string())])
    write_deltalake(path, pa.table({"id": [1], "x": ["a"]}, schema=schema))
    assert [f.nullable for f in DeltaTable(path).schema().fields] == [False, True]


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["a b", "ä/ö", "100%", "x=y", None, "", "'\"", "東京"]),
        pa.array([dt.date(2024, 2, 29), None]),
        pa.array([1, -5, None], pa.int32()),
        pa.array([True, False, None]),
        pa.array([Decimal("1.50"), Decimal("-2.00"), None], pa.decimal128(5, 2)),
        pa.array([dt.datetime(2024, 3, 10, 16, 34, 56, 123456, UTC), None], pa.timestamp("us", "UTC")),
    ],
    ids=lambda a: str(a.type),
)
def test_partition_values_come_back(tmp_table: Callable[[], str], values: pa.Array) -> None:
    path = tmp_table()
    data = pa.table({"p": values, "n": list(range(len(values)))})
    write_deltalake(path, data, partition_by="p")
    back = DeltaTable(path).to_pyarrow_table().sort_by("n")
    # An empty string is no partition value: Delta stores it as null.
    expected = [None if value == "" else value for value in values.to_pylist()]
    assert back["p"].to_pylist() == expected
    assert back.schema.names == ["p", "n"]


# --- what goes in -----------------------------------------------------------------------------------------------------

ROWS = [{"x": 1, "y": "a"}, {"x": 2, "y": None}]


def frames() -> Iterator[tuple[str, Callable[[], Any]]]:
    table = pa.table({"x": [1, 2], "y": ["a", None]})

    def with_pandas(make: Callable[[Any], Any]) -> Callable[[], Any]:
        return lambda: make(pytest.importorskip("pandas"))

    def with_polars(make: Callable[[Any], Any]) -> Callable[[], Any]:
        return lambda: make(pytest.importorskip("polars"))

    def duck() -> Any:
        return pytest.importorskip("duckdb").connect().sql("SELECT * FROM (VALUES (1::BIGINT, 'a'), (2, NULL)) t(x, y)")

    class OneArray:
        def __arrow_c_array__(self, requested_schema: object | None = None) -> object:
            return table.to_batches()[0].__arrow_c_array__(requested_schema)

    yield "pyarrow.Table", lambda: table
    yield "pyarrow.RecordBatch", lambda: table.to_batches()[0]
    yield "pyarrow.RecordBatchReader", table.to_reader
    yield "list of batches", lambda: [table.to_batches()[0].slice(0, 1), table.to_batches()[0].slice(1)]
    yield "generator of batches", lambda: (batch for batch in table.to_batches())
    yield "__arrow_c_array__", OneArray
    yield "pandas.DataFrame", with_pandas(lambda pd: pd.DataFrame({"x": [1, 2], "y": ["a", None]}))
    yield (
        "pandas filtered",
        with_pandas(lambda pd: pd.DataFrame({"x": [0, 1, 2], "y": ["-", "a", None]})[lambda d: d.x > 0]),
    )
    yield "polars.DataFrame", with_polars(lambda pl: pl.DataFrame({"x": [1, 2], "y": ["a", None]}))
    yield "polars.LazyFrame", with_polars(lambda pl: pl.LazyFrame({"x": [1, 2], "y": ["a", None]}))
    yield "duckdb relation", duck


@pytest.mark.parametrize("make", [m for _, m in frames()], ids=[n for n, _ in frames()])
def test_every_frame_goes_in(tmp_table: Callable[[], str], make: Callable[[], Any]) -> None:
    path = tmp_table()
    write_deltalake(path, make())
    assert rows(path) == ROWS


def test_a_named_pandas_index_is_data(tmp_table: Callable[[], str]) -> None:
    pd = pytest.importorskip("pandas")
    path = tmp_table()
    write_deltalake(path, pd.DataFrame({"x": [1, 2]}, index=pd.Index(["a", "b"], name="key")))
    assert rows(path) == [{"x": 1, "key": "a"}, {"x": 2, "key": "b"}]


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        ([{"x": 1}], r"pyarrow\.Table\.from_pylist"),
        ({"x": [1]}, r"pyarrow\.table\(data\)"),
        ([], "no schema"),
        ("x", "can't write a str"),
        (None, "can't write a NoneType"),
        ([1, 2], "iterable of int"),
        (pa.array([1]), "__arrow_c_stream__"),
    ],
)
def test_what_is_no_table_is_refused_with_a_hint(tmp_table: Callable[[], str], data: Any, hint: str) -> None:
    path = tmp_table()
    with pytest.raises(TypeError, match=hint):
        write_deltalake(path, data)
    assert not DeltaTable.is_deltatable(path)


# --- what comes out ---------------------------------------------------------------------------------------------------


@pytest.fixture
def table() -> DeltaTable:
    write_deltalake("memory://round-trip/t", pa.table({"x": [1, 2, 3], "y": ["a", "b", None]}), mode="overwrite")
    return DeltaTable("memory://round-trip/t")


def test_a_scan_reads_anew_each_time(table: DeltaTable) -> None:
    scan = table.scan(["y"], "x > 1")
    assert scan.schema.names == ["y"]
    assert [scan.to_arrow()["y"].to_pylist() for _ in range(2)] == [["b", None], ["b", None]]
    assert sum(batch.num_rows for batch in scan) == 2
    assert pa.table(scan).num_rows == 2
    assert repr(scan) == "Scan(y)"


def test_duckdb_and_polars_take_a_scan_and_a_table(table: DeltaTable) -> None:
    duckdb, pl = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    scan = table.scan(predicate="x > 1")
    relation = duckdb.from_arrow(scan)
    assert [relation.sum("x").fetchall() for _ in range(2)] == [[(5,)], [(5,)]]
    assert pl.DataFrame(table)["x"].to_list() == [1, 2, 3]
    assert table.to_polars(["x"], "y = 'a'").rows() == [(1,)]
    assert pa.table(table).num_rows == 3


def test_pandas_gets_a_frame(table: DeltaTable) -> None:
    pd = pytest.importorskip("pandas")
    assert table.to_pandas(columns=["x"], filters=[("x", ">=", 2)])["x"].tolist() == [2, 3]
    assert table.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get).dtypes["x"] == pd.Int64Dtype()


def test_columns_come_in_the_order_asked_for(table: DeltaTable) -> None:
    assert table.to_pyarrow_table(columns=["y", "x"]).schema.names == ["y", "x"]


def test_filters_as_text_tuples_and_expressions_agree(table: DeltaTable) -> None:
    import pyarrow.compute as pc

    for filters in ("x >= 2", [("x", ">=", 2)], [[("x", "=", 2)], [("x", "=", 3)]], pc.field("x") >= 2):
        assert table.to_pyarrow_table(columns=["x"], filters=filters)["x"].to_pylist() == [2, 3], filters
    both = table.to_pyarrow_table(partitions=[("x", ">", 1)], filters=[("x", "<", 3)])
    assert both["x"].to_pylist() == [2]


def test_rows_are_counted(table: DeltaTable) -> None:
    assert table.count() == 3


def test_no_columns_still_count(table: DeltaTable) -> None:
    assert sum(batch.num_rows for batch in table.scan(columns=[])) == 3
