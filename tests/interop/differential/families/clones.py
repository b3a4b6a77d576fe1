"""CLONE: shallow clones of tables, versions and Parquet files, and what follows."""

from __future__ import annotations

from collections.abc import Iterator

from interop.differential.scenarios import KEEP_VERSIONS, Scenario, python, scenario

CLONES = (
    "CREATE TABLE t SHALLOW CLONE src",
    "CREATE TABLE t SHALLOW CLONE src VERSION AS OF 1",
    "CREATE TABLE t SHALLOW CLONE src VERSION AS OF 99",
    "CREATE TABLE t SHALLOW CLONE src TIMESTAMP AS OF '2020-01-02'",
    "CREATE TABLE t SHALLOW CLONE src TIMESTAMP AS OF '2019-01-02'",
    "CREATE TABLE t SHALLOW CLONE src TIMESTAMP AS OF '2099-01-02'",
    "CREATE TABLE t SHALLOW CLONE src TBLPROPERTIES ('x' = 'y')",
    "CREATE TABLE t SHALLOW CLONE src TBLPROPERTIES ('delta.nope' = 'y')",
    "CREATE TABLE t SHALLOW CLONE src LOCATION '{dir}/cloned'",
    "CREATE TABLE t SHALLOW CLONE delta.`{dir}/src`",
    "CREATE TABLE t SHALLOW CLONE delta.`{dir}/src` VERSION AS OF 1",
    "CREATE TABLE t SHALLOW CLONE delta.`{dir}/src@v1`",
    "CREATE TABLE t SHALLOW CLONE nowhere",
    "CREATE TABLE t SHALLOW CLONE delta.`{dir}/nowhere`",
    "CREATE TABLE t SHALLOW CLONE vw",
    "CREATE TABLE t SHALLOW CLONE pq",
    "CREATE TABLE t SHALLOW CLONE parquet.`{dir}/pq`",
    "CREATE TABLE t DEEP CLONE src",
    "CREATE TABLE t CLONE src",
    "CREATE TABLE IF NOT EXISTS t SHALLOW CLONE src",
    "CREATE OR REPLACE TABLE t SHALLOW CLONE src",
    "CREATE OR REPLACE TABLE src SHALLOW CLONE src",
    "REPLACE TABLE t SHALLOW CLONE src",
    "CREATE TABLE src SHALLOW CLONE src",
    "CREATE TABLE t (id INT) SHALLOW CLONE src",
    "CREATE TABLE t USING delta SHALLOW CLONE src",
    "CREATE TABLE t SHALLOW CLONE csvt",
    "CREATE TABLE delta.`{dir}/t` SHALLOW CLONE src",
)


def scenarios() -> Iterator[Scenario]:
    for kind, options in {
        "plain": "PARTITIONED BY (v) COMMENT 'source'",
        "features": "CLUSTER BY (id) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = 'name')",
    }.items():
        for number, clone in enumerate(CLONES):
            if kind == "features" and number % 3:
                continue
            others = (
                "CREATE VIEW vw AS SELECT * FROM src",
                "CREATE TABLE pq (id INT, v STRING) USING parquet",
                "INSERT INTO pq VALUES (1, 'a')",
                "CREATE TABLE csvt (id INT) USING csv",
            )
            target = "delta.`{dir}/t`" if "delta.`{dir}/t`" in clone else "t"
            yield scenario(
                f"clones/{kind} {number}",
                f"CREATE TABLE src (id INT, v STRING) USING delta {options}",
                "INSERT INTO src VALUES (1, 'a'), (2, 'b')",
                "DELETE FROM src WHERE id = 2",
                *(others if any(name in clone for name in ("vw", "pq", "csvt")) else ()),
                KEEP_VERSIONS.format("src"),
                python('on_day("src")'),
                clone,
                f"INSERT INTO {target} VALUES (9, 'z')",
                f"UPDATE {target} SET v = 'q' WHERE id = 1",
                "SELECT * FROM src",
                tables=("src", "t"),
            )
