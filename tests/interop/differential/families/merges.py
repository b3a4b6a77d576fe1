"""MERGE: clauses, sources, conditions and schema evolution."""

from __future__ import annotations

from collections.abc import Iterator

from interop.differential.scenarios import Scenario, groups, scenario

TABLES = {
    "plain": "",
    "partitioned": "PARTITIONED BY (v)",
    "vectors": "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    "feed": "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
}
USING = "MERGE INTO t USING s ON t.id = s.id "
CLAUSES = (
    "WHEN MATCHED THEN UPDATE SET v = s.v",
    "WHEN MATCHED THEN UPDATE SET t.v = s.v",
    "WHEN MATCHED THEN UPDATE SET *",
    "WHEN MATCHED THEN DELETE",
    "WHEN NOT MATCHED THEN INSERT *",
    "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)",
    "WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)",
    "WHEN NOT MATCHED BY TARGET THEN INSERT *",
    "WHEN NOT MATCHED BY SOURCE THEN DELETE",
    "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = 'gone'",
    "WHEN NOT MATCHED BY SOURCE AND t.id > 1 THEN DELETE",
    "WHEN MATCHED AND s.v = 'x' THEN DELETE WHEN MATCHED THEN UPDATE SET *",
    "WHEN MATCHED AND s.v = 'x' THEN UPDATE SET * WHEN NOT MATCHED AND s.id > 4 THEN INSERT *",
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE THEN DELETE",
    "WHEN MATCHED THEN DELETE WHEN MATCHED THEN UPDATE SET *",
    "WHEN NOT MATCHED THEN INSERT * WHEN MATCHED THEN DELETE",
    "WHEN MATCHED THEN UPDATE SET id = s.id + 100",
    "WHEN MATCHED THEN UPDATE SET nope = 1",
    "WHEN MATCHED THEN UPDATE SET v = s.nope",
    "WHEN MATCHED THEN UPDATE SET v = v",
    "WHEN MATCHED THEN UPDATE SET v = 1, v = 2",
    "WHEN MATCHED THEN UPDATE SET id = 'x'",
    "WHEN MATCHED AND s.nope = 1 THEN DELETE",
    "WHEN MATCHED AND s.id THEN DELETE",
    "WHEN MATCHED AND max(s.id) > 1 THEN DELETE",
    "WHEN MATCHED AND rand() > 2 THEN DELETE",
    "WHEN NOT MATCHED THEN INSERT (nope) VALUES (1)",
    "WHEN NOT MATCHED THEN INSERT (id, id) VALUES (1, 2)",
    "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (1)",
    "WHEN NOT MATCHED THEN INSERT (id) VALUES (t.id)",
    "WHEN NOT MATCHED AND t.id = 1 THEN INSERT *",
    "WHEN NOT MATCHED THEN UPDATE SET v = 1",
    "WHEN NOT MATCHED THEN DELETE",
    "WHEN MATCHED THEN INSERT *",
    "WHEN NOT MATCHED BY SOURCE THEN INSERT *",
    "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = s.v",
    "WHEN NOT MATCHED BY SOURCE AND s.id = 1 THEN DELETE",
    "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *",
    "WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.v, 1)",
    "",
    "WHEN MATCHED THEN DO NOTHING",
    "WHEN MATCHED THEN UPDATE SET v = NULL WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, DEFAULT)",
    "WHEN MATCHED THEN UPDATE SET st.a = 7",
    "WHEN MATCHED THEN UPDATE SET st = named_struct('a', 8, 'b', 'q')",
    "WHEN MATCHED THEN UPDATE SET st.a = 7, st.b = 'z'",
    "WHEN MATCHED THEN UPDATE SET st.nope = 7",
    "WHEN MATCHED THEN UPDATE SET st = named_struct('a', 8)",
    "WHEN MATCHED THEN UPDATE SET st = named_struct('b', 'q', 'a', 8)",
)
# The source, the condition.
SOURCES = (
    ("s", "t.id = s.id AND t.v = s.v"),
    ("s", "t.id = s.id AND t.id = 1"),
    ("s", "true"),
    ("s", "false"),
    ("s", "t.id = s.nope"),
    ("s", "id = 1"),
    ("s", "t.id"),
    ("s", "t.id = s.id AND rand() > 2"),
    ("s", "max(t.id) = s.id"),
    ("s", "t.id > s.id"),
    ("(SELECT * FROM s) x", "t.id = x.id"),
    ("(SELECT id, v, st FROM s WHERE id > 1) AS s", "t.id = s.id"),
    ("nowhere", "true"),
    ("t", "t.id = t.id"),
    ("t AS s", "t.id = s.id"),
    ("(SELECT 1 AS id UNION ALL SELECT 1) s", "t.id = s.id"),
    ("(VALUES (1, 'x', NULL)) AS s(id, v, st)", "t.id = s.id"),
    ("delta.`{dir}/s` s", "t.id = s.id"),
    ("range(3) s", "t.id = s.id"),
    ("s VERSION AS OF 0 AS s", "t.id = s.id"),
    ("(SELECT *, 1 AS extra FROM s) s", "t.id = s.id"),
    ("(SELECT id FROM s) s", "t.id = s.id"),
    ("(SELECT v, id, st FROM s) s", "t.id = s.id"),
    ("(SELECT 'x' AS id, v, st FROM s) s", "t.id = s.id"),
    ("(SELECT CAST(id AS BIGINT) AS id, v, st FROM s) s", "t.id = s.id"),
    ("(SELECT id AS ID, v AS V, st AS ST FROM s) s", "t.id = s.ID"),
    ("(SELECT * FROM s WHERE false) s", "t.id = s.id"),
)
ALL = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
# Sources for schema evolution.
EVOLVING = (
    "SELECT 1 AS id, 'x' AS v, 5 AS extra",
    "SELECT 1 AS id, 5 AS extra",
    "SELECT 5 AS extra, 'x' AS v, 1 AS id",
    "SELECT 1 AS id, 'x' AS v, named_struct('a', 1, 'b', 'y', 'c', 2.5D) AS st",
    "SELECT 1 AS id, 'x' AS v, named_struct('c', 2, 'a', 1) AS st",
    "SELECT 1L AS id, 'x' AS v",
    "SELECT 1 AS id, 5 AS v",
    "SELECT 1 AS id, array(1) AS v",
    "SELECT 1 AS id, NULL AS extra",
    "SELECT 1 AS id, 1 AS EXTRA, 'x' AS V",
    "SELECT 7 AS id, 'q' AS v, named_struct('a', 1, 'b', 'z') AS st, array(named_struct('x', 1)) AS l",
    "SELECT 1 AS id, INTERVAL '1' DAY AS extra",
    "SELECT 1 AS id, 1 AS `a b`",
)
EVOLVING_CLAUSES = (
    ALL,
    "WHEN MATCHED THEN UPDATE SET extra = s.extra",
    "WHEN NOT MATCHED THEN INSERT (id, extra) VALUES (s.id + 50, s.extra)",
    "WHEN MATCHED THEN UPDATE SET v = 'k' WHEN NOT MATCHED BY SOURCE THEN DELETE",
)


