"""MERGE with an evolving schema inside structs on Spark: compared with the model of the embedded
engine's test; and keys at the ends of their types' ranges.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings

import deltaplane
from api.rows.test_extreme_values import KEYS
from api.rows.test_merge_nested import fields_of
from deltaplane import DeltaTable, write_deltalake
from deltaplane.spark import DeltaTable as SparkTable
from nested_merges import Nested, arrow, lowered, nested_merges

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@settings(
    max_examples=5,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(case=nested_merges())
def test_nested_fields_become_what_the_model_says(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, case: Nested
) -> None:
    folder, (target, source) = tmp_path_factory.mktemp("nested"), case.tables()
    path, given_path = str(folder / "t"), str(folder / "s")
    write_deltalake(path, target)
    write_deltalake(given_path, source)
    deltaplane.sql(
        f"MERGE WITH SCHEMA EVOLUTION INTO delta.`{path}` t USING delta.`{given_path}` s ON t.id = s.id {case.clauses}",
        spark,
    )
    kind, rows = case.expected()
    table = DeltaTable(path).to_pyarrow_table()
    assert fields_of(table.schema.field("z").type) == fields_of(arrow(kind))
    left = {row["id"]: lowered(row["z"]) for row in table.to_pylist()}
    assert json.dumps(left, sort_keys=True) == json.dumps({i: lowered(z) for i, z in rows.items()}, sort_keys=True)


def test_a_struct_that_is_null_on_both_sides_stays_null(spark: SparkSession, tmp_path: Path) -> None:
    # As in delta-spark 4.4.
    path = str(tmp_path / "t")
    struct_type = pa.struct([("y", pa.int32()), ("z", pa.int32())])
    schema = pa.schema([("id", pa.int32()), ("c", struct_type)])
    write_deltalake(path, pa.Table.from_pylist([{"id": 1}, {"id": 2, "c": {"y": 1, "z": 2}}], schema))
    source = spark.createDataFrame([(1, None), (2, None)], "id int, c struct<y:int>").alias("s")
    table = SparkTable.forPath(spark, path).alias("t")
    table.merge(source, "t.id = s.id").withSchemaEvolution().whenMatchedUpdateAll().execute()
    left = sorted(DeltaTable(path).to_pyarrow_table().to_pylist(), key=lambda row: row["id"])
    assert left == [{"id": 1, "c": None}, {"id": 2, "c": {"y": None, "z": 2}}]


@pytest.mark.usefixtures("sources")
def test_keys_are_found_by_their_exact_values(spark: SparkSession, tmp_path: Path) -> None:
    random_order = random.Random(1)
    for kind in ("date", "decimal(38,0)"):
        make, extreme, others = KEYS[kind]
        # Few values are listed; of many, only the range is used.
        for number, chosen in enumerate((extreme[:4], [*extreme[:4], *others])):
            chosen = random_order.sample(chosen, len(chosen))
            path, given_path = (str(tmp_path / f"{kind}{number}{side}") for side in "ts")
            rows: Any = pa.table({"x": make(chosen), "v": [1] * len(chosen)})
            write_deltalake(path, rows)
            write_deltalake(given_path, rows)
            source = spark.read.format("deltaplane").load(given_path).alias("s")
            merge = SparkTable.forPath(spark, path).alias("t").merge(source, "t.x = s.x")
            merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
            done = DeltaTable(path).history(1)[0]["operationMetrics"]
            counts = [int(done[f"numTargetRows{what}"]) for what in ("Updated", "Inserted")]
            assert counts == [len(chosen), 0], (kind, number)
