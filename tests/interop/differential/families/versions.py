"""Time travel by SQL and `@v`, and the change data feed by `table_changes`."""

from __future__ import annotations

from collections.abc import Iterator

from interop.differential.scenarios import KEEP_VERSIONS, Scenario, python, scenario, some

TRAVELS = (
    "SELECT * FROM t VERSION AS OF 0",
    "SELECT * FROM t VERSION AS OF 1",
    "SELECT * FROM t VERSION AS OF '1'",
    "SELECT * FROM t VERSION AS OF 99",
    "SELECT * FROM t VERSION AS OF -1",
    "SELECT * FROM t VERSION AS OF 'x'",
    "SELECT * FROM t FOR VERSION AS OF 1",
    "SELECT * FROM t FOR SYSTEM_VERSION AS OF 1",
    "SELECT * FROM t TIMESTAMP AS OF '2020-01-02'",
    "SELECT * FROM t TIMESTAMP AS OF '2020-01-02 00:00:00'",
    "SELECT * FROM t TIMESTAMP AS OF DATE'2020-01-03'",
    "SELECT * FROM t TIMESTAMP AS OF TIMESTAMP'2020-01-03 10:00:00'",
    "SELECT * FROM t TIMESTAMP AS OF '2019-01-01'",
    "SELECT * FROM t TIMESTAMP AS OF '2020-01-05'",
    "SELECT * FROM t TIMESTAMP AS OF '2099-01-01'",
    "SELECT * FROM t TIMESTAMP AS OF 'x'",
    "SELECT * FROM t TIMESTAMP AS OF NULL",
    "SELECT * FROM t TIMESTAMP AS OF current_timestamp()",
    "SELECT * FROM t FOR SYSTEM_TIME AS OF '2020-01-02'",
    "SELECT * FROM t TIMESTAMP AS OF '2020-01-02' - INTERVAL 1 DAY",
    "SELECT * FROM t TIMESTAMP AS OF date_sub(DATE'2020-01-03', 1)",
    "SELECT * FROM t@v1",
    "SELECT * FROM `t@v1`",
    "SELECT * FROM t@20200102000000000",
    "SELECT * FROM delta.`{dir}/t@v1`",
    "SELECT * FROM delta.`{dir}/t@v99`",
    "SELECT * FROM delta.`{dir}/t@20200102000000000`",
    "SELECT * FROM delta.`{dir}/t@20190102000000000`",
    "SELECT * FROM delta.`{dir}/t` VERSION AS OF 1",
    "SELECT * FROM delta.`{dir}/t@v1` VERSION AS OF 1",
    "SELECT * FROM delta.`{dir}/nowhere` VERSION AS OF 1",
    "SELECT * FROM nowhere VERSION AS OF 1",
    "SELECT a.id FROM t VERSION AS OF 1 AS a JOIN t b ON a.id = b.id",
    "SELECT count(*) FROM t VERSION AS OF 1 WHERE v = 'a'",
    "SELECT n FROM t VERSION AS OF 1",
    "SELECT * FROM t VERSION AS OF (SELECT 1)",
    "SELECT * FROM t VERSION AS OF 1 + 1",
    "INSERT INTO t SELECT *, 5 FROM t VERSION AS OF 1",
    "INSERT INTO delta.`{dir}/t@v1` VALUES (1, 'a', 1)",
    "UPDATE delta.`{dir}/t@v1` SET v = 'q'",
    "DELETE FROM delta.`{dir}/t@v1`",
    "CREATE TABLE u USING delta AS SELECT * FROM t VERSION AS OF 1",
    "CREATE VIEW vt AS SELECT * FROM t VERSION AS OF 1",
    "SELECT * FROM vw VERSION AS OF 1",
    "SELECT * FROM tv VERSION AS OF 1",
    "SELECT * FROM pq VERSION AS OF 1",
    "WITH c AS (SELECT * FROM t) SELECT * FROM c VERSION AS OF 1",
    "DESCRIBE t VERSION AS OF 1",
)
CHANGES = (
    "SELECT * EXCEPT (_commit_timestamp) FROM table_changes('t', 0)",
    "SELECT * EXCEPT (_commit_timestamp) FROM table_changes('t', 2)",
    "SELECT * EXCEPT (_commit_timestamp) FROM table_changes('t', 1, 2)",
    "SELECT * EXCEPT (_commit_timestamp) FROM table_changes('t', 2, 1)",
    "SELECT * FROM table_changes('t', 99)",
    "SELECT count(*) FROM table_changes('t', 0, 99)",
    "SELECT * FROM table_changes('t', -1)",
    "SELECT * FROM table_changes('t')",
    "SELECT * FROM table_changes()",
    "SELECT * FROM table_changes('t', 1, 2, 3)",
    "SELECT * FROM table_changes('nowhere', 0)",
    "SELECT * FROM table_changes('pq', 0)",
    "SELECT * FROM table_changes('nofeed', 0)",
    "SELECT * FROM table_changes('vw', 0)",
    "SELECT * FROM table_changes(t, 0)",
    "SELECT id FROM table_changes('t', '2020-01-02', '2020-01-03')",
    "SELECT id FROM table_changes('t', '2020-01-02')",
    "SELECT id FROM table_changes('t', '2019-01-02')",
    "SELECT id FROM table_changes('t', '2099-01-02')",
    "SELECT id FROM table_changes('t', 'x')",
    "SELECT id FROM table_changes('t', NULL)",
    "SELECT id FROM table_changes('t', 1.5)",
    "SELECT id FROM table_changes('t', 0, '2020-01-03')",
    "SELECT id FROM table_changes('t', TIMESTAMP'2020-01-02 00:00:00')",
    "SELECT _change_type, count(*) FROM table_changes('t', 0) GROUP BY 1",
    "SELECT nope FROM table_changes('t', 0)",
    "SELECT id, _change_type FROM table_changes('t', 0) WHERE _commit_version = 2 AND id = 1",
    "SELECT * EXCEPT (_commit_timestamp) FROM table_changes_by_path('{dir}/t', 0)",
    "SELECT * EXCEPT (_commit_timestamp) FROM table_changes_by_path('{dir}/t', 1, 2)",
    "SELECT * FROM table_changes_by_path('{dir}/nowhere', 0)",
    "SELECT date(_commit_timestamp) FROM table_changes('t', 1, 1)",
)


