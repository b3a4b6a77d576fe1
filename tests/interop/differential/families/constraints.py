"""CHECK and NOT NULL constraints, defaults, and rows that break them."""

from __future__ import annotations

from collections.abc import Iterator

from interop.differential.scenarios import Scenario, python, scenario

CHECKS = (
    "id > 0",
    "id > 5",
    "id IS NOT NULL",
    "v IN ('a', 'b')",
    "s.a > 0",
    "length(v) < 10",
    "id > 0 AND v <> 'z'",
    "id + 1",
    "v",
    "nope > 0",
    "id >",
    "rand() > 0",
    "current_date() > DATE'2020-01-01'",
    "max(id) > 0",
    "id > (SELECT 1)",
    "true",
    "NULL",
    "nosuchfunction(id)",
    "id = 'x'",
    "explode(array(1)) = 1",
)
BREAKING = (
    "INSERT INTO t (id, v) VALUES (-1, 'a')",
    "INSERT INTO t (id, v) VALUES (NULL, 'a')",
    "INSERT INTO t (id, v) VALUES (9, 'z')",
    "UPDATE t SET id = -1",
    "UPDATE t SET v = 'zzzzzzzzzzzzzzz'",
    "MERGE INTO t USING (SELECT -5 AS id, 'a' AS v) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)",
    "INSERT OVERWRITE t (id, v) VALUES (-1, 'a')",
)


