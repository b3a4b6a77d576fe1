"""Scans by Spark leave out the files that an index of keys excludes, and show the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane import spark as dp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_scans_open_the_files_of_the_key(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    root = tmp_path / "keys"
    properties = {} if mode == "none" else {"delta.columnMapping.mode": mode}
    for ids in ([1, 60, 100], [2, 70, 99], [3, 60, 98]):
        rows = pa.table({"id": ids, "name": [f"n{i}" for i in ids]})
        write_deltalake(root, rows, mode="append", configuration=properties)
    table = DeltaTable(root)
    table.index.create(["id"])
    table.index.create(["name"])
    for condition, ids, files in [
        ("id = 70", [70], 1),
        ("id IN (60, 5)", [60, 60], 2),
        ("id = 50", [], 0),
        ("name = 'n98'", [98], 1),
        ("id = 70 OR name = 'n3'", [3, 70], 2),
        ("id <=> 70 OR id IS NULL", [70], 3),
    ]:
        planned = set(table.files(condition))
        assert len(planned) == files
        gone = [root / name for name in set(table.files()) - planned]
        # Opening any of these would fail.
        for file in gone:
            file.rename(file.with_suffix(".away"))
        try:
            matches = dp.read(spark, str(root)).where(condition).collect()
        finally:
            for file in gone:
                file.with_suffix(".away").rename(file)
        assert sorted(row["id"] for row in matches) == ids, condition


def overlapping(root: Path, files: int, rows: int) -> DeltaTable:
    """A table with an index of `id`, whose files all have the same bounds; file f has the ids f,
    f + files, f + 2 * files and so on."""
    for file in range(files):
        ids = [-1, *range(file, files * rows, files), files * rows]
        write_deltalake(root, pa.table({"id": pa.array(ids, pa.int64()), "n": ids}), mode="append")
    table = DeltaTable(root)
    table.index.create(["id"])
    return table


def away(root: Path, names: set[str]) -> list[Path]:
    """Renames files, so that opening any of them fails."""
    return [(root / name).rename(root / f"{name}.away") for name in sorted(names)]


def test_lists_and_merges_of_many_keys_open_the_files_of_the_keys(spark: SparkSession, tmp_path: Path) -> None:
    """Spark makes a set of more than ten values, whose JSON has none of them."""
    root = tmp_path / "keys"
    table = overlapping(root, 8, 500)
    listed = ", ".join(str(i) for i in range(3, 8 * 300, 8))
    condition = f"id IN ({listed})"
    planned = set(table.files(condition))
    assert len(planned) == 1
    gone = away(root, set(table.files()) - planned)
    frame = dp.read(spark, str(root))
    for where in (condition, f"n >= 0 AND ({condition} OR id = 3)"):
        assert frame.where(where).count() == 300, where
    source = spark.createDataFrame([(i,) for i in range(3, 8 * 300, 8)], "id long")
    target = dp.DeltaTable.forPath(spark, str(root)).alias("t")
    target.merge(source.alias("s"), "t.id = s.id").whenMatchedUpdate(set={"n": "-5"}).execute()
    for path in gone:
        path.rename(path.with_suffix(""))
    assert dp.read(spark, str(root)).where("n = -5").count() == 300
    assert DeltaTable(root).count() == 8 * 502


def test_conditions_and_merges_of_two_columns_open_the_files_of_the_pairs(spark: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "pairs"
    for file in range(6):
        numbers = [*range(600), 0]
        tenants = [f"t{(number + file) % 6}" for number in numbers[:-1]] + ["t5"]
        write_deltalake(root, pa.table({"tenant": tenants, "number": numbers, "n": numbers}), mode="append")
    table = DeltaTable(root)
    table.index.create(["tenant", "number"])
    # Pairs that the third file has alone.
    pairs = [(f"t{(number + 2) % 6}", number) for number in range(7, 207)]
    planned = set(table.files("tenant = 't3' AND number = 7"))
    assert len(planned) == 1
    gone = away(root, set(table.files()) - planned)
    frame = dp.read(spark, str(root))
    assert frame.where("tenant = 't3' AND number = 7 AND n > 0").count() == 1
    assert frame.where("(tenant = 't3' AND number = 7) OR (tenant = 't4' AND number = 8)").count() == 2
    source = spark.createDataFrame([*pairs, (None, 9)], "tenant string, number long")
    target = dp.DeltaTable.forPath(spark, str(root)).alias("t")
    condition = "t.tenant = s.tenant AND t.number = s.number"
    target.merge(source.alias("s"), condition).whenMatchedUpdate(set={"n": "-5"}).execute()
    for path in gone:
        path.rename(path.with_suffix(""))
    assert dp.read(spark, str(root)).where("n = -5").count() == 200


def test_statistics_leave_files_out_by_lists_of_many_values(spark: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "t"
    for first in (0, 100, 200):
        write_deltalake(root, pa.table({"id": list(range(first, first + 50))}), mode="append")
    away(root, set(DeltaTable(root).files()) - set(DeltaTable(root).files("id >= 100 AND id < 150")))
    values = ", ".join(map(str, range(110, 190, 3)))
    assert dp.read(spark, str(root)).where(f"id IN ({values})").count() == len(range(110, 150, 3))
