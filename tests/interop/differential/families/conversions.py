"""CONVERT TO DELTA: Parquet files by path and by name, and bad input."""

from __future__ import annotations

from collections.abc import Iterator

from interop.differential.scenarios import Scenario, python, scenario

FILES = "spark.sql(\"SELECT id, CAST(id % 2 AS INT) AS p, 'x' AS v FROM range(6)\").coalesce(1).write"
CONVERSIONS = (
    "CONVERT TO DELTA parquet.`{dir}/plain`",
    "CONVERT TO DELTA parquet.`{dir}/parts` PARTITIONED BY (p INT)",
    "CONVERT TO DELTA parquet.`{dir}/parts`",
    "CONVERT TO DELTA parquet.`{dir}/parts` PARTITIONED BY (p STRING)",
    "CONVERT TO DELTA parquet.`{dir}/parts` PARTITIONED BY (q INT)",
    "CONVERT TO DELTA parquet.`{dir}/parts` PARTITIONED BY (p DATE)",
    "CONVERT TO DELTA parquet.`{dir}/parts` PARTITIONED BY (p INT, q INT)",
    "CONVERT TO DELTA parquet.`{dir}/plain` PARTITIONED BY (p INT)",
    "CONVERT TO DELTA parquet.`{dir}/plain` NO STATISTICS",
    "CONVERT TO DELTA parquet.`{dir}/nowhere`",
    "CONVERT TO DELTA parquet.`{dir}/empty`",
    "CONVERT TO DELTA csv.`{dir}/plain`",
    "CONVERT TO DELTA delta.`{dir}/plain`",
    "CONVERT TO DELTA '{dir}/plain'",
    "CONVERT TO DELTA nowhere",
    "CONVERT TO DELTA pq",
    "CONVERT TO DELTA pp",
    "CONVERT TO DELTA pp PARTITIONED BY (p INT)",
    "CONVERT TO DELTA pp PARTITIONED BY (v INT)",
    "CONVERT TO DELTA vw",
    "CONVERT TO DELTA dt",
    "CONVERT TO DELTA iceberg.`{dir}/plain`",
    "CONVERT TO DELTA",
)


def scenarios() -> Iterator[Scenario]:
    for number, conversion in enumerate(CONVERSIONS):
        made = [
            python(f'{FILES}.parquet(dir + "/plain")'),
            python(f'{FILES}.partitionBy("p").parquet(dir + "/parts")'),
        ]
        if "`" not in conversion:
            made = [
                "CREATE TABLE pq (id INT, v STRING) USING parquet",
                "INSERT INTO pq VALUES (1, 'a')",
                "CREATE TABLE pp (id INT, p INT) USING parquet PARTITIONED BY (p)",
                "INSERT INTO pp VALUES (1, 5)",
                "CREATE VIEW vw AS SELECT 1 AS id",
                "CREATE TABLE dt (id INT) USING delta",
            ]
        yield scenario(
            f"conversions/{number}",
            *made,
            conversion,
            conversion,
            "SELECT * FROM delta.`{dir}/plain`",
            "SELECT * FROM delta.`{dir}/parts` WHERE p = 1",
            "INSERT INTO delta.`{dir}/parts` VALUES (9, 'y', 3)",
            "SELECT * FROM pp",
            "INSERT INTO pq VALUES (2, 'b')",
            tables=(),
        )
