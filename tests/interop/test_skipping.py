"""delta-spark's data skipping with deltaplane's statistics loses no row, and does skip;
deltaplane's skipping with both kinds of statistics likewise."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from api.writes import test_float_bounds as bounds
from interop import datasets
from interop.delta_spark import DeltaSpark

# Column → Spark SQL literals around its values: extremes, both sides of zero, values that no row
# has.
LITERALS: dict[str, list[str]] = {
    "flag": ["true", "false"],
    "byte": ["-128Y", "0Y", "127Y", "3Y"],
    "short": ["-32768S", "0S", "32767S"],
    "int": ["-2147483648", "0", "2147483647"],
    "long": ["-9223372036854775808L", "9007199254740993L", "9223372036854775807L", "2"],
    "float": ["float('NaN')", "float('Infinity')", "float('-Infinity')", "float(0.0)", "float(-0.0)", "float(0.1)"],
    "double": ["double('NaN')", "double('Infinity')", "double('-Infinity')", "0.0D", "-0.0D", "0.1D", "5e-324D"],
    "dec_small": ["-999.99BD", "-0.01BD", "0.10BD", "999.99BD", "0.105BD"],
    "dec_money": ["-99999999999999.9999BD", "0.1BD", "99999999999999.9999BD"],
    "dec_whole": [
        "-99999999999999999999999999999999999999BD",
        "18446744073709551617BD",
        "99999999999999999999999999999999999999BD",
    ],
    "dec_deep": [
        "0.000000000000000001BD",
        "99999999999999999999.999999999999999999BD",
        "-99999999999999999999.999999999999999999BD",
    ],
    "text": [
        "''",
        "' '",
        "'a'",
        f"'{datasets.LONG}a'",
        f"'{datasets.LONG}b'",
        f"'{datasets.LONG}'",
        "'é'",
        "'\U0010ffff'",
        "'" + "\U0010ffff" * 33 + "'",
    ],
    "bytes": ["X''", "X'00'", "X'FFFF'"],
    "day": ["DATE'0001-01-01'", "DATE'1582-10-04'", "DATE'1970-01-01'", "DATE'9999-12-31'"],
    "moment": [
        "TIMESTAMP'0001-01-01 00:00:00'",
        "TIMESTAMP'1969-12-31 23:59:59.999999'",
        "TIMESTAMP'2024-02-29 12:30:15.123456'",
        "TIMESTAMP'2024-02-29 12:30:15.123'",
        "TIMESTAMP'9999-12-31 23:59:59.999999'",
    ],
    "wall": [
        "TIMESTAMP_NTZ'0001-01-01 00:00:00'",
        "TIMESTAMP_NTZ'1969-12-31 23:59:59.999999'",
        "TIMESTAMP_NTZ'2024-02-29 12:30:15.123456'",
        "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'",
    ],
}
OPERATORS = ["=", "<>", "<", "<=", ">", ">=", "<=>"]
# These operators suffice: a file lost by another operator is also lost by one of these (`<=` skips
# where `<` and `=` both do, `<=>` where `=` does). delta-spark plans a query for each condition, a
# fraction of a second each.
BOUNDING = ["=", "<>", "<", ">"]


def conditions(column: str, operators: list[str]) -> list[str]:
    """Each operator with each literal, and conditions on the column alone."""
    texts = [f"{column} {op} {literal}" for literal in LITERALS[column] for op in operators]
    texts += [f"{column} is null", f"{column} is not null", f"{column} in ({', '.join(LITERALS[column])})"]
    texts += [f"not ({column} <= {LITERALS[column][0]})", f"{column} > {LITERALS[column][0]} or id = 1"]
    if column == "text":
        texts += [f"text like '{p}%'" for p in ("", "a", "x", datasets.LONG, datasets.LONG + "b", "\U0010ffff")]
    return texts


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The primitive types in a deltaplane table: a file for each row, and one file with all
    rows."""
    from deltaplane import write_deltalake

    table, rows = str(tmp_path_factory.mktemp("skipping") / "ours"), datasets.primitives()
    for i in range(rows.num_rows):
        write_deltalake(table, rows.slice(i, 1), mode="append")
    write_deltalake(table, rows, mode="append")
    return table


