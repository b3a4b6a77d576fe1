"""UPDATE and DELETE: targets, conditions and values, over tables of several kinds."""

from __future__ import annotations

from collections.abc import Iterator

from interop.differential.scenarios import Scenario, groups, python, scenario

COLUMNS = "(id INT, v STRING, s STRUCT<a: INT, b: STRING>, arr ARRAY<INT>, m MAP<STRING, INT>)"
TABLES = {
    "plain": "",
    "partitioned": "PARTITIONED BY (v)",
    "vectors": "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    "feed": "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'delta.columnMapping.mode' = 'name')",
}
ROWS = (
    "INSERT INTO t VALUES (1, 'a', named_struct('a', 1, 'b', 'x'), array(1), map('k', 1)), "
    "(2, 'b', named_struct('a', 2, 'b', 'y'), array(2), map('k', 2)), (3, NULL, NULL, NULL, NULL)"
)
UPDATES = (
    "UPDATE t SET v = 'z' WHERE id = 1",
    "UPDATE t SET v = 'z'",
    "UPDATE t SET v = 'z' WHERE id = 99",
    "UPDATE t SET id = id + 1, v = concat(v, id)",
    "UPDATE t AS x SET x.v = 'z' WHERE x.id = 1",
    "UPDATE t x SET v = 'z' WHERE x.id > 1 AND x.v IS NULL",
    "UPDATE t SET s.a = 9 WHERE id = 1",
    "UPDATE t SET s = named_struct('a', 5, 'b', 'q') WHERE id = 1",
    "UPDATE t SET s = named_struct('b', 'q', 'a', 5) WHERE id = 1",
    "UPDATE t SET s = named_struct('a', 5) WHERE id = 1",
    "UPDATE t SET s = NULL",
    "UPDATE t SET s.nope = 1",
    "UPDATE t SET s.a = 1, s = NULL",
    "UPDATE t SET s.a = 1, s.a = 2",
    "UPDATE t SET arr = array(7, 8) WHERE arr[0] = 1",
    "UPDATE t SET arr[0] = 5",
    "UPDATE t SET m['k'] = 5",
    "UPDATE t SET m = map('j', 9)",
    "UPDATE t SET id = 'x'",
    "UPDATE t SET id = '7'",
    "UPDATE t SET id = 3000000000L",
    "UPDATE t SET id = 1 / 0",
    "UPDATE t SET nope = 1",
    "UPDATE t SET v = nope",
    "UPDATE t SET v = 'z' WHERE nope = 1",
    "UPDATE t SET v = 'z' WHERE id",
    "UPDATE t SET v = 'z' WHERE id = 'x'",
    "UPDATE t SET v = 'z' WHERE max(id) = 1",
    "UPDATE t SET v = max(v)",
    "UPDATE t SET v = 'z' WHERE rand() < 2",
    "UPDATE t SET v = CASE WHEN id = 1 THEN 'one' ELSE v END",
    "UPDATE t SET v = 'z' WHERE v IN ('a', 'b')",
    "UPDATE t SET v = 'z' WHERE v LIKE 'a%'",
    "UPDATE t SET v = 'z' WHERE NULL",
    "UPDATE t SET v = NULL WHERE v IS NOT NULL",
    "UPDATE t SET V = 'z', ID = 4",
    "UPDATE t SET v = 'z', V = 'y'",
    "UPDATE t SET",
    "UPDATE t",
    "UPDATE nowhere SET v = 'z'",
    "UPDATE delta.`{dir}/t` SET v = 'z' WHERE id = 1",
    "UPDATE delta.`{dir}/nowhere` SET v = 'z'",
    "UPDATE t SET v = 'z' WHERE explode(array(1)) = 1",
    "UPDATE t SET v = row_number() OVER (ORDER BY id)",
    "UPDATE spark_catalog.differential.t SET v = 'z' WHERE id = 2",
    "UPDATE t SET t.v = 'z' WHERE t.id = 1",
    "UPDATE t SET v = DEFAULT",
    "UPDATE t SET s.a = 'x'",
    "UPDATE t SET v = 5",
    "UPDATE t SET v = DATE'2024-01-01'",
    "UPDATE t SET v = array(1)",
)
DELETES = (
    "DELETE FROM t",
    "DELETE FROM t WHERE id = 1",
    "DELETE FROM t WHERE id = 99",
    "DELETE FROM t WHERE v = 'a'",
    "DELETE FROM t WHERE v IS NULL",
    "DELETE FROM t WHERE v = 'a' OR id = 3",
    "DELETE FROM t AS x WHERE x.id > 1",
    "DELETE FROM t x WHERE x.s.a = 2",
    "DELETE FROM t WHERE s.b = 'x' AND arr[0] = 1",
    "DELETE FROM t WHERE m['k'] = 2",
    "DELETE FROM t WHERE nope = 1",
    "DELETE FROM t WHERE id",
    "DELETE FROM t WHERE id = 'x'",
    "DELETE FROM t WHERE true",
    "DELETE FROM t WHERE false",
    "DELETE FROM t WHERE NULL",
    "DELETE FROM t WHERE id IN (1, 2)",
    "DELETE FROM t WHERE id NOT IN (1, NULL)",
    "DELETE FROM t WHERE count(*) > 1",
    "DELETE FROM t WHERE rand() < 2",
    "DELETE FROM t WHERE id BETWEEN 2 AND 3",
    "DELETE FROM t WHERE upper(v) = 'B'",
    "DELETE FROM t WHERE v <=> NULL",
    "DELETE FROM t WHERE 1 / 0 = 1",
    "DELETE t WHERE id = 1",
    "DELETE FROM t, t WHERE id = 1",
    "DELETE FROM nowhere",
    "DELETE FROM nowhere WHERE id = 1",
    "DELETE FROM delta.`{dir}/t` WHERE id = 1",
    "DELETE FROM delta.`{dir}/nowhere` WHERE id = 1",
    "DELETE FROM t WHERE row_number() OVER (ORDER BY id) = 1",
    "DELETE FROM t WHERE id = 1 LIMIT 1",
    "DELETE FROM t VERSION AS OF 0 WHERE id = 1",
    "DELETE FROM `{dir}/t` WHERE id = 1",
)


