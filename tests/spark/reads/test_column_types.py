"""Variants and identity columns through Spark: the native scan and the core read each other's
files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from deltaplane import DeltaTable, Field, Schema
from deltaplane import spark as dp
from sparks import needs_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@needs_spark("4.0", "has no type VARIANT, which is refused")
def test_variants(spark: SparkSession, path: str) -> None:
    """P154"""
    texts = ['{"a":[1,2.5,"x",null,true]}', "7", None]
    rows = spark.createDataFrame([(i, t) for i, t in enumerate(texts)], "i int, t string")
    dp.write(rows.selectExpr("i", "parse_json(t) AS v", "array(parse_json(t)) AS l"), path)
    df = dp.read(spark, path)
    assert df.dtypes[1:] == [("v", "variant"), ("l", "array<variant>")]
    variants = df.selectExpr("i", "to_json(v) AS v", "to_json(l) AS l").orderBy("i").collect()
    assert [r.v for r in variants] == texts
    assert variants[0].l == f"[{texts[0]}]"
    from pyspark.sql.types import VariantVal

    own = DeltaTable(path).to_pyarrow_table().sort_by("i")["v"].to_pylist()
    decoded = [v and json.loads(VariantVal(v["value"], v["metadata"]).toJson()) for v in own]
    assert decoded == [t and json.loads(t) for t in texts]


@pytest.mark.usefixtures("sources")
def test_identity_values_of_many_tasks(spark: SparkSession, path: str) -> None:
    """P108"""
    metadata = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": False}
    DeltaTable.create(path, Schema([Field("id", "long", metadata=metadata), Field("n", "long")]))
    for start in (0, 100):
        dp.write(spark.range(start, start + 100, numPartitions=3).toDF("n"), path)
    spark.range(200, 210).toDF("n").write.format("deltaplane").mode("append").save(path)
    ids = DeltaTable(path).to_pyarrow_table()["id"].to_pylist()
    assert len(ids) == len(set(ids)) == 210
    mark = json.loads(DeltaTable(path).schema().to_json())["fields"][0]["metadata"]["delta.identity.highWaterMark"]
    assert (min(ids), max(ids)) == (1, mark)