@pytest.fixture(scope="module")
def theirs(delta_spark: DeltaSpark, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same rows with delta-spark's statistics, some rows per file."""
    table, rows = str(tmp_path_factory.mktemp("skipping") / "theirs"), datasets.primitives()
    for start in range(0, rows.num_rows, 3):
        delta_spark.write(table, rows.slice(start, 3))
    return table


@pytest.mark.parametrize("column", LITERALS)
def test_delta_spark_skips_by_our_statistics(column: str, ours: str, delta_spark: DeltaSpark) -> None:
    asked = conditions(column, BOUNDING)
    expected = delta_spark.counts(ours, asked)
    actual = delta_spark.counts_skipping(ours, asked)
    assert dict(zip(asked, actual, strict=True)) == dict(zip(asked, expected, strict=True))


@pytest.mark.parametrize("column", LITERALS)
def test_we_skip_by_our_statistics(column: str, ours: str, delta_spark: DeltaSpark) -> None:
    asked = conditions(column, OPERATORS)
    expected = delta_spark.counts(ours, asked)
    assert dict(zip(asked, our_counts(ours, asked), strict=True)) == dict(zip(asked, expected, strict=True))


@pytest.mark.parametrize("column", LITERALS)
def test_we_skip_by_their_statistics(column: str, theirs: str, delta_spark: DeltaSpark) -> None:
    asked = conditions(column, OPERATORS)
    expected = delta_spark.counts(theirs, asked)
    assert dict(zip(asked, our_counts(theirs, asked), strict=True)) == dict(zip(asked, expected, strict=True))


def our_counts(table: str, asked: list[str]) -> list[int]:
    from deltaplane import DeltaTable

    opened = DeltaTable(table)
    return [opened.scan(columns=["id"], predicate=condition).to_arrow().num_rows for condition in asked]


@pytest.mark.parametrize("writer", ["append", "OPTIMIZE"])
def test_delta_spark_and_deltalake_find_nan_and_both_zeros(
    writer: str, delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    """By deltaplane's statistics, and by the bounds, page indexes and dictionaries of its files."""
    # P168, Q4
    table = str(tmp_path / "t")
    bounds.OURS[writer](table, bounds.all_rows())
    asked = [c.format("x", "double") for c in bounds.CONDITIONS] + [
        c.format("s.f", "float") for c in bounds.CONDITIONS[::3]
    ]
    counts = delta_spark.counts_skipping(table, asked)
    assert dict(zip(asked, counts, strict=True)) == dict(zip(asked, delta_spark.counts(table, asked), strict=True))
    opened = deltalake.DeltaTable(table)

    def rows(text: str) -> int:
        return pa.table(deltalake.QueryBuilder().register("t", opened).execute(text).read_all()).num_rows

    for value in ("5", "0.0", "30000", "'NaN'"):
        for op in ("=", "<>", ">", ">=", "<", "<="):
            condition = f"x {op} CAST({value} AS DOUBLE)"
            # A condition that isn't pushed down: every row is evaluated.
            all_of_them = (
                f"SELECT k FROM (SELECT k, CASE WHEN {condition} THEN 1 ELSE 0 END AS hit FROM t) WHERE hit = 1"
            )
            assert rows(f"SELECT k FROM t WHERE {condition}") == rows(all_of_them), condition


@pytest.mark.parametrize(
    "condition",
    [
        "id = 3",
        "id < 2",
        "long = 9223372036854775807L",
        "dec_whole = 99999999999999999999999999999999999999BD",
        f"text = '{datasets.LONG}a'",
        "day = DATE'9999-12-31'",
        "moment = TIMESTAMP'2024-02-29 12:30:15.123456'",
        "flag is null",
    ],
)
def test_delta_spark_does_skip(condition: str, ours: str, delta_spark: DeltaSpark) -> None:
    files = delta_spark.snapshot(ours)["num_files"]
    assert delta_spark.files_read(ours, condition) <= files // 2


def test_our_partition_values_prune(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    from deltaplane import DeltaTable, write_deltalake

    table, rows = str(tmp_path / "t"), datasets.awkward_partitions()
    write_deltalake(table, rows, partition_by=["p", "q"])
    opened = DeltaTable(table)
    texts = [value.replace("\\", "\\\\").replace("'", "\\'") for value in datasets.AWKWARD]
    asked = [f"p = '{text}'" for text in texts]
    assert delta_spark.counts_skipping(table, asked) == [1] * len(asked)
    assert delta_spark.files_read(table, " or ".join(asked[:3])) == 3
    for value, condition in zip(datasets.AWKWARD, asked, strict=True):
        assert opened.scan(predicate=condition).to_arrow().num_rows == 1, value
        assert len(opened.files(condition)) == 1, value
    assert opened.scan(predicate="p is null").to_arrow().num_rows == 1


def test_prefixes_of_32_characters(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    """Statistics contain the first 32 characters: bounds of longer values must still enclose
    them."""
    from deltaplane import write_deltalake

    table = str(tmp_path / "t")
    values = ["x" * 32 + tail for tail in ("", "\u0000", "a", "\ud7ff", "\uffff", "\U0010ffff", "\U0010ffff" * 2)]
    values += ["\U0010ffff" * n for n in (31, 32, 33)] + ["é" * 31 + "\U0010ffff" + "z", ""]
    for i, value in enumerate(values):
        write_deltalake(table, pa.table({"i": [i], "s": [value]}), mode="append")
    asked = [
        f"s {op} cast(unhex('{v.encode().hex()}') as string)" for v in values for op in ("=", "<", ">", ">=", "<=")
    ]
    assert delta_spark.counts_skipping(table, asked) == delta_spark.counts(table, asked)
