"""Statements about catalogs, schemas and names in a session's catalogs: USE, SHOW, and CREATE and
DROP of schemas and names. Spark's own parser would look for the catalog's class.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from deltaplane.exceptions import SqlSyntaxError, TableAlreadyExistsError, TableNotFoundError, UnsupportedFeatureError
from deltaplane.queries.grammar import Grammar
from deltaplane.spark.jvm.session_catalogs import (
    catalog_of,
    catalogs_of,
    current_schema,
    full_name,
    own_name,
    set_current,
)
from deltaplane.spark.session_hooks.catalog_tables import is_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from deltaplane.catalogs import Catalog

__all__ = ["catalog_statement", "like", "schema_at"]

_SPARKS = "spark_catalog"
_SCHEMA, _SCHEMAS = ("schema", "database", "namespace"), ("schemas", "databases", "namespaces")


def catalog_statement(spark: SparkSession, text: str) -> DataFrame | None:
    """Runs a statement about the session's catalogs; returns None for other statements, also for
    those about Spark's own catalog.

    Raises:
        TableNotFoundError: a schema or a table that doesn't exist.
        TableAlreadyExistsError: a schema that exists.
        UnsupportedFeatureError: a view in such a catalog.
        SqlSyntaxError: further clauses.
    """
    if not catalogs_of(spark):
        return None
    try:
        cursor = Grammar(text, own_queries=False)
    except SqlSyntaxError:
        return None
    statement = _Statement(spark, cursor)
    if cursor.take("use"):
        return statement.use()
    if cursor.take("set", "catalog"):
        return statement.use_catalog()
    if cursor.take("show"):
        return statement.show()
    if cursor.take("create"):
        return statement.create()
    return statement.drop() if cursor.take("drop") else None


def schema_at(spark: SparkSession, parts: Sequence[str]) -> tuple[str, str] | None:
    """The catalog and the name of a schema that a name of one or two parts means; None for one of
    Spark's own catalog."""
    if len(parts) == 2:
        own = own_name(spark, parts[0])
        return None if own is None else (own, parts[1])
    current = current_schema(spark)
    return (current[0], parts[0]) if len(parts) == 1 and current is not None else None


def like(names: Sequence[str], pattern: str | None) -> list[str]:
    """The names that a pattern of SHOW matches: `*` is any text, `|` separates alternatives.

    >>> like(["orders", "items", "old"], "O*|it*s"), like(["a"], None)
    (['orders', 'items', 'old'], ['a'])
    """
    if pattern is None:
        return list(names)
    alternatives = [".*".join(map(re.escape, part.split("*"))) for part in pattern.strip().split("|")]
    wanted = re.compile("|".join(f"(?:{part})" for part in alternatives), re.IGNORECASE)
    return [name for name in names if wanted.fullmatch(name)]


