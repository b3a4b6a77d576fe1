"""Type widening in Spark's native scan: files with older types are read, pruned and filtered under
the newer ones."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane import spark as dp
from interop.same import assert_same
from sparks import needs_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[3]
CORPUS = Path(os.environ.get("DELTAPLANE_SHARED", ROOT.parent / "shared")) / "corpus"
CASES = ["golden-type-widening", "ref-typewidening-all-changes", "ref-typewidening-nested-and-partition"]


# test_older_sparks.py tests the refusal.
reads_older_types = needs_spark("4.0", "doesn't read files of narrower types, which is refused")


@reads_older_types
@pytest.mark.parametrize("case", CASES)
def test_every_change_of_other_writers(spark: SparkSession, case: str) -> None:
    """P153: each change of the protocol, nested and in partition values."""
    table = str(CORPUS / case / "table")
    if not Path(table).is_dir():
        pytest.skip("the corpus of tables isn't beside the checkout")
    assert_same(dp.read(spark, table).toArrow(), DeltaTable(table).to_pyarrow_table())


@reads_older_types
def test_a_frame_widens_a_table(spark: SparkSession, path: str) -> None:
    narrow = pa.table({"i": pa.array([1, 2], pa.int32()), "f": pa.array([1.1, 2.0], pa.float32())})
    write_deltalake(path, narrow, configuration={"delta.enableTypeWidening": "true"})
    dp.write(spark.sql("SELECT 3000000000L AS i, 1.1D AS f"), path, schema_mode="merge")
    df = dp.read(spark, path)
    assert df.dtypes == [("i", "bigint"), ("f", "double")]
    assert sorted(r.i for r in df.collect()) == [1, 2, 3000000000]
    assert [df.where(c).count() for c in ("f > 1.1D", "f = 1.1D", "i >= 2", "i = 1")] == [2, 1, 2, 1]
    assert_same(df.toArrow(), DeltaTable(path).to_pyarrow_table())
