"""DuckDB reads files itself only where it gives the rows of deltaplane's own reader."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltaplane
from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import CorruptFileError, FileMissingError
from deltaplane.expr.duckdb_values import bounds_hold_floats
from deltaplane.queries import running

NAN = float("nan")
UTC = dt.timezone.utc
EVERY_TYPE = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "b": pa.array([127, -128, None, 0], pa.int8()),
        "s": pa.array([32767, -32768, None, 0], pa.int16()),
        "i": pa.array([2**31 - 1, -(2**31), None, 0], pa.int32()),
        "f": pa.array([NAN, -0.0, None, 1.5], pa.float32()),
        "d": pa.array([NAN, -0.0, None, 1e300]),
        "m": pa.array([Decimal("99999.99"), Decimal("-0.01"), None, Decimal(0)], pa.decimal128(7, 2)),
        "w": pa.array([Decimal(10**37), Decimal(-1), None, Decimal(0)], pa.decimal128(38, 0)),
        "o": pa.array([True, False, None, True]),
        "t": pa.array(["é😀", "", None, "a'b"]),
        "x": pa.array([b"\xff\x00", b"", None, b"a"]),
        "day": pa.array([dt.date(1, 1, 1), dt.date(9999, 12, 31), None, dt.date(1969, 12, 31)]),
        "at": pa.array(
            [dt.datetime(1, 1, 1, tzinfo=UTC), dt.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), None, None]
        ),
        "wall": pa.array([dt.datetime(9999, 12, 31, 23, 59, 59, 999999), dt.datetime(1900, 1, 1), None, None]),
    }
)
CONDITIONS = (
    *(
        "d > 5",
        "d = CAST('NaN' AS DOUBLE)",
        "NOT d <= 5",
        "f >= 0",
        "d = 0",
        "f IN (0)",
        "i > 0",
        "b < 0",
        "m < 0",
        "w > 1",
    ),
    *("t > ''", "t = 'é😀'", "x = X'ff00'", "day < DATE '1970-01-01'", "at < TIMESTAMP '1970-01-01 00:00:00Z'", "o"),
    *("wall > TIMESTAMP_NTZ '1950-01-01'", "i IS NULL", "d IS NOT NULL AND id > 1"),
)


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether DuckDB read each of the tables itself, in the order of the queries."""
    seen: list[bool] = []
    before = running.parquet_scan

    def noted(*args: Any) -> str | None:
        scan = before(*args)
        seen.append(scan is not None)
        return scan

    monkeypatch.setattr(running, "parquet_scan", noted)
    return seen


def selected(path: str, condition: str) -> list[int]:
    rows = deltaplane.sql(f"SELECT id FROM t WHERE {condition}", tables={"t": path})
    return sorted(rows["id"].to_pylist())


def written_by_pyarrow(path: str, data: pa.Table, **options: Any) -> str:
    """A table with one file of pyarrow's writer, whose bounds leave NaN out."""
    write_deltalake(path, data.slice(0, 0))
    write_deltalake(path, data, mode="append")
    (file,) = DeltaTable(path).file_uris()
    size = Path(file).stat().st_size
    pq.write_table(data, file, **options)
    log = Path(path, "_delta_log", f"{1:020}.json")
    log.write_text(log.read_text().replace(f'"size":{size}', f'"size":{Path(file).stat().st_size}'))
    for checksum in Path(path, "_delta_log").glob("*.crc"):
        checksum.unlink()
    return path


@pytest.mark.parametrize("written", ["deltaplane", "pyarrow"])
def test_every_type_has_the_values_of_the_own_reader(tmp_path: Path, scans: list[bool], written: str) -> None:
    path = str(tmp_path / "t")
    if written == "pyarrow":
        written_by_pyarrow(path, EVERY_TYPE)
    else:
        write_deltalake(path, EVERY_TYPE.slice(0, 2))
        write_deltalake(path, EVERY_TYPE.slice(2), mode="append")
    rows = deltaplane.sql("SELECT * FROM t", tables={"t": path}).sort_by("id")
    assert scans == [bounds_hold_floats()]
    own = DeltaTable(path).to_pyarrow_table().sort_by("id")
    assert repr(rows.to_pylist()) == repr(own.to_pylist())
    assert rows.schema.types == own.schema.types


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_select_the_rows_of_the_own_reader(
    tmp_path: Path, scans: list[bool], monkeypatch: pytest.MonkeyPatch, condition: str
) -> None:
    path = written_by_pyarrow(str(tmp_path / "t"), EVERY_TYPE, row_group_size=1)
    theirs = selected(path, condition)
    assert scans == [bounds_hold_floats() or not re.search(r"\b[df]\b", condition)]
    monkeypatch.setattr(running, "parquet_scan", lambda *args: None)
    assert selected(path, condition) == theirs