class _Statement:
    """A statement behind its first keyword."""

    def __init__(self, spark: SparkSession, cursor: Grammar) -> None:
        self._spark, self._cursor = spark, cursor

    # --- USE ----------------------------------------------------------------------------------------------------------

    def use(self) -> DataFrame | None:
        if self._cursor.take("catalog"):
            return self.use_catalog()
        named = self._take(*_SCHEMA)
        parts = self._name()
        if not named and len(parts) == 1:
            own = own_name(self._spark, parts[0])
            if own is not None:
                return self._chosen(own, "default")
            if parts[0].lower() == _SPARKS:
                return self._sparks()
        schema = schema_at(self._spark, parts)
        if schema is None:
            return self._sparks()
        self._existing(*schema)
        return self._chosen(*schema)

    def use_catalog(self) -> DataFrame | None:
        name = self._cursor.text("a catalog") if self._cursor.kind() == "string" else self._name()[0]
        own = own_name(self._spark, name)
        return self._sparks() if own is None else self._chosen(own, "default")

    def _chosen(self, catalog: str, schema: str) -> DataFrame:
        self._cursor.end()
        set_current(self._spark, catalog, schema)
        return _nothing(self._spark)

    def _sparks(self) -> DataFrame | None:
        """Leaves the statement, and shorter names from now on, to Spark."""
        set_current(self._spark, None)
        return None

    # --- SHOW ---------------------------------------------------------------------------------------------------------

    def show(self) -> DataFrame | None:
        cursor, spark = self._cursor, self._spark
        if cursor.take("catalogs"):
            names = sorted([_SPARKS, *catalogs_of(spark)])
            return self._rows("catalog string", [(name,) for name in like(names, self._pattern())])
        if cursor.take("tables"):
            return self._tables()
        return self._schemas() if self._take(*_SCHEMAS) else None

    def _tables(self) -> DataFrame | None:
        current = current_schema(self._spark)
        schema = schema_at(self._spark, self._name()) if self._take("in", "from") else current
        if schema is None:
            return None
        catalog, name = self._existing(*schema), schema[1]
        names = [table.rpartition(".")[2] for table in catalog.tables(".".join(schema))]
        rows = [(name, table, False) for table in like(sorted(names), self._pattern())]
        return self._rows("namespace string, tableName string, isTemporary boolean", rows)

    def _schemas(self) -> DataFrame | None:
        current = current_schema(self._spark)
        named = self._name() if self._take("in", "from") else []
        own = own_name(self._spark, named[0]) if len(named) == 1 else current[0] if current and not named else None
        if own is None:
            return None
        names = [schema.rpartition(".")[2] for schema in catalogs_of(self._spark)[own].schemas(own)]
        return self._rows("namespace string", [(name,) for name in like(sorted(names), self._pattern())])

    def _pattern(self) -> str | None:
        self._take("like")
        return self._cursor.text("a pattern") if self._cursor.kind() == "string" else None

    def _rows(self, columns: str, rows: Sequence[tuple[object, ...]]) -> DataFrame:
        self._cursor.end()
        return self._spark.createDataFrame(rows, columns)

    # --- CREATE and DROP ----------------------------------------------------------------------------------------------

    def create(self) -> DataFrame | None:
        cursor = self._cursor
        if cursor.take("or", "replace"):
            return self._refuse_view() if cursor.take("view") else None
        if cursor.take("view"):
            return self._refuse_view()
        if not self._take(*_SCHEMA):
            return None
        if_absent = cursor.take("if", "not", "exists")
        schema = schema_at(self._spark, self._name())
        if schema is None:
            return None
        comment = cursor.text("a comment") if cursor.take("comment") else None
        root = cursor.text("a location") if cursor.take("location") or cursor.take("managed", "location") else None
        self._cursor.end()
        catalog, name = catalogs_of(self._spark)[schema[0]], ".".join(schema)
        try:
            catalog.create_schema(name, comment, root)
        except TableAlreadyExistsError:
            if not if_absent:
                raise
        return _nothing(self._spark)

    def _refuse_view(self) -> DataFrame | None:
        self._cursor.take("if", "not", "exists")
        parts = self._name()
        if parts and not is_path(parts) and (name := full_name(self._spark, parts)) is not None:
            raise UnsupportedFeatureError(
                f"a view can't be created in the catalog as {name}: create a TEMP VIEW, or one in spark_catalog"
            )
        return None

    def drop(self) -> DataFrame | None:
        is_table = self._cursor.take("table")
        if not is_table and not self._take(*_SCHEMA):
            return None
        if_exists = self._cursor.take("if", "exists")
        return self._drop_table(if_exists) if is_table else self._drop_schema(if_exists)

    def _drop_table(self, if_exists: bool) -> DataFrame | None:
        name = full_name(self._spark, self._name())
        if name is None:
            return None
        self._take("purge")
        self._cursor.end()
        catalog = catalog_of(self._spark, name)
        if not (if_exists and not catalog.exists(name)):
            catalog.drop(name)
        return _nothing(self._spark)

    def _drop_schema(self, if_exists: bool) -> DataFrame | None:
        schema = schema_at(self._spark, self._name())
        if schema is None:
            return None
        cascades = self._cursor.take("cascade")
        self._take("restrict")
        self._cursor.end()
        catalogs_of(self._spark)[schema[0]].drop(".".join(schema), force=cascades, missing_ok=if_exists)
        return _nothing(self._spark)

    # --- parts --------------------------------------------------------------------------------------------------------

    def _take(self, *words: str) -> bool:
        """Takes one of some keywords."""
        return any(self._cursor.take(word) for word in words)

    def _name(self) -> list[str]:
        return list(self._cursor.names("a name"))

    def _existing(self, catalog: str, schema: str) -> Catalog:
        known = catalogs_of(self._spark)[catalog]
        if not known.exists(f"{catalog}.{schema}"):
            raise TableNotFoundError(
                f"SCHEMA_NOT_FOUND: the catalog {catalog} has no schema {schema}: create it, or see SHOW SCHEMAS IN {catalog}"
            )
        return known


def _nothing(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], StructType([]))
