"""INSERT in all its forms, over tables with and without partitions."""

from __future__ import annotations

from collections.abc import Iterator

from interop.differential.scenarios import Scenario, groups, scenario

TABLES = {
    "plain": "(id INT, v STRING, n INT) USING delta",
    "partitioned": "(id INT, v STRING, n INT) USING delta PARTITIONED BY (v)",
    "two partitions": "(id INT, v STRING, n INT) USING delta PARTITIONED BY (v, n)",
    "generated": "(id INT, v STRING, n INT GENERATED ALWAYS AS (id * 2)) USING delta PARTITIONED BY (v)",
    "mapped feed": "(id INT, v STRING, n INT) USING delta "
    "TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableChangeDataFeed' = 'true')",
}
INSERTS = (
    "INSERT INTO t VALUES (3, 'c', 6)",
    "INSERT INTO t VALUES (3, 'c')",
    "INSERT INTO t VALUES (3, 'c', 6, 9)",
    "INSERT INTO t VALUES (3, 'c', 6), (4, 'd', 8)",
    "INSERT INTO t VALUES ('x', 'c', 6)",
    "INSERT INTO TABLE t VALUES (3, 'c', 6)",
    "INSERT INTO t (v, id) VALUES ('c', 3)",
    "INSERT INTO t (v, nope) VALUES ('c', 3)",
    "INSERT INTO t (v, v) VALUES ('c', 'd')",
    "INSERT INTO t (V, ID) VALUES ('c', 3)",
    "INSERT INTO t (v, id) VALUES ('c')",
    "INSERT INTO t () VALUES ()",
    "INSERT INTO t SELECT 3, 'c', 6",
    "INSERT INTO t SELECT id + 10, v, (id + 10) * 2 FROM t",
    "INSERT INTO t SELECT * FROM nowhere",
    "INSERT INTO t SELECT nope FROM t",
    "INSERT INTO t TABLE t",
    "INSERT INTO t FROM t SELECT *",
    "INSERT INTO t BY NAME SELECT 'c' AS v, 3 AS id, 6 AS n",
    "INSERT INTO t BY NAME SELECT 'c' AS v, 3 AS id",
    "INSERT INTO t BY NAME SELECT 'c' AS v, 3 AS id, 1 AS nope",
    "INSERT INTO t BY NAME SELECT 'c' AS V, 3 AS ID",
    "INSERT INTO t BY NAME SELECT 3 AS id, 4 AS id",
    "INSERT INTO t BY NAME VALUES (3, 'c', 6)",
    "INSERT INTO t BY NAME (id) SELECT 3 AS id",
    "INSERT OVERWRITE t VALUES (3, 'c', 6)",
    "INSERT OVERWRITE TABLE t SELECT 3, 'c', 6",
    "INSERT OVERWRITE t BY NAME SELECT 3 AS id, 'c' AS v",
    "INSERT OVERWRITE t (id) VALUES (3)",
    "INSERT OVERWRITE t SELECT * FROM t WHERE false",
    "INSERT OVERWRITE t SELECT id, v, n FROM t WHERE id = 1",
    "INSERT INTO t PARTITION (v = 'c') VALUES (3, 6)",
    "INSERT INTO t PARTITION (v = 'c') SELECT 3, 6",
    "INSERT INTO t PARTITION (v) SELECT 3, 6, 'c'",
    "INSERT INTO t PARTITION (v = 'c', n = 6) SELECT 3",
    "INSERT INTO t PARTITION (v = 'c', n) SELECT 3, 6",
    "INSERT INTO t PARTITION (nope = 'c') SELECT 3, 6",
    "INSERT INTO t PARTITION (id = 3) SELECT 'c', 6",
    "INSERT OVERWRITE t PARTITION (v = 'a') VALUES (3, 6)",
    "INSERT OVERWRITE t PARTITION (v = 'a') SELECT 3, 6",
    "INSERT OVERWRITE t PARTITION (v) SELECT 3, 6, 'a'",
    "INSERT OVERWRITE t PARTITION (v = 'a', n) SELECT 3, 6",
    "INSERT OVERWRITE t PARTITION (v = 'a', n = 6) SELECT 3",
    "INSERT OVERWRITE t PARTITION (nope = 'a') SELECT 3, 6",
    "INSERT INTO t PARTITION (v = 'c') (id) VALUES (3)",
    "INSERT INTO t PARTITION (v = 'c') IF NOT EXISTS SELECT 3, 6",
    "INSERT OVERWRITE t PARTITION (v = 'a') IF NOT EXISTS SELECT 3, 6",
    "INSERT INTO t REPLACE WHERE id = 1 VALUES (1, 'z', 2)",
    "INSERT INTO t REPLACE WHERE id = 1 VALUES (5, 'z', 10)",
    "INSERT INTO t REPLACE WHERE v = 'a' SELECT 8, 'a', 16",
    "INSERT INTO t REPLACE WHERE v = 'a' SELECT 8, 'b', 16",
    "INSERT INTO t REPLACE WHERE nope = 1 VALUES (1, 'z', 2)",
    "INSERT INTO t REPLACE WHERE id VALUES (1, 'z', 2)",
    "INSERT INTO t REPLACE WHERE true VALUES (1, 'z', 2)",
    "INSERT INTO t REPLACE WHERE false VALUES (1, 'z', 2)",
    "INSERT INTO t REPLACE WHERE id > rand() VALUES (1, 'z', 2)",
    "INSERT INTO t REPLACE WHERE id = 2 AND v = 'b' SELECT * FROM t WHERE id = 2",
    "INSERT INTO t REPLACE WHERE v = 'a' BY NAME SELECT 8 AS id, 'a' AS v",
    "INSERT OVERWRITE t REPLACE WHERE id = 1 VALUES (1, 'z', 2)",
    "INSERT WITH SCHEMA EVOLUTION INTO t SELECT 3 AS id, 'c' AS v, 6 AS n, 9 AS extra",
    "INSERT WITH SCHEMA EVOLUTION INTO t BY NAME SELECT 3 AS id, 9 AS extra",
    "INSERT WITH SCHEMA EVOLUTION OVERWRITE t SELECT 3 AS id, 'c' AS v, 6 AS n, 9 AS extra",
    "INSERT INTO nowhere VALUES (1)",
    "INSERT INTO delta.`{dir}/t` VALUES (3, 'c', 6)",
    "INSERT INTO delta.`{dir}/nowhere` VALUES (3, 'c', 6)",
    "INSERT INTO t VALUES (DEFAULT, DEFAULT, DEFAULT)",
    "INSERT INTO t SELECT * FROM VALUES (3, 'c', 6) AS x(a, b, c)",
    "WITH q AS (SELECT 3, 'c', 6) INSERT INTO t SELECT * FROM q",
    "FROM t INSERT INTO t SELECT id, v, n",
    "INSERT OVERWRITE DIRECTORY '{dir}/out' USING delta SELECT 1 AS id",
    "INSERT INTO t AS x VALUES (3, 'c', 6)",
    "INSERT t VALUES (3, 'c', 6)",
    "COPY INTO t FROM '{dir}/files' FILEFORMAT = PARQUET",
    "LOAD DATA INPATH '{dir}/x' INTO TABLE t",
    "TRUNCATE TABLE t",
    "TRUNCATE TABLE t PARTITION (v = 'a')",
)


