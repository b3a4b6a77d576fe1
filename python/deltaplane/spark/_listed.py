"""`spark.catalog` of a session that knows Delta tables by their names: columns as the table's log has them.

Spark's own catalog keeps those of the day when the name was made. Called by `deltaplane.spark_names`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark.sql.catalog import Column
from pyspark.sql.types import StructType

from deltaplane.described import clustering_columns
from deltaplane.spark._names import located
from deltaplane.spark._schema import shown
from deltaplane.table import DeltaTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["listed_columns"]


def listed_columns(spark: SparkSession, name: str) -> list[Column] | None:
    """The columns of a Delta table by its name, as `spark.catalog.listColumns` gives them; None for what is no Delta table."""
    location = located(spark, name)
    if location is None:
        return None
    table = DeltaTable(location)
    partitions, clusters = table.metadata().partition_columns, clustering_columns(table)
    return [
        Column(
            name=field.name,
            description=field.metadata.get("comment"),
            dataType=field.dataType.simpleString(),
            nullable=field.nullable,
            isPartition=field.name in partitions,
            isBucket=False,
            isCluster=field.name in clusters,
        )
        for field in StructType.fromJson(shown(json.loads(table.schema().to_json()))).fields
    ]
