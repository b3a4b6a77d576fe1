"""`spark.catalog` of a session with further catalogs: which ones there are, the one that shorter
names mean, and their schemas and tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.catalog import Catalog as Catalogs
from pyspark.sql.catalog import CatalogMetadata, Database, Table

from deltaplane.exceptions import TableNotFoundError
from deltaplane.spark.jvm.session_catalogs import (
    catalog_of,
    catalogs_of,
    current_schema,
    full_name,
    own_name,
    set_current,
)
from deltaplane.spark.session_hooks.catalog_statements import like, schema_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["calls", "get_table", "instead_of", "list_tables", "own_table"]

Call = Callable[..., Any]


def instead_of(originals: Mapping[tuple[type, str], Any], name: str, call: Call) -> Call:
    """A method of `spark.catalog` that passes Spark's own one to `call`."""

    def method(catalog: Any, *args: Any, **kwargs: Any) -> Any:
        return call(catalog._sparkSession, lambda *own: originals[Catalogs, name](catalog, *own), *args, **kwargs)

    return method


def own_table(spark: SparkSession, name: str, schema: str | None = None) -> str | None:
    """The full name of a table in one of the session's catalogs; None for Spark's own names."""
    return full_name(spark, name if schema is None else f"{schema}.{name}")


def get_table(spark: SparkSession, name: str) -> Table | None:
    """The result of `getTable` for a table of such a catalog; None for Spark's own names.

    Raises:
        TableNotFoundError: the catalog has no such table.
    """
    own = own_table(spark, name)
    return None if own is None else _table(own, catalog_of(spark, own).info(own))


def list_tables(spark: SparkSession, dbName: str | None = None, pattern: str | None = None) -> list[Table] | None:
    """The result of `listTables` for a schema of such a catalog; None for Spark's own schemas."""
    schema = current_schema(spark) if dbName is None else schema_at(spark, dbName.replace("`", "").split("."))
    if schema is None:
        return None
    catalog = _existing(spark, ".".join(schema))
    names = {name.rpartition(".")[2]: name for name in catalog.tables(".".join(schema))}
    return [_table(names[name], catalog.info(names[name])) for name in like(sorted(names), pattern)]


def _table(name: str, info: Mapping[str, Any]) -> Table:
    catalog, schema, table = name.split(".")
    return Table(table, catalog, [schema], info.get("comment"), str(info.get("table_type", "MANAGED")).upper(), False)


def _existing(spark: SparkSession, schema: str) -> Any:
    catalog = catalogs_of(spark)[schema.partition(".")[0]]
    if not catalog.exists(schema):
        raise TableNotFoundError(
            f"SCHEMA_NOT_FOUND: the catalog has no schema {schema}: create it, or name another one"
        )
    return catalog


def _current_catalog(spark: SparkSession, sparks: Call) -> str:
    current = current_schema(spark)
    return str(sparks()) if current is None else current[0]


def _set_current_catalog(spark: SparkSession, sparks: Call, catalogName: str) -> None:
    own = own_name(spark, catalogName)
    if own is None:
        sparks(catalogName)
        set_current(spark, None)
    else:
        set_current(spark, own)


def _current_database(spark: SparkSession, sparks: Call) -> str:
    current = current_schema(spark)
    return str(sparks()) if current is None else current[1]


def _set_current_database(spark: SparkSession, sparks: Call, dbName: str) -> None:
    schema = schema_at(spark, dbName.replace("`", "").split("."))
    if schema is None:
        sparks(dbName)
        return
    _existing(spark, ".".join(schema))
    set_current(spark, *schema)


def _list_catalogs(spark: SparkSession, sparks: Call, pattern: str | None = None) -> list[CatalogMetadata]:
    own = catalogs_of(spark)
    listed = [entry for entry in sparks(pattern) if entry.name not in own]
    return sorted([*listed, *(CatalogMetadata(name, None) for name in like(list(own), pattern))])


def _list_databases(spark: SparkSession, sparks: Call, pattern: str | None = None) -> list[Database]:
    current = current_schema(spark)
    if current is None:
        databases: list[Database] = sparks(pattern)
        return databases
    names = [name.rpartition(".")[2] for name in catalogs_of(spark)[current[0]].schemas(current[0])]
    return [Database(name, current[0], None, "") for name in like(sorted(names), pattern)]


def _database_exists(spark: SparkSession, sparks: Call, dbName: str) -> bool:
    schema = schema_at(spark, dbName.replace("`", "").split("."))
    return bool(sparks(dbName)) if schema is None else catalogs_of(spark)[schema[0]].exists(".".join(schema))


def _drop_table(spark: SparkSession, sparks: Call, tableName: str, ifExists: bool = False, purge: bool = False) -> None:
    own = own_table(spark, tableName)
    if own is None:
        sparks(tableName, ifExists, purge)
    else:
        catalog_of(spark, own).drop(own, missing_ok=ifExists)


# Methods of `spark.catalog` by their names: each gets the session, Spark's own method and the
# caller's arguments.
_CALLS: dict[str, Call] = {
    "currentCatalog": _current_catalog,
    "setCurrentCatalog": _set_current_catalog,
    "currentDatabase": _current_database,
    "setCurrentDatabase": _set_current_database,
    "listCatalogs": _list_catalogs,
    "listDatabases": _list_databases,
    "databaseExists": _database_exists,
    "dropTable": _drop_table,
}


def calls() -> Iterator[tuple[str, Call]]:
    """The methods that this version of Spark has, with their replacements."""
    return ((name, call) for name, call in _CALLS.items() if name in vars(Catalogs))
