"""Rows deleted by deletion vectors stay deleted in the native scan, in live views and in the data
source.

The corpus's tables, written by delta-spark; the expected rows come from the Rust reader, which the
corpus tests check.
"""

from __future__ import annotations

import math
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, _native, exceptions
from deltaplane import spark as dp
from deltaplane.spark.jvm import internals as _internals
from deltaplane.spark.scan import file_index as _index
from deltaplane.spark.scan import replay as _replay

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[3]
CORPUS = Path(os.environ.get("DELTAPLANE_SHARED", ROOT.parent / "shared")) / "corpus"

if not CORPUS.is_dir():
    pytest.skip("the corpus of tables isn't beside the checkout", allow_module_level=True)

# Case → conditions: on columns with statistics, on partitions, on a row's position among the
# deleted ones.
CASES = {
    "ref-dv-delete-update-merge": ["id > 10", "grp = 1"],
    "ref-dv-large-bitmaps": ["id between 65000 and 66000", "g = 3"],
    "golden-dv-partitioned-with-checkpoint": ["part = 1", "part = 1 and col1 > 3"],
    "ref-columnmapping-dv-cdf-together": ["id > 5", "grp = 1"],
}


def table(case: str) -> str:
    return str(CORPUS / case / "table")


def rows(source: pa.Table | DataFrame) -> list[tuple[Any, ...]]:
    rows_read = source if isinstance(source, pa.Table) else source.toArrow()
    return sorted(zip(*rows_read.to_pydict().values(), strict=True), key=repr)


@pytest.mark.parametrize("case", CASES)
def test_the_native_scan_shows_no_deleted_row(spark: SparkSession, case: str) -> None:
    # P120, P124
    path = table(case)
    expected = DeltaTable(path)
    frame = dp.read(spark, path)
    assert frame.columns == [field.name for field in expected.schema().fields]
    assert frame.count() == expected.count() == expected.to_pyarrow_table().num_rows
    for condition in CASES[case]:
        assert rows(frame.where(condition)) == rows(expected.scan(predicate=condition).to_arrow()), condition
    assert len(frame.inputFiles()) == len(expected.files())


def test_the_row_reader_counts_positions_too(spark: SparkSession) -> None:
    path = table("ref-dv-delete-update-merge")
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", "false")
    try:
        assert rows(dp.read(spark, path)) == rows(DeltaTable(path).to_pyarrow_table())
    finally:
        spark.conf.unset("spark.sql.parquet.enableVectorizedReader")


def test_a_view_follows_the_vectors(spark: SparkSession, tmp_path: Path) -> None:
    case, path = CORPUS / "ref-dv-delete-update-merge" / "table", tmp_path / "table"
    shutil.copytree(case, path)
    commits = sorted((path / "_delta_log").glob("*.json"))
    later = [(commit, commit.read_bytes()) for commit in commits[2:]]
    for commit, _ in later:
        commit.unlink()
    dp.create_or_replace_temp_view(spark, "followed", str(path))
    counts = []
    for commit, text in later:
        counts.append(spark.table("followed").count())
        commit.write_bytes(text)
    counts.append(spark.table("followed").count())
    assert counts == [DeltaTable(path, version=v).count() for v in range(1, len(commits))]


@pytest.mark.usefixtures("sources")
def test_the_data_source_applies_vectors(spark: SparkSession) -> None:
    path = table("ref-dv-delete-update-merge")
    frame = spark.read.format("deltaplane").load(path)
    assert rows(frame) == rows(DeltaTable(path).to_pyarrow_table())


def test_a_scan_without_a_place_for_vectors_says_so(spark: SparkSession) -> None:
    # Like a view created before the table got the feature.
    jvm = _internals.Jvm.of(spark)
    snapshot = _native.Snapshot.open(table("ref-dv-inline"))
    jobs = _replay.JobPlans(spark, None, math.inf)
    live = _index.LiveSnapshots(snapshot, lambda: snapshot, _native.RawStore.open(snapshot.location))
    index = _index.DeltaplaneFileIndex(spark, jvm, live, jobs)
    with pytest.raises(exceptions.UnsupportedFeatureError, match="make it again"):
        index.size_bytes(snapshot)
