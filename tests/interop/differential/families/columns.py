"""ALTER TABLE of columns: ADD, DROP, RENAME, CHANGE, ALTER and REPLACE."""

from __future__ import annotations

from collections.abc import Iterator

from interop.differential.scenarios import Scenario, groups, scenario

COLUMNS = (
    "(id INT, v STRING, s STRUCT<a: INT, b: STRING>, arr ARRAY<STRUCT<x: INT>>, m MAP<STRING, INT>, d DECIMAL(5,2))"
)
KINDS = {
    "plain": "",
    "mapped": "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    "widening": "TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
    "feed": "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'delta.columnMapping.mode' = 'id')",
}
PLACES = {"partitioned": "PARTITIONED BY (v)", "clustered": "CLUSTER BY (id)"}
CHANGES = (
    "ADD COLUMN n INT",
    "ADD COLUMNS (n INT, o STRING COMMENT 'c')",
    "ADD COLUMN n INT FIRST",
    "ADD COLUMN n INT AFTER id",
    "ADD COLUMN n INT AFTER nope",
    "ADD COLUMN n INT NOT NULL",
    "ADD COLUMN n INT DEFAULT 5",
    "ADD COLUMN id INT",
    "ADD COLUMN ID INT",
    "ADD COLUMN IF NOT EXISTS id INT",
    "ADD COLUMN s.c INT",
    "ADD COLUMN s.c INT FIRST",
    "ADD COLUMN s.c INT AFTER a",
    "ADD COLUMN s.a INT",
    "ADD COLUMN nope.c INT",
    "ADD COLUMN v.c INT",
    "ADD COLUMN arr.element.y STRING",
    "ADD COLUMN m.value.y STRING",
    "ADD COLUMN n NOSUCHTYPE",
    "ADD COLUMN n INTERVAL DAY",
    "ADD COLUMN n VOID",
    "ADD COLUMN n TIMESTAMP_NTZ",
    "ADD COLUMN n VARCHAR(3)",
    "ADD COLUMN n INT GENERATED ALWAYS AS (id + 1)",
    "ADD COLUMN `a b` INT",
    "ADD COLUMN (n INT, n STRING)",
    "DROP COLUMN v",
    "DROP COLUMN id",
    "DROP COLUMN nope",
    "DROP COLUMN IF EXISTS nope",
    "DROP COLUMNS (d, m)",
    "DROP COLUMN s.a",
    "DROP COLUMN s.nope",
    "DROP COLUMN arr.element.x",
    "DROP COLUMN arr.element",
    "RENAME COLUMN d TO e",
    "RENAME COLUMN v TO w",
    "RENAME COLUMN id TO key",
    "RENAME COLUMN nope TO e",
    "RENAME COLUMN d TO v",
    "RENAME COLUMN d TO `a b`",
    "RENAME COLUMN s.a TO c",
    "RENAME COLUMN s.a TO b",
    "RENAME COLUMN arr.element.x TO z",
    "ALTER COLUMN id COMMENT 'key'",
    "ALTER COLUMN s.a COMMENT 'inner'",
    "ALTER COLUMN nope COMMENT 'x'",
    "ALTER COLUMN id TYPE BIGINT",
    "ALTER COLUMN id TYPE SMALLINT",
    "ALTER COLUMN id TYPE DOUBLE",
    "ALTER COLUMN id TYPE DECIMAL(12,2)",
    "ALTER COLUMN id TYPE STRING",
    "ALTER COLUMN id TYPE INT",
    "ALTER COLUMN v TYPE INT",
    "ALTER COLUMN v TYPE VARCHAR(9)",
    "ALTER COLUMN d TYPE DECIMAL(7,2)",
    "ALTER COLUMN d TYPE DECIMAL(7,4)",
    "ALTER COLUMN d TYPE DECIMAL(5,3)",
    "ALTER COLUMN s TYPE INT",
    "ALTER COLUMN s TYPE STRUCT<a: BIGINT, b: STRING>",
    "ALTER COLUMN s.a TYPE BIGINT",
    "ALTER COLUMN arr.element.x TYPE BIGINT",
    "ALTER COLUMN m.value TYPE BIGINT",
    "ALTER COLUMN m.key TYPE INT",
    "ALTER COLUMN id SET NOT NULL",
    "ALTER COLUMN id DROP NOT NULL",
    "ALTER COLUMN v SET NOT NULL",
    "ALTER COLUMN d FIRST",
    "ALTER COLUMN id AFTER v",
    "ALTER COLUMN id AFTER nope",
    "ALTER COLUMN id AFTER id",
    "ALTER COLUMN s.b FIRST",
    "ALTER COLUMN s.b AFTER a",
    "ALTER COLUMN id SET DEFAULT 7",
    "ALTER COLUMN id SET DEFAULT 'x'",
    "ALTER COLUMN id DROP DEFAULT",
    "ALTER COLUMN s.a SET DEFAULT 7",
    "ALTER COLUMN id SYNC IDENTITY",
    "CHANGE COLUMN id id BIGINT",
    "CHANGE COLUMN id id INT COMMENT 'k' FIRST",
    "CHANGE COLUMN d e DECIMAL(5,2)",
    "CHANGE COLUMN nope nope INT",
    "CHANGE id id INT COMMENT 'changed'",
    "REPLACE COLUMNS (id INT, v STRING)",
    "REPLACE COLUMNS (id BIGINT, v STRING)",
    "REPLACE COLUMNS (v STRING, id INT, s STRUCT<a: INT, b: STRING>, arr ARRAY<STRUCT<x: INT>>, m MAP<STRING, INT>, d DECIMAL(5,2), n INT)",
    "CLUSTER BY (d)",
    "CLUSTER BY (id, v)",
    "CLUSTER BY (nope)",
    "CLUSTER BY (s)",
    "CLUSTER BY (s.a)",
    "CLUSTER BY NONE",
    "CLUSTER BY AUTO",
    "ADD PARTITION (v = 'x')",
    "DROP PARTITION (v = 'x')",
    "PARTITION (v = 'x') RENAME TO PARTITION (v = 'y')",
    "RECOVER PARTITIONS",
    "SET LOCATION '{dir}/elsewhere'",
    "SET SERDE 'x'",
    "RENAME TO t2",
    "ADD COLUMN",
    "DROP COLUMN",
    "NOSUCH ACTION",
)
ROW = "(1, 'x', named_struct('a', 1, 'b', 'q'), array(named_struct('x', 1)), map('k', 1), 1.25)"


