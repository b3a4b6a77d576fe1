"""Invalid sessions and tables: each error names the remedy."""

from __future__ import annotations

import os
import resource
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deltaplane import DeltaTable, exceptions
from deltaplane import spark as dp
from deltaplane.spark.jvm import internals as _internals
from following import needs_data_source
from interop.jars import delta_jars
from sparks import is_at_least, needs_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def with_jar(spark: SparkSession) -> Iterator[None]:
    """Makes this JVM thread see delta-spark's classes, as in a session that was started with the
    jar."""
    jvm: Any = spark._jvm
    thread = jvm.java.lang.Thread.currentThread()
    before = thread.getContextClassLoader()
    urls = spark.sparkContext._gateway.new_array(jvm.java.net.URL, len(delta_jars()))
    for i, jar in enumerate(delta_jars()):
        urls[i] = jvm.java.io.File(str(jar)).toURI().toURL()
    thread.setContextClassLoader(jvm.java.net.URLClassLoader(urls, before))
    yield
    thread.setContextClassLoader(before)


@needs_spark("4.1", "can't load the jar of delta-spark 4.4")
def test_a_session_with_the_jar_keeps_its_names(spark: SparkSession, with_jar: None) -> None:
    with pytest.raises(exceptions.UnsupportedFeatureError, match=r"delta-spark's jar.*without the jar"):
        dp.enable(spark)


def test_no_callback_server(spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dp.write(spark.range(3), path)

    def refused(gateway: Any) -> None:
        raise OSError("Address already in use")

    monkeypatch.setattr("pyspark.java_gateway.ensure_callback_server_started", refused)
    monkeypatch.setattr(_internals.Jvm, "_known", {})
    with pytest.raises(
        exceptions.UnsupportedFeatureError, match=r"can't call this process back.*Address already in use"
    ):
        dp.create_or_replace_temp_view(spark, "unheard", path)
    if is_at_least("4.0"):
        assert dp.read(spark, path).count() == 3, "the data source needs no calls back"
    else:
        with pytest.raises(exceptions.UnsupportedFeatureError, match="no data sources in Python"):
            dp.read(spark, path)


def test_too_many_open_files_for_the_callback_server(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dp.write(spark.range(3), path)
    monkeypatch.setattr(spark.sparkContext._gateway, "_callback_server", None)
    monkeypatch.setattr(_internals.Jvm, "_known", {})
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= hard < 2048:
        pytest.skip(f"no process here may have more than {hard} open files")
    with ExitStack() as files:
        files.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        while files.enter_context(open(os.devnull)).fileno() < 1024:
            pass
        with pytest.raises(exceptions.UnsupportedFeatureError, match=r"can't call this process back.*below 1024"):
            dp.create_or_replace_temp_view(spark, "unheard", path)


def test_workers_with_another_python(spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    context: Any = spark.sparkContext
    monkeypatch.setattr(context, "pythonVer", "3.8")
    with pytest.raises(ImportError, match=r"another version of Python.*PYSPARK_PYTHON"):
        dp.write(spark.range(3), path, target_file_size=1 << 20)
    monkeypatch.undo()
    monkeypatch.setattr(context, "pythonExec", "/no/such/python")
    with pytest.raises(ImportError, match=r"no Python where.*PYSPARK_PYTHON"):
        dp.write(spark.range(3), path, target_file_size=1 << 20)
    assert not DeltaTable.is_deltatable(path)
    assert dp.write(spark.range(3), path).version == 0, "Spark's own writer needs none"


def test_workers_without_the_package(
    spark: SparkSession, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deltaplane").mkdir()
    text = "raise ModuleNotFoundError(\"No module named 'deltaplane'\", name='deltaplane')"
    (tmp_path / "deltaplane" / "__init__.py").write_text(text)
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nPYTHONPATH='{tmp_path}':$PYTHONPATH exec '{sys.executable}' \"$@\"\n")
    python.chmod(0o755)
    context: Any = spark.sparkContext
    monkeypatch.setattr(context, "pythonExec", str(python))
    with pytest.raises(ImportError, match="doesn't have deltaplane: install it there"):
        dp.write(spark.range(3), path, target_file_size=1 << 20)
    assert not DeltaTable.is_deltatable(path)


def test_a_view_whose_table_was_replaced(spark: SparkSession, path: str) -> None:
    for _ in range(2):
        dp.write(spark.range(3), path)
    dp.create_or_replace_temp_view(spark, "replaced", path)
    assert spark.table("replaced").count() == 6
    shutil.rmtree(path)
    with pytest.raises(exceptions.TableNotFoundError, match="the view's table was deleted"):
        spark.table("replaced").count()
    for _ in range(3):
        dp.write(spark.range(5), path)
    with pytest.raises(Exception, match="create_or_replace_temp_view again"):
        spark.table("replaced").count()
    dp.create_or_replace_temp_view(spark, "replaced", path)
    assert spark.table("replaced").count() == 15


@needs_data_source
def test_streams_of_an_untried_spark_go_through_the_data_source(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dp.write(spark.range(3), path)
    monkeypatch.setattr(_internals, "STREAMS_SUPPORTED", ("9.9",))
    query = dp.read_stream(spark, path).writeStream.format("noop").trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert "MicroBatchScan" in query._jsq.explainInternal(False)
