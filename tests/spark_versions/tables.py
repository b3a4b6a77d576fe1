"""One table that each Spark writes, and its rows, which every Spark and delta-spark read:
`python -m spark_versions.tables ENGINE SCRATCH FOLDER…` prints the rows of each folder as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MAKE = (
    "CREATE TABLE {t} (id BIGINT, day DATE, cents DECIMAL(10, 2), at TIMESTAMP, s STRUCT<a: INT, b: ARRAY<STRING>>, p STRING) "
    "USING delta PARTITIONED BY (p) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = 'name')",
    "INSERT INTO {t} SELECT id, date_add(DATE '2024-02-28', CAST(id AS INT)), CAST(id / 4 AS DECIMAL(10, 2)), "
    "timestamp_micros(id * 1000001), named_struct('a', CAST(id AS INT), 'b', array('x', NULL)), "
    "CAST(id % 3 AS STRING) FROM range(12)",
    "DELETE FROM {t} WHERE id IN (1, 7)",
    "UPDATE {t} SET cents = 0.5 WHERE id = 2",
    "MERGE INTO {t} t USING (SELECT * FROM {t} WHERE id IN (3, 4)) n ON t.id = n.id + 1 "
    "WHEN MATCHED THEN UPDATE SET p = 'merged' WHEN NOT MATCHED THEN INSERT *",
    "ALTER TABLE {t} RENAME COLUMN cents TO amount",
)
_ROWS = "SELECT id, CAST(day AS STRING), CAST(amount AS STRING), unix_micros(at), s.a, s.b[0], size(s.b), p FROM {t} ORDER BY id, p"


def write(spark: SparkSession, folder: Path) -> None:
    """Writes the table by this Spark's own statements."""
    for statement in _MAKE:
        spark.sql(statement.format(t=f"delta.`{folder}`"))


def rows(spark: SparkSession, folder: str) -> list[list[Any]]:
    """The rows of a table, in the types that JSON has."""
    frame = spark.sql(_ROWS.format(t=f"delta.`{folder}`"))
    return [list(row) for row in frame.collect()]


def _delta_spark(folder: Path) -> SparkSession:
    """A session of delta-spark's, on the PySpark that is imported."""
    from pyspark.sql import SparkSession

    from interop.jars import FOR_SPARK_3, delta_jars, fetch

    try:
        jars = delta_jars(*FOR_SPARK_3)
    except FileNotFoundError:
        fetch(*FOR_SPARK_3)
        jars = delta_jars(*FOR_SPARK_3)
    builder = SparkSession.builder.master("local[2]").config("spark.jars", ",".join(map(str, jars)))
    builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    builder = builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    builder = builder.config("spark.ui.enabled", "false").config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    return builder.getOrCreate()


def main(engine: str, scratch: Path, folders: list[str]) -> dict[str, list[list[Any]]]:
    """The rows of each folder, as one engine reads them."""
    if engine == "delta-spark":
        spark = _delta_spark(scratch)
    else:
        from deltaplane import spark as dp

        spark = dp.session("tables", master="local[2]", spark__sql__warehouse__dir=scratch / "warehouse")
        dp.enable(spark)
    spark.sparkContext.setLogLevel("OFF")
    try:
        return {Path(folder).name: rows(spark, folder) for folder in folders}
    finally:
        spark.stop()


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])))
