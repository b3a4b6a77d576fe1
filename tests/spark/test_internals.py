"""The probe, the template of serialised scan plans, and what happens where the native scan can't run."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest

from deltaplane import _native
from deltaplane import spark as dp
from deltaplane.spark import _internals, _template

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_the_core_writes_what_java_would(spark: SparkSession, path: str) -> None:
    dp.write(spark.range(30).coalesce(1).selectExpr("id", "int(id % 3) AS p"), path, partition_by="p")
    dp.write(spark.range(3).coalesce(1).selectExpr("id", "int(id % 3) AS p"), path)
    jvm = _internals.Jvm.of(spark)
    snapshot = _native.Snapshot.open(path)
    plan = _native.spark_plan(snapshot, _native.SparkTemplate(jvm.template), [], "UTC", "all")
    directories = jvm.partition_directories(plan.blob)
    expected = []
    for directory in directories:
        value = directory.values().getInt(0)
        row = struct.pack("=Q", 0) + struct.pack("=i", value) + b"\0" * 4
        files = []
        for file in jvm.converters.asJava(directory.files()):
            uri = file.getPath().toUri().toString().encode()
            files.append((struct.pack(">H", len(uri)) + uri, file.getLen(), file.getModificationTime()))
        expected.append((struct.pack(">BBii", 0x77, 24, 16, 1) + row, files))
    assert [len(files) for _, files in expected] == [2, 2, 2]
    assert _template.assemble(jvm.template, expected) == plan.blob
    assert (plan.files, plan.directories) == (6, 3)


def test_other_layouts_are_noticed() -> None:
    with pytest.raises(_template.UnexpectedLayout):
        _template.cut(dict.fromkeys(_template.SHAPES, b"something else"))


def test_untried_versions_use_the_data_source(spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dp.write(spark.range(5), path)
    monkeypatch.setattr(_internals, "SUPPORTED", ("3.5",))
    with pytest.raises(_internals.NativeScanUnavailable, match="none of the versions tried"):
        _internals.Jvm.of(spark)
    df = dp.read(spark, path, version=0)
    assert not hasattr(df, "_deltaplane_index")
    assert df.count() == 5
    with pytest.raises(NotImplementedError, match="none of the versions tried"):
        dp.create_or_replace_temp_view(spark, "v", path)


def test_missing_classes_are_named(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_internals._CLASSES, "relation", "org.apache.spark.sql.execution.NoSuchRelation")
    with pytest.raises(
        _internals.NativeScanUnavailable, match=r"no class org\.apache\.spark\.sql\.execution\.NoSuchRelation"
    ):
        _internals.Jvm(spark)


def test_planning_takes_few_calls_into_the_jvm(spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from py4j.clientserver import JavaClient

    dp.write(spark.range(20).selectExpr("id", "id % 3 AS p"), path, partition_by="p")
    frame = dp.read(spark, path)
    calls: list[str] = []
    send = JavaClient.send_command

    def counted(self: JavaClient, command: str, *arguments: Any, **named: Any) -> Any:
        # References that are let go of are told when Python gets to it.
        if not command.startswith("m"):
            calls.append(command)
        return send(self, command, *arguments, **named)

    def query() -> None:
        assert [row.id for row in frame.where("id < 5 AND p = 1").collect()] == [1, 4]

    # What is asked of a JVM once.
    query()
    monkeypatch.setattr(JavaClient, "send_command", counted)
    query()
    assert 20 < len(calls) < 150
