"""Entries of the session's own catalog, and the folders of their tables, through Spark's internal
JVM classes.

Doesn't access tables.
"""

from __future__ import annotations

from typing import Any

from deltaplane.exceptions import UnsupportedFeatureError
from deltaplane.spark.jvm.internals import in_own_catalog, is_connect, items

__all__ = ["definition", "delete_folder", "held_entry", "held_property", "held_table", "move_folder"]


def held_table(spark: Any, name: str) -> tuple[str, str] | None:
    """Format and location of the table under a name in the session's own catalog; None for a view
    and for an unknown name."""
    table = _held(spark, name)
    if table is None or not table.provider().isDefined() or not table.storage().locationUri().isDefined():
        return None
    return str(table.provider().get()), _path_text(spark, table.storage().locationUri().get())


def held_entry(spark: Any, name: str) -> tuple[str, str | None] | None:
    """Format and location of the entry under a name in the session's own catalog, "view" for a
    permanent view, None without an entry. Ignores temporary views, as statements that create tables
    do."""
    table = _held(spark, name, past_temp_views=True)
    if table is None:
        return None
    if str(table.tableType().name()) == "VIEW":
        return "view", None
    provider, location = table.provider(), table.storage().locationUri()
    return (
        str(provider.get()) if provider.isDefined() else "hive",
        _path_text(spark, location.get()) if location.isDefined() else None,
    )


def _path_text(spark: Any, uri: Any) -> str:
    """A catalog's URI in Hadoop's notation, in which nothing is percent-encoded."""
    return str(spark._jvm.org.apache.hadoop.fs.Path(uri).toString())


def held_property(spark: Any, name: str, key: str) -> str | None:
    """A property of a table in the catalog, by the table's name."""
    table = _held(spark, name)
    value = None if table is None else table.properties().get(key)
    return str(value.get()) if value is not None and value.isDefined() else None


def delete_folder(spark: Any, location: str) -> None:
    """Deletes a folder, named in Hadoop's notation, with its contents."""
    path = spark._jvm.org.apache.hadoop.fs.Path(location)
    path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).delete(path, True)


def move_folder(spark: Any, location: str, to: str) -> bool:
    """Moves a folder in one of Spark's file systems to a free location; returns whether it
    succeeded."""
    paths = spark._jvm.org.apache.hadoop.fs
    old, new = paths.Path(location), paths.Path(to)
    files = old.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    return not files.exists(new) and bool(files.rename(old, new))


def definition(spark: Any, name: str) -> tuple[str, list[str], str | None, dict[str, str]] | None:
    """Schema (JSON), partition columns, comment and properties of a table or view in the catalog;
    None for an unknown name."""
    table = _held(spark, name)
    if table is None:
        from pyspark.errors import PySparkException

        try:
            return str(spark.table(name).schema.json()), [], None, {}
        except PySparkException:
            return None
    comment = table.comment()
    properties = [] if table.tableType().name() == "VIEW" else items(table.properties().toSeq())
    return (
        str(table.schema().json()),
        [str(name) for name in items(table.partitionColumnNames())],
        str(comment.get()) if comment.isDefined() else None,
        {str(pair._1()): str(pair._2()) for pair in properties},
    )


def _held(spark: Any, name: str, *, past_temp_views: bool = False) -> Any:
    """The catalog's table under a name; None for a temporary view (unless ignored) and for an
    unknown name."""
    if is_connect(spark):
        raise UnsupportedFeatureError(
            f"the name {name} stands in the server's catalog, which a Spark Connect client can't ask: give the table's path instead, to "
            "forPath or location, or as delta.`/path`"
        )
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    state = spark._jsparkSession.sessionState()
    try:
        identifier = state.sqlParser().parseTableIdentifier(in_own_catalog(name))
        if not past_temp_views and state.catalog().isTempView(identifier):
            return None
        if not state.catalog().tableExists(identifier):
            return None
        return state.catalog().getTableMetadata(identifier)
    except (PySparkException, Py4JJavaError):
        # The name belongs to another catalog, or is unknown.
        return None
