"""Column mapping in Spark: the native scan under physical names or ids, the portable source, and
writes (P110-P113)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deltaplane import DeltaTable
from deltaplane import spark as dp
from interop.same import assert_same

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[3]
CORPUS = Path(os.environ.get("DELTAPLANE_SHARED", ROOT.parent / "shared")) / "corpus"
CASES = [
    "ref-columnmapping-id-rename-drop",
    "ref-columnmapping-name-rename-drop-add",
    "ref-columnmapping-special-column-names",
    "ref-columnmapping-upgrade-existing-table",
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("sources")
def test_tables_of_other_writers(spark: SparkSession, case: str) -> None:
    table = str(CORPUS / case / "table")
    if not Path(table).is_dir():
        pytest.skip("the corpus of tables isn't beside the checkout")
    expected = DeltaTable(table).to_pyarrow_table()
    assert_same(dp.read(spark, table).toArrow(), expected)
    assert_same(spark.read.format("deltaplane").load(table).toArrow(), expected)


def nested(spark: SparkSession, start: int) -> DataFrame:
    return spark.range(start, start + 10, numPartitions=1).selectExpr(
        "id AS `the id`",
        f"'p{start}' AS `p,q`",
        "named_struct('a.b', id, 'in', named_struct('x', -id, 'y', 'z')) AS s",
        "array(named_struct('e', id)) AS l",
    )


@pytest.mark.parametrize("mode", ["name", "id"])
@pytest.mark.usefixtures("sources")
def test_filters_reach_files_through_the_names(spark: SparkSession, path: str, mode: str) -> None:
    for start in (0, 10, 20):
        configuration = {"delta.columnMapping.mode": mode}
        dp.write(nested(spark, start), path, partition_by="p,q", configuration=configuration)
    df = dp.read(spark, path)
    assert df.columns == ["the id", "p,q", "s", "l"]
    assert [(f.name, f.dataType.simpleString()) for f in df.schema] == nested(spark, 0).dtypes
    assert_same(df.toArrow(), DeltaTable(path).to_pyarrow_table())
    # By id, nested fields are read together, which prevents skipping by them.
    for condition, by_name, by_id, count in [
        ("`the id` = 12", 1, 1, 1),
        ("`p,q` = 'p20'", 1, 1, 10),
        ("s.`a.b` >= 15", 2, 3, 15),
        ("s.in.x = -25", 1, 3, 1),
        ("s.in.x = -25 AND `p,q` = 'p0'", 0, 1, 0),
    ]:
        assert df.where(condition).count() == count
        files = df._deltaplane_index.plans[-1].files
        assert (condition, files) == (condition, by_name if mode == "name" else by_id)
    plan = df.select("s.in.x")._jdf.queryExecution().executedPlan().toString()
    assert mode == "id" or "string" not in plan.split("ReadSchema")[1]
    assert sorted(r.x for r in df.select("s.in.x").collect()) == [-i for i in reversed(range(30))]
    assert df.select("l.e").where("`the id` = 3").count() == 1
    assert spark.read.format("deltaplane").load(path).where("s.in.x = -25").count() == 1


@pytest.mark.usefixtures("sources")
def test_the_portable_source_adds_columns(spark: SparkSession, path: str) -> None:
    """The committing process plans again and must generate the same physical names as the tasks."""
    dp.write(nested(spark, 0), path, configuration={"delta.columnMapping.mode": "name"})
    more = nested(spark, 10).selectExpr("*", "1.5D AS `new;`")
    more.write.format("deltaplane").mode("append").option("mergeSchema", "true").save(path)
    assert [r["n"] for r in dp.read(spark, path).selectExpr("count(`new;`) AS n").collect()] == [10]
    assert_same(dp.read(spark, path).toArrow(), DeltaTable(path).to_pyarrow_table())
