"""Registers the data source with sessions, and creates a local session with settings for Delta
tables.

Doesn't access tables.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from deltaplane.exceptions import UnsupportedFeatureError
from deltaplane.expr.quoting import with_backticks
from deltaplane.expr.strings import WrongText, with_joined_texts
from deltaplane.io.session_options import carried_everywhere
from deltaplane.spark.errors.condition_of import condition_of
from deltaplane.spark.jvm.internals import delta_jar, is_connect, let_go_of_catalog
from deltaplane.spark.jvm.spark_versions import ends_texts_at_quotes, has_sources

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrameReader, SparkSession
    from pyspark.sql.datasource import DataSource
    from pyspark.sql.streaming.readwriter import DataStreamReader

__all__ = ["portable_reader", "portable_stream_reader", "register", "session", "session_text"]

_DOUBLE_QUOTES = ("spark.sql.ansi.enabled", "spark.sql.ansi.doubleQuotedIdentifiers")


def session_text(spark: SparkSession, text: str) -> str:
    """An expression or statement in which a quote has one meaning for Spark and for deltaplane.

    Double-quoted names are in backticks, for sessions that parse double-quoted texts as names.
    Texts have no doubled quotes for a Spark that ends a text at each quote.
    """
    try:
        if "''" in text or '""' in text:
            joined = with_joined_texts(text)
            text = joined if joined != text and ends_texts_at_quotes(spark.version) else text
        if '"' not in text or any(spark.conf.get(key) != "true" for key in _DOUBLE_QUOTES):
            return text
        return with_backticks(text)
    except WrongText:
        # Invalid text is returned unchanged, so that Spark reports the error.
        return text


def register(spark: SparkSession) -> None:
    """Registers the format `deltaplane` for `spark.read` and `df.write` of this session, and also
    the format `delta` unless delta-spark's jar provides it.

    Works on classic sessions and on Spark Connect, where the server's Python needs deltaplane too.

    Raises:
        UnsupportedFeatureError: PySpark 3.5, which has no data sources in Python.
    """
    _check_sources()
    from deltaplane.spark.datasource.source import DeltaDataSource

    _register(spark)
    if _name_is_free(spark):
        register_once(spark, DeltaDataSource)


def _check_sources() -> None:
    """Refuses to register a data source with a PySpark that has none in Python."""
    if not has_sources():
        import pyspark

        raise UnsupportedFeatureError(
            f"PySpark {pyspark.__version__} has no data sources in Python, which the format deltaplane needs by itself: on "
            "a classic session call deltaplane.spark.enable(spark), which provides the formats delta and deltaplane, or "
            "use deltaplane.spark.read and write; for Spark Connect upgrade to PySpark 4"
        )


def _register(spark: SparkSession, options: Mapping[str, str] | None = None) -> None:
    _check_sources()
    from deltaplane.spark.datasource.source import DeltaplaneDataSource

    let_go_of_catalog(spark)
    register_once(spark, DeltaplaneDataSource, options)


def register_once(spark: SparkSession, source: type[DataSource], options: Mapping[str, str] | None = None) -> None:
    """Registers a data source, unless the session inherited it from its parent (`newSession`).
    Its planning worker and its tasks get the session's options, and `options`, in the pickled
    class, which no plan shows."""
    from pyspark.errors import PySparkException

    carried = None if is_connect(spark) else carried_everywhere(options)
    if carried is not None:
        # A class of no module is pickled by its content.
        source = type(source.__name__, (source,), {"carried": carried, "__module__": "deltaplane_carried"})
    try:
        spark.dataSource.register(source)
    except PySparkException as e:
        if condition_of(e) != "DATA_SOURCE_ALREADY_EXISTS":
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


def portable_reader(spark: SparkSession, options: Mapping[str, str] | None = None) -> DataFrameReader:
    """Spark's own reader of the data source, even if `enable` has replaced the session's `read`;
    `options` are those of the store."""
    from pyspark.sql import DataFrameReader

    _register(spark, options)
    if is_connect(spark):
        return spark.read.format("deltaplane").options(**(options or {}))
    return DataFrameReader(spark).format("deltaplane")


def portable_stream_reader(spark: SparkSession, options: Mapping[str, str] | None = None) -> DataStreamReader:
    """Spark's own `readStream` reader, even if `enable` has replaced it; `options` are those of the
    store."""
    from pyspark.sql.streaming.readwriter import DataStreamReader

    _register(spark, options)
    if is_connect(spark):
        return spark.readStream.format("deltaplane").options(**(options or {}))
    return DataStreamReader(spark).format("deltaplane")


def session(app: str = "deltaplane", master: str = "local[*]", **conf: Any) -> SparkSession:
    """Returns a local Spark session with the data source registered, where PySpark has data sources
    in Python; reuses a running session.

    Workers run the same interpreter as this process unless `PYSPARK_PYTHON` names another one.
    Further settings are keyword arguments with `__` for each dot:
    `session(spark__driver__memory="4g")`.

    >>> from deltaplane import spark as dp
    >>> dp.session("nightly").version >= "3.5"
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
    if has_sources():
        register(spark)
    return spark
