"""Cached frames after writes of the same session: they show the table's present rows, whichever
command wrote them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from deltaplane.spark import DeltaTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def ids(frame: DataFrame) -> list[int]:
    # A new query: a collected frame keeps its plan, as in delta-spark.
    return sorted(row.id for row in frame.select("id").collect())


def test_cached_frames_follow_every_write_of_the_session(enabled: SparkSession, path: str) -> None:
    spark = enabled
    spark.range(5).write.format("delta").save(path)
    read = spark.read.format("delta")
    named = f"delta.`{path}`"
    read.load(path).createOrReplaceTempView("recached_view")
    shown = {
        "filtered": read.load(path).where("id > 1").cache(),
        "joined": read.load(path).join(spark.range(3), "id").cache(),
        "by sql": spark.sql(f"SELECT * FROM {named}").cache(),
        "view": spark.table("recached_view"),
    }
    spark.catalog.cacheTable("recached_view")
    pinned = spark.read.format("delta").option("versionAsOf", 0).load(path).cache()

    def streamed() -> None:
        spark.range(40, 41).write.format("delta").save(f"{path} source")
        stream = spark.readStream.format("delta").load(f"{path} source").writeStream.format("delta")
        query = stream.option("checkpointLocation", f"{path} query").trigger(availableNow=True).start(path)
        assert query.awaitTermination(120)

    table = DeltaTable.forPath(spark, path)
    merge = "WHEN NOT MATCHED THEN INSERT *"
    writes: list[Callable[[], Any]] = [
        lambda: spark.range(10, 11).write.format("delta").mode("append").save(path),
        lambda: spark.range(11, 12).writeTo(named).append(),
        lambda: spark.range(12, 13).write.insertInto(named),
        lambda: spark.sql(f"INSERT INTO {named} VALUES (13)"),
        lambda: spark.sql(f"DELETE FROM {named} WHERE id = 1"),
        lambda: spark.sql(f"UPDATE {named} SET id = 20 WHERE id = 2"),
        lambda: spark.sql(f"MERGE INTO {named} t USING (SELECT 30L AS id) s ON t.id = s.id {merge}"),
        lambda: table.delete("id = 30"),
        lambda: table.restoreToVersion(0),
        streamed,
        lambda: spark.range(2).write.format("delta").mode("overwrite").save(path),
    ]
    try:
        for number, write in enumerate(writes):
            for frame in (*shown.values(), pinned):
                frame.count()
            write()
            now = ids(read.load(path))
            assert ids(pinned) == [0, 1, 2, 3, 4], number
            expected = {"filtered": [i for i in now if i > 1], "joined": [i for i in now if i < 3]}
            for said, frame in shown.items():
                assert ids(frame) == expected.get(said, now), (number, said)
        # Writing from such a frame doesn't restore old rows.
        shown["by sql"].write.format("delta").save(f"{path} copy")
        assert ids(read.load(f"{path} copy")) == [0, 1]
    finally:
        spark.catalog.clearCache()