def _made(options: str) -> tuple[str, ...]:
    return (
        f"CREATE TABLE t (id INT, v STRING) USING delta {options}",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
        "UPDATE t SET v = 'c' WHERE id = 1",
        "ALTER TABLE t ADD COLUMN n INT",
        "DELETE FROM t WHERE id = 2",
    )


def scenarios() -> Iterator[Scenario]:
    others = (
        "CREATE VIEW vw AS SELECT * FROM t",
        "CREATE TEMP VIEW tv AS SELECT * FROM t",
        "CREATE TABLE pq (id INT) USING parquet",
        "CREATE TABLE nofeed (id INT) USING delta",
    )
    for kind, options in {
        "plain": "",
        "stamped": "TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')",
        "partitioned": "PARTITIONED BY (v)",
    }.items():
        step = TRAVELS if kind == "plain" else tuple(t for t in TRAVELS if "202" not in t)[:12]
        yield scenario(
            f"versions/travel {kind}", *_made(options), *others, KEEP_VERSIONS.format("t"), python('on_day("t")'), *step
        )
    for kind, options in {
        "plain": "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
        "vectors": "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'true')",
        "mapped": "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'delta.columnMapping.mode' = 'name')",
    }.items():
        yield scenario(
            f"versions/changes {kind}",
            *_made(options),
            *others,
            KEEP_VERSIONS.format("t"),
            python('on_day("t")'),
            *CHANGES,
        )
    yield scenario(
        "versions/changes out of range",
        *_made("TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"),
        KEEP_VERSIONS.format("t"),
        python('on_day("t")'),
        *(text for text in CHANGES if "99" in text),
        settings={"spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled": "true"},
    )
    yield scenario(
        "versions/changes of commands",
        "CREATE TABLE t (id INT, v STRING) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        "MERGE INTO t USING (SELECT id + 2 AS id FROM range(3)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 'm' "
        "WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id) WHEN NOT MATCHED BY SOURCE THEN DELETE",
        "INSERT INTO t REPLACE WHERE id > 2 SELECT 8, 'r'",
        "INSERT OVERWRITE t VALUES (9, 'o')",
        "TRUNCATE TABLE t",
        some("RESTORE t TO VERSION AS OF 1", "num_removed_files"),
        "ALTER TABLE t SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')",
        "INSERT INTO t VALUES (10, 'x')",
        "ALTER TABLE t SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
        *(
            f"SELECT * EXCEPT (_commit_timestamp) FROM table_changes('t', {start}, {end})"
            for start, end in ((0, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (0, 7), (8, 8), (9, 9))
        ),
    )
