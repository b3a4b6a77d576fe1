"""Installs Delta's usual interfaces on one Spark session: `format("delta")`, names of tables,
`spark.sql`.

Only the Python side of the session is changed; the JVM gets no plug-in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.catalog import Catalog as Catalogs
from pyspark.sql.sql_formatter import SQLStringFormatter
from pyspark.sql.types import StructType

from deltaplane import spark as dp
from deltaplane.exceptions import DeltaError, UnsupportedFeatureError
from deltaplane.io.session_options import in_session
from deltaplane.spark.delta_api.catalog_listing import (
    created_table,
    described_table,
    is_table_at,
    listed_columns,
    listed_table,
)
from deltaplane.spark.delta_api.merge_writer import MergeWriter
from deltaplane.spark.delta_api.reader import Reader, StreamReader
from deltaplane.spark.delta_api.relations import ask, ask_no_more
from deltaplane.spark.delta_api.writer import StreamWriter, Writer
from deltaplane.spark.delta_api.writer_v2 import WriterV2
from deltaplane.spark.errors.spark_errors import as_sparks
from deltaplane.spark.jvm.configured import wrapped_builder
from deltaplane.spark.jvm.internals import delta_jar, is_connect
from deltaplane.spark.jvm.names import FORMATS, held_location, located
from deltaplane.spark.jvm.session_catalogs import (
    catalogs_of,
    configured_catalogs,
    hold_catalogs,
    release_catalogs,
)
from deltaplane.spark.jvm.spark_versions import frame_class, has_sources
from deltaplane.spark.jvm.store_settings import hold_options, release_options
from deltaplane.spark.session_hooks import catalog_calls
from deltaplane.spark.session_hooks.catalog_tables import is_path
from deltaplane.spark.session_hooks.catalog_transactions import end_session_transaction
from deltaplane.spark.session_hooks.originals import MARK, enabled_sessions, is_enabled, originals
from deltaplane.spark.session_hooks.run_statement import run_in_script, run_with_values

__all__ = ["configure_spark_with_delta_pip", "disable", "enable"]


def enable(
    spark: SparkSession, options: Mapping[str, str] | None = None, *, catalogs: Mapping[str, Any] | None = None
) -> None:
    """Makes this session's Delta interfaces use deltaplane's native implementation; `disable`
    reverts it.

    Affected are: `spark.read` and `spark.readStream` with `format("delta")` (or `"deltaplane"`),
    `df.write` and `df.writeStream` with it, `df.writeTo`, `saveAsTable` and `toTable`,
    `spark.table`, and `spark.sql` as described for `sql`. Table names are stored in Spark's own
    catalog, as tables of the format `deltaplane` with a location; dropping a name keeps the files,
    unless the table is at the default location of its database.

    The session's analyser also finds Delta tables in views, including permanent ones, in SQL
    functions and in scripts. Statements that change tables must go through `spark.sql`. Without a
    plug-in in the JVM, JDBC clients and Scala programs can't use these interfaces.

    Args:
        spark: the session.
        options: access to stores for all tables of this session, also for names and paths in
            statements. They precede the session's settings (`spark.hadoop.fs.…` and
            `spark.deltaplane.storage.` with an option's name), and options of one call precede
            them. None keeps those of an earlier call.
        catalogs: catalogs whose tables statements and DataFrames name in three parts, by the first
            one: a `deltaplane.Catalog`, its URI, or a mapping with `uri` and `token`. Those that
            the session's settings `spark.sql.catalog.NAME.uri` and `.token` describe as Unity
            Catalog's documentation says are added. None keeps those of an earlier call.

    Raises:
        InvalidArgumentError: not a catalog, or a name that has another meaning in Spark.
        UnsupportedFeatureError: a Spark Connect session, for which `register` provides the format
            `deltaplane`; or a session with delta-spark's jar, which owns these names.

    >>> from deltaplane import spark as dp
    >>> dp.enable(spark)
    >>> spark.range(3).write.format("delta").save("numbers")
    >>> spark.sql("DELETE FROM delta.`numbers` WHERE id = 1").select("num_affected_rows").collect()
    [Row(num_affected_rows=1)]
    >>> spark.read.format("delta").option("versionAsOf", 0).load("numbers").count(), spark.table("delta.`numbers`").count()
    (3, 2)
    >>> dp.disable(spark)
    """
    if is_connect(spark):
        raise UnsupportedFeatureError(
            "enable needs a classic session: on Spark Connect call register(spark) and use the format deltaplane, or "
            "deltaplane.spark.read and write"
        )
    if delta_jar(spark):
        raise UnsupportedFeatureError(
            'this session has delta-spark\'s jar, which holds the name "delta": start it without the jar and its '
            "extensions, or use the format deltaplane and the functions of deltaplane.spark beside it"
        )
    if options is not None:
        hold_options(spark, options)
    if catalogs is not None or not catalogs_of(spark):
        hold_catalogs(spark, {**configured_catalogs(spark), **(catalogs or {})})
    if has_sources():
        dp.register(spark)
    enabled_sessions.add(spark)
    spark.conf.set(MARK, "true")
    ask(spark, run_in_script)
    if not originals:
        _patch()


def configure_spark_with_delta_pip(
    spark_session_builder: SparkSession.Builder, extra_packages: Sequence[str] | None = None
) -> SparkSession.Builder:
    """A builder whose sessions are enabled, a replacement for delta-spark's function of this name.

    Adds no jar: delta-spark's extension, catalog and Maven packages are removed from the builder's
    settings, and `extra_packages` are added to `spark.jars.packages`. A Spark Connect session gets
    the result of `register`.

    Raises:
        InvalidArgumentError: not a builder.
        UnsupportedFeatureError: raised by `getOrCreate`, as in `enable`: the session has
            delta-spark's jar.

    >>> from deltaplane.spark import configure_spark_with_delta_pip
    >>> from pyspark.sql import SparkSession
    >>> builder = SparkSession.builder.config(
    ...     "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    ... )
    >>> spark = configure_spark_with_delta_pip(builder).getOrCreate()
    >>> spark.range(3).write.format("delta").save("configured")
    >>> spark.read.format("delta").load("configured").count()
    3
    >>> disable(spark)
    """
    return wrapped_builder(spark_session_builder, extra_packages, _taken)


def _taken(spark: SparkSession) -> None:
    if is_connect(spark):
        dp.register(spark)
    else:
        enable(spark)


def disable(spark: SparkSession) -> None:
    """Returns this session's interfaces to Spark; does nothing if the session isn't enabled."""
    enabled_sessions.discard(spark)
    # A stopped session has no settings.
    if not is_connect(spark) and spark.sparkContext._jsc is not None:
        spark.conf.unset(MARK)
        if (left := end_session_transaction(spark)) is not None:
            left.rollback()
        release_options(spark)
        release_catalogs(spark)
        ask_no_more(spark)
    if not enabled_sessions:
        for (owner, name), original in originals.items():
            setattr(owner, name, original)
        originals.clear()


def _patch() -> None:
    """Replaces methods of PySpark's classes; sessions that aren't enabled keep the original
    behaviour."""
    frames = frame_class()

    def instead(owner: type, name: str, ours: Any, session: Any) -> None:
        original = owner.__dict__[name]
        originals[owner, name] = original
        if isinstance(original, property):
            assert original.fget is not None
            theirs = original.fget
            chosen = property(lambda self: (ours if is_enabled(session(self)) else theirs)(self))
            setattr(owner, name, chosen)
            return

        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not is_enabled(session(self)):
                return original(self, *args, **kwargs)
            with in_session(session(self)):
                return ours(self, *args, **kwargs)

        setattr(owner, name, method)

    instead(SparkSession, "read", Reader, lambda spark: spark)
    instead(SparkSession, "readStream", StreamReader, lambda spark: spark)
    instead(Catalogs, "listColumns", _list_columns, lambda catalog: catalog._sparkSession)
    for name, call in catalog_calls.calls():
        instead(Catalogs, name, catalog_calls.instead_of(originals, name, call), lambda catalog: catalog._sparkSession)
    for name, ours in (
        ("listTables", _list_tables),
        ("getTable", _get_table),
        ("tableExists", _table_exists),
        ("createTable", _create_table),
        ("refreshTable", _refresh_table),
    ):
        instead(Catalogs, name, ours, lambda catalog: catalog._sparkSession)
    instead(SparkSession, "sql", _sql, lambda spark: spark)
    instead(SparkSession, "newSession", _new_session, lambda spark: spark)
    instead(SparkSession, "table", lambda spark, name: Reader(spark).table(name), lambda spark: spark)
    instead(frames, "write", Writer, lambda frame: frame.sparkSession)
    # PySpark 3.5 has no such method.
    if hasattr(frames, "mergeInto"):
        instead(frames, "mergeInto", _merge_into, lambda frame: frame.sparkSession)
    instead(frames, "writeTo", WriterV2, lambda frame: frame.sparkSession)
    instead(frames, "writeStream", StreamWriter, lambda frame: frame.sparkSession)


def _merge_into(frame: DataFrame, table: str, condition: Any) -> Any:
    if located(frame.sparkSession, table) is None:
        return originals[type(frame), "mergeInto"](frame, table, condition)
    try:
        return MergeWriter(frame, table, condition)
    except DeltaError as e:
        raise as_sparks(e, "DataFrame.mergeInto") from None


def _new_session(spark: SparkSession) -> SparkSession:
    made: SparkSession = originals[SparkSession, "newSession"](spark)
    enable(made, catalogs=catalogs_of(spark))
    return made


def _list_columns(catalog: Any, tableName: str, dbName: str | None = None) -> Any:
    name = tableName if dbName is None else f"{dbName}.{tableName}"
    columns = listed_columns(catalog._sparkSession, name)
    return originals[Catalogs, "listColumns"](catalog, tableName, dbName) if columns is None else columns


def _list_tables(catalog: Any, *args: Any, **kwargs: Any) -> Any:
    if (own := catalog_calls.list_tables(catalog._sparkSession, *args, **kwargs)) is not None:
        return own
    tables = originals[Catalogs, "listTables"](catalog, *args, **kwargs)
    return [listed_table(catalog._sparkSession, table) for table in tables]


def _get_table(catalog: Any, tableName: str) -> Any:
    try:
        if is_path(tableName.split(".", 1)):
            return described_table(catalog._sparkSession, tableName, None)
        if (own := catalog_calls.get_table(catalog._sparkSession, tableName)) is not None:
            return own
    except DeltaError as e:
        raise as_sparks(e, "Catalog.getTable") from None
    table = originals[Catalogs, "getTable"](catalog, tableName)
    return described_table(catalog._sparkSession, tableName, table) or table


def _table_exists(catalog: Any, tableName: str, dbName: str | None = None) -> bool:
    there = is_table_at(tableName) if dbName is None else None
    own = catalog_calls.own_table(catalog._sparkSession, tableName, dbName)
    if there is None and own is not None:
        return held_location(catalog._sparkSession, own) is not None
    return bool(originals[Catalogs, "tableExists"](catalog, tableName, dbName)) if there is None else there


def _refresh_table(catalog: Any, tableName: str) -> None:
    # Each query of a Delta table reads its newest version.
    if located(catalog._sparkSession, tableName) is None:
        originals[Catalogs, "refreshTable"](catalog, tableName)


def _create_table(
    catalog: Any,
    tableName: str,
    path: str | None = None,
    source: str | None = None,
    schema: StructType | None = None,
    description: str | None = None,
    **options: str,
) -> Any:
    spark = catalog._sparkSession
    provider = source or spark.conf.get("spark.sql.sources.default")
    if str(provider).lower() not in FORMATS:
        make = originals[Catalogs, "createTable"]
        return make(catalog, tableName, path, source, schema, description, **options)
    try:
        created_table(spark, tableName, path, schema, description, options)
    except DeltaError as e:
        raise as_sparks(e, "Catalog.createTable") from None
    return Reader(spark).table(tableName)


def _sql(spark: SparkSession, sqlQuery: str, args: Any = None, **kwargs: Any) -> DataFrame:
    try:
        if not kwargs:
            return run_with_values(spark, sqlQuery, args)
        frames = SQLStringFormatter(spark)
        try:
            # As in Spark, the frames are temporary views during the call.
            return run_with_values(spark, frames.format(sqlQuery, **kwargs), args)
        finally:
            frames.clear()
    except DeltaError as e:
        raise as_sparks(e, sqlQuery) from None
