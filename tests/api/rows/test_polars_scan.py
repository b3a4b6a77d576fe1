"""`deltaplane.polars.scan`: the answers of Polars over the whole rows, whatever is skipped; and
what is skipped, shown by files that are missing."""

from __future__ import annotations

import datetime as dt
import json
import random
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

import deltaplane.polars
from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import FileMissingError, InvalidArgumentError, VersionNotFoundError

UTC = dt.timezone.utc
# Values at the edges of the types, twice as likely to meet as others.
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (pa.int64(), [None, 0, 1, -1, 7, 2**63 - 1, -(2**63)]),
    "h": (pa.int16(), [None, 0, 3, -3, 2**15 - 1]),
    "f": (pa.float64(), [None, 0.0, -0.0, 1.5, float("nan"), float("inf"), float("-inf")]),
    "g": (pa.float32(), [None, 0.1, -2.0, float("nan")]),
    "s": (pa.string(), [None, "", "a", "ab", "a%", "a_b", "é", "\U0001f600"]),
    "y": (pa.binary(), [None, b"", b"\x00", b"\xff"]),
    "b": (pa.bool_(), [None, True, False]),
    "d": (pa.date32(), [None, dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(9999, 12, 31)]),
    "t": (
        pa.timestamp("us", "UTC"),
        [None, dt.datetime(1582, 10, 4, tzinfo=UTC), dt.datetime(2024, 1, 1, 0, 0, 0, 1, UTC)],
    ),
    "n": (pa.timestamp("us"), [None, dt.datetime(1900, 1, 1), dt.datetime(2024, 1, 1, 12)]),
    "m": (pa.decimal128(20, 3), [None, Decimal("0.000"), Decimal("-1.500"), Decimal("12345678901234567.890")]),
}
TABLES = {
    "plain": {},
    "partitioned": {"partition_by": ["s"]},
    "mapped": {"configuration": {"delta.columnMapping.mode": "name"}},
    "vectors": {"configuration": {"delta.enableDeletionVectors": "true"}},
}
FEATURES = {"mapped": "columnMapping", "vectors": "deletionVectors"}


def rows_of(draw: random.Random, count: int) -> pa.Table:
    columns = {
        name: pa.array([draw.choice(values) for _ in range(count)], kind) for name, (kind, values) in VALUES.items()
    }
    return pa.table({"id": pa.array(range(count), pa.int32()), **columns})


def condition(draw: random.Random, depth: int = 2) -> pl.Expr:
    """A drawn condition of Polars; some of its parts are known to the planner, others aren't."""
    if depth and draw.random() < 0.6:
        left, right = condition(draw, depth - 1), condition(draw, depth - 1)
        return draw.choice([left & right, left | right, ~left, left ^ right])
    name = draw.choice(list(VALUES))
    column, (_, values) = pl.col(name), VALUES[name]
    value, other = (draw.choice([v for v in values if v is not None]) for _ in range(2))
    if name == "b":
        return draw.choice([column, ~column, column == value, column.is_null()])
    constant = draw.choice([pl.lit(value), pl.lit(value, dtype=pl.Decimal(20, 3))]) if name == "m" else pl.lit(value)
    tests = [column == constant, column != constant, column < constant, constant <= column, column.is_not_null()]
    tests += [column > constant, column.is_between(constant, pl.lit(other)), column.eq_missing(constant)]
    if name not in ("y", "m"):
        tests += [column.is_in(draw.choices(values, k=3)), column.is_in(draw.choices(values, k=3), nulls_equal=True)]
    if name == "s":
        tests += [column.str.starts_with(value), column.str.len_bytes() > 1]
    if name in ("i", "h", "f"):
        tests += [column * 1 > 0, column.cast(pl.Float64) >= 1.5, column > 1, column < 1.5]
    return draw.choice(tests)