def scenarios() -> Iterator[Scenario]:
    for kind, definition in TABLES.items():
        chosen = INSERTS if kind in ("plain", "partitioned") else INSERTS[len(kind) % 3 :: 3]
        for number, group in groups(chosen, 4):
            yield scenario(
                f"inserts/{kind} {number}",
                f"CREATE TABLE t {definition}",
                "INSERT INTO t (id, v) VALUES (1, 'a'), (2, 'b')"
                if kind == "generated"
                else "INSERT INTO t VALUES (1, 'a', 2), (2, 'b', 4)",
                *group,
            )
    dynamic = {"spark.sql.sources.partitionOverwriteMode": "dynamic"}
    for kind in ("plain", "partitioned", "two partitions"):
        yield scenario(
            f"inserts/dynamic {kind}",
            f"CREATE TABLE t {TABLES[kind]}",
            "INSERT INTO t VALUES (1, 'a', 2), (2, 'b', 4), (3, NULL, 6)",
            *(insert for insert in INSERTS if "OVERWRITE" in insert),
            settings=dynamic,
        )
    for key, value in (
        ("spark.databricks.delta.schema.autoMerge.enabled", "true"),
        ("spark.sql.storeAssignmentPolicy", "LEGACY"),
        ("spark.databricks.delta.replaceWhere.dataColumns.enabled", "false"),
        ("spark.databricks.delta.replaceWhere.constraintCheck.enabled", "false"),
        ("spark.sql.caseSensitive", "true"),
    ):
        for kind in ("plain", "partitioned"):
            chosen = INSERTS if "autoMerge" in key else INSERTS[6:12] + INSERTS[18:24] + INSERTS[47:59]
            yield scenario(
                f"inserts/{key} {kind}",
                f"CREATE TABLE t {TABLES[kind]}",
                "INSERT INTO t VALUES (1, 'a', 2), (2, 'b', 4)",
                *chosen[:65],
                settings={key: value},
            )
