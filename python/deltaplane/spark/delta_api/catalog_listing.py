"""`spark.catalog` of a session with Delta tables: columns from the table's log, and tables from the
session's catalog.

Spark's own catalog stores the columns at the time of registration, and doesn't recognise
deltaplane's tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.catalog import Column, Table
from pyspark.sql.types import StructType

from deltaplane.report.describe import clustering_columns
from deltaplane.spark.delta_api.tables import DeltaTable as SparkTable
from deltaplane.spark.jvm.location import absolute_location
from deltaplane.spark.jvm.names import held_location, is_managed, located, path_of
from deltaplane.spark.jvm.schema import shown
from deltaplane.table.delta_table import DeltaTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["created_table", "described_table", "is_table_at", "listed_columns", "listed_table"]


def listed_columns(spark: SparkSession, name: str) -> list[Column] | None:
    """The columns of a Delta table as `spark.catalog.listColumns` returns them; None if it isn't a
    Delta table."""
    location = located(spark, name)
    if location is None:
        return None
    table = DeltaTable(location)
    partitions, clusters = table.metadata().partition_columns, clustering_columns(table)
    # PySpark 3.5 doesn't say of columns whether tables are clustered by them.
    clustered: Any = {"isCluster": clusters.__contains__} if "isCluster" in Column._fields else {}
    return [
        Column(
            name=field.name,
            description=field.metadata.get("comment"),
            dataType=field.dataType.simpleString(),
            nullable=field.nullable,
            isPartition=field.name in partitions,
            isBucket=False,
            **{key: says(field.name) for key, says in clustered.items()},
        )
        for field in StructType.fromJson(shown(table.schema().to_value())).fields
    ]


def is_table_at(name: str) -> bool | None:
    """Whether a table exists at the location in a name; None for a catalog name."""
    path = path_of(name)
    return None if path is None else DeltaTable.is_deltatable(absolute_location(path))


def listed_table(spark: SparkSession, table: Table) -> Table:
    """An entry of `spark.catalog.listTables`; for a Delta table it tells whether dropping the name
    deletes the files."""
    name = ".".join(f"`{part}`" for part in (*(table.namespace or ()), table.name))
    if table.isTemporary or held_location(spark, name) is None:
        return table
    return table._replace(tableType="MANAGED" if is_managed(spark, name, "") else "EXTERNAL")


def described_table(spark: SparkSession, name: str, table: Table | None) -> Table | None:
    """The result of `spark.catalog.getTable`: `table` is Spark's own result, or None for a
    location. Returns None if it isn't a Delta table."""
    path = path_of(name)
    if path is not None:
        description = DeltaTable(absolute_location(path)).metadata().description
        return Table(path, "spark_catalog", ["delta"], description, "MANAGED", False)
    location = held_location(spark, name)
    if table is None or location is None:
        return None
    return listed_table(spark, table)._replace(description=DeltaTable(location).metadata().description)


def created_table(
    spark: SparkSession,
    name: str,
    path: str | None,
    schema: StructType | None,
    description: str | None,
    options: Mapping[str, Any],
) -> None:
    """Implements `spark.catalog.createTable`: creates a table, or registers a name for the existing
    one at the path."""
    builder = SparkTable.create(spark).tableName(name)
    if path is not None:
        builder = builder.location(path)
    if schema is not None:
        builder = builder.addColumns(schema)
    if description is not None:
        builder = builder.comment(description)
    for key, value in options.items():
        # Sets both names, as Spark passes them to delta-spark.
        builder = builder.property(key, str(value)).property(f"option.{key}", str(value))
    builder.execute()