def scenarios() -> Iterator[Scenario]:
    for number, check in enumerate(CHECKS):
        yield scenario(
            f"constraints/check {number}",
            "CREATE TABLE t (id INT, v STRING, s STRUCT<a: INT>) USING delta",
            "INSERT INTO t VALUES (1, 'a', named_struct('a', 1))",
            f"ALTER TABLE t ADD CONSTRAINT c CHECK ({check})",
            f"ALTER TABLE t ADD CONSTRAINT C CHECK ({check})",
            *BREAKING,
            "ALTER TABLE t DROP CONSTRAINT c",
            "ALTER TABLE t DROP CONSTRAINT c",
            "ALTER TABLE t DROP CONSTRAINT IF EXISTS c",
            "SHOW TBLPROPERTIES t",
        )
    yield scenario(
        "constraints/not null",
        "CREATE TABLE t (id INT NOT NULL, v STRING, s STRUCT<a: INT NOT NULL, b: INT>) USING delta",
        "INSERT INTO t VALUES (NULL, 'a', NULL)",
        "INSERT INTO t VALUES (1, 'a', NULL)",
        "INSERT INTO t VALUES (1, 'a', named_struct('a', NULL, 'b', 1))",
        "INSERT INTO t VALUES (1, 'a', named_struct('a', 1, 'b', NULL))",
        "INSERT INTO t (v) VALUES ('b')",
        "UPDATE t SET id = NULL",
        "UPDATE t SET s.a = NULL",
        "UPDATE t SET s = named_struct('a', CAST(NULL AS INT), 'b', 1)",
        "MERGE INTO t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = NULL",
        "MERGE INTO t USING (SELECT 5 AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (v) VALUES ('x')",
        python('spark.sql("SELECT CAST(NULL AS INT) AS id").write.format("delta").mode("append").save(dir + "/t")'),
        python('spark.sql("SELECT \'x\' AS v").write.format("delta").mode("append").save(dir + "/t")'),
        "ALTER TABLE t ALTER COLUMN id DROP NOT NULL",
        "ALTER TABLE t ALTER COLUMN s.a DROP NOT NULL",
        "INSERT INTO t VALUES (NULL, 'a', NULL)",
        "ALTER TABLE t ALTER COLUMN v SET NOT NULL",
        "ALTER TABLE t ALTER COLUMN id SET NOT NULL",
    )
    yield scenario(
        "constraints/arrays and maps not null",
        "CREATE TABLE t (id INT, a ARRAY<STRUCT<x: INT NOT NULL>>) USING delta",
        "CREATE TABLE t (id INT, m MAP<STRING, STRUCT<x: INT NOT NULL>>) USING delta",
        "INSERT INTO t (id) VALUES (1)",
    )
    yield scenario(
        "constraints/several",
        "CREATE TABLE t (id INT, v STRING) USING delta",
        "ALTER TABLE t ADD CONSTRAINT a CHECK (id > 0)",
        "ALTER TABLE t ADD CONSTRAINT b CHECK (id < 10)",
        "ALTER TABLE t ADD CONSTRAINT `with space` CHECK (v <> 'x')",
        "ALTER TABLE t ADD CHECK (id > 0)",
        "ALTER TABLE t ADD CONSTRAINT d UNIQUE (id)",
        "ALTER TABLE t ADD CONSTRAINT d PRIMARY KEY (id)",
        "ALTER TABLE t ADD CONSTRAINT d CHECK (id > 0) ENFORCED",
        "ALTER TABLE t ADD CONSTRAINT e CHECK (id > 0) NOT ENFORCED",
        "INSERT INTO t VALUES (11, 'x')",
        "INSERT INTO t VALUES (5, 'x')",
        "INSERT INTO t VALUES (5, 'y')",
        "ALTER TABLE t DROP CONSTRAINT nope",
        "ALTER TABLE nowhere ADD CONSTRAINT a CHECK (id > 0)",
        "ALTER TABLE nowhere DROP CONSTRAINT a",
        "ALTER TABLE delta.`{dir}/t` ADD CONSTRAINT p CHECK (id < 100)",
        "ALTER TABLE delta.`{dir}/t` DROP CONSTRAINT p",
        "ALTER TABLE t SET TBLPROPERTIES ('delta.constraints.q' = 'id < 50')",
        "ALTER TABLE t UNSET TBLPROPERTIES ('delta.constraints.a')",
        "INSERT INTO t VALUES (60, 'y')",
    )
    feature = "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    yield scenario(
        "constraints/defaults",
        f"CREATE TABLE t (id INT DEFAULT 1, v STRING DEFAULT 'dd', d DATE, s STRUCT<a: INT>) USING delta {feature}",
        "INSERT INTO t (d) VALUES (DATE'2024-01-01')",
        "INSERT INTO t VALUES (DEFAULT, DEFAULT, DEFAULT, DEFAULT)",
        "INSERT INTO t VALUES (5, DEFAULT, NULL, NULL)",
        "INSERT INTO t (id, v) SELECT 6, DEFAULT",
        "INSERT INTO t SELECT 7, 'x', NULL, NULL",
        "INSERT INTO t VALUES (1)",
        "UPDATE t SET v = DEFAULT WHERE id = 5",
        "UPDATE t SET v = DEFAULT || 'x'",
        "MERGE INTO t USING (SELECT 99 AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, DEFAULT)",
        "MERGE INTO t USING (SELECT 99 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = DEFAULT",
        "ALTER TABLE t ALTER COLUMN v SET DEFAULT 'new'",
        "ALTER TABLE t ALTER COLUMN v SET DEFAULT id",
        "ALTER TABLE t ALTER COLUMN v SET DEFAULT 1 + 1",
        "ALTER TABLE t ALTER COLUMN d SET DEFAULT current_date()",
        "ALTER TABLE t ALTER COLUMN d SET DEFAULT 'x'",
        "ALTER TABLE t ALTER COLUMN nope SET DEFAULT 1",
        "ALTER TABLE t ALTER COLUMN s SET DEFAULT named_struct('a', 1)",
        "ALTER TABLE t ALTER COLUMN v DROP DEFAULT",
        "ALTER TABLE t ALTER COLUMN d DROP DEFAULT",
        "INSERT INTO t (id) VALUES (8)",
        "ALTER TABLE t ADD COLUMN n INT DEFAULT 3",
        "DESCRIBE EXTENDED t v",
    )
    yield scenario(
        "constraints/char and varchar",
        "CREATE TABLE t (id INT, c CHAR(3), v VARCHAR(3), a ARRAY<VARCHAR(2)>, s STRUCT<x: CHAR(2)>) USING delta",
        "INSERT INTO t (c) VALUES ('abcd')",
        "INSERT INTO t (c) VALUES ('abc ')",
        "INSERT INTO t (v) VALUES ('abcd')",
        "INSERT INTO t (v) VALUES ('abc  ')",
        "INSERT INTO t (a) VALUES (array('abc'))",
        "INSERT INTO t (s) VALUES (named_struct('x', 'abc'))",
        "INSERT INTO t (s) VALUES (named_struct('x', 'a'))",
        "INSERT INTO t (c, v) VALUES ('a', 'b ')",
        "SELECT id, length(c), length(v) FROM t",
        "SELECT count(*) FROM t WHERE c = 'a'",
        "UPDATE t SET v = 'abcd'",
        "UPDATE t SET c = 'z'",
        "DESCRIBE t",
    )
