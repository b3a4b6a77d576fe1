"""REPLACE TABLE and CREATE OR REPLACE TABLE over tables of several kinds."""

from __future__ import annotations

from collections.abc import Iterator

from interop.differential.scenarios import Scenario, scenario

BEFORE = {
    "plain": "(id INT, v STRING) USING delta",
    "partitioned": "(id INT, v STRING) USING delta PARTITIONED BY (v)",
    "clustered": "(id INT, v STRING) USING delta CLUSTER BY (id)",
    "mapped": "(id INT, v STRING) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    "properties": "(id INT, v STRING) USING delta COMMENT 'c' TBLPROPERTIES ('a' = 'b', 'delta.enableChangeDataFeed' = 'true')",
    "vectors": "(id INT, v STRING) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    "append only": "(id INT, v STRING) USING delta TBLPROPERTIES ('delta.appendOnly' = 'true')",
    "row tracking": "(id INT, v STRING) USING delta TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
}
AFTER = (
    "(id INT, v STRING) USING delta",
    "(id BIGINT, w INT) USING delta",
    "(id INT, v STRING) USING delta PARTITIONED BY (id)",
    "(id INT, v STRING) USING delta CLUSTER BY (v)",
    "(id INT, v STRING) USING delta TBLPROPERTIES ('x' = 'y', 'delta.checkpointInterval' = '3')",
    "(id INT, v STRING) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    "(id INT NOT NULL, v STRING) USING delta COMMENT 'new'",
    "USING delta AS SELECT 5 AS id, 'z' AS v",
    "USING delta PARTITIONED BY (v) AS SELECT 5 AS id, 'z' AS v",
    "USING delta AS SELECT id + 1 AS id, v FROM t",
    "(id INT) USING parquet",
    "(id INT, v STRING) USING delta PARTITIONED BY (nope)",
    "USING delta",
)


def scenarios() -> Iterator[Scenario]:
    for name, before in BEFORE.items():
        for number, after in enumerate(AFTER):
            if name != "plain" and (number + len(name)) % 2:
                continue
            verb = "REPLACE" if number % 2 else "CREATE OR REPLACE"
            yield scenario(
                f"replacements/{name} {number}",
                f"CREATE TABLE t {before}",
                "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
                f"{verb} TABLE t {after}",
                "INSERT INTO t VALUES (7, '9')",
            )
    yield scenario(
        "replacements/of nothing",
        *(f"REPLACE TABLE t {after}" for after in AFTER),
        "CREATE OR REPLACE TABLE t (id INT) USING delta",
        "REPLACE TABLE delta.`{dir}/p` (id INT) USING delta",
        "CREATE OR REPLACE TABLE delta.`{dir}/p` (id INT) USING delta",
        "REPLACE TABLE delta.`{dir}/p` (id INT, w INT) USING delta",
        "REPLACE TABLE IF EXISTS t (id INT) USING delta",
        "CREATE OR REPLACE TABLE IF NOT EXISTS t (id INT) USING delta",
    )
    yield scenario(
        "replacements/of others",
        "CREATE TABLE pq (id INT) USING parquet",
        "CREATE VIEW vw AS SELECT 1 AS id",
        "REPLACE TABLE pq (id INT) USING delta",
        "CREATE OR REPLACE TABLE pq (id INT) USING delta",
        "REPLACE TABLE vw (id INT) USING delta",
        "CREATE OR REPLACE TABLE vw USING delta AS SELECT 1 AS id",
        "CREATE TABLE vw (id INT) USING delta",
        "CREATE TABLE pq (id INT) USING delta",
        tables=("pq",),
    )
