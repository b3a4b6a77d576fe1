"""Registers the data source with sessions, and creates a local session with settings for Delta
tables.

Doesn't access tables.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from deltaplane.expr.quoting import with_backticks
from deltaplane.expr.strings import WrongText
from deltaplane.spark.jvm.internals import delta_jar, is_connect, let_go_of_catalog

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader, SparkSession
    from pyspark.sql.datasource import DataSource
    from pyspark.sql.streaming.readwriter import DataStreamReader

__all__ = ["portable_reader", "portable_stream_reader", "register", "session", "session_text"]

_DOUBLE_QUOTES = ("spark.sql.ansi.enabled", "spark.sql.ansi.doubleQuotedIdentifiers")


def session_text(spark: SparkSession, text: str) -> str:
    """An expression or statement with its double-quoted names in backticks, for sessions that parse
    double-quoted texts as names."""
    if '"' not in text or any(spark.conf.get(key) != "true" for key in _DOUBLE_QUOTES):
        return text
    try:
        return with_backticks(text)
    except WrongText:
        # Invalid text is returned unchanged, so that Spark reports the error.
        return text


def register(spark: SparkSession) -> None:
    """Registers the format `deltaplane` for `spark.read` and `df.write` of this session, and also
    the format `delta` unless delta-spark's jar provides it.

    Works on classic sessions and on Spark Connect, where the server's Python needs deltaplane too.
    """
    from deltaplane.spark.datasource.source import DeltaDataSource

    _register(spark)
    if _name_is_free(spark):
        register_once(spark, DeltaDataSource)


def _register(spark: SparkSession) -> None:
    from deltaplane.spark.datasource.source import DeltaplaneDataSource

    let_go_of_catalog(spark)
    register_once(spark, DeltaplaneDataSource)


def register_once(spark: SparkSession, source: type[DataSource]) -> None:
    """Registers a data source, unless the session inherited it from its parent (`newSession`)."""
    from pyspark.errors import PySparkException

    try:
        spark.dataSource.register(source)
    except PySparkException as e:
        if e.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def _name_is_free(spark: SparkSession) -> bool:
    """Whether the format name `delta` is free; with two providers of a name, Spark uses neither."""
    if not is_connect(spark):
        return not delta_jar(spark)
    from pyspark.errors import PySparkException

    # The jars of a Spark Connect server aren't visible to the client.
    try:
        held = bool(spark.read.format("delta").load("/no/table").schema)
    except PySparkException as e:
        held = "DATA_SOURCE_NOT_FOUND" not in str(e)
    return not held


def portable_reader(spark: SparkSession) -> DataFrameReader:
    """Spark's own reader of the data source, even if `enable` has replaced the session's `read`."""
    from pyspark.sql import DataFrameReader

    _register(spark)
    reader = spark.read if is_connect(spark) else DataFrameReader(spark)
    return reader.format("deltaplane")


def portable_stream_reader(spark: SparkSession) -> DataStreamReader:
    """Spark's own `readStream` reader, even if `enable` has replaced it."""
    from pyspark.sql.streaming.readwriter import DataStreamReader

    _register(spark)
    reader = spark.readStream if is_connect(spark) else DataStreamReader(spark)
    return reader.format("deltaplane")


def session(app: str = "deltaplane", master: str = "local[*]", **conf: Any) -> SparkSession:
    """Returns a local Spark session with the data source registered; reuses a running session.

    Workers run the same interpreter as this process unless `PYSPARK_PYTHON` names another one.
    Further settings are keyword arguments with `__` for each dot:
    `session(spark__driver__memory="4g")`.

    >>> from deltaplane import spark as dp
    >>> dp.session("nightly").version >= "4.1"
    True
    """
    from pyspark.sql import SparkSession

    # PySpark's default is the `python3` of PATH, which may be another interpreter without this
    # package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        **{k.replace("__", "."): str(v) for k, v in conf.items()},
    }
    builder = SparkSession.builder.appName(app).master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark
