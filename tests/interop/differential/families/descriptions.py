"""DESCRIBE and SHOW statements over tables of several kinds."""

from __future__ import annotations

from collections.abc import Iterator

from interop.differential.scenarios import DETAIL, FILES, HISTORY, RESTORED, Scenario, python, scenario, some

TABLES = {
    "plain": "(id INT NOT NULL COMMENT 'key', v STRING, s STRUCT<a: INT>) USING delta COMMENT 'a table'",
    "partitioned": "(id INT, v STRING, s STRUCT<a: INT>) USING delta PARTITIONED BY (v) TBLPROPERTIES ('k' = 'w')",
    "clustered": "(id INT, v STRING, s STRUCT<a: INT>) USING delta CLUSTER BY (id, s.a)",
    "mapped": "(id INT, v STRING, s STRUCT<a: INT>) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    "generated": "(id INT, v STRING, s STRUCT<a: INT>, g INT GENERATED ALWAYS AS (id + 1)) USING delta",
    "located": "(id INT, v VARCHAR(3), s STRUCT<a: INT>) USING delta LOCATION '{dir}/located'",
}
DESCRIBES = (
    "DESCRIBE t",
    "DESC t",
    "DESCRIBE TABLE t",
    "DESCRIBE t id",
    "DESCRIBE t s.a",
    "DESCRIBE t nope",
    "DESCRIBE EXTENDED t id",
    "DESCRIBE t PARTITION (v = 'a')",
    "DESCRIBE delta.`{dir}/t`",
    "DESCRIBE delta.`{dir}/nowhere`",
    "DESCRIBE nowhere",
    "DESCRIBE vw",
    "DESCRIBE QUERY SELECT * FROM t",
    "DESCRIBE SELECT id FROM t",
    "SHOW COLUMNS IN t",
    "SHOW COLUMNS FROM t IN differential",
    "SHOW COLUMNS IN delta.`{dir}/t`",
    "SHOW COLUMNS IN nowhere",
    "SHOW COLUMNS IN vw",
    "SHOW PARTITIONS t",
    "SHOW PARTITIONS t PARTITION (v = 'a')",
    "SHOW PARTITIONS t PARTITION (id = 1)",
    "SHOW PARTITIONS delta.`{dir}/t`",
    "SHOW PARTITIONS nowhere",
    "SHOW PARTITIONS vw",
    "SHOW TBLPROPERTIES t",
    "SHOW TBLPROPERTIES t ('k')",
    "SHOW TBLPROPERTIES t (delta.minReaderVersion)",
    "SHOW TBLPROPERTIES vw",
    "SHOW TABLES",
    "SHOW TABLES LIKE 't*'",
    "SHOW TABLES IN nodatabase",
    "SHOW VIEWS",
    "SHOW TABLE EXTENDED LIKE 'nothing'",
    "SHOW TABLE EXTENDED LIKE 't' PARTITION (v = 'a')",
    "SHOW CREATE TABLE vw",
    "SHOW CREATE TABLE nowhere",
    "SHOW CREATE TABLE delta.`{dir}/t`",
    "EXPLAIN SELECT * FROM nowhere",
)
DETAILS = ("t", "delta.`{dir}/t`", "'{dir}/t'", "'{dir}/nowhere'", "delta.`{dir}/nowhere`", "nowhere", "vw", "pq", "tv")


def scenarios() -> Iterator[Scenario]:
    others = (
        "CREATE VIEW vw AS SELECT id, v FROM t",
        "CREATE TEMP VIEW tv AS SELECT * FROM t",
        "CREATE TABLE pq (id INT) USING parquet",
    )
    for kind, definition in TABLES.items():
        yield scenario(
            f"descriptions/{kind}",
            f"CREATE TABLE t {definition}",
            "INSERT INTO t (id, v) VALUES (1, 'a'), (2, NULL)",
            *others,
            *DESCRIBES,
            some("DESCRIBE EXTENDED t", "col_name"),
            some("SHOW CREATE TABLE t"),
            *(some(f"DESCRIBE DETAIL {target}", *DETAIL) for target in DETAILS),
            *(some(f"DESCRIBE HISTORY {target}", *HISTORY) for target in DETAILS),
            some("DESCRIBE HISTORY t LIMIT 1", *HISTORY),
            some("DESCRIBE HISTORY t LIMIT 0", *HISTORY),
            some("DESCRIBE HISTORY t LIMIT x", *HISTORY),
            some("DESCRIBE HISTORY t VERSION AS OF 0", *HISTORY),
            some("DESCRIBE DETAIL t VERSION AS OF 0", *DETAIL),
            some("DESCRIBE DETAIL", *DETAIL),
            some("DESCRIBE HISTORY", *HISTORY),
            python('spark.catalog.listColumns("t") and None'),
            python(
                'spark.createDataFrame([(c.name, c.dataType, c.nullable) for c in spark.catalog.listColumns("t")], "a string, b string, c boolean")'
            ),
            python(
                'spark.createDataFrame([(x.name, x.tableType, x.isTemporary) for x in spark.catalog.listTables()], "a string, b string, c boolean")'
            ),
            python(
                'spark.createDataFrame([(spark.catalog.tableExists("t"), spark.catalog.tableExists("nowhere"))], "a boolean, b boolean")'
            ),
            python('spark.catalog.getTable("nowhere")'),
        )
    yield scenario(
        "descriptions/history of commands",
        "CREATE TABLE t (id INT, v STRING, p INT) USING delta PARTITIONED BY (p)",
        "INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)",
        "UPDATE t SET v = 'c' WHERE id = 1 AND p = 1",
        "DELETE FROM t WHERE p = 2 OR v LIKE 'x%'",
        "MERGE INTO t USING (SELECT 1 AS id, 'm' AS v) s ON t.id = s.id AND t.p > 0 WHEN MATCHED AND s.v = 'm' THEN "
        "UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id) WHEN NOT MATCHED BY SOURCE THEN DELETE",
        some("OPTIMIZE t WHERE p = 1", *FILES),
        "INSERT INTO t VALUES (3, 'c', 1)",
        some("OPTIMIZE t ZORDER BY (id)", *FILES),
        "INSERT INTO t REPLACE WHERE p = 1 SELECT 8, 'z', 1",
        "INSERT OVERWRITE t VALUES (5, 'e', 5)",
        "ALTER TABLE t ADD COLUMN n INT AFTER id",
        "ALTER TABLE t ADD CONSTRAINT c CHECK (id > 0)",
        "ALTER TABLE t DROP CONSTRAINT c",
        "ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')",
        "ALTER TABLE t UNSET TBLPROPERTIES ('a')",
        "ALTER TABLE t ALTER COLUMN v COMMENT 'text'",
        "ALTER TABLE t SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "ALTER TABLE t RENAME COLUMN v TO w",
        "ALTER TABLE t DROP COLUMN n",
        "COMMENT ON TABLE t IS 'said'",
        "TRUNCATE TABLE t",
        some("RESTORE t TO VERSION AS OF 3", *RESTORED),
        "ALTER TABLE t SET TBLPROPERTIES ('delta.feature.deletionVectors' = 'supported')",
        "ALTER TABLE t DROP FEATURE deletionVectors",
        "CREATE OR REPLACE TABLE t (id INT) USING delta",
        some("DESCRIBE HISTORY t", *HISTORY),
        some("SELECT * FROM (DESCRIBE HISTORY t)", *HISTORY),
    )
