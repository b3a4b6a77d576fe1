"""The probe, the transfer of scan plans to the JVM, and sessions that can't run the native scan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, _native, exceptions, write_deltalake
from deltaplane import spark as dp
from deltaplane.spark.jvm import internals as _internals
from deltaplane.spark.jvm import java_sources as _java
from sparks import is_at_least

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def test_the_jvm_reads_what_the_core_writes(spark: SparkSession, path: str) -> None:
    """Values of partitions and files arrive unchanged: a long text, one with special characters,
    null."""
    texts = ["x" * 200, "a b%/é", None]
    rows = [(i, text) for i in range(2) for text in texts]
    for _ in range(2):
        data = pa.table({"id": [i for i, _ in rows], "p": [p for _, p in rows]})
        write_deltalake(path, data, partition_by="p", mode="append")
    nothing = _internals.Jvm.of(spark).seq([])
    index = dp.read(spark, path)._deltaplane_index  # type: ignore[attr-defined]
    directories = index.shown.listFiles(nothing, nothing)
    files_of_condition = {}
    for directory in map(directories.apply, range(directories.size())):
        values, files = directory.values(), directory.files()
        text = None if values.isNullAt(0) else values.getUTF8String(0).toString()
        assert (values.numFields(), text in files_of_condition) == (1, False)
        files_of_condition[text] = {
            (str(file.getPath().toUri()), file.getLen(), file.getModificationTime())
            for file in map(files.apply, range(files.size()))
        }
    table = DeltaTable(path)
    assert {uri for files in files_of_condition.values() for uri, _, _ in files} == {
        *_native.spark_file_uris(table._snapshot, "all")
    }
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    assert {text: sorted(about for _, *about in files) for text, files in files_of_condition.items()} == {
        text: sorted(
            [add["size_bytes"], round(add["modification_time"].timestamp() * 1000)]
            for add in actions
            if add["partition.p"] == text
        )
        for text in texts
    }
    assert {len(files) for files in files_of_condition.values()} == {2}
    assert [(p.files, p.directories) for p in index.plans] == [(6, 3)]


def test_what_can_t_be_built_as_expected_is_no_native_scan(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = dict(_java.sources(spark.version))[_java.RULE]
    others = {**dict(_java.sources(spark.version)), _java.RULE: text.replace('"apply"', '"applied"')}
    monkeypatch.setattr(_java, "sources", lambda version: others.items())
    monkeypatch.setattr(_internals.Jvm, "_known", {})
    with pytest.raises(_internals.NativeScanUnavailable, match="isn't built as expected"):
        _internals.Jvm.of(spark)


def test_untried_versions_use_the_data_source(spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dp.write(spark.range(5), path)
    monkeypatch.setattr(_internals, "SUPPORTED", ("3.4",))
    with pytest.raises(_internals.NativeScanUnavailable, match="none of the versions tried"):
        _internals.Jvm.of(spark)
    if is_at_least("4.0"):
        df = dp.read(spark, path, version=0)
        assert not hasattr(df, "_deltaplane_index")
        assert df.count() == 5
    else:
        with pytest.raises(exceptions.UnsupportedFeatureError, match="no data sources in Python"):
            dp.read(spark, path, version=0)
    with pytest.raises(NotImplementedError, match="none of the versions tried"):
        dp.create_or_replace_temp_view(spark, "v", path)


def test_missing_classes_are_named(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_internals._CLASSES, "platform", "org.apache.spark.unsafe.NoSuchPlatform")
    with pytest.raises(_internals.NativeScanUnavailable, match=r"no class org\.apache\.spark\.unsafe\.NoSuchPlatform"):
        _internals.Jvm(spark)


def test_planning_calls_nothing_of_the_jvm(spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many JVM calls as a query of plain files, all of them PySpark's own."""
    from py4j.clientserver import JavaClient

    rows = spark.range(20).selectExpr("id", "id % 3 AS p")
    dp.write(rows, path, partition_by="p")
    rows.write.partitionBy("p").parquet(path + " plain")
    calls: list[str] = []
    send = JavaClient.send_command

    def counted(self: JavaClient, command: str, *arguments: Any, **named: Any) -> Any:
        # py4j reports released references at a time that Python chooses.
        if not command.startswith("m"):
            calls.append(command)
        return send(self, command, *arguments, **named)

    def calls_of(frame: DataFrame) -> int:
        calls.clear()
        assert [row.id for row in frame.where("id < 5 AND p = 1").collect()] == [1, 4]
        return len(calls)

    frames = spark.read.parquet(path + " plain"), dp.read(spark, path)
    monkeypatch.setattr(JavaClient, "send_command", counted)
    plain, ours = map(calls_of, frames)
    assert ours == plain > 0
