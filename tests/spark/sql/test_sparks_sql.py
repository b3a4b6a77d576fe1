"""SQL of an enabled session has Spark's meaning: a text over a Delta table returns the same as over
Parquet files."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from deltaplane import exceptions
from sparks import is_at_least, needs_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

# Python values as statement parameters, by the type that Spark binds for them.
VALUES: dict[str, Any] = {
    "date": dt.date(2024, 5, 1),
    "old": dt.date(1582, 10, 4),
    "ts": dt.datetime(2024, 5, 1, 12, 30, 0, 5),
    "aware": dt.datetime(2024, 5, 1, 12, 30, tzinfo=dt.timezone(dt.timedelta(hours=3))),
    "last": dt.datetime(9999, 12, 31, 23, 59, 59, 999999),
    "delta": dt.timedelta(days=-2, microseconds=3),
    "bytes": b"ab'\\",
    "array": bytearray(b"cd"),
    "nan": float("nan"),
    "inf": float("-inf"),
    "double": 0.1,
    "zero": -0.0,
    "tiny": 5e-324,
    "decimal": Decimal("1.50"),
    "wide": Decimal("-12345678901234567890.123456789"),
    "int": -5,
    "long": -(2**63),
    "yes": True,
    "none": None,
    "text": 'it\'s \\ \n % "q" `b` -- :int ? 2024-05-01',
    "empty": "",
    "list": [1, 2],
}


def values() -> dict[str, Any]:
    """These values, and values that Spark's functions compute from literals; Spark 3.5 binds only
    literals."""
    if not is_at_least("4.0"):
        return {name: value for name, value in VALUES.items() if name != "list"}
    return {
        **VALUES,
        "dates": F.array(F.lit(dt.date(2024, 1, 1)), F.lit(dt.date(1900, 2, 3))),
        "map": F.create_map(F.lit("a'"), F.lit(1.5)),
        "struct": F.struct(F.lit(1), F.lit("x")),
        "column": F.lit(dt.date(2020, 2, 29)),
    }


@pytest.fixture
def database(enabled: SparkSession) -> Iterator[str]:
    """A database for this test, dropped with its contents afterwards."""
    enabled.sql("CREATE DATABASE sparks_sql")
    yield "sparks_sql"
    for view in ("sparks_v", "sparks_n"):
        enabled.catalog.dropTempView(view)
    for row in enabled.sql("SHOW TABLES IN sparks_sql").collect():
        if not row.isTemporary:
            kind = "VIEW" if row.tableName.endswith("_view") else "TABLE"
            enabled.sql(f"DROP {kind} sparks_sql.{row.tableName}")
    enabled.sql("DROP DATABASE sparks_sql CASCADE")


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def test_parameters_are_what_spark_binds(enabled: SparkSession, database: str, conf: dict[str, str]) -> None:
    # Dates and other types arrive with their values and types.
    arguments = values()
    conf["spark.sql.session.timeZone"] = "America/New_York"
    enabled.sql("CREATE TABLE sparks_sql.pq USING parquet AS SELECT 1 AS one")
    enabled.sql("CREATE TABLE sparks_sql.t (id INT, s STRING) USING delta")
    names = list(arguments)
    every = ", ".join(f":{name} AS {name}_v, typeof(:{name}) AS {name}_t" for name in names)
    expected = enabled.sql(f"SELECT {every} FROM sparks_sql.pq", args=arguments)
    enabled.sql("INSERT INTO sparks_sql.t VALUES (-1, NULL)")
    frame = enabled.sql(f"SELECT {every} FROM sparks_sql.t", args=arguments)
    assert frame.schema.simpleString() == expected.schema.simpleString()
    assert repr(frame.collect()) == repr(expected.collect())
    # The values as texts, in each statement: the text inserted for a parameter must equal what
    # Spark binds.
    said = {name: f"typeof(:{name}) || ' ' || string(:{name})" for name in names}
    one_by_one = ", ".join(f"{text} AS {name}" for name, text in said.items())
    (texts,) = enabled.sql(f"SELECT {one_by_one} FROM sparks_sql.pq", args=arguments).collect()
    expected_rows = sorted(((i, text) for i, text in enumerate(texts)), key=repr)

    def stored() -> list[tuple[Any, ...]]:
        return rows(enabled.table("sparks_sql.t").where("id >= 0"))

    listed = ", ".join(f"({i}, {text})" for i, text in enumerate(said.values()))
    enabled.sql(f"INSERT INTO sparks_sql.t VALUES {listed}", args=arguments)
    assert stored() == expected_rows
    cases = " ".join(f"WHEN {i} THEN {text}" for i, text in enumerate(said.values()))
    enabled.sql("UPDATE sparks_sql.t SET s = 'x' WHERE id >= 0")
    enabled.sql(f"UPDATE sparks_sql.t SET s = CASE id {cases} END WHERE id >= 0", args=arguments)
    assert stored() == expected_rows
    enabled.sql("UPDATE sparks_sql.t SET s = 'x' WHERE id >= 0")
    source = " UNION ALL ".join(f"SELECT {i} AS id, {text} AS s" for i, text in enumerate(said.values()))
    merge = f"MERGE INTO sparks_sql.t t USING ({source}) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET s = s.s"
    enabled.sql(merge, args=arguments)
    assert stored() == expected_rows
    enabled.sql(f"CREATE TABLE sparks_sql.made USING delta AS {source}", args=arguments)
    assert rows(enabled.table("sparks_sql.made")) == expected_rows
    # Positional parameters: each row is deleted by the parameter with its text.
    met = " OR ".join(f"(id = {i} AND s <=> typeof(?) || ' ' || string(?))" for i in range(len(names)))
    enabled.sql(f"DELETE FROM sparks_sql.t WHERE {met}", args=[value for value in arguments.values() for _ in range(2)])
    assert stored() == []
    # Spark 4.2 itself mixes up more than four positional parameters.
    places = enabled.sql("SELECT ?, ?, ?, ?, ?, ? FROM sparks_sql.t LIMIT 1", args=[1, "b", 3.0, 4, "e", 6])
    assert tuple(places.collect()[0]) == (1, "b", 3.0, 4, "e", 6)
    replaced = "INSERT INTO sparks_sql.t REPLACE WHERE id = :int AND s <> string(:date) SELECT :int, string(:ts)"
    enabled.sql(replaced, args=arguments)
    moment = enabled.sql("SELECT string(:ts) FROM sparks_sql.pq", args=arguments).collect()[0][0]
    assert rows(enabled.table("sparks_sql.t").where("id = -5")) == [(-5, moment)]
    with pytest.raises(AnalysisException, match="DATATYPE_MISMATCH"):
        enabled.sql("DELETE FROM sparks_sql.t WHERE id < ?", args=[dt.date(2024, 5, 1)])
    with pytest.raises(AnalysisException, match="INVALID_SQL_ARG"):
        enabled.sql("DELETE FROM sparks_sql.t WHERE s = :v", args={"v": F.upper(F.lit("x"))})


@needs_spark("4.1", "has no SQL scripts without a setting, and no handlers in them")
def test_names_of_relations_are_found_as_spark_finds_them(enabled: SparkSession, database: str) -> None:
    # Words that coincide with a table's name, and syntax that only Spark's parser knows.
    for fmt, table in (("delta", "orders"), ("delta", "t"), ("parquet", "orders_pq"), ("parquet", "t_pq")):
        enabled.range(5).selectExpr("id", "id % 2 AS t").write.format(fmt).saveAsTable(f"sparks_sql.{table}")
    queries = [
        "WITH orders AS (SELECT * FROM {orders} WHERE id > 2) SELECT count(*) FROM orders",
        "WITH orders AS (SELECT 7 AS id), b AS (SELECT * FROM orders) SELECT * FROM b, orders",
        "SELECT id, sum(id) OVER orders AS s FROM {orders} WINDOW orders AS (ORDER BY id)",
        "SELECT {t}.id FROM {t} WHERE {t}.id > 1 AND {t}.t = 1",
        "SELECT spark_catalog.{t}.t FROM {t} JOIN {orders} o ON o.id = {t}.id",
        "SELECT {t}.* FROM {t} JOIN {t} AS u ON {t}.id = u.id",
        "SELECT count(*) FROM {t} TABLESAMPLE (100 PERCENT)",
        "SELECT count(*) FROM {t} TABLESAMPLE (2 ROWS) AS x",
        "SELECT max(id) FROM (FROM {t} |> WHERE id < 3)",
        "SELECT id FROM {t} WHERE id IN (WITH t AS (SELECT max(id) AS id FROM {orders}) SELECT id FROM t)",
        "SELECT u.id, x FROM {t} u, LATERAL (SELECT max(o.id) AS x FROM {orders} o WHERE o.t = u.t)",
        "SELECT count(_metadata.file_path) FROM {t}",
        "EXECUTE IMMEDIATE 'SELECT sum(id) FROM {t}'",
        "BEGIN DECLARE most INT DEFAULT 2; SELECT count(*) FROM {t} WHERE id < most; END",
    ]
    for query in queries:
        ours = enabled.sql(query.format(t="sparks_sql.t", orders="sparks_sql.orders"))
        theirs = enabled.sql(query.format(t="sparks_sql.t_pq", orders="sparks_sql.orders_pq"))
        assert rows(ours) == rows(theirs), query
    enabled.sql("DELETE FROM sparks_sql.t WHERE spark_catalog.sparks_sql.t.id = 4")
    for clause in ("WITH ('versionAsOf' = '0')", "VERSION AS OF 0", "VERSION AS OF '0'"):
        assert enabled.sql(f"SELECT count(*) FROM sparks_sql.t {clause}").collect()[0][0] == 5, clause
    with pytest.raises(exceptions.VersionNotFoundError):
        enabled.sql("SELECT * FROM sparks_sql.t TIMESTAMP AS OF current_timestamp() + INTERVAL 1 HOUR")
    assert enabled.table("sparks_sql.t").where("sparks_sql.t.id > 1 AND t.id < 3").count() == 1
    enabled.sql(
        "CREATE VIEW sparks_sql.kept_view (a COMMENT 'c') AS WITH t AS (SELECT id FROM sparks_sql.t) SELECT * FROM t"
    )
    enabled.sql("USE sparks_sql")
    try:
        assert rows(enabled.sql("SELECT a FROM kept_view WHERE a > 1")) == [(2,), (3,)]
        assert enabled.sql("DESCRIBE kept_view").collect()[0].comment == "c"
    finally:
        enabled.sql("USE default")
    enabled.sql("CREATE TEMPORARY FUNCTION sparks_n() RETURNS BIGINT RETURN (SELECT count(*) FROM sparks_sql.t)")
    assert enabled.sql("SELECT sparks_n()").collect()[0][0] == 4
    enabled.sql("DROP TEMPORARY FUNCTION sparks_n")
    with pytest.raises(exceptions.TableNotFoundError):
        enabled.sql("SELECT * FROM delta.`/no/table/here`")
    other = enabled.newSession()
    assert other.sql("SELECT count(*) FROM sparks_sql.t").collect()[0][0] == 4
    from deltaplane import spark as dp

    dp.disable(other)


@needs_spark("4.1", "has no SQL scripts without a setting, and no handlers in them")
def test_statements_take_what_spark_takes(enabled: SparkSession, database: str) -> None:
    # Spark's functions, variables, scripts and clauses in statements that change Delta tables.
    enabled.udf.register("sparks_plus", lambda x: x + 1, "int")
    enabled.sql("CREATE TABLE sparks_sql.t (id INT, j STRING, n STRUCT<a: BIGINT, b: DECIMAL(5,2)>) USING delta")
    run, table = enabled.sql, "sparks_sql.t"
    run(f"INSERT INTO {table} VALUES (1, '{{\"a\":1}}', named_struct('a', 1, 'b', 2)), (2, '{{\"a\":2}}', DEFAULT)")
    run(
        f"INSERT INTO {table} VALUES (3, upper(get_json_object('{{\"a\":\"x\"}}', '$.a')), (7, 1.5)), (4, DEFAULT, NULL)"
    )

    def now(columns: str = "id, j, n.a") -> list[tuple[Any, ...]]:
        return rows(run(f"SELECT {columns} FROM {table}"))

    assert now("id, n.a, string(n.b)") == [(1, 1, "2.00"), (2, None, None), (3, 7, "1.50"), (4, None, None)]
    run(f"DELETE FROM {table} WHERE sparks_plus(id) = 5 OR xxhash64(id) = 0 OR id::string RLIKE '^9'")
    run(f"UPDATE {table} SET j = 'y' WHERE get_json_object(j, '$.a') = '2' AND exists(array(id), x -> x = {table}.id)")
    run(f"UPDATE {table} SET j = (SELECT max(j) FROM {table}), t.n.a = 8 WHERE t.id = (SELECT max(id) FROM {table})")
    assert now() == [(1, '{"a":1}', 1), (2, "y", None), (3, '{"a":1}', 8)]
    run(
        f"WITH c AS (SELECT 5 AS id, 'c' AS j) MERGE INTO {table} USING c ON {table}.id = c.id "
        "WHEN NOT MATCHED THEN INSERT (id, j) VALUES (c.id, c.j)"
    )
    run(f"WITH c AS (SELECT 6 AS id), d AS (SELECT * FROM c) INSERT INTO {table} (id) SELECT * FROM d")
    run(f"INSERT INTO {table} REPLACE WHERE xxhash64(id) = xxhash64(6) SELECT 6, 'six', NULL")
    run(f"INSERT WITH SCHEMA EVOLUTION INTO {table} BY NAME SELECT 7 AS id, true AS more")
    assert now("id, j, more")[3:] == [(5, "c", None), (6, "six", None), (7, None, True)]
    run(
        f"FROM {table} INSERT INTO {table} (id) SELECT id + 50 WHERE id > 6 INSERT INTO {table} (id) SELECT id + 60 WHERE id > 6"
    )
    assert {(57,), (67,)} <= set(now("id"))
    run("DECLARE OR REPLACE VARIABLE sparks_most INT DEFAULT 50")
    run(f"DELETE FROM {table} WHERE id > sparks_most")
    script = f"""BEGIN
        DECLARE i INT DEFAULT 10;
        WHILE i < 12 DO INSERT INTO {table} (id) VALUES (i); SET i = i + 1; END WHILE;
        UPDATE {table} SET j = 'of a script; ' || i WHERE (id = 10);
        IF (SELECT count(*) FROM {table}) > 3 THEN DELETE FROM {table} WHERE id = 11; END IF;
        SELECT max(id) AS id FROM {table};
    END"""
    assert rows(run(script)) == [(10,)]
    run(f"EXECUTE IMMEDIATE 'DELETE FROM {table} WHERE id IN (5, 6, 7)'")
    assert now("id, j") == [(1, '{"a":1}'), (10, "of a script; 12"), (2, "y"), (3, '{"a":1}')]
    source = enabled.createDataFrame([(1, "one"), (20, "new")], "id int, j string")
    merging = source.alias("s").mergeInto(table, F.expr(f"{table}.id = s.id"))
    merging.whenMatched().update({"j": F.expr("s.j")}).whenNotMatched().insert({"id": F.expr("s.id")}).merge()
    assert {(1, "one"), (20, None)} <= set(now("id, j"))


def test_definitions_by_name(enabled: SparkSession, database: str, path: str) -> None:
    # SHOW CREATE TABLE, ALTER TABLE and OPTIONS of tables that are named in the catalog.
    enabled.sql(
        "CREATE TABLE sparks_sql.t (id INT NOT NULL COMMENT 'it\\'s', `a b` STRING DEFAULT 'x', g INT GENERATED ALWAYS AS (id + 1), p DATE) "
        "USING delta PARTITIONED BY (p) COMMENT 'about' TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    (shown,) = enabled.sql("SHOW CREATE TABLE sparks_sql.t").collect()
    enabled.sql(shown.createtab_stmt.replace("sparks_sql.t ", "sparks_sql.u "))
    (again,) = enabled.sql("SHOW CREATE TABLE sparks_sql.u").collect()
    assert again.createtab_stmt.replace("sparks_sql.u ", "sparks_sql.t ") == shown.createtab_stmt
    enabled.sql("ALTER TABLE sparks_sql.u DROP COLUMN IF EXISTS (`a b`, nosuch)")
    enabled.sql("ALTER TABLE sparks_sql.u DROP COLUMN IF EXISTS nosuch")
    assert enabled.table("sparks_sql.u").columns == ["id", "g", "p"]
    enabled.sql(
        f"CREATE EXTERNAL TABLE sparks_sql.e (id INT) USING delta OPTIONS (delta.appendOnly = 'true', own = 'v') LOCATION '{path}'"
    )
    properties = dict(rows(enabled.sql("SHOW TBLPROPERTIES sparks_sql.e")))
    assert (properties["delta.appendOnly"], properties.get("own")) == ("true", "v")
    enabled.sql("INSERT INTO sparks_sql.e VALUES (1)")
    enabled.sql("CREATE TABLE sparks_sql.m (id INT) USING delta")
    enabled.sql(f"ALTER TABLE sparks_sql.m SET LOCATION '{path}'")
    assert rows(enabled.table("sparks_sql.m")) == [(1,)]
    with pytest.raises(exceptions.SchemaMismatchError, match="other columns"):
        enabled.sql(f"ALTER TABLE sparks_sql.u SET LOCATION '{path}'")
    with pytest.raises(exceptions.TableNotFoundError, match="no Delta table is there"):
        enabled.sql(f"ALTER TABLE sparks_sql.m SET LOCATION '{path}/no'")
    # Dropping the name doesn't delete existing files.
    enabled.sql("DROP TABLE sparks_sql.m")
    assert rows(enabled.table("sparks_sql.e")) == [(1,)]


def test_views_of_one_table_stand_for_it(enabled: SparkSession, database: str) -> None:
    # A view of columns is updatable as in delta-spark; any other view is refused.
    table = "sparks_sql.t"
    enabled.sql(f"CREATE TABLE {table} (key INT, value INT) USING delta")
    plain = {
        f"SELECT * FROM {table}": "key",
        f"SELECT key FROM {table}": "key",
        f"SELECT value AS key, key AS value FROM {table}": "value",
        f"SELECT * FROM (SELECT * FROM {table} AS t1) AS t2": "key",
    }
    for query, column in plain.items():
        enabled.sql(f"INSERT OVERWRITE {table} VALUES (0, 3), (1, 2), (2, 1), (3, 0)")
        enabled.sql(f"CREATE OR REPLACE TEMP VIEW sparks_v AS {query}")
        enabled.sql("UPDATE sparks_v SET key = 9 WHERE sparks_v.key = 0")
        enabled.sql(
            "MERGE INTO sparks_v USING (SELECT 1 AS id, 8 AS to) s ON sparks_v.key = s.id WHEN MATCHED THEN UPDATE SET key = s.to"
        )
        enabled.sql("DELETE FROM sparks_v WHERE key = 2")
        left = rows(enabled.sql(f"SELECT {column} FROM {table}"))
        assert left == [(3,), (8,), (9,)], query
    for query in (
        f"SELECT * FROM {table} WHERE key > 0",
        f"SELECT key + 1 AS key FROM {table}",
        f"SELECT DISTINCT key FROM {table}",
    ):
        enabled.sql(f"CREATE OR REPLACE TEMP VIEW sparks_v AS {query}")
        for statement in ("DELETE FROM sparks_v WHERE key = 3", "UPDATE sparks_v SET key = 1"):
            with pytest.raises(AnalysisException, match="isn't just columns of a Delta table"):
                enabled.sql(statement)
    enabled.table(table).createOrReplaceTempView("sparks_v")
    enabled.sql("DELETE FROM sparks_v WHERE key = 3 OR value = 3")
    assert rows(enabled.table(table)) == [(8, 2)]


def test_what_a_statement_reads_is_known_to_its_thread(enabled: SparkSession, path: str) -> None:
    """Also in the main thread, whose calls PySpark answers in another one."""
    from deltaplane.spark.delta_api.relations import reading

    enabled.range(2).write.format("delta").save(path)
    enabled.range(2).write.format("delta").mode("append").save(path)

    def read() -> tuple[int, bool, bool]:
        with reading(enabled, {path: 0}) as seen:
            rows = enabled.sql(f"SELECT * FROM delta.`{path}`").count()
        return rows, seen.reads(path), seen.reads(f"{path} other")

    with ThreadPoolExecutor(1) as pool:
        assert read() == pool.submit(read).result() == (2, True, False)
    assert enabled.sql(f"SELECT * FROM delta.`{path}`").count() == 4