@pytest.fixture
def by_polars(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The columns of each read that Polars' own reader did."""
    reads: list[list[str]] = []
    own = deltaplane.polars._read_by_polars

    def counted(files: list[str], columns: list[str], *rest: Any) -> Any:
        reads.append(columns)
        return own(files, columns, *rest)

    monkeypatch.setattr(deltaplane.polars, "_read_by_polars", counted)
    return reads


@pytest.mark.parametrize("kind", TABLES)
def test_drawn_conditions_select_what_polars_selects(kind: str, tmp_path: Path, by_polars: list[list[str]]) -> None:
    draw = random.Random(f"polars {kind}")
    path = str(tmp_path / "t")
    for _ in range(4):
        write_deltalake(path, rows_of(draw, 40), mode="append", **TABLES[kind])
    DeltaTable(path).delete("id % 7 = 3")
    table = DeltaTable(path)
    assert FEATURES.get(kind, "timestampNtz") in table.protocol().reader_features
    lazy, whole = deltaplane.polars.scan(table), table.to_polars()
    assert lazy.collect_schema() == whole.schema
    counts = set()
    for _ in range(250):
        selected = condition(draw)
        columns = draw.sample(whole.columns, draw.randint(1, 4))
        got = lazy.filter(selected).select(columns).collect()
        expected = whole.filter(selected).select(columns)
        assert_frame_equal(got, expected, check_row_order=False)
        assert lazy.filter(selected).select(pl.len()).collect().item() == expected.height
        counts.add(expected.height)
    assert len(counts) > 20, "the conditions select rows and don't"
    # Deletion vectors, mapped names, escaped paths and old days are deltaplane's own reader's.
    assert len(by_polars) > 50 if kind == "plain" else not by_polars
    assert not {name for columns in by_polars for name in columns} & {"d", "t"}


def three_files(path: str) -> None:
    for first in (0, 100, 200):
        ids = list(range(first, first + 100))
        days = [dt.date(2024, 1, 1) + dt.timedelta(days=i) for i in ids]
        names = [f"n{i:03}" for i in ids]
        write_deltalake(path, pa.table({"id": ids, "day": days, "name": names}), mode="append")


# Each is true for rows of the middle file alone.
SELECTIVE = {
    "=": pl.col("id") == 150,
    "mirrored": (pl.lit(199) > pl.col("id")) & (pl.lit(100) <= pl.col("id")),
    "IN": pl.col("id").is_in([100, 150]),
    "IN, texts": pl.col("name").is_in(["n100", "n150"]),
    "between": pl.col("day").is_between(dt.date(2024, 4, 15), dt.date(2024, 4, 20)),
    "prefix": pl.col("name").str.starts_with("n1"),
    "part of AND": (pl.col("id") + 0 > 3) & (pl.col("id") < 200) & (pl.col("id") >= 100),
    "OR": (pl.col("id") == 120) | (pl.col("name") == "n130"),
}


@pytest.mark.parametrize("name", SELECTIVE)
def test_files_that_a_condition_rules_out_are_not_opened(name: str, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    three_files(path)
    selected = SELECTIVE[name]
    expected = DeltaTable(path).to_polars().filter(selected)
    lazy = deltaplane.polars.scan(path)
    for add in DeltaTable(path).get_add_actions(flatten=True).to_pylist():
        if add["min.id"] != 100:
            (tmp_path / "t" / add["path"]).unlink()
    got = lazy.filter(selected).collect()
    assert expected.height
    assert_frame_equal(got, expected, check_row_order=False)
    with pytest.raises(FileMissingError):
        lazy.collect()


def test_a_limit_ends_the_read_and_versions_are_kept(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    three_files(path)
    lazy = deltaplane.polars.scan(path)
    write_deltalake(
        path, pa.table({"id": [1], "day": [None], "name": ["x"]}), mode="overwrite", schema_mode="overwrite"
    )
    assert lazy.select(pl.len()).collect().item() == 300
    assert lazy.head(5).collect().height == 5
    assert deltaplane.polars.scan(path, version=0).collect().height == 100
    assert deltaplane.polars.scan(path).collect().height == 1
    assert deltaplane.polars.scan(DeltaTable(path, version=1)).collect().height == 200
    streamed = deltaplane.polars.scan(path, version=2).group_by("day").len().collect(engine="streaming")
    assert streamed.height == 300
    with pytest.raises(InvalidArgumentError, match="open table"):
        deltaplane.polars.scan(DeltaTable(path), version=0)
    with pytest.raises(VersionNotFoundError):
        deltaplane.polars.scan(path, version=9)


def test_files_that_polars_would_read_otherwise_are_read_by_deltaplane(
    tmp_path: Path, by_polars: list[list[str]]
) -> None:
    import pyarrow.parquet as pq

    moments = pa.array([dt.datetime(2024, 1, 1)], pa.timestamp("us", "UTC"))
    kind = pa.schema({"id": pa.int64(), "at": moments.type, "name": pa.string()})
    files = {
        "same": pa.table({"id": [1], "at": moments, "name": ["a"]}, schema=kind),
        "other order": pa.table({"name": ["a"], "id": [1], "at": moments}),
        "one more column": pa.table({"id": [1], "at": moments, "name": ["a"], "dropped": [1]}),
        "int96": pa.table({"id": [1], "at": moments, "name": ["a"]}, schema=kind),
        "without a column": pa.table({"id": [1], "at": moments}),
        "other case": pa.table({"ID": [1], "at": moments, "name": ["a"]}),
        "narrower": pa.table({"id": pa.array([1], pa.int32()), "at": moments, "name": ["a"]}),
        "dictionary": pa.table({"id": [1], "at": moments, "name": pa.array(["a"]).dictionary_encode()}),
    }
    alike = {"same", "other order", "one more column"}
    for name, rows in files.items():
        path = tmp_path / name
        write_deltalake(path, files["same"])
        (add,) = DeltaTable(path).get_add_actions().to_pylist()
        pq.write_table(
            rows, path / add["path"], use_deprecated_int96_timestamps=name == "int96", store_schema=name != "int96"
        )
        log = path / "_delta_log" / f"{0:020}.json"
        entries = [json.loads(line) for line in log.read_text().splitlines()]
        for entry in entries:
            if "add" in entry:
                entry["add"]["size"] = (path / add["path"]).stat().st_size
        log.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
        by_polars.clear()
        expected = DeltaTable(path).to_polars()
        assert_frame_equal(deltaplane.polars.scan(path).collect(), expected)
        assert bool(by_polars) == (name in alike), name


def test_statistics_tell_whether_days_are_modern(tmp_path: Path, by_polars: list[list[str]]) -> None:
    for first, modern in ((dt.date(1582, 10, 4), False), (dt.date(1900, 1, 1), True)):
        path = tmp_path / str(first.year)
        write_deltalake(path, pa.table({"day": [first, dt.date(2024, 1, 1)]}))
        assert deltaplane.polars.scan(path).collect()["day"].to_list() == [first, dt.date(2024, 1, 1)]
        assert bool(by_polars) == modern


def test_columns_of_partitioned_files_are_read_by_polars(tmp_path: Path, by_polars: list[list[str]]) -> None:
    rows = pa.table({"p": ["a", "b", "a"], "x": [1, 2, 3]})
    write_deltalake(tmp_path, rows, partition_by="p")
    lazy = deltaplane.polars.scan(tmp_path)
    assert lazy.select(pl.col("x").sum()).collect().item() == 6
    assert by_polars == [["x"]]
    assert lazy.collect().sort("x")["p"].to_list() == ["a", "b", "a"]
    assert by_polars == [["x"]]


SCANS = {
    "ours": "import deltaplane.polars; frame = deltaplane.polars.scan(sys.argv[1])",
    "by the room": "import deltaplane.deltalake as room; room.install(); frame = pl.scan_delta(sys.argv[1])",
}


@pytest.mark.parametrize("scan", SCANS)
def test_scans_load_neither_pandas_nor_the_functions_of_pyarrow(tmp_path: Path, scan: str) -> None:
    """Each takes 40 MB and a fifth of a second, and pyarrow loads pandas to make an array."""
    # The room hides infinite bounds by functions of pyarrow.
    write_deltalake(tmp_path, rows_of(random.Random(1), 100).drop_columns(["f", "g"]))
    script = f"""
import sys
import polars as pl
{SCANS[scan]}
print(frame.filter(pl.col("id") >= 90, pl.col("t").is_not_null() | pl.col("t").is_null()).collect().height)
print([name for name in ("pandas", "pyarrow.compute") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.split("\n")[:2] == ["10", "[]"], done.stderr
