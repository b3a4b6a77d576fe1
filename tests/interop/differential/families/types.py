"""Types of columns, by CREATE TABLE, and values of every type stored in every other."""

from __future__ import annotations

from collections.abc import Iterator

from interop.differential.families.values import NESTED, PLAIN, STORED, TYPES
from interop.differential.scenarios import Scenario, python, scenario

# What Delta refuses as a column's type, or what only some features admit.
UNUSUAL = (
    "INTERVAL DAY TO SECOND",
    "INTERVAL YEAR",
    "VOID",
    "VARIANT",
    "DECIMAL(38,38)",
    "DECIMAL(39,2)",
    "DECIMAL(2,5)",
    "CHAR(0)",
    "VARCHAR(0)",
    "NOSUCHTYPE",
    "ARRAY<VOID>",
    "MAP<ARRAY<INT>, INT>",
    "MAP<MAP<INT, INT>, INT>",
    "STRUCT<>",
    "STRUCT<a: INT, A: INT>",
    "ARRAY",
    "STRING COLLATE UTF8_LCASE",
    "TIME",
)


def scenarios() -> Iterator[Scenario]:
    for name, values in TYPES.items():
        yield scenario(
            f"types/column {name}",
            f"CREATE TABLE t (id INT, c {name}) USING delta",
            *(f"INSERT INTO t VALUES ({i}, {value})" for i, value in enumerate((*values, "NULL"))),
            "SELECT c, count(*) FROM t GROUP BY c" if not name.startswith("MAP") else "SELECT * FROM t WHERE id = 1",
            "SELECT id FROM t WHERE c IS NULL",
            f"SELECT id FROM t WHERE c = {values[0]}",
            f"DELETE FROM t WHERE c = {values[0]}",
            f"UPDATE t SET c = {values[0]} WHERE c IS NULL",
            "DESCRIBE t",
        )
    for name in UNUSUAL:
        yield scenario(
            f"types/unusual {name}",
            f"CREATE TABLE t (id INT, c {name}) USING delta",
            "INSERT INTO t (id) VALUES (1)",
            "DESCRIBE t",
        )
    for name in TYPES:
        yield scenario(
            f"types/store in {name}",
            f"CREATE TABLE t (id INT, c {name}) USING delta",
            *(f"INSERT INTO t VALUES ({i}, {value})" for i, value in enumerate(STORED)),
        )
    for name in ("INT", "DECIMAL(5,2)", "DATE", "STRUCT<a: INT, b: STRING>"):
        for policy in ("LEGACY", "STRICT"):
            yield scenario(
                f"types/store in {name} by {policy}",
                f"CREATE TABLE t (id INT, c {name}) USING delta",
                *(f"INSERT INTO t VALUES ({i}, {value})" for i, value in enumerate(STORED)),
                settings={"spark.sql.storeAssignmentPolicy": policy},
            )
    for name in ("INT", "TIMESTAMP", "STRUCT<a: INT, b: STRING>", "VARCHAR(4)"):
        yield scenario(
            f"types/update {name}",
            f"CREATE TABLE t (id INT, c {name}) USING delta",
            "INSERT INTO t (id) VALUES (1)",
            *(f"UPDATE t SET c = {value} WHERE id = 1" for value in STORED),
        )
        yield scenario(
            f"types/merge {name}",
            f"CREATE TABLE t (id INT, c {name}) USING delta",
            "INSERT INTO t (id) VALUES (1)",
            *(
                f"MERGE INTO t USING (SELECT 1 AS id, {value} AS v) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET c = s.v"
                for value in STORED
            ),
        )
        yield scenario(
            f"types/append a frame to {name}",
            f"CREATE TABLE t (id INT, c {name}) USING delta",
            *(
                python(
                    f'spark.sql("SELECT 1 AS id, {value} AS c").write.format("delta").mode("append").save(dir + "/t")'
                )
                for value in STORED
            ),
        )
    for name in (*PLAIN, *NESTED[:3]):
        values = TYPES[name]
        yield scenario(
            f"types/partitioned by {name}",
            f"CREATE TABLE t (id INT, p {name}) USING delta PARTITIONED BY (p)",
            f"INSERT INTO t VALUES (1, {values[0]}), (2, NULL)",
            f"INSERT INTO t SELECT 3, {values[1]}",
            f"SELECT id FROM t WHERE p = {values[1]}",
            "SELECT id FROM t WHERE p IS NOT NULL",
            f"DELETE FROM t WHERE p = {values[0]}",
            "SHOW PARTITIONS t",
        )
