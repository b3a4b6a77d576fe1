"""The live view: newest version at each query, one version per query, and a clear error if its
columns change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from deltaplane import exceptions
from deltaplane import spark as dp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def append(spark: SparkSession, path: str, start: int, end: int) -> None:
    dp.write(spark.range(start, end, numPartitions=1).selectExpr("id", "'x' AS s"), path)


def test_view_follows_new_commits(spark: SparkSession, path: str) -> None:
    append(spark, path, 0, 10)
    dp.create_or_replace_temp_view(spark, "follows", path)
    assert spark.sql("SELECT count(*) FROM follows").first()[0] == 10
    append(spark, path, 10, 25)
    assert spark.sql("SELECT count(*) FROM follows").first()[0] == 25
    dp.write(spark.range(3).selectExpr("id", "'y' AS s"), path, mode="overwrite")
    assert {r.s for r in spark.table("follows").collect()} == {"y"}


def test_one_snapshot_per_query(spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from deltaplane.spark.scan import file_index as _index

    append(spark, path, 0, 10)
    dp.create_or_replace_temp_view(spark, "pinned", path)
    seen: list[tuple[str | None, int]] = []
    original = _index.LiveSnapshots.for_query

    def commit_between(self: _index.LiveSnapshots, query_id: str | None) -> object:
        snapshot = original(self, query_id)
        seen.append((query_id, snapshot.version))
        if len(seen) == 1:
            # Another writer commits while this query is being planned.
            import pyarrow as pa

            from deltaplane import write_deltalake

            write_deltalake(path, pa.table({"id": [100], "s": ["late"]}), mode="append")
        return snapshot

    monkeypatch.setattr(_index.LiveSnapshots, "for_query", commit_between)
    query = (
        "SELECT count(*), (SELECT max(id) FROM pinned) FROM pinned a WHERE id IN (SELECT id FROM pinned WHERE id >= 0)"
    )
    assert tuple(spark.sql(query).first()) == (10, 9)
    assert len(seen) >= 3
    assert {version for _, version in seen} == {0}
    assert len({query_id for query_id, _ in seen}) == 1
    assert None not in {query_id for query_id, _ in seen}
    assert tuple(spark.sql(query).first()) == (11, 100)


def test_added_columns_keep_the_view_working(spark: SparkSession, path: str) -> None:
    append(spark, path, 0, 2)
    dp.create_or_replace_temp_view(spark, "grows", path)
    dp.write(spark.sql("SELECT 5L AS id, 'x' AS s, 1 AS extra"), path, schema_mode="merge")
    assert spark.table("grows").columns == ["id", "s"]
    assert spark.sql("SELECT sum(id) FROM grows").first()[0] == 6


def test_changed_columns_say_what_to_do(spark: SparkSession, path: str) -> None:
    append(spark, path, 0, 2)
    dp.create_or_replace_temp_view(spark, "changes", path)
    dp.write(spark.sql("SELECT 'text' AS id"), path, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(
        Exception, match="`id` was long not null and is string not null; `s` was string not null and is gone"
    ) as raised:
        spark.sql("SELECT count(id) FROM changes").collect()
    assert "create_or_replace_temp_view" in str(raised.value)
    dp.create_or_replace_temp_view(spark, "changes", path)
    assert spark.sql("SELECT id FROM changes").first()[0] == "text"


def test_no_table(spark: SparkSession, path: str) -> None:
    with pytest.raises(exceptions.TableNotFoundError):
        dp.create_or_replace_temp_view(spark, "nothing", path)
