"""Statements that change and describe tables have the same results as the table's methods."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, sql, write_deltalake
from deltaplane.exceptions import (
    ConstraintViolationError,
    FileMissingError,
    InvalidArgumentError,
    SchemaMismatchError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedExpressionError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from deltaplane.queries.engines import close_idle, idle_databases
from deltaplane.queries.sources import DeltaSource
from sql.queries import LISTED

Table = Callable[[], str]
Run = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def path(tmp_table: Table) -> str:
    where = tmp_table()
    write_deltalake(where, pa.table({"k": ["a", "b", None], "x": pa.array([1, 2, 3], pa.int32())}))
    return where


@pytest.fixture
def run(path: str) -> Run:
    def running(text: str, **tables: Any) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = sql(text, tables={"t": path, **tables}).to_pylist()
        return results

    return running


def rows(path: str) -> list[tuple[Any, ...]]:
    table_rows = [tuple(row.values()) for row in DeltaTable(path).to_pyarrow_table().to_pylist()]
    return sorted(table_rows, key=repr)


def history(path: str) -> dict[str, Any]:
    return DeltaTable(path).history(1)[0]


# --- WITH -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "added"),
    [
        ("WITH c AS (SELECT 'z' AS k, 9 AS x) INSERT INTO t SELECT * FROM c", ("z", 9)),
        ("WITH c AS (SELECT 1) INSERT INTO t WITH c AS (SELECT 'z' AS k, 9 AS x) SELECT * FROM c", ("z", 9)),
        ("WITH c AS (SELECT 'z' AS k) INSERT INTO t VALUES ((SELECT k FROM c), DEFAULT)", ("z", None)),
        ("WITH c(y) AS (SELECT 8), d AS (SELECT y + 1 AS x FROM c) INSERT INTO t BY NAME SELECT x, 'z' AS k FROM d", ("z", 9)),
        ("WITH t AS (SELECT 'z' AS k, 9 AS x) INSERT INTO t SELECT * FROM t", ("z", 9)),
        ("WITH c AS (SELECT 'z' AS k, 9 AS x) MERGE INTO t USING c ON t.k = C.k WHEN NOT MATCHED THEN INSERT *", ("z", 9)),
        ("WITH c AS (SELECT 'z', 9) MERGE INTO t USING C AS d(k, n) ON t.k = d.k WHEN NOT MATCHED THEN INSERT (k, x) VALUES (d.k, d.n)", ("z", 9)),
        ("WITH c AS (SELECT 'z' AS k, 9 AS x) MERGE INTO t USING (SELECT * FROM c) d ON t.k = d.k WHEN NOT MATCHED THEN INSERT *", ("z", 9)),
    ],
)  # fmt: skip
def test_queries_may_be_named_before_the_statement(run: Run, path: str, text: str, added: tuple[Any, ...]) -> None:
    before = rows(path)
    run(text)
    assert rows(path) == sorted([*before, added], key=repr)


def test_a_column_is_changed_by_its_whole_declaration(run: Run, path: str) -> None:
    assert run("ALTER TABLE t CHANGE COLUMN k K STRING COMMENT 'c'") == [{"operation": "CHANGE COLUMN", "version": 1}]
    assert run("ALTER TABLE t CHANGE x x INT FIRST") == [{"operation": "CHANGE COLUMN", "version": 2}]
    assert run("ALTER TABLE t CHANGE x x INT") == [{"operation": "CHANGE COLUMN", "version": None}]
    run("ALTER TABLE t SET TBLPROPERTIES ('delta.enableTypeWidening' = true)")
    wider = run("ALTER TABLE t CHANGE x x BIGINT COMMENT 'wide'")
    assert wider == [{"operation": "CHANGE COLUMN", "version": 4}]
    assert [(row["col_name"], row["data_type"], row["comment"]) for row in run("DESCRIBE t")][:2] == [
        ("x", "bigint", "wide"),
        ("k", "string", "c"),
    ]


# --- DELETE, UPDATE ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("DELETE FROM t WHERE x > 1", {1}),
        ("delete from T where T.k = 'a';", {2, 3}),
        ("DELETE FROM t AS s WHERE s.k IS NULL -- the last one", {1, 2}),
        ("DELETE FROM t s WHERE length(s.`k`) = 1 AND /* t.x */ `s`.x IN (1, 2)", {3}),
        ("DELETE FROM t", set()),
        ("DELETE FROM t WHERE false", {1, 2, 3}),
        ("DELETE FROM t WHERE k = \"a\" OR k = '\\'' OR k = r'\\'", {2, 3}),
    ],
)
def test_delete(path: str, run: Run, text: str, left: set[int]) -> None:
    (done,) = run(text)
    assert {x for _, x in rows(path)} == left
    assert (done["num_affected_rows"], done["num_deleted_rows"]) == (3 - len(left), 3 - len(left))
    assert done["version"] == (None if len(left) == 3 else 1)


def test_a_condition_is_kept_as_it_was_written(path: str, run: Run) -> None:
    run("DELETE FROM t AS s WHERE s.x  >  1 AND s.k <> 's.x'")
    assert history(path)["operationParameters"]["predicate"] == "[\"x  >  1 AND k <> 's.x'\"]"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("UPDATE t SET x = x + 1 WHERE k = 'a'", [("a", 2), ("b", 2), (None, 3)]),
        ("UPDATE t AS s SET s.x = s.x * 10, k = upper(s.k)", [("A", 10), ("B", 20), (None, 30)]),
        ("UPDATE t SET `x` = DEFAULT WHERE t.x = 1", [("a", None), ("b", 2), (None, 3)]),
        ("UPDATE t SET k = 'it''s', x = CASE WHEN x > 1 THEN 0 ELSE x END", [("it's", 1), ("it's", 0), ("it's", 0)]),
        ("UPDATE t SET k = NULL WHERE x > 5", [("a", 1), ("b", 2), (None, 3)]),
    ],
)
def test_update(path: str, run: Run, text: str, expected: list[tuple[Any, ...]]) -> None:
    (done,) = run(text)
    assert rows(path) == sorted(expected, key=repr)
    assert done["num_affected_rows"] == done["num_updated_rows"]


def test_fields_of_structs_are_updated(tmp_table: Table) -> None:
    where = tmp_table()
    write_deltalake(where, pa.table({"t": [{"x": 1, "y": 2}], "x": [5]}))
    # `t.x` is the table's column, as in Spark; the struct has no other `y`
    sql("UPDATE t SET t.x = t.x + 1, t.y = 7 WHERE t.y = 2", tables={"t": where})
    assert rows(where) == [({"x": 1, "y": 7}, 6)]


# --- INSERT -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "new"),
    [
        ("INSERT INTO t VALUES ('n', 4), (NULL, 5L)", [("n", 4), (None, 5)]),
        ("INSERT INTO TABLE t (x, k) VALUES (4 + 1, upper('n'))", [("N", 5)]),
        ("INSERT INTO t (x) VALUES (4)", [(None, 4)]),
        ("INSERT INTO t VALUES (DEFAULT, 4)", [(None, 4)]),
        ("INSERT INTO t SELECT k, x * 10 FROM t WHERE x > 1", [("b", 20), (None, 30)]),
        ("INSERT INTO t BY NAME SELECT 7 AS X, 'q' AS k", [("q", 7)]),
        ("INSERT INTO t BY NAME SELECT 7 AS x", [(None, 7)]),
        ("INSERT INTO t TABLE u", [("u", 9)]),
        ("INSERT INTO t (SELECT k, x FROM u)", [("u", 9)]),
        ("INSERT INTO t WITH a AS (SELECT 1.0 AS x) SELECT 5, x FROM a", [("5", 1)]),
    ],
)
def test_insert(path: str, run: Run, text: str, new: list[tuple[Any, ...]]) -> None:
    before = rows(path)
    (done,) = run(text, u=pa.table({"k": ["u"], "x": [9]}))
    assert rows(path) == sorted(before + new, key=repr)
    assert done == {"num_affected_rows": len(new), "num_inserted_rows": len(new), "version": 1}


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("INSERT INTO t VALUES (1)", InvalidArgumentError, "1 values are given for 2 columns"),
        ("INSERT INTO t VALUES ('a', 'b')", InvalidArgumentError, "CAST_INVALID_INPUT"),
        ("INSERT INTO t VALUES ('a', date'2024-01-01')", SchemaMismatchError, "of type date, which the column `x`"),
        ("INSERT INTO t VALUES ('a', 2147483648)", InvalidArgumentError, "out of range"),
        ("INSERT INTO t (k, K) VALUES (1, 2)", InvalidArgumentError, "each column once"),
        ("INSERT INTO t (nope) VALUES (1)", InvalidArgumentError, "no column `nope`"),
        ("INSERT INTO t BY NAME SELECT 1 AS nope", InvalidArgumentError, "no column `nope`"),
        ("INSERT INTO t BY NAME SELECT 1 AS x, 2 AS X", InvalidArgumentError, "a column comes twice"),
        ("INSERT INTO t VALUES (1, 2), (3, 'x')", InvalidArgumentError, "don't go together"),
        ("INSERT INTO t SELECT * FROM nowhere", InvalidArgumentError, "no table is called `nowhere`"),
        ("INSERT INTO delta.`/no/such/place` SELECT 1", TableNotFoundError, "no Delta table"),
        ("INSERT INTO u SELECT 1", InvalidArgumentError, "not a Delta table"),
    ],
)
def test_a_wrong_insert_changes_nothing(path: str, run: Run, text: str, error: type, said: str) -> None:
    with pytest.raises(error, match=said):
        run(text, u=pa.table({"x": [1]}))
    assert DeltaTable(path).version() == 0


@pytest.mark.parametrize("query", LISTED)
def test_long_lists_mean_what_short_ones_do(monkeypatch: pytest.MonkeyPatch, query: str) -> None:
    by_columns = sql(query)
    monkeypatch.setattr("deltaplane.queries.planning.MANY", 1 << 30)
    assert by_columns.equals(sql(query))


def test_a_long_list_is_inserted(tmp_table: Table) -> None:
    where = tmp_table()
    sql(f"CREATE TABLE delta.`{where}` (id BIGINT, k STRING DEFAULT 'none', m DECIMAL(9,2), day DATE)")
    listed = ", ".join(f"({i}, {'DEFAULT' if i % 2 else 'NULL'}, {i}.5, DATE '2024-01-01')" for i in range(1000))
    sql(f"INSERT INTO delta.`{where}` VALUES {listed}")
    day = dt.date(2024, 1, 1)
    assert rows(where)[:2] == [(0, None, Decimal("0.50"), day), (1, "none", Decimal("1.50"), day)]
    assert DeltaTable(where).to_pyarrow_table().column("id").to_pylist() == list(range(1000))
    wrong = listed.replace("(777, ", "(777 / 0, ").replace("(888, ", "('x', ")
    for text, said in ((wrong, "don't go together"), (listed + ", ('1', NULL)", "expected 4 values in each row")):
        with pytest.raises(InvalidArgumentError, match=said):
            sql(f"INSERT INTO delta.`{where}` VALUES {text}")
    assert DeltaTable(where).version() == 1


def test_many_shapes_of_cells_are_taken_as_they_are() -> None:
    listed = ", ".join(f"({i} + {i}, {i})" for i in range(60))
    assert sql(f"SELECT sum(a) AS a, sum(b) AS b FROM VALUES {listed} AS v(a, b)").to_pylist() == [
        {"a": 3540, "b": 1770}
    ]


def test_rows_are_replaced(tmp_table: Table) -> None:
    where = tmp_table()
    write_deltalake(where, pa.table({"day": ["mon", "tue"], "n": [1, 2]}), partition_by="day")
    t = {"t": where}
    sql("INSERT INTO t REPLACE WHERE t.day = 'mon' SELECT 'mon', n * 10 FROM t WHERE day = 'mon'", tables=t)
    assert rows(where) == [("mon", 10), ("tue", 2)]
    with pytest.raises(InvalidArgumentError):
        sql("INSERT INTO t REPLACE WHERE day = 'mon' VALUES ('tue', 1)", tables=t)
    sql("INSERT OVERWRITE TABLE t SELECT day, n + 1 FROM t", tables=t)
    assert rows(where) == [("mon", 11), ("tue", 3)]
    assert [h["operationParameters"]["mode"] for h in DeltaTable(where).history(2)] == ["Overwrite", "Overwrite"]


def test_a_table_of_the_callers_shows_the_new_version(path: str) -> None:
    table = DeltaTable(path)
    sql("INSERT INTO t VALUES ('n', 4)", tables={"t": table})
    sql("DELETE FROM t WHERE x = 1", tables={"t": table})
    assert (table.version(), table.count()) == (2, 3)


def test_defaults_generated_and_identity_columns_and_constraints(tmp_table: Table) -> None:
    where = tmp_table()
    t = {"t": where}
    sql(
        """CREATE TABLE t (
            id BIGINT GENERATED BY DEFAULT AS IDENTITY (START WITH -5 INCREMENT BY -2) COMMENT 'the key',
            k STRING NOT NULL, n INT DEFAULT 3 + 4, twice INT GENERATED ALWAYS AS (n * 2),
            CONSTRAINT small CHECK (n < 100 AND k <> 'it''s')
        ) USING DELTA""",
        tables=t,
    )
    sql("INSERT INTO t (k) VALUES ('a'), ('b')", tables=t)
    sql("INSERT INTO t (k, n) VALUES ('c', DEFAULT), ('d', 1)", tables=t)
    assert rows(where) == sorted([(-5, "a", 7, 14), (-7, "b", 7, 14), (-9, "c", 7, 14), (-11, "d", 1, 2)], key=repr)
    for bad in ("(k, n) VALUES ('x', 100)", "(k) VALUES ('it\\'s')", "(k) VALUES (NULL)", "(k, twice) VALUES ('a', 1)"):
        with pytest.raises(ConstraintViolationError):
            sql(f"INSERT INTO t {bad}", tables=t)
    sql("UPDATE t SET n = DEFAULT WHERE k = 'd'", tables=t)
    assert sql("SELECT n, twice FROM t WHERE k = 'd'", tables=t).to_pylist() == [{"n": 7, "twice": 14}]


# --- CREATE -----------------------------------------------------------------------------------------------------------


def test_create_like_takes_what_defines_a_table(tmp_table: Table) -> None:
    t = {"t": tmp_table(), "u": tmp_table()}
    sql(
        "CREATE TABLE t (id BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 7), x INT NOT NULL COMMENT 'about x') "
        "CLUSTER BY (x) COMMENT 'about t' TBLPROPERTIES ('delta.columnMapping.mode' = 'name', own = 'a')",
        tables=t,
    )
    sql("INSERT INTO t (x) VALUES (1), (2)", tables=t)
    done = sql("CREATE TABLE u LIKE t TBLPROPERTIES (own = 'b')", tables=t)
    assert done.to_pylist() == [{"operation": "CREATE TABLE", "version": 0}]
    assert sql("CREATE TABLE IF NOT EXISTS u LIKE t", tables=t)["version"].to_pylist() == [None]
    made = DeltaTable(t["u"])
    assert made.metadata().description == "about t"
    assert made.metadata().configuration["own"] == "b"
    assert sql("DESCRIBE DETAIL u", tables=t)["clusteringColumns"].to_pylist() == [["x"]]
    assert [(f.nullable, f.metadata.get("comment")) for f in made.schema().fields] == [(True, None), (False, "about x")]
    sql("INSERT INTO u (x) VALUES (3)", tables=t)
    assert sql("TABLE u", tables=t).to_pylist() == [{"id": 7, "x": 3}]


def test_create_says_all_of_a_table(tmp_table: Table) -> None:
    where = tmp_table()
    sql(
        f"""CREATE TABLE IF NOT EXISTS delta.`{where}` (
            `a b` DECIMAL(12, 3) NOT NULL COMMENT 'it''s', s STRUCT<x: INT COMMENT 'c', `y z`: ARRAY<ARRAY<MAP<STRING, DATE>>>>,
            at TIMESTAMP, local TIMESTAMP_NTZ, f REAL, b BINARY, t TINYINT, d NUMERIC, day DATE
        ) PARTITIONED BY (day) COMMENT "words" TBLPROPERTIES (delta.columnMapping.mode = 'name', 'my.own' = 'a;b', n = -5)""",
    )
    table = DeltaTable(where)
    columns = {f.name: f for f in table.schema().fields}
    described = sql(f"DESCRIBE delta.`{where}`").to_pylist()
    assert {r["col_name"]: r["data_type"] for r in described[: len(columns)]} == {
        "a b": "decimal(12,3)",
        "s": "struct<x:int,y z:array<array<map<string,date>>>>",
        "at": "timestamp",
        "local": "timestamp_ntz",
        "f": "float",
        "b": "binary",
        "t": "tinyint",
        "d": "decimal(10,0)",
        "day": "date",
    }
    assert described[-1] == {"col_name": "day", "data_type": "date", "comment": None}
    assert (columns["a b"].nullable, columns["a b"].metadata["comment"]) == (False, "it's")
    metadata = table.metadata()
    assert (metadata.partition_columns, metadata.description) == (["day"], "words")
    assert {k: v for k, v in metadata.configuration.items() if "maxColumnId" not in k} == {
        "delta.columnMapping.mode": "name", "my.own": "a;b", "n": "-5"
    }  # fmt: skip
    assert sql(f"CREATE TABLE IF NOT EXISTS delta.`{where}` (x INT)").to_pylist() == [
        {"operation": "CREATE TABLE", "version": None}
    ]
    with pytest.raises(TableAlreadyExistsError):
        sql(f"CREATE TABLE delta.`{where}` (x INT)")


def test_tables_are_replaced(tmp_table: Table) -> None:
    where = tmp_table()
    with pytest.raises(TableNotFoundError, match="CREATE OR REPLACE"):
        sql(f"REPLACE TABLE delta.`{where}` (x INT)")
    sql(f"CREATE OR REPLACE TABLE delta.`{where}` (x INT, y INT) PARTITIONED BY (y)")
    sql(f"INSERT INTO delta.`{where}` VALUES (1, 2)")
    sql(f"CREATE OR REPLACE TABLE name (z STRING) LOCATION '{where}'")
    table = DeltaTable(where)
    assert (table.version(), [f.name for f in table.schema().fields], table.count()) == (2, ["z"], 0)
    assert table.metadata().partition_columns == []
    sql(f"REPLACE TABLE delta.`{where}` AS SELECT 1 AS one, CAST(NULL AS DECIMAL(5, 2)) AS m")
    assert rows(where) == [(1, None)]
    assert sql(f"SELECT x FROM delta.`{where}@v1`").to_pylist() == [{"x": 1}]


@pytest.mark.parametrize("of_a_query", [False, True])
def test_a_table_that_is_replaced_is_what_the_statement_says(tmp_table: Table, of_a_query: bool) -> None:
    # As in delta-spark: unnamed parts are removed.
    where = tmp_table()

    def replaced(more: str) -> tuple[Any, ...]:
        what = f"{more} AS SELECT 1 AS x, 2 AS y" if of_a_query else f"(x INT, y INT) {more}"
        sql(f"CREATE OR REPLACE TABLE delta.`{where}` {what}")
        (detail,) = sql(f"DESCRIBE DETAIL delta.`{where}`").to_pylist()
        by = (detail["partitionColumns"], detail["clusteringColumns"])
        return (detail["description"], dict(detail["properties"]), *by, DeltaTable(where).count())

    rows = int(of_a_query)
    both = {"delta.appendOnly": "false", "own": "a"}
    first = "TBLPROPERTIES (DELTA.appendOnly = false, own = 'a') COMMENT 'c' CLUSTER BY (x)"
    assert replaced(first) == ("c", both, [], ["x"], rows)
    assert replaced(first) == ("c", both, [], ["x"], rows)
    assert replaced("TBLPROPERTIES (other = 'b') CLUSTER BY (x)") == (None, {"other": "b"}, [], ["x"], rows)
    assert replaced("COMMENT 'd'") == ("d", {}, [], [], rows)
    assert replaced("PARTITIONED BY (y)") == (None, {}, ["y"], [], rows)
    assert replaced("CLUSTER BY (x)") == (None, {}, [], ["x"], rows)
    with pytest.raises(InvalidArgumentError, match="either partitioned or clustered"):
        replaced("PARTITIONED BY (y)")
    assert replaced("") == (None, {}, [], [], rows)


def test_a_table_of_a_query(tmp_table: Table, path: str) -> None:
    where = tmp_table()
    text = f"CREATE TABLE delta.`{where}` CLUSTER BY (k) AS (SELECT k, sum(x) AS s FROM t GROUP BY k)"
    assert sql(text, tables={"t": path}).to_pylist() == [{"operation": "CREATE TABLE AS SELECT", "version": 0}]
    assert rows(where) == sorted([("a", 1), ("b", 2), (None, 3)], key=repr)
    assert sql(f"DESCRIBE DETAIL delta.`{where}`")["clusteringColumns"].to_pylist() == [["k"]]
    with pytest.raises(InvalidArgumentError, match="two columns of the query"):
        sql("CREATE TABLE delta.`/nowhere` AS SELECT 1 AS a, 2 AS A")


# --- ALTER ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "operation", "check"),
    [
        ("ADD COLUMN n INT COMMENT 'c' AFTER k", "ADD COLUMNS", lambda t: [f.name for f in t.schema().fields] == ["k", "n", "x"]),
        ("ADD COLUMNS (n INT, m ARRAY<INT>)", "ADD COLUMNS", lambda t: [f.name for f in t.schema().fields][2:] == ["n", "m"]),
        (
            "ADD COLUMNS (a INT AFTER k, b INT FIRST, c INT AFTER a)",
            "ADD COLUMNS",
            lambda t: [f.name for f in t.schema().fields] == ["b", "k", "a", "c", "x"],
        ),
        ("REPLACE COLUMNS (x INT COMMENT 'c', n STRUCT<p: INT>, k STRING)", "REPLACE COLUMNS", lambda t: [f.name for f in t.schema().fields] == ["x", "n", "k"]),
        ("ADD COLUMN n INT FIRST", "ADD COLUMNS", lambda t: t.schema().fields[0].name == "n"),
        ("ALTER COLUMN x COMMENT 'it''s'", "CHANGE COLUMN", lambda t: t.schema().fields[1].metadata["comment"] == "it's"),
        ("CHANGE COLUMN x FIRST", "CHANGE COLUMN", lambda t: t.schema().fields[0].name == "x"),
        ("ALTER x AFTER k", None, lambda t: t.version() == 0),
        ("ALTER COLUMN x SET DEFAULT 1 + 1", "CHANGE COLUMN", lambda t: t.schema().fields[1].metadata["CURRENT_DEFAULT"] == "1 + 1"),
        ("SET TBLPROPERTIES ('a' = 'b', c.d = 1)", "SET TBLPROPERTIES", lambda t: t.metadata().configuration == {"a": "b", "c.d": "1"}),
        ("UNSET TBLPROPERTIES IF EXISTS ('nope')", None, lambda t: t.version() == 0),
        ("UNSET TBLPROPERTIES ('nope')", None, lambda t: t.version() == 0),
        ("ADD CONSTRAINT c CHECK (x > 0 AND (k <> 'z' OR k IS NULL))", "ADD CONSTRAINT", lambda t: t.metadata().configuration == {"delta.constraints.c": "x > 0 AND (k <> 'z' OR k IS NULL)"}),
        ("DROP CONSTRAINT IF EXISTS c", None, lambda t: t.version() == 0),
        ("CLUSTER BY (k, x)", "CLUSTER BY", lambda t: "delta.clustering" in t.domain_metadata()),
    ],
)  # fmt: skip
def test_alter(path: str, run: Run, text: str, operation: str | None, check: Callable[[DeltaTable], bool]) -> None:
    (done,) = run(f"ALTER TABLE t {text}")
    assert check(DeltaTable(path))
    assert done["version"] == (None if operation is None else 1)
    if operation is not None:
        assert (done["operation"], history(path)["operation"]) == (operation, operation)


def test_replaced_columns_keep_what_files_know(path: str, run: Run) -> None:
    for text, why in [
        ("(x INT)", "`k` can't be left out"),
        ("(k STRING, x BIGINT)", "`x` stays integer"),
        ("(k STRING, x INT NOT NULL)", "can't become NOT NULL"),
        ("(k STRING, x INT, y INT NOT NULL)", "can't be added as NOT NULL"),
    ]:
        with pytest.raises(InvalidArgumentError, match=why):
            run(f"ALTER TABLE t REPLACE COLUMNS {text}")
    assert DeltaTable(path).version() == 0
    rows = run("SELECT x, k FROM t ORDER BY x")
    run("ALTER TABLE t REPLACE COLUMNS (X INT, more DATE, k STRING COMMENT 'key')")
    assert run("SELECT * EXCEPT (more) FROM t ORDER BY x") == rows
    assert DeltaTable(path).schema().fields[2].metadata == {"comment": "key"}


def test_alter_columns_that_are_mapped(path: str, run: Run) -> None:
    run("ALTER TABLE t SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableTypeWidening' = 'true')")
    run("ALTER TABLE t RENAME COLUMN k TO `a.b`")
    run("ALTER TABLE t ALTER COLUMN x TYPE BIGINT")
    run("ALTER TABLE t ADD COLUMNS (s STRUCT<p: INT>, gone INT, away INT)")
    run("ALTER TABLE t ADD COLUMN s.q INT AFTER p")
    run("ALTER TABLE t DROP COLUMNS (gone, away)")
    run("ALTER TABLE t DROP COLUMN s.p")
    columns = run("DESCRIBE t")
    assert [(r["col_name"], r["data_type"]) for r in columns] == [
        ("a.b", "string"),
        ("x", "bigint"),
        ("s", "struct<q:int>"),
    ]
    run("ALTER TABLE t CLUSTER BY (`a.b`)")
    assert run("DESCRIBE DETAIL t")[0]["clusteringColumns"] == ["a.b"]
    run("ALTER TABLE t CLUSTER BY NONE")
    assert run("DESCRIBE DETAIL t")[0]["clusteringColumns"] == []


def test_alter_nulls_defaults_and_features(tmp_table: Table) -> None:
    where = tmp_table()
    t = {"t": where}
    sql("CREATE TABLE t (x INT NOT NULL DEFAULT 5) TBLPROPERTIES ('delta.enableDeletionVectors' = true)", tables=t)
    sql("ALTER TABLE t ALTER COLUMN x DROP NOT NULL", tables=t)
    sql("ALTER TABLE t ALTER COLUMN x DROP DEFAULT", tables=t)
    (column,) = DeltaTable(where).schema().fields
    assert (column.nullable, column.metadata) == (True, {})
    with pytest.raises(UnsupportedFeatureError, match="NOT NULL"):
        sql("ALTER TABLE t ALTER COLUMN x SET NOT NULL", tables=t)
    sql("ALTER TABLE t DROP FEATURE deletionVectors", tables=t)
    assert "deletionVectors" not in sql("DESCRIBE DETAIL t", tables=t)["tableFeatures"][0].as_py()
    sql("COMMENT ON TABLE t IS 'it is'", tables=t)
    assert DeltaTable(where).metadata().description == "it is"
    assert history(where)["operation"] == "SET TBLPROPERTIES"
    sql("COMMENT ON TABLE t IS NULL", tables=t)
    assert not DeltaTable(where).metadata().description


# --- DESCRIBE, SHOW, REORG --------------------------------------------------------------------------------------------


def test_describe_history(path: str, run: Run) -> None:
    run("UPDATE t SET x = 0 WHERE k = 'a'")
    newest, first = run("DESCRIBE HISTORY t")
    assert (
        list(newest)
        == (
            "version timestamp userId userName operation operationParameters job notebook clusterId readVersion "
            "isolationLevel isBlindAppend operationMetrics userMetadata engineInfo"
        ).split()
    )
    assert (newest["version"], newest["operation"], newest["readVersion"]) == (1, "UPDATE", 0)
    assert dict(newest["operationMetrics"])["numUpdatedRows"] == "1"
    assert newest["timestamp"] == dt.datetime.fromtimestamp(history(path)["timestamp"] / 1000, dt.timezone.utc)
    assert (first["version"], first["operation"]) == (0, "WRITE")
    assert [r["version"] for r in run("DESC HISTORY t LIMIT 1")] == [1]
    assert run("DESCRIBE HISTORY t LIMIT 0") == []


def test_describe_detail(path: str, run: Run) -> None:
    (detail,) = run("DESCRIBE DETAIL t")
    table = DeltaTable(path)
    assert (
        list(detail)
        == (
            "format id name description location createdAt lastModified partitionColumns clusteringColumns numFiles "
            "sizeInBytes properties minReaderVersion minWriterVersion tableFeatures"
        ).split()
    )
    sizes = pa.table(table.get_add_actions())["size_bytes"].to_pylist()
    assert (detail["format"], detail["id"], detail["numFiles"], detail["sizeInBytes"]) == (
        "delta", table.metadata().id, len(sizes), sum(sizes)
    )  # fmt: skip
    assert (detail["location"], detail["partitionColumns"], detail["properties"]) == (table.table_uri, [], [])
    assert (detail["minReaderVersion"], detail["minWriterVersion"]) == (1, 2)
    assert detail["tableFeatures"] == ["appendOnly", "invariants"]
    assert run("DESCRIBE DETAIL t VERSION AS OF 0") == [detail]


def test_show(path: str, run: Run) -> None:
    run("ALTER TABLE t SET TBLPROPERTIES ('b' = '2', 'a' = '1')")
    assert run("SHOW COLUMNS IN t") == [{"col_name": "k"}, {"col_name": "x"}]
    run("ALTER TABLE t CLUSTER BY (x)")
    shown = {row["key"]: row["value"] for row in run("SHOW TBLPROPERTIES t")}
    features = ("appendOnly", "clustering", "domainMetadata", "invariants")
    assert shown == {
        "a": "1",
        "b": "2",
        "clusteringColumns": '[["x"]]',
        "delta.minReaderVersion": "1",
        "delta.minWriterVersion": "7",
        **{f"delta.feature.{name}": "supported" for name in features},
    }
    assert list(shown) == sorted(shown)
    assert run("SHOW TBLPROPERTIES t (b)") == [{"key": "b", "value": "2"}]
    assert run("SHOW TBLPROPERTIES t ('c')") == [{"key": "c", "value": "Table t does not have property: c"}]
    facts = {row["col_name"]: row["data_type"] for row in run("DESCRIBE EXTENDED t")}
    assert facts["Table Properties"] == f"[{','.join(f'{k}={v}' for k, v in shown.items())}]"


def test_partitions_and_details_are_shown(tmp_table: Table) -> None:
    path = tmp_table()
    data = pa.table({"x": [1, 2, 3], "p": pa.array([1, 2, None], pa.int32()), "q": ["a", "b", "c"]})
    write_deltalake(path, data, partition_by=["p", "q"], description="said")

    def run(text: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = sql(text, tables={"t": path}).to_pylist()
        return rows

    assert run("SHOW PARTITIONS t") == [{"p": 1, "q": "a"}, {"p": 2, "q": "b"}, {"p": None, "q": "c"}]
    assert run("SHOW PARTITIONS t PARTITION (p = 2)") == [{"p": 2, "q": "b"}]
    assert run("SHOW PARTITIONS t PARTITION (p = NULL, q)") == [{"p": None, "q": "c"}]
    facts = {row["col_name"]: row["data_type"] for row in run("DESCRIBE EXTENDED t")}
    assert (facts["x"], facts["Comment"], facts["Provider"]) == ("bigint", "said", "delta")
    assert run("DESCRIBE t P")[1] == {"info_name": "data_type", "info_value": "int"}
    run("INSERT OVERWRITE t PARTITION (p = NULL, q) SELECT 4, 'd'")
    assert run("SELECT x FROM t ORDER BY x") == [{"x": 1}, {"x": 2}, {"x": 4}]


def test_reorg(path: str, run: Run) -> None:
    run("ALTER TABLE t SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    run("DELETE FROM t WHERE x = 2")
    (done,) = run("REORG TABLE t APPLY (PURGE)")
    assert (done["num_removed_files"], done["num_copied_rows"], done["version"]) == (1, 2, 3)
    assert run("REORG TABLE t APPLY (PURGE)")[0]["version"] is None


# --- versions and names -----------------------------------------------------------------------------------------------


def test_versions(path: str, run: Run) -> None:
    run("DELETE FROM t WHERE x < 3")
    moment = DeltaTable(path).history()[-1]["timestamp"]
    iso = dt.datetime.fromtimestamp(moment / 1000, dt.timezone.utc)
    for asked in (
        "t VERSION AS OF 0",
        "t FOR VERSION AS OF '0'",
        "t FOR SYSTEM_VERSION AS OF 0 AS s",
        f"delta.`{path}@v0`",
        f"delta.`{path}@{iso:%Y%m%d%H%M%S}{moment % 1000:03}`",
        f"t TIMESTAMP AS OF '{iso.isoformat()}'",
        f"t TIMESTAMP AS OF TIMESTAMP '{iso:%Y-%m-%d %H:%M:%S.%f}'",
        f"t FOR SYSTEM_TIME AS OF timestamp_millis({moment})",
    ):
        assert run(f"SELECT count(*) AS n FROM {asked}") == [{"n": 3}], asked
    both = "SELECT o.x FROM t VERSION AS OF 0 o LEFT ANTI JOIN t n ON o.x = n.x ORDER BY x"
    assert run(both) == [{"x": 1}, {"x": 2}]
    with pytest.raises(VersionNotFoundError):
        run("SELECT * FROM t VERSION AS OF 7")
    with pytest.raises(InvalidArgumentError, match="without a version"):
        run("DELETE FROM t VERSION AS OF 0")
    with pytest.raises(InvalidArgumentError, match="no versions"):
        run("SELECT * FROM u VERSION AS OF 0", u=pa.table({"x": [1]}))


def test_a_path_that_ends_like_a_version_is_a_path_first(tmp_table: Table) -> None:
    where = tmp_table() + "@v1"
    write_deltalake(where, pa.table({"x": [1]}))
    assert sql(f"SELECT * FROM delta.`{where}`").to_pylist() == [{"x": 1}]
    assert sql(f"SELECT * FROM delta.`{where}@v0`").to_pylist() == [{"x": 1}]


def test_only_the_newest_version_is_changed(path: str, run: Run) -> None:
    run("DELETE FROM t WHERE x = 1")
    for text in (
        "DELETE FROM {}",
        "UPDATE {} SET x = 0",
        "INSERT INTO {} VALUES ('a', 1)",
        "COMMENT ON TABLE {} IS 'c'",
    ):
        with pytest.raises(TableNotFoundError):
            run(text.format(f"delta.`{path}@v0`"))
    assert DeltaTable(path).version() == 1


def test_all_parts_of_a_statement_see_one_version(path: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = DeltaSource.__init__

    def slow(self: DeltaSource, table: DeltaTable) -> None:
        # another writer commits between the first mention of the table and the second one
        if DeltaTable(path).version() == 0:
            write_deltalake(path, pa.table({"k": ["new"], "x": pa.array([9], pa.int32())}), mode="append")
        begin(self, table)

    monkeypatch.setattr(DeltaSource, "__init__", slow)
    text = f"SELECT (SELECT count(*) FROM t) AS a, count(*) AS b, (SELECT count(*) FROM delta.`{path}`) AS c FROM t"
    assert run(text) == [{"a": 3, "b": 3, "c": 3}]
    assert DeltaTable(path).version() == 1


def test_a_missing_file_is_named(path: str, run: Run) -> None:
    (file,) = Path(path).glob("*.parquet")
    file.unlink()
    with pytest.raises(FileMissingError, match=file.name):
        run("SELECT * FROM t WHERE x > 0")


def test_data_that_no_table_holds_is_refused(run: Run) -> None:
    twice = pa.table([pa.array([1]), pa.array([2])], names=["x", "X"])
    with pytest.raises(InvalidArgumentError, match="one name: x, X"):
        run("SELECT * FROM u", u=twice)
    fine = pa.table({"at": pa.array([1], pa.timestamp("ns"))})
    with pytest.raises(InvalidArgumentError, match="no column of a table holds"):
        run("SELECT * FROM u", u=fine)


def test_data_of_the_callers_is_read(path: str, run: Run) -> None:
    stream = pa.table({"k": ["a", "b"], "w": [Decimal("1.5"), None]}).to_reader()
    results = run("SELECT t.x, u.w FROM t JOIN u USING (k) JOIN U AS again ON again.k = u.k ORDER BY x", u=stream)
    assert results == [{"x": 1, "w": Decimal("1.5")}, {"x": 2, "w": None}]
    shown = DeltaTable(path)
    run("DELETE FROM t")
    assert run("SELECT count(*) AS n FROM old", old=shown) == [{"n": 3}]


def test_long_chains_of_aliases_are_computed_once() -> None:
    chain = ["x + 1 AS c0", *(f"CASE WHEN c{i} > 5 THEN c{i} - 1 ELSE c{i} + 2 END AS c{i + 1}" for i in range(30))]
    result = sql(f"SELECT {', '.join(chain)} FROM VALUES (1) AS v(x)").to_arrow().to_pylist()[0]
    value = 2
    for i in range(30):
        value = value - 1 if value > 5 else value + 2
        assert result[f"c{i + 1}"] == value
    # Those of groups are computed where they stand.
    grouped = ["sum(x) AS c0", *chain[1:]]
    with pytest.raises(UnsupportedExpressionError, match="stand for more than 10,000 parts"):
        sql(f"SELECT {', '.join(grouped)} FROM VALUES (1) AS v(x)")


def test_names_of_columns(run: Run) -> None:
    result = sql("SELECT 1 + 1, count(*), x AS `a b`, x, v.X FROM VALUES (1) AS v(x) GROUP BY x")
    assert result.column_names == ["(1 + 1)", "count(1)", "a b", "x", "X"]


# --- only what matters is read ----------------------------------------------------------------------------------------


def test_filters_and_columns_reach_the_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # DuckDB takes brackets in a path for a pattern, so deltaplane reads the files.
    where = str(tmp_path / "t[1]")
    for day in ("mon", "tue"):
        write_deltalake(where, pa.table({"day": [day], "x": [1], "y": [2]}), mode="append", partition_by="day")
    asked: list[tuple[Any, Any]] = []
    scan = DeltaTable.scan

    def noted(self: DeltaTable, columns: Any = None, predicate: Any = None) -> Any:
        if columns:
            asked.append((columns, predicate))
        return scan(self, columns, predicate)

    monkeypatch.setattr(DeltaTable, "scan", noted)

    def scans(text: str) -> set[tuple[tuple[str, ...], str | None]]:
        asked.clear()
        sql(text, tables={"t": where})
        return {(tuple(sorted(columns)), predicate) for columns, predicate in asked}

    assert scans("SELECT x FROM t WHERE day = 'mon' AND length(day) = 3") == {(("day", "x"), "((`day` = 'mon'))")}
    assert scans("SELECT n FROM (SELECT x + 1 AS n, y, day AS d FROM t) WHERE d = 'mon'") == {
        (("day", "x"), "((`day` = 'mon'))")
    }
    assert scans("SELECT a.x FROM t a LEFT JOIN t b ON a.x = b.x AND b.y > 1 WHERE a.day = 'mon' AND b.y IS NULL") == {
        (("day", "x"), "((`day` = 'mon'))"),
        (("x", "y"), "((`y` > 1))"),
    }
    assert scans("SELECT day, sum(x) FROM t GROUP BY day HAVING day > 'a' AND sum(x) > 0") == {
        (("day", "x"), "((`day` > 'a'))")
    }
    assert scans("WITH a AS (SELECT * FROM t LIMIT 5) SELECT x FROM a WHERE day = 'mon'") == {(("day", "x"), None)}
    assert scans("SELECT count(*) FROM t") == set()


@pytest.mark.parametrize("is_kept", [True, False], ids=["a database is kept", "no database is kept"])
def test_without_duckdb_nothing_is_guessed(run: Run, monkeypatch: pytest.MonkeyPatch, is_kept: bool) -> None:
    assert len(run("SELECT * FROM t")) == 3
    if not is_kept:
        close_idle()
    assert (idle_databases() > 0) == is_kept
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    with pytest.raises(UnsupportedExpressionError, match=r"deltaplane\[local\]"):
        run("SELECT * FROM t")
    assert run("DELETE FROM t WHERE x = 1")[0]["num_affected_rows"] == 1