def test_columns_that_a_file_lacks_are_null(tmp_path: Path, scans: list[bool]) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"id": [1]}))
    write_deltalake(path, pa.table({"id": [2], "new": ["x"]}), mode="append", schema_mode="merge")
    rows = deltaplane.sql("SELECT id, new FROM t ORDER BY id", tables={"t": path})
    assert scans == [True]
    assert rows.to_pylist() == [{"id": 1, "new": None}, {"id": 2, "new": "x"}]


def test_renamed_columns_are_found_by_their_names_in_files(tmp_path: Path, scans: list[bool]) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"id": [1], "a b": [5]}), configuration={"delta.columnMapping.mode": "name"})
    deltaplane.sql("ALTER TABLE t RENAME COLUMN `a b` TO c", tables={"t": path})
    write_deltalake(path, pa.table({"id": [2], "c": [6]}), mode="append")
    rows = deltaplane.sql("SELECT c FROM t ORDER BY c", tables={"t": path})
    assert scans == [True]
    assert rows.to_pylist() == [{"c": 5}, {"c": 6}]


@pytest.mark.parametrize(
    "options",
    [{"use_deprecated_int96_timestamps": True}, {"coerce_timestamps": "ms"}, {"version": "1.0"}],
    ids=["int96", "milliseconds", "old format"],
)
def test_other_physical_types_have_the_values_of_the_own_reader(
    tmp_path: Path, scans: list[bool], options: dict[str, Any]
) -> None:
    times = pa.array([dt.datetime(1969, 12, 31, 23, 59, 59, 5000), dt.datetime(2024, 1, 1)], pa.timestamp("us"))
    path = written_by_pyarrow(str(tmp_path / "t"), pa.table({"id": [1, 2], "at": times}), **options)
    rows = deltaplane.sql("SELECT * FROM t ORDER BY id", tables={"t": path})
    assert scans == ["version" in options]
    assert rows.to_pylist() == DeltaTable(path).to_pyarrow_table().sort_by("id").to_pylist()


@pytest.mark.parametrize("name", ["a[b]", "a*b", "a?b"])
def test_names_that_duckdb_takes_for_patterns(tmp_path: Path, scans: list[bool], name: str) -> None:
    path = str(tmp_path / name)
    write_deltalake(path, pa.table({"id": [1]}))
    assert selected(path, "id > 0") == [1]
    assert scans == [False]


def test_errors_name_the_file(tmp_path: Path, scans: list[bool]) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"id": [1, 2, 3]}))
    (file,) = DeltaTable(path).file_uris()
    whole = Path(file).read_bytes()
    Path(file).write_bytes(whole[:20] + b"\xff" * 8 + whole[28:])
    with pytest.raises(CorruptFileError, match=Path(file).name):
        selected(path, "id > 0")
    Path(file).unlink()
    with pytest.raises(FileMissingError, match=Path(file).name):
        selected(path, "id > 0")


@pytest.mark.parametrize(("files", "rows", "by_duckdb"), [(31, 10, True), (32, 10, False), (32, 2048, True)])
@pytest.mark.parametrize("vectors", ["true", "false"])
def test_many_tiny_files_are_read_by_deltaplane(
    tmp_path: Path, scans: list[bool], files: int, rows: int, by_duckdb: bool, vectors: str
) -> None:
    path = str(tmp_path / "t")
    ids = pa.table({"id": range(files * rows), "part": [n // rows for n in range(files * rows)]})
    properties = {"delta.enableDeletionVectors": vectors}
    write_deltalake(path, ids, partition_by=["part"], configuration=properties)
    DeltaTable(path).delete("id = 3")
    rows_read = deltaplane.sql("SELECT id, part FROM t WHERE id % 3 = 0 ORDER BY id", tables={"t": path})
    assert rows_read["id"].to_pylist() == [n for n in range(files * rows) if n % 3 == 0 and n != 3]
    assert rows_read["part"].to_pylist() == [n // rows for n in rows_read["id"].to_pylist()]
    # One row less makes the files tiny, unless a vector has it.
    assert scans == [by_duckdb and not (rows == 2048 and vectors == "false")]
