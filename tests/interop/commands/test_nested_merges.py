"""A MERGE with an evolving schema over structs in structs, arrays and maps yields delta-spark's
types and rows.

Each table has several columns, each a random case: a type, the source's form of it (fields dropped,
added and of other types, names in another case), and values of both.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, sql, write_deltalake
from interop.delta_spark import DeltaSpark
from interop.same import assert_same
from interop.verifier import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = 8
# Types of source values, and types of their columns that can hold each of the values.
LEAVES = {
    pa.int64(): (pa.int64(), pa.int32(), pa.string(), pa.float64()),
    pa.int32(): (pa.int32(), pa.int64(), pa.string()),
    pa.float64(): (pa.float64(), pa.int32(), pa.float32()),
    pa.string(): (pa.string(),),
    pa.bool_(): (pa.bool_(), pa.string()),
    pa.date32(): (pa.date32(), pa.timestamp("us", "UTC"), pa.string()),
}
VALUES = {
    pa.int64(): range(-3, 4),
    pa.int32(): range(-3, 4),
    pa.float64(): (0.5, -1.5, 2.0),
    pa.float32(): (0.5, -1.5, 2.0),
    pa.string(): ("a", "", "ß"),
    pa.bool_(): (True, False),
    pa.date32(): range(-2, 20_000, 5_000),
    pa.timestamp("us", "UTC"): range(-2, 2),
}


def pair(draw: random.Random, depth: int) -> tuple[pa.DataType, pa.DataType]:
    """A type of the table, and the type of the source's column."""
    kind = draw.choice(("struct", "struct", "list", "map")) if depth else "leaf"
    if kind == "leaf":
        source_type = draw.choice(list(LEAVES))
        return draw.choice(LEAVES[source_type]), source_type
    below = [pair(draw, draw.randrange(depth)) for _ in range(3 if kind == "struct" else 1)]
    if kind == "list":
        return pa.list_(below[0][0]), pa.list_(below[0][1])
    if kind == "map":
        return pa.map_(pa.string(), below[0][0]), pa.map_(pa.string(), below[0][1])
    own, brought = list[pa.Field](), list[pa.Field]()
    for i, (to, source_type) in enumerate(below):
        where = draw.choice(("both", "both", "table", "source")) if i else "both"
        if where != "source":
            own.append(pa.field(f"f{i}", to))
        if where != "table":
            brought.append(pa.field(draw.choice((f"f{i}", f"F{i}")) if where == "both" else f"f{i}", source_type))
    draw.shuffle(brought)
    return pa.struct(own), pa.struct(brought)


def value(draw: random.Random, data_type: pa.DataType) -> Any:
    if draw.random() < 0.15:
        return None
    if pa.types.is_struct(data_type):
        return {field.name: value(draw, field.type) for field in data_type}
    if pa.types.is_list(data_type):
        return [value(draw, data_type.value_type) for _ in range(draw.randint(0, 2))]
    if pa.types.is_map(data_type):
        return [(key, value(draw, data_type.item_type)) for key in "kl"[: draw.randint(0, 2)]]
    return draw.choice(VALUES[data_type])


def rows(draw: random.Random, ids: list[int], types: list[pa.DataType]) -> pa.Table:
    columns = {f"z{i}": pa.array([value(draw, data_type) for _ in ids], data_type) for i, data_type in enumerate(types)}
    return pa.table({"id": pa.array(ids, pa.int64()), **columns})


@pytest.mark.parametrize("update", ["*", "whole", "* alone", "whole alone"])
def test_nested_merges_leave_what_delta_sparks_do(
    spark: SparkSession, delta_spark: DeltaSpark, tmp_table: Callable[[], str], update: str
) -> None:
    draw = random.Random(f"nested {update}")
    types = [pair(draw, 3) for _ in range(COLUMNS)]
    old = rows(draw, [1, 2, 3], [to for to, _ in types])
    new = rows(draw, [1, 2, 4], [source_type for _, source_type in types])
    source_path, embedded, distributed, theirs = (tmp_table() for _ in range(4))
    write_deltalake(source_path, new)
    write_deltalake(theirs, old)
    shutil.copytree(theirs, embedded)
    shutil.copytree(theirs, distributed)
    sets = "*" if update.startswith("*") else ", ".join(f"z{i} = s.z{i}" for i in range(COLUMNS))
    insert = "" if update.endswith("alone") else " WHEN NOT MATCHED THEN INSERT *"
    merge = (
        "MERGE WITH SCHEMA EVOLUTION INTO delta.`{}` t USING delta.`{}` s ON t.id = s.id "
        f"WHEN MATCHED THEN UPDATE SET {sets}{insert}"
    )
    delta_spark.sql(merge.format(theirs, source_path))
    sql(merge.format(embedded, source_path))
    sql(merge.format(distributed, source_path), spark)
    expected, schema = delta_spark.read(theirs), DeltaTable(theirs).schema()
    for ours in (embedded, distributed):
        assert DeltaTable(ours).schema() == schema
        assert_same(DeltaTable(ours).to_pyarrow_table(), expected)
        verify(ours)