def _made(options: str) -> tuple[str, ...]:
    columns = "(id INT, v STRING, st STRUCT<a: INT, b: STRING>)"
    # One statement for a source of which most scenarios only read.
    return (
        f"CREATE TABLE t {columns} USING delta {options}",
        "INSERT INTO t VALUES (1, 'a', named_struct('a', 1, 'b', 'x')), (2, 'b', NULL), (3, NULL, named_struct('a', 3, 'b', NULL))",
        "CREATE TABLE s USING delta AS SELECT * FROM VALUES (1, 'x', named_struct('a', 11, 'b', 'xx')), "
        "(3, 'y', NULL), (5, 'z', NULL) AS s(id, v, st)",
    )


def scenarios() -> Iterator[Scenario]:
    for kind, options in TABLES.items():
        chosen = CLAUSES if kind == "plain" else CLAUSES[len(kind) % 3 :: 3]
        for number, group in groups(chosen, 3):
            yield scenario(f"merges/{kind} {number}", *_made(options), *(USING + clauses for clauses in group))
    for number, (source, condition) in enumerate(SOURCES):
        yield scenario(
            f"merges/source {number}",
            *_made(""),
            f"MERGE INTO t USING {source} ON {condition} WHEN NOT MATCHED THEN INSERT (id) VALUES (77)",
            f"MERGE INTO t USING {source} ON {condition} WHEN MATCHED THEN UPDATE SET v = 'new'",
            f"MERGE INTO t USING {source} ON {condition} {ALL}",
            f"MERGE INTO t USING {source} ON {condition} WHEN MATCHED THEN DELETE",
        )
    for way in ("syntax", "setting"):
        settings = {"spark.databricks.delta.schema.autoMerge.enabled": "true"} if way == "setting" else {}
        verb = "MERGE WITH SCHEMA EVOLUTION INTO" if way == "syntax" else "MERGE INTO"
        for number, source in enumerate(EVOLVING):
            for place, clauses in enumerate(EVOLVING_CLAUSES):
                if (number + place + len(way)) % 2:
                    continue
                yield scenario(
                    f"merges/evolution by {way} {number} {place}",
                    *_made("")[:2],
                    f"{verb} t USING ({source}) s ON t.id = s.id {clauses}",
                    settings=settings,
                )
    yield scenario(
        "merges/without evolution",
        *_made("")[:2],
        *(f"MERGE INTO t USING ({source}) s ON t.id = s.id {ALL}" for source in EVOLVING),
    )
    yield scenario(
        "merges/targets",
        *_made(""),
        "CREATE VIEW vw AS SELECT * FROM t",
        "CREATE TEMP VIEW tv AS SELECT * FROM t",
        "CREATE TABLE pq (id INT, v STRING) USING parquet",
        *(
            f"MERGE INTO {target} USING s ON x.id = s.id WHEN MATCHED THEN UPDATE SET v = 'q'"
            for target in ("t x", "vw x", "tv AS x", "pq x", "nowhere x", "delta.`{dir}/t` x", "delta.`{dir}/none` x")
        ),
        "MERGE INTO t USING s ON t.id = s.id",
        "MERGE t USING s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "MERGE INTO t AS a USING s AS a ON a.id = a.id WHEN MATCHED THEN DELETE",
    )
    yield scenario(
        "merges/duplicates",
        *_made(""),
        "INSERT INTO s VALUES (1, 'dup', NULL)",
        USING + "WHEN MATCHED THEN UPDATE SET v = s.v",
        USING + "WHEN MATCHED AND s.v = 'dup' THEN UPDATE SET v = s.v",
        USING + "WHEN MATCHED THEN DELETE",
        USING + "WHEN NOT MATCHED THEN INSERT *",
        USING + "WHEN MATCHED AND s.v = 'x' THEN UPDATE SET v = 'p' WHEN MATCHED THEN DELETE",
    )
    generated = "CREATE TABLE t (id INT, v STRING, g INT GENERATED ALWAYS AS (id + 1), w INT) USING delta"
    yield scenario(
        "merges/generated columns",
        generated,
        "INSERT INTO t (id, v) VALUES (1, 'a'), (2, 'b')",
        *(
            f"MERGE INTO t USING (SELECT 1 AS id, 'x' AS v UNION ALL SELECT 9, 'y') s ON t.id = s.id {clauses}"
            for clauses in (
                "WHEN MATCHED THEN UPDATE SET v = s.v",
                "WHEN MATCHED THEN UPDATE SET id = 5",
                "WHEN MATCHED THEN UPDATE SET g = 5",
                "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)",
                "WHEN NOT MATCHED THEN INSERT (id, g) VALUES (s.id + 1, s.id + 1)",
                "WHEN NOT MATCHED THEN INSERT *",
                "WHEN MATCHED THEN UPDATE SET *",
            )
        ),
    )