def scenarios() -> Iterator[Scenario]:
    for kind, options in TABLES.items():
        for statements, verb in ((UPDATES, "update"), (DELETES, "delete")):
            chosen = statements if kind == "plain" else statements[len(kind) % 3 :: 3]
            for number, group in groups(chosen, 4):
                # Deleted rows come again, so that each statement finds them.
                steps = [step for text in group for step in ((text, ROWS) if verb == "delete" else (text,))]
                yield scenario(
                    f"updates/{kind} {verb} {number}", f"CREATE TABLE t {COLUMNS} USING delta {options}", ROWS, *steps
                )
    yield scenario(
        "updates/other targets",
        "CREATE TABLE t (id INT, v STRING) USING delta",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
        "CREATE TABLE pq (id INT, v STRING) USING parquet",
        "CREATE VIEW vw AS SELECT * FROM t",
        "CREATE TEMP VIEW tv AS SELECT * FROM t",
        "CREATE TEMP VIEW tw AS SELECT id FROM t WHERE id = 1",
        "CREATE TEMP VIEW lit AS SELECT 1 AS id",
        *(
            statement.format(table)
            for table in ("pq", "vw", "tv", "tw", "lit", "parquet.`{{dir}}/pq`")
            for statement in ("UPDATE {} SET id = 5 WHERE id = 1", "DELETE FROM {} WHERE id = 5")
        ),
    )
    yield scenario(
        "updates/append only",
        "CREATE TABLE t (id INT, v STRING) USING delta TBLPROPERTIES ('delta.appendOnly' = 'true')",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
        "UPDATE t SET v = 'z' WHERE id = 1",
        "UPDATE t SET v = 'z' WHERE id = 99",
        "DELETE FROM t WHERE id = 1",
        "DELETE FROM t WHERE id = 99",
        "DELETE FROM t",
        "INSERT OVERWRITE t VALUES (3, 'c')",
        "MERGE INTO t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "MERGE INTO t USING (SELECT 5 AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)",
        "TRUNCATE TABLE t",
        "OPTIMIZE t",
        "RESTORE t TO VERSION AS OF 0",
        "INSERT INTO t VALUES (4, 'd')",
        python('spark.sql("SELECT 9 AS id, \'x\' AS v").write.format("delta").mode("overwrite").save(dir + "/t")'),
    )
    yield scenario(
        "updates/many in a row",
        "CREATE TABLE t (id INT, v STRING) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        "INSERT INTO t SELECT id, CAST(id AS STRING) FROM range(20)",
        *(f"DELETE FROM t WHERE id % 7 = {i}" for i in range(3)),
        *(f"UPDATE t SET v = concat(v, '!') WHERE id % 5 = {i}" for i in range(3)),
        "DELETE FROM t WHERE id < 5",
        "DELETE FROM t",
        "DELETE FROM t",
    )