def scenarios() -> Iterator[Scenario]:
    made = {name: f"CREATE TABLE t {COLUMNS} USING delta {options}" for name, options in KINDS.items()}
    made |= {name: f"CREATE TABLE t {COLUMNS} USING delta {place} {KINDS['mapped']}" for name, place in PLACES.items()}
    for kind, create in made.items():
        # Each kind has its part of the changes; the mapped table has all.
        chosen = CHANGES if kind == "mapped" else CHANGES[len(kind) % 2 :: 2 if kind == "plain" else 3]
        for number, group in groups(chosen, 3):
            yield scenario(
                f"columns/{kind} {number}",
                create,
                f"INSERT INTO t VALUES {ROW}",
                *(f"ALTER TABLE t {change}" for change in group),
                "INSERT INTO t (m) VALUES (NULL)",
            )
    yield scenario(
        "columns/other tables",
        "CREATE TABLE pq (id INT) USING parquet",
        "CREATE VIEW vw AS SELECT 1 AS id",
        *(
            f"ALTER TABLE {table} {change}"
            for table in ("nowhere", "vw", "delta.`{dir}/nowhere`")
            for change in CHANGES[:50:7]
        ),
        tables=(),
    )
    yield scenario(
        "columns/generated and constrained",
        "CREATE TABLE t (id INT, v STRING, w INT, g INT GENERATED ALWAYS AS (id + 1)) USING delta "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableTypeWidening' = 'true')",
        "ALTER TABLE t ADD CONSTRAINT c CHECK (w > 0)",
        "INSERT INTO t (id, v, w) VALUES (1, 'a', 1)",
        *(
            f"ALTER TABLE t {change}"
            for change in (
                "DROP COLUMN id",
                "DROP COLUMN g",
                "DROP COLUMN w",
                "RENAME COLUMN id TO key",
                "RENAME COLUMN w TO x",
                "RENAME COLUMN g TO h",
                "ALTER COLUMN id TYPE BIGINT",
                "ALTER COLUMN w TYPE BIGINT",
                "ALTER COLUMN g TYPE BIGINT",
                "ALTER COLUMN id AFTER v",
                "DROP COLUMN v",
            )
        ),
    )
