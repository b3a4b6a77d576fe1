"""The JVM's file index caches answers about a version: it never uses them for another version, and
only caches small ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from deltaplane import DeltaTable
from deltaplane import spark as dp
from deltaplane.spark.jvm import internals as _internals
from deltaplane.spark.scan import file_index as _index

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# An answer with bytes, and one without, which confirms the cached one.
ANEW, AS_BEFORE = "anew", "as before"


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How each question about files is answered."""
    kinds: list[str] = []
    apply = _index.DeltaplaneFileIndex.apply

    def noted(self: _index.DeltaplaneFileIndex, question: str, conditions: Any) -> Any:
        answer = apply(self, question, conditions)
        if question.startswith(("prepare", "list")):
            kinds.append(ANEW if answer else AS_BEFORE)
        return answer

    monkeypatch.setattr(_index.DeltaplaneFileIndex, "apply", noted)
    return kinds


def write(spark: SparkSession, path: str, start: int, end: int) -> None:
    dp.write(spark.range(start, end, numPartitions=1).selectExpr("id", "id % 3 AS p"), path, partition_by="p")


def test_a_version_s_answer_is_asked_for_once(spark: SparkSession, path: str, answers: list[str]) -> None:
    write(spark, path, 0, 30)
    frame = dp.read(spark, path)
    for _ in range(3):
        assert sorted(row.id for row in frame.where("p = 1 AND id < 9").collect()) == [1, 4, 7]
        assert frame.count() == 30
    assert answers == [ANEW, ANEW]
    # Filters distinguish files, and Spark's own evaluation selects the partitions.
    assert frame.where("p = 2 AND id < 9").count() == 3
    assert frame.where("p + 1 = 2").count() == 10
    assert [plan.directories for plan in frame._deltaplane_index.plans[-2:]] == [1, 1]  # type: ignore[attr-defined]
    assert answers == [ANEW] * 4
    # A frame stays at one version, whatever other writers commit.
    write(spark, path, 30, 60)
    assert frame.count() == 30
    assert answers == [ANEW] * 4


def test_sessions_of_other_time_zones_ask_for_themselves(spark: SparkSession, path: str, answers: list[str]) -> None:
    dp.write(spark.sql("SELECT TIMESTAMP '2026-01-01 12:00:00' AS t"), path)
    frame = dp.read(spark, path)
    condition = "date(t) = '2026-01-02'"
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        for name, count in (("UTC", 0), ("Pacific/Kiritimati", 1), ("UTC", 0)):
            spark.conf.set("spark.sql.session.timeZone", name)
            assert frame.where(condition).count() == count
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))
    assert answers == [ANEW, ANEW]


def test_a_live_view_asks_whether_its_version_is_the_newest(spark: SparkSession, path: str, answers: list[str]) -> None:
    write(spark, path, 0, 30)
    dp.create_or_replace_temp_view(spark, "kept", path)

    def counts() -> int:
        row = spark.sql("SELECT count(*) FROM kept WHERE p = 1").first()
        assert row is not None
        return int(row[0])

    assert [counts(), counts()] == [10, 10]
    assert answers == [ANEW, AS_BEFORE]
    write(spark, path, 30, 60)
    assert [counts(), counts()] == [20, 20]
    DeltaTable(path).delete("id < 15")
    assert [counts(), counts()] == [15, 15]
    assert answers == [ANEW, AS_BEFORE] * 3


def test_answers_that_are_kept_are_small_together(spark: SparkSession, path: str) -> None:
    write(spark, path, 0, 3)
    jvm, index = _internals.Jvm.of(spark), dp.read(spark, path)._deltaplane_index.shown  # type: ignore[attr-defined]
    loader = index.getClass().getClassLoader()

    def made(name: str, *arguments: Any) -> Any:
        values = jvm._gateway.new_array(jvm.object, len(arguments))
        for i, argument in enumerate(arguments):
            values[i] = argument
        return loader.loadClass(f"deltaplane.{name}").getConstructors()[0].newInstance(values)

    def value_of_size(size: int) -> Any:
        head = b"name\x000\x000\x000\x00\x000\x000"
        answer = len(head).to_bytes(4, "big") + head + (0).to_bytes(4, "big")
        return made("Found", answer.ljust(size, b"\0"))

    cache = made("Kept")

    def held(*names: str) -> list[str]:
        return [name for name in names if cache.get(name) is not None]

    for name in "abcd":
        cache.put(name, value_of_size(1 << 20))
    assert held("a", "b", "c", "d", "e") == ["a", "b", "c", "d"]
    # The least recently used answer is evicted; an answer that exceeds the limit alone isn't
    # cached.
    assert held("a") == ["a"]
    cache.put("e", value_of_size(1 << 20))
    assert held("a", "b", "c", "d", "e") == ["a", "c", "d", "e"]
    cache.put("f", value_of_size((4 << 20) + 1))
    assert held("a", "c", "d", "e", "f") == ["a", "c", "d", "e"]
    cache.put("c", value_of_size(3 << 20))
    assert held("a", "c", "d", "e") == ["c", "e"]
