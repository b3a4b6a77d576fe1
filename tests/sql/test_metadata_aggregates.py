"""Counts and extremes from the log equal those of the rows, and need no file; facts missing in the
log are read from files."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path

import pyarrow as pa
import pytest

import deltaplane
from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import FileMissingError

FROM_LOG = [
    "SELECT count(*) AS n FROM t",
    "SELECT count(1) AS n, count(x) AS x, min(x) AS lo, max(x) + 1 AS hi FROM t",
    "SELECT min(day) AS lo, max(day) AS hi, count(day) AS n FROM t WHERE p = 'a'",
    "SELECT p, count(*) AS n, max(x) AS hi, count(p) AS ps FROM t GROUP BY p ORDER BY p",
    "SELECT q, min(i) AS lo FROM t WHERE p IS NOT NULL OR q < 2 GROUP BY q HAVING count(*) > 1 ORDER BY q DESC",
    "SELECT count(DISTINCT p) AS p, max(q) AS q, min(upper(p)) AS u FROM t",
    "SELECT count(*) AS n FROM t WHERE p = 'nowhere'",
    "SELECT count(*) AS n FROM t UNION ALL SELECT max(x) AS n FROM t WHERE q = 1 ORDER BY n",
]
READ = [
    "SELECT count(*) AS n FROM t WHERE x > 2",
    "SELECT sum(x) AS n FROM t",
    "SELECT max(f) AS n FROM t",
    "SELECT min(at) AS n FROM t",
    "SELECT max(s) AS n FROM t",
    "SELECT count(DISTINCT x) AS n FROM t",
    "SELECT min(x + q) AS n FROM t",
    "SELECT max(x) FILTER (WHERE p = 'a') AS n FROM t",
    "SELECT sum(q) AS n FROM t",
]


def rows(seed: int, count: int) -> pa.Table:
    draw = random.Random(seed)

    def some(values: list[object]) -> list[object]:
        return [draw.choice([*values, None]) for _ in range(count)]

    # The same milliseconds for all rows, since bounds in the log have no microseconds.
    moment = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)
    return pa.table(
        {
            "p": pa.array(some(["a", "b c", "é/d"]), pa.string()),
            "q": pa.array(some([1, 2]), pa.int32()),
            "x": pa.array(some(list(range(-5, 9))), pa.int64()),
            "i": pa.array(some([-(2**31), 0, 2**31 - 1]), pa.int32()),
            "f": pa.array(some([float("nan"), -0.0, 1.5]), pa.float64()),
            "s": pa.array(some(["a" * 40, "a" * 40 + "b"]), pa.string()),
            "day": pa.array(some([dt.date(1, 1, 1), dt.date(2024, 2, 29)]), pa.date32()),
            "at": pa.array([moment + dt.timedelta(microseconds=draw.randrange(1000)) for _ in range(count)]),
        }
    )


def table(where: str, seed: int, **configuration: str) -> pa.Table:
    """Makes a table of three commits; returns its rows."""
    for part in range(3):
        write_deltalake(
            where, rows(seed + part, 20), partition_by=["p", "q"], mode="append", configuration=configuration or None
        )
    return DeltaTable(where).to_pyarrow_table()


def without_files(path: str) -> None:
    for file in Path(path).rglob("*.parquet"):
        if "_delta_log" not in file.parts:
            file.unlink()


@pytest.mark.parametrize("checkpointed", [False, True])
@pytest.mark.parametrize("query", FROM_LOG)
def test_what_the_log_tells_needs_no_file(query: str, checkpointed: bool, tmp_path: Path) -> None:
    # P160, P164
    path = str(tmp_path / "t")
    data = table(path, seed=7)
    if checkpointed:
        DeltaTable(path).create_checkpoint()
    expected = deltaplane.sql(query, tables={"t": data})
    without_files(path)
    assert deltaplane.sql(query, tables={"t": path}).to_pylist() == expected.to_pylist()


@pytest.mark.parametrize("query", READ)
def test_what_it_does_not_tell_is_read(query: str, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    data = table(path, seed=70)
    expected = deltaplane.sql(query, tables={"t": data}).to_pylist()
    assert repr(deltaplane.sql(query, tables={"t": path}).to_pylist()) == repr(expected)
    without_files(path)
    with pytest.raises(FileMissingError):
        deltaplane.sql(query, tables={"t": path})


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "configuration",
    [
        {"delta.enableDeletionVectors": "true"},
        {"delta.columnMapping.mode": "name"},
        {"delta.dataSkippingNumIndexedCols": "2"},
    ],
    ids=["vectors", "mapped", "few"],
)
def test_results_are_those_of_the_rows(seed: int, configuration: dict[str, str], tmp_path: Path) -> None:
    # P120, P166: bounds of files with a vector may be wide; columns without statistics have none
    path = str(tmp_path / "t")
    table(path, 100 + seed, **configuration)
    opened = DeltaTable(path)
    opened.delete(f"x = {seed - 2}")
    if seed % 2:
        opened.create_checkpoint()
    data = DeltaTable(path).to_pyarrow_table()
    for query in FROM_LOG + READ:
        expected = deltaplane.sql(query, tables={"t": data}).to_pylist()
        assert repr(deltaplane.sql(query, tables={"t": path}).to_pylist()) == repr(expected), query


def test_files_without_statistics_are_read(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table(path, 5)
    log = tmp_path / "t" / "_delta_log" / f"{2:020}.json"
    log.write_text(log.read_text().replace('"stats":', '"not":'))
    expected = deltaplane.sql(FROM_LOG[1], tables={"t": DeltaTable(path).to_pyarrow_table()}).to_pylist()
    assert deltaplane.sql(FROM_LOG[1], tables={"t": path}).to_pylist() == expected
    without_files(path)
    with pytest.raises(FileMissingError):
        deltaplane.sql(FROM_LOG[1], tables={"t": path})
