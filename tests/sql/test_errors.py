"""Syntax errors are reported with position and expectation, and nothing is run."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import DeltaError, DeltaTable, sql, write_deltalake
from deltaplane.exceptions import (
    InvalidArgumentError,
    SqlSyntaxError,
    TableNotFoundError,
    UnsupportedExpressionError,
    UnsupportedFeatureError,
)
from deltaplane.expr.syntax import parse
from deltaplane.expr.unparse import unparse
from deltaplane.queries.cursor import unqualified
from deltaplane.queries.grammar import Grammar
from deltaplane.queries.planning import Planner
from deltaplane.statements import STATEMENTS, command_of
from expr import cases

BEGINNINGS = "ALTER, BEGIN, COMMENT, CONVERT, COPY, CREATE, DELETE, DESC, DESCRIBE, EXPLAIN, FROM, FSCK, GENERATE, INSERT, MERGE, OPTIMIZE, REORG, REPLACE, RESTORE, SELECT, SHOW, TABLE, TRUNCATE, UPDATE, VACUUM, VALUES, WITH"


@pytest.mark.parametrize(
    ("text", "line", "column", "said"),
    [
        ("", 1, 1, f"expected one of {BEGINNINGS}, found the end"),
        ("-- nothing", 1, 11, f"expected one of {BEGINNINGS}, found the end"),
        ("FOO t", 1, 1, f"expected one of {BEGINNINGS}, found `FOO`"),
        ("DELETE FORM t", 1, 8, "expected FROM, found `FORM`"),
        ("EXPLAIN EXTENDED DELETE FROM t", 1, 18, "expected a query, found `DELETE`"),
        ("SELECT 1 FROM t NATURAL u", 1, 25, "expected JOIN, found `u`"),
        ("SELECT 1 FROM t TABLESAMPLE (x ROWS)", 1, 30, "expected a number of rows or percent, found `x`"),
        ("SELECT percentile_cont(0.5) FROM t", 1, 29, "expected WITHIN, found `FROM`"),
        ("DELETE\n  FROM", 2, 7, "expected a table: delta.`path` or a name, found the end"),
        ("DELETE FROM t WHERE", 1, 20, "it ends too early"),
        ("DELETE FROM t WHERE x >", 1, 24, "it ends too early"),
        ("DELETE FROM t WHERE x = 'a", 1, 25, "the string that begins here has no end"),
        ("DELETE FROM t WHERE (x = 1", 1, 27, "expected `)`, found the end"),
        ("DELETE FROM t WHERE x = 1 y", 1, 27, "expected the end, found `y`"),
        ("TRUNCATE TABLE t PARTITION (x = 1)", 1, 18, "expected the end, found `PARTITION`"),
        ("DELETE FROM t; DELETE FROM t", 1, 16, "expected the end, found another statement: give one at a time"),
        ("DELETE FROM `t", 1, 13, "the name that begins here has no end"),
        ("DELETE FROM t /* a\n/* b */ WHERE x = 1", 1, 15, "the comment that begins here has no end"),
        ("DELETE FROM t /*+ a */ WHERE x = 1", 1, 15, "expected the end, found `/*+`"),
        ("-- a\\\n b\nDELETE FROM t /* c\n */ WHERE\n x >", 5, 5, "it ends too early"),
        ("SELECT /*+ */ 1", 1, 12, "expected a hint, found `*/`"),
        ("SELECT 2*/*c*/3", 1, 9, "expected the end, found `*/`"),
        ("DELETE FROM t # x", 1, 15, "unexpected '#'"),
        ("OPTIMIZE t ZORDER BY", 1, 21, "expected a column's name, found the end"),
        ("OPTIMIZE t ZORDER (x)", 1, 19, "expected BY, found `(`"),
        ("OPTIMIZE t VERSION AS OF 1", 1, 10, "expected a table without a version"),
        ("UPDATE t x = 1", 1, 12, "expected SET, found `=`"),
        ("UPDATE t SET x == 1", 1, 16, "expected `=`, found `==`"),
        ("UPDATE t SET x = 1,", 1, 20, "expected a column's name, found the end"),
        ("UPDATE t SET 1 = x", 1, 14, "expected a column's name, found `1`"),
        ("INSERT t VALUES (1)", 1, 8, "expected INTO, found `t`"),
        ("INSERT INTO t VALUES 1 2", 1, 24, "expected the end, found `2`"),
        ("INSERT INTO t VALUES (1, 2), (3)", 1, 15, "expected 2 values in each row, found 1"),
        ("INSERT INTO t (x)", 1, 18, "expected SELECT, VALUES, TABLE or a query in parentheses, found the end"),
        ("INSERT INTO t PARTITION (x = 1) IF NOT EXISTS SELECT 1", 1, 33, "IF NOT EXISTS"),
        ("INSERT INTO t a VALUES (1)", 1, 15, "expected SELECT, VALUES"),
        ("INSERT INTO t AS a SELECT 1", 1, 20, "only REPLACE ON has a use for one"),
        ("INSERT INTO t REPLACE x = 1 SELECT 1", 1, 23, "expected WHERE, USING or ON, found `x`"),
        ("INSERT INTO t REPLACE ON t.x = s.x", 1, 35, "expected a query, found the end"),
        ("INSERT INTO t REPLACE ON SELECT 1", 1, 26, "expected a condition, found `SELECT`"),
        ("INSERT INTO t REPLACE USING x SELECT 1", 1, 29, "expected `(`"),
        ("COPY t FROM 'x' FILEFORMAT = CSV", 1, 6, "expected INTO, found `t`"),
        ("COPY INTO t FROM (SELECT 1) FILEFORMAT = CSV", 1, 18, "expected a directory as text"),
        ("COPY INTO t FROM x FILEFORMAT = CSV", 1, 18, "expected a directory as text, found `x`"),
        ("COPY INTO t FROM 'x'", 1, 21, "expected FILEFORMAT, found the end"),
        ("COPY INTO t FROM 'x' FILEFORMAT = ORC", 1, 35, "expected PARQUET, CSV or JSON, found `ORC`"),
        ("COPY INTO t FROM 'x' FILEFORMAT = CSV FILES = 'a'", 1, 47, "expected `(`"),
        ("COPY INTO t FROM 'x' FILEFORMAT = CSV COPY_OPTIONS 'a'", 1, 52, "expected `(`"),
        ("INSERT OVERWRITE t REPLACE WHERE x = 1 SELECT 1", 1, 20, "expected SELECT"),
        ("CREATE VIEW v AS SELECT 1", 1, 8, "expected TABLE, found `VIEW`"),
        ("CREATE TABLE t", 1, 15, "expected columns in parentheses, or AS and a query, found the end"),
        ("CREATE TABLE t (x)", 1, 18, "expected a type, found `)`"),
        ("CREATE TABLE t (x WORD)", 1, 19, "expected a type, found `WORD`"),
        ("CREATE TABLE t (x VARCHAR)", 1, 26, "expected a length in parentheses behind VARCHAR"),
        ("CREATE TABLE t (x CHAR(5, 1))", 1, 23, "expected one length behind CHAR"),
        ("CREATE TABLE t (x ARRAY<INT)", 1, 28, "expected `>`, found `)`"),
        ("CREATE TABLE t (x DECIMAL(39, 1))", 1, 26, "up to 38 digits"),
        ("CREATE TABLE t (x INT, X INT)", 1, 24, "`X` is taken"),
        ("CREATE TABLE t (x INT GENERATED BY DEFAULT AS (1))", 1, 23, "expected ALWAYS"),
        ("CREATE TABLE t (x INT PRIMARY KEY)", 1, 23, "expected `)`, found `PRIMARY`"),
        ("CREATE TABLE t (x INT, CHECK (x > 1))", 1, 24, "expected a column or CONSTRAINT name CHECK (condition)"),
        ("CREATE TABLE t (x INT) USING parquet", 1, 30, "expected DELTA, found `parquet`"),
        ("CREATE TABLE t (x INT) COMMENT 'a' COMMENT 'b'", 1, 36, "expected COMMENT once"),
        ("CREATE TABLE t (x INT) TBLPROPERTIES ('a' = b)", 1, 45, "expected a value"),
        ("CREATE TABLE t (x INT) TBLPROPERTIES ('a' = 1, a = 2)", 1, 48, "`a` comes twice"),
        ("CREATE TABLE t (x INT) AS SELECT 1", 1, 27, "a table AS SELECT has the query's columns"),
        ("CREATE OR REPLACE TABLE IF NOT EXISTS t (x INT)", 1, 39, "two answers"),
        ("CREATE TABLE t (x BIGINT GENERATED ALWAYS AS IDENTITY (INCREMENT BY 0))", 1, 69, "other than 0"),
        ("ALTER TABLE t", 1, 14, "expected ADD, DROP, RENAME COLUMN"),
        ("ALTER TABLE t ADD x INT", 1, 19, "expected COLUMN, COLUMNS, CONSTRAINT or INDEX, found `x`"),
        ("ALTER TABLE t ADD COLUMN x INT, y INT", 1, 31, "several columns stand in parentheses"),
        ("ALTER TABLE t ADD CONSTRAINT p PRIMARY KEY (x)", 1, 32, "expected CHECK"),
        ("ALTER TABLE t RENAME TO u", 1, 22, "expected COLUMN: a table at a location"),
        ("ALTER TABLE t DROP x", 1, 20, "expected COLUMN, COLUMNS, CONSTRAINT, FEATURE or INDEX"),
        ("ALTER TABLE t ADD INDEX x", 1, 25, "expected ON, found `x`"),
        ("ALTER TABLE t DROP INDEX ON x", 1, 29, "expected a column in parentheses, found `x`"),
        ("ALTER TABLE t ALTER COLUMN x DROP NULL", 1, 35, "expected NOT NULL or DEFAULT"),
        ("ALTER TABLE t ALTER COLUMN x COMMENT 'a', X FIRST", 1, 43, "changes `x` once"),
        ("ALTER TABLE t ALTER COLUMN s.x COMMENT 'a', s FIRST", 1, 45, "changes `s.x` once"),
        ("ALTER TABLE t SET LOCATION 'x'", 1, 19, "expected TBLPROPERTIES"),
        ("DESCRIBE HISTORY", 1, 17, "expected a table"),
        ("DESCRIBE HISTORY t LIMIT x", 1, 26, "expected a number of commits, found `x`"),
        ("DESCRIBE EXTENDED t 1", 1, 21, "expected the end"),
        ("SHOW t", 1, 6, "expected COLUMNS or PARTITIONS or TBLPROPERTIES, found `t`"),
        ("SELECT 1 IN ()", 1, 14, "IN needs a value"),
        ("DELETE FROM t WHERE x IN ()", 1, 27, "IN needs a value"),
        ("SELECT like('a')", 1, 17, "`like` takes a text, a pattern and an escape, not 1 arguments"),
        ("SELECT overlay('a' PLACING 'b' FOR 2)", 1, 32, "expected FROM, found `FOR`"),
        ("WITH c AS (SELECT 1) INSERT t SELECT 1", 1, 29, "expected INTO, found `t`"),
        ("WITH c AS (SELECT 1) x", 1, 22, "expected SELECT, VALUES, TABLE or a query in parentheses, found `x`"),
        ("WITH t AS (SELECT 1) MERGE INTO t USING s ON true WHEN MATCHED THEN DELETE", 1, 33, "expected a table: `t` is a query of WITH"),
        ("ALTER TABLE t CHANGE COLUMN x y INT", 1, 31, "expected the same name again"),
        ("ALTER TABLE t CHANGE COLUMN x x INT NOT NULL", 1, 37, "expected COMMENT, FIRST or AFTER"),
        ("ALTER TABLE t ALTER COLUMN x x INT", 1, 30, "expected TYPE, COMMENT"),
        ("SHOW COLUMNS t", 1, 14, "expected IN or FROM, found `t`"),
        ("REORG TABLE t APPLY (UPGRADE)", 1, 22, "expected PURGE, found `UPGRADE`"),
        ("CONVERT TO DELTA t", 1, 18, "expected a directory: parquet.`path`, found `t`"),
        ("CONVERT TO DELTA parquet", 1, 25, "expected a directory: parquet.`path`, found the end"),
        ("CONVERT TO ICEBERG parquet.`a`", 1, 12, "expected DELTA, found `ICEBERG`"),
        ("CONVERT TO DELTA parquet.`a` NO STATS", 1, 33, "expected STATISTICS, found `STATS`"),
        ("CONVERT TO DELTA parquet.`a` PARTITIONED (a INT)", 1, 42, "expected BY, found `(`"),
        ("FSCK TABLE t", 1, 6, "expected REPAIR, found `TABLE`"),
        ("FSCK REPAIR TABLE t DRY", 1, 24, "expected RUN, found the end"),
        ("GENERATE manifest FOR TABLE t", 1, 10, "expected `symlink_format_manifest`, found `manifest`"),
        ("CREATE TABLE u DEEP COPY t", 1, 16, "expected columns in parentheses, or AS and a query, found `DEEP`"),
        ("CREATE TABLE u LIKE t USING parquet", 1, 29, "expected DELTA: give the columns"),
        ("CREATE OR REPLACE TABLE u LIKE t", 1, 27, "a table that is there isn't replaced by LIKE"),
        ("CREATE TABLE u SHALLOW CLONE", 1, 29, "expected a table: delta.`path` or a name, found the end"),
        ("RESTORE t TO 3", 1, 14, "expected VERSION AS OF or TIMESTAMP AS OF, found `3`"),
        ("VACUUM t RETAIN x HOURS", 1, 17, "expected a number of hours, found `x`"),
        ("VACUUM t RETAIN 1 DAYS", 1, 19, "expected HOURS, found `DAYS`"),
        ("VACUUM t DRY", 1, 13, "expected RUN, found the end"),
        ("VACUUM t FULL LITE", 1, 15, "expected the end, found `LITE`"),
        ("VACUUM t USING i", 1, 16, "expected INVENTORY, found `i`"),
        ("COMMENT ON TABLE t IS x", 1, 23, "expected a comment or NULL, found `x`"),
        ("SELECT", 1, 7, "it ends too early"),
        ("SELECT FROM t", 1, 8, "expected a column or an expression, found `FROM`"),
        ("SELECT a, FROM t", 1, 11, "expected a column or an expression, found `FROM`"),
        ("SELECT a FROM t WHERE GROUP BY a", 1, 29, "expected the end, found `BY`"),
        ("SELECT a FROM t GROUP a", 1, 23, "expected BY, found `a`"),
        ("SELECT a FROM t LEFT u", 1, 22, "expected JOIN, found `u`"),
        ("FROM t WHERE x > 1", 1, 8, "expected SELECT, found `WHERE`"),
        ("FROM t INSERT INTO u SELECT x", 1, 8, "expected SELECT: begin the statement with INSERT"),
        ("SELECT 'x' LIKE ANY ()", 1, 22, "LIKE ANY needs a pattern"),
        ("SELECT 1e309", 1, 13, "1e309 is out of range"),
        ("FROM t |> FOO", 1, 11, "expected a step: SELECT, EXTEND, SET, DROP, AS, WHERE, AGGREGATE"),
        ("FROM t |> SELECT sum(x)", 1, 11, "expected |> AGGREGATE for aggregate functions"),
        ("FROM t |> EXTEND 1, sum(x)", 1, 21, "expected |> AGGREGATE for an aggregate function"),
        ("FROM t |> AGGREGATE sum(x), y", 1, 29, "expected an aggregate function"),
        ("SELECT a FROM (SELECT 1", 1, 24, "expected `)`, found the end"),
        ("SELECT a FROM t ORDER BY a NULLS MIDDLE", 1, 34, "expected FIRST or LAST, found `MIDDLE`"),
        ("SELECT a FROM t LIMIT -1", 1, 23, "expected a number of rows, found `-`"),
        ("SELECT a FROM t VERSION AS OF x", 1, 31, "expected a version's number, found `x`"),
        ("WITH a AS SELECT 1", 1, 11, "expected `(`, found `SELECT`"),
        ("WITH a AS (SELECT 1), A AS (SELECT 2) SELECT * FROM a", 1, 23, "`A` is taken"),
        ("SELECT * FROM t RIGHT JOIN LATERAL (SELECT 1) ON true", 1, 17, "expected an inner, a cross or a left join"),
        ("SELECT * FROM t JOIN LATERAL (SELECT 1) u USING (x)", 1, 43, "expected ON: LATERAL takes no USING"),
        ("SELECT * FROM t, LATERAL u", 1, 26, "expected `(`, found `u`"),
        ("SELECT * FROM LATERAL t", 1, 23, "expected a query in parentheses, found `t`"),
        ("SELECT * FROM t PIVOT sum(x) FOR k IN (1)", 1, 23, "expected `(`, found `sum`"),
        ("SELECT * FROM t PIVOT (sum(x) IN (1))", 1, 37, "expected FOR, found `)`"),
        ("SELECT * FROM t PIVOT (sum(x) FOR k = 1)", 1, 37, "expected IN, found `=`"),
        ("SELECT * FROM t PIVOT (sum(x) FOR (a, b) IN ((1, 2), (3)))", 1, 54, "expected 2 values, found 1"),
        ("SELECT * FROM t UNPIVOT (v n IN (x))", 1, 28, "expected FOR, found `n`"),
        ("SELECT * FROM t UNPIVOT ((v, w) FOR n IN ((x, y), (x)))", 1, 51, "expected 2 columns, found 1"),
        ("SELECT * FROM (SELECT 1, 2) AS t(x)", 1, 15, "expected 2 names of columns, found 1"),
    ],
)  # fmt: skip
def test_place_and_expectation(text: str, line: int, column: int, said: str) -> None:
    with pytest.raises(SqlSyntaxError) as wrong:
        sql(text)
    assert str(wrong.value).startswith(f"line {line}, column {column}: ")
    assert said in str(wrong.value)
    assert (wrong.value.line, wrong.value.column) == (line, column)


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("ANALYZE TABLE t", UnsupportedFeatureError, "line 1, column 1: ANALYZE isn't a statement"),
        (" analyze t", UnsupportedFeatureError, "line 1, column 2: ANALYZE isn't a statement"),
        (" SHOW TABLES", UnsupportedFeatureError, "line 1, column 2: SHOW TABLES isn't a statement of this version of deltaplane: there are SHOW COLUMNS and SHOW PARTITIONS and SHOW TBLPROPERTIES"),
        ("MSCK REPAIR TABLE t", UnsupportedFeatureError, "FSCK REPAIR TABLE"),
        ("SHOW CREATE TABLE t", UnsupportedFeatureError, "SHOW CREATE TABLE isn't a statement"),
        ("WITH c AS (SELECT 1) DELETE FROM t", UnsupportedFeatureError, "line 1, column 22: WITH before DELETE"),
        ("WITH c AS (SELECT ')' AS x), d (y) AS (SELECT (1)) UPDATE t SET x = 1", UnsupportedFeatureError, "line 1, column 52: WITH before UPDATE"),
        ("SELECT like('a', 'b', upper('x'))", UnsupportedExpressionError, "LIKE with an escape that isn't a constant"),
        ("SELECT transform(array(1), x -> struct(x, 1 AS y))", UnsupportedExpressionError, "STRUCT with a lambda function's parameter that AS gives no name"),
        ("CREATE TABLE delta.`memory://no-names/t` AS SELECT (SELECT 1)", InvalidArgumentError, "line 1, column 14: the column `(SELECT 1)` of the query has no name: give it one with AS"),
        ("CREATE TABLE delta.`memory://no-names/t` AS SELECT * FROM (SELECT 'a,' UNION SELECT 'b')", InvalidArgumentError, "the column name `a,` holds ','"),
        ("CREATE TABLE delta.`memory://no-names/t` AS SELECT count(*)", InvalidArgumentError, "line 1, column 14: the column name `count(1)` holds '('"),
        ("SELECT x FROM t", InvalidArgumentError, "line 1, column 15: no table is called `t`"),
        ("SELECT x FROM t.u", InvalidArgumentError, "line 1, column 15: no table is called `t.u`"),
        ("SELECT y FROM VALUES (1) AS v(x)", InvalidArgumentError, "line 1, column 8: no column is called `y` (there are x)"),
        ("SELECT v.y FROM VALUES (1) AS v(x)", InvalidArgumentError, "no column is called `v.y`"),
        ("SELECT x FROM VALUES (1) AS v(x), VALUES (1) AS w(x)", InvalidArgumentError, "could be any of v.x, w.x"),
        ("SELECT 1 WHERE 'a' > DATE '2024-01-01' + 'x'", DeltaError, "line 1, column 16"),
        ("SELECT 1 WHERE 1", InvalidArgumentError, "line 1, column 16: WHERE needs a condition, not a value of type integer"),
        ("SELECT 1 WHERE count(*) > 1", InvalidArgumentError, "aggregate functions can't stand in WHERE"),
        ("SELECT sum(sum(1))", InvalidArgumentError, "`sum` can't stand here"),
        ("SELECT x, count(*) FROM VALUES (1) AS v(x)", InvalidArgumentError, "line 1, column 8: `x` is neither in GROUP BY"),
        ("SELECT x.y FROM VALUES (1) AS v(x)", InvalidArgumentError, "the field y"),
        ("SELECT x FROM VALUES (1) AS v(x) ORDER BY 2", InvalidArgumentError, "line 1, column 43: the result has no column 2"),
        ("SELECT max(x) AS x FROM VALUES (1, 2) AS v(x, y) GROUP BY y HAVING x > 0", InvalidArgumentError, "give one another name"),
        ("SELECT 1 UNION SELECT 1, 2", InvalidArgumentError, "line 1, column 10: UNION needs as many columns"),
        ("SELECT 1 UNION SELECT 'a'", InvalidArgumentError, "don't go together (integer, string)"),
        ("SELECT w.* FROM VALUES (1) AS v(x)", InvalidArgumentError, "`w.*` means no column"),
        ("SELECT * EXCEPT (y) FROM VALUES (1) AS v(x)", InvalidArgumentError, "EXCEPT names `y`"),
        ("SELECT (SELECT 1, 2)", InvalidArgumentError, "one column, not 2"),
        ("SELECT x FROM VALUES (1) AS v(x) WHERE EXISTS (SELECT 1 FROM VALUES (1) AS w(y) WHERE z = x)", InvalidArgumentError, "no column is called `z`"),
        (
            "SELECT (1 IN (SELECT 1)) = false",
            UnsupportedExpressionError,
            "line 1, column 8: the expression uses IN with a subquery",
        ),
        ("SELECT NULL IN (SELECT 1)", UnsupportedExpressionError, "line 1, column 8: the expression uses NULL IN"),
        ("SELECT 1 WHERE concat(1 IN (SELECT 1), '') = 'true'", UnsupportedExpressionError, "column 16: the expression uses IN"),
        ("SELECT 1 + explode(array(1))", InvalidArgumentError, "`explode` stands alone as a column"),
        ("SELECT x FROM VALUES (array(1)) AS v(x) LATERAL VIEW json_tuple(x, 'a') t", UnsupportedExpressionError, "LATERAL VIEW of something else"),
        ("SELECT sum(rank() OVER (ORDER BY 1)) OVER ()", UnsupportedExpressionError, "a window function over another one"),
        ("SELECT explode(array(1)), explode(array(2))", UnsupportedExpressionError, "beside another one"),
        ("SELECT rank() OVER ()", InvalidArgumentError, "`rank` needs a window with ORDER BY"),
        ("SELECT rank() OVER (ORDER BY 1 ROWS 1 PRECEDING)", InvalidArgumentError, "`rank` takes no frame"),
        ("SELECT first(x) FROM VALUES (1) AS v(x)", UnsupportedExpressionError, "line 1, column 17: the function `first` without OVER"),
        ("SELECT sum(x) OVER (ORDER BY x ROWS BETWEEN x PRECEDING AND CURRENT ROW) FROM VALUES (1) AS v(x)", UnsupportedExpressionError, "a frame's bound"),
        ("SELECT sum(x) OVER w FROM VALUES (1) AS v(x)", InvalidArgumentError, "no window is called `w`"),
        ("SELECT x FROM VALUES (1) AS v(x) QUALIFY x > 1", InvalidArgumentError, "QUALIFY needs a window function"),
        ("SELECT collect_list(x) FROM VALUES (1) AS v(x)", UnsupportedExpressionError, "`collect_list`"),
        ("SELECT rand()", UnsupportedExpressionError, "`rand`"),
        ("SELECT x + sum(x) FROM VALUES (1) AS v(x) GROUP BY ALL", InvalidArgumentError, "line 1, column 52: GROUP BY ALL finds no key"),
        ("SELECT x, rank() OVER (ORDER BY x) FROM VALUES (1) AS v(x) GROUP BY ALL", UnsupportedExpressionError, "line 1, column 69: the expression uses GROUP BY ALL with a window function"),
        ("SELECT x FROM VALUES (1) AS v(x) GROUP BY ALL, x", InvalidArgumentError, "line 1, column 43: no column is called `ALL`"),
        ("SELECT x FROM VALUES (1) AS v(x) ORDER BY ALL, x", InvalidArgumentError, "line 1, column 43: no column is called `ALL`"),
        ("SELECT x, x + count(*) FROM VALUES (1) AS v(x), VALUES (2) AS w(y) GROUP BY ALL HAVING y > 1", InvalidArgumentError, "`y` is neither in GROUP BY"),
        ("SELECT x AS a, x AS a, a FROM VALUES (1) AS v(x)", InvalidArgumentError, "line 1, column 24: `a` could be any of several columns"),
        ("SELECT x AS a, sum(a) FROM VALUES (1) AS v(x)", InvalidArgumentError, "line 1, column 16: `sum` takes no alias"),
        ("SELECT * FROM VALUES (1) AS v(x), LATERAL (SELECT v.y) u", InvalidArgumentError, "line 1, column 51: no column is called `v.y`"),
        ("SELECT * FROM VALUES (array(1)) AS v(x) JOIN LATERAL explode(x) t(y) ON y > 1", UnsupportedExpressionError, "a condition on LATERAL explode"),
        ("SELECT * FROM VALUES (1, 2) AS v(x, y) PIVOT (sum(x), max(x) FOR y IN (1))", UnsupportedExpressionError, "line 1, column 47: the expression uses PIVOT by several aggregate functions without a name"),
        ("SELECT * FROM VALUES (1, 2) AS v(x, y) PIVOT (sum(x) FOR y IN (1 + 1))", UnsupportedExpressionError, "line 1, column 64: the expression uses a value of PIVOT without a name"),
        ("SELECT * FROM VALUES (1, 2) AS v(x, y) PIVOT (sum(x) FOR y IN ('a'))", InvalidArgumentError, "line 1, column 64: PIVOT has values of types that don't go together"),
        ("SELECT * FROM VALUES (1, 2e0) AS v(x, y) PIVOT (sum(x) FOR y IN (1))", UnsupportedExpressionError, "line 1, column 60: the expression uses PIVOT by double"),
        ("SELECT * FROM VALUES (1, 2, array(1)) AS v(x, y, z) PIVOT (sum(x) FOR y IN (1))", UnsupportedExpressionError, "PIVOT on array<integer>"),
        ("SELECT * FROM VALUES (1, 'a') AS v(x, y) UNPIVOT (v FOR n IN (x, y))", InvalidArgumentError, "line 1, column 42: `v` of UNPIVOT has values of types that don't go together"),
        ("SELECT * FROM VALUES (1, 'a') AS v(x, y) UNPIVOT (v FOR n IN (z))", InvalidArgumentError, "line 1, column 63: no column is called `z`"),
        ("SELECT grouping(x) FROM VALUES (1) AS v(x) GROUP BY x", InvalidArgumentError, "needs GROUPING SETS"),
        ("FROM VALUES (1) AS v(x) |> AGGREGATE sum(x) GROUP BY 1", UnsupportedExpressionError, "|> AGGREGATE by the number of a column"),
        ("FROM VALUES (1) AS v(x) |> AGGREGATE sum(x) GROUP BY ROLLUP (x)", UnsupportedExpressionError, "|> AGGREGATE with ROLLUP"),
        ("SELECT * FROM json_tuple('{}', 'a')", UnsupportedExpressionError, "the table function `json_tuple`"),
        ("SELECT * FROM VALUES (1) AS v(x), LATERAL (SELECT * FROM range(v.x)) r", UnsupportedExpressionError, "`range` of other than constants"),
        ("SELECT * FROM range(1, 5, 0)", InvalidArgumentError, "line 1, column 15: `range` needs a step other than 0"),
        ("SELECT * FROM range(NULL)", InvalidArgumentError, "`range` takes no null"),
        ("SELECT * FROM t TABLESAMPLE (1 PERCENT) REPEATABLE (7)", UnsupportedExpressionError, "REPEATABLE"),
        ("SELECT x FROM VALUES (array(1)) AS v(x) ORDER BY x", UnsupportedExpressionError, "ORDER BY on array<integer>"),
        ("SELECT DISTINCT array(1) AS x", UnsupportedExpressionError, "SELECT DISTINCT on array<integer>"),
        ("WITH RECURSIVE a AS (SELECT 1 UNION SELECT * FROM a) SELECT * FROM a", UnsupportedExpressionError, "a recursive query"),
        ("CREATE TABLE t (x INT) PARTITIONED BY (years(x))", UnsupportedExpressionError, "a partition by years(…)"),
        ("CREATE TABLE t (x INT)", InvalidArgumentError, "line 1, column 14: no table is called `t`: write delta.`its location`"),
        ("SELECT * FROM delta.`/no/such/place`", TableNotFoundError, "o Delta table"),
    ],
)  # fmt: skip
def test_what_is_refused_by_name(text: str, error: type[DeltaError], said: str) -> None:
    with pytest.raises(error) as refused:
        sql(text)
    assert said in str(refused.value)
    assert type(refused.value) is not SqlSyntaxError


def test_with_before_a_statement_on_spark() -> None:
    # INSERT and MERGE move the text of WITH to their query; other statements don't accept it.
    for statement in ("INSERT INTO t SELECT * FROM c", "MERGE INTO t USING c ON t.x = c.x WHEN MATCHED THEN DELETE"):
        made = command_of(f"WITH c AS (SELECT only_spark(1) AS x) {statement}", own_queries=False)
        assert getattr(made, "named", "").strip() == "WITH c AS (SELECT only_spark(1) AS x)"
    with pytest.raises(UnsupportedFeatureError, match=r"column 34: WITH before DELETE"):
        command_of("WITH c AS (SELECT only_spark(1)) DELETE FROM t", own_queries=False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("VACUUM t RETAIN 0 HOURS", "line 1, column 8: .*DeltaTable.vacuum can do it without this check"),
    ],
)
def test_advice_is_sqls_own(tmp_table: Callable[[], str], text: str, said: str) -> None:
    where = tmp_table()
    write_deltalake(where, pa.table({"x": [1]}))
    with pytest.raises(InvalidArgumentError, match=said) as wrong:
        sql(text, tables={"t": where})
    assert "=True" not in str(wrong.value)
    assert "=False" not in str(wrong.value)


def test_a_wrong_end_runs_nothing(tmp_table: Callable[[], str]) -> None:
    where = tmp_table()
    write_deltalake(where, pa.table({"x": [1]}))
    for text in ("DELETE FROM t; DELETE FROM t", "DELETE FROM t WHERE x = 1 GARBAGE y", "INSERT INTO t VALUES (2) 3"):
        with pytest.raises(SqlSyntaxError):
            sql(text, tables={"t": where})
    with pytest.raises(UnsupportedExpressionError):
        sql("UPDATE t SET x = (SELECT 1)", tables={"t": where})
    assert DeltaTable(where).version() == 0


@pytest.mark.parametrize(
    "nested",
    ["(" * 5000 + "1" + ")" * 5000, "NOT (" * 500 + "true" + ")" * 500, "-" * 3000 + "1 ", "1" + " + 1" * 20_000],
)
def test_deep_text_is_refused(nested: str) -> None:
    for text in (
        f"SELECT {nested}",
        f"DELETE FROM t WHERE {nested} > 1",
        f"SELECT * FROM {'(SELECT * FROM ' * 3000} t",
    ):
        with pytest.raises(DeltaError):
            sql(text)


def test_subqueries_that_double_are_planned_once() -> None:
    step = "SELECT x FROM a{0} WHERE x IN (SELECT x FROM a{0})"
    doubled = ", ".join(f"a{i} AS ({step.format(i - 1)})" for i in range(1, 30))
    assert sql(f"WITH a0 AS (SELECT 1 AS x), {doubled} SELECT * FROM a29").to_pylist() == [{"x": 1}]


def test_nested_subqueries_are_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = []
    plan = Planner.plan

    def counted(self: Planner, *arguments: Any) -> Any:
        plans.append(arguments)
        return plan(self, *arguments)

    monkeypatch.setattr(Planner, "plan", counted)
    query = "SELECT 1 AS x"
    for test in ["x IN ({})", "x >= ({})", "NOT x NOT IN ({})", "1 / x >= ({})"] * 3:
        query = f"SELECT x FROM VALUES (1), (2) AS v(x) WHERE {test.format(query)} AND x < 2"
    assert sql(query).to_pylist() == [{"x": 1}]
    # One for each query and each list of values.
    assert len(plans) == 25


def test_joins_that_double_are_computed_once() -> None:
    doubled = ", ".join(f"a{i} AS (SELECT l.x FROM a{i - 1} l, a{i - 1} r)" for i in range(1, 30))
    assert sql(f"WITH a0 AS (SELECT 1 AS x), {doubled} SELECT * FROM a29").to_pylist() == [{"x": 1}]


def test_every_statement_has_words_of_its_own() -> None:
    words = [statement.words for statement in STATEMENTS]
    assert len(set(words)) == len(words)
    for i, words_of_one in enumerate(words):
        assert not any(words_of_one[: len(earlier)] == earlier for earlier in words[:i]), (
            f"{words_of_one} is never reached"
        )


# --- mutations --------------------------------------------------------------------------------------------------------

VALID = [
    "EXPLAIN FORMATTED SELECT k, percentile_cont(0.5) WITHIN GROUP (ORDER BY x DESC) FROM t NATURAL JOIN u WHERE (x, k) IN (SELECT 1, 'a') GROUP BY k",
    "SELECT x FROM t TABLESAMPLE (BUCKET 1 OUT OF 3) AS s, (SELECT 1) TABLESAMPLE (5 ROWS) r",
    "SHOW PARTITIONS t PARTITION (k = 'a')",
    "DESCRIBE TABLE EXTENDED t",
    "INSERT OVERWRITE t PARTITION (k = 'a') SELECT x FROM t",
    "CREATE TABLE IF NOT EXISTS u LIKE t USING delta TBLPROPERTIES (a = 'b') LOCATION 'memory://like/u'",
    "SELECT k, count(*) AS n, sum(x) FROM t WHERE x > 1 AND k LIKE 'a%' GROUP BY k HAVING count(*) > 0 ORDER BY n DESC LIMIT 5",
    "SELECT k AS a, a || 'x' AS b, count(*) FROM t, LATERAL (SELECT t.x + 1 AS y) l WHERE y > 1 GROUP BY ALL ORDER BY ALL DESC",
    "SELECT * FROM (SELECT k, x FROM t) PIVOT (max(x) AS m, count(*) AS n FOR k IN ('a' AS one, 'b'))",
    "SELECT * FROM t UNPIVOT INCLUDE NULLS ((v) FOR n IN ((k) AS a, (k) AS b)) AS u",
    "WITH a AS (SELECT x + 1 AS y FROM t) SELECT DISTINCT a.y FROM a LEFT JOIN t b ON a.y = b.x UNION ALL SELECT 1",
    "SELECT * EXCEPT (k) FROM t VERSION AS OF 0 JOIN (SELECT k FROM t) USING (k) WHERE x IN (SELECT max(x) FROM t)",
    "INSERT INTO t (k, x) VALUES ('a', 1), (NULL, DEFAULT)",
    "INSERT INTO t BY NAME SELECT x, CASE WHEN x > 1 THEN 'a' ELSE k END AS k FROM t",
    "UPDATE t AS s SET s.x = s.x + 1, k = DEFAULT WHERE s.k = 'it''s' OR s.x BETWEEN 1 AND 2",
    "OPTIMIZE t FULL ZORDER BY (x, k)",
    "DELETE FROM t WHERE k = 'a' AND NOT (x < 3) /* all */ -- of them",
    "DELETE FROM t z WHERE x IN (SELECT max(o.x) FROM t o) AND NOT EXISTS (SELECT 1 FROM t o WHERE o.k <=> z.k AND o.x > 1)",
    "MERGE INTO t USING (SELECT 'a' AS k, 1 AS x) s ON t.k = s.k WHEN MATCHED AND s.x > 1 THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT (k, x) VALUES (s.k, DEFAULT)",
    "CREATE OR REPLACE TABLE u (a DECIMAL(5, 2) NOT NULL COMMENT 'c', b ARRAY<STRUCT<x: INT>>, c INT GENERATED ALWAYS AS (1 + 1)) PARTITIONED BY (c) TBLPROPERTIES ('a' = 'b')",
    "ALTER TABLE t ADD COLUMNS (n INT, s STRUCT<p: STRING>)",
    "ALTER TABLE t REPLACE COLUMNS (x INT COMMENT 'c', n STRUCT<p: STRING>, k STRING)",
    "ALTER TABLE t SET TBLPROPERTIES ('a.b' = 1, c = TRUE)",
    "ALTER TABLE t ALTER COLUMN x COMMENT 'c', k FIRST",
    "CREATE OR REPLACE TABLE u SHALLOW CLONE t VERSION AS OF 0 TBLPROPERTIES ('a' = 'b')",
    "FSCK REPAIR TABLE t DRY RUN",
    "GENERATE symlink_format_manifest FOR TABLE t",
    "RESTORE TABLE t TO VERSION AS OF 0",
    "VACUUM t LITE RETAIN 200 HOURS DRY RUN",
    "VACUUM t USING INVENTORY (SELECT 'a' AS path, 1 AS length, FALSE AS isDir, 1 AS modificationTime)",
    "DESCRIBE HISTORY t LIMIT 3",
    "SHOW TBLPROPERTIES t",
    "WITH c AS (SELECT 'a' AS k, 1 AS x) INSERT INTO t SELECT * FROM c",
    "WITH c AS (SELECT 'a' AS k, 1 AS x) MERGE INTO t USING c ON t.k = c.k WHEN MATCHED THEN UPDATE SET x = c.x >> 1",
    "ALTER TABLE t CHANGE COLUMN k k STRING COMMENT 'c'",
    "ALTER TABLE t ADD INDEX ON (k)",
]  # fmt: skip
_BITS = [
    "(",
    ")",
    ",",
    ";",
    "'",
    '"',
    "`",
    ".",
    "*",
    "\\",
    "--",
    "/*",
    "1e400",
    "NULL",
    "SELECT",
    "FROM",
    "t",
    "x",
    "é",
    "\0",
    "9" * 40,
]


def mutated(chance: random.Random, text: str) -> str:
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        words = text.split(" ")
        i, j = chance.randrange(len(words)), chance.randrange(len(words))
        match chance.randrange(5):
            case 0:
                del words[i]
            case 1:
                words[i], words[j] = words[j], words[i]
            case 2:
                words.insert(i, chance.choice(_BITS))
            case 3:
                words.insert(i, words[j])
            case _:
                offset = chance.randrange(len(text) + 1)
                words = [text[:offset] + chance.choice(_BITS) + text[offset + chance.randrange(3) :]]
        text = " ".join(words)
    return text


def test_mutations_end_in_a_result_or_a_typed_error(tmp_table: Callable[[], str]) -> None:
    chance = random.Random(20240229)
    where = tmp_table()
    made, refused = 0, 0
    for round_ in range(600):
        if round_ % 40 == 0:
            where = tmp_table()
            write_deltalake(where, pa.table({"k": ["a", "b", None], "x": pa.array([1, 2, 3], pa.int32())}))
        text = mutated(chance, chance.choice(VALID))
        try:
            sql(text, tables={"t": where, "u": f"{where}-u"})
            made += 1
        except DeltaError:
            refused += 1
        except Exception as e:
            raise AssertionError(f"{type(e).__name__} for: {text}") from e
    assert min(made, refused) > 10, (made, refused)


def test_mutations_are_read_or_refused() -> None:
    # parsing alone is fast, so this loop tries a larger number
    chance = random.Random(7)
    for _ in range(6000):
        text = mutated(chance, chance.choice(VALID))
        try:
            command_of(text)
        except DeltaError:
            continue
        except Exception as e:
            raise AssertionError(f"{type(e).__name__} for: {text}") from e


# --- text back from trees ---------------------------------------------------------------------------------------------


def test_what_is_written_reads_as_the_same_tree() -> None:
    shown = 0
    texts = [
        *cases.EXPRESSIONS, "x = 'it''s \\\\ \\n \\% \"q\"' AND `a``b`.`c d` <> 5S", "x IN (1, 2L, 3.5, 1e5, 2D, 1.5F, 7Y, -3, 5BD)",
        "x LIKE 'a!%' ESCAPE '!' OR NOT x IS NULL", "x = X'00ff' AND y = true AND z <=> NULL", "cast(x AS decimal(5,2)) > -1.50",
    ]  # fmt: skip
    for text in texts:
        tree = parse(text)
        made = unparse(tree)
        if made is not None:
            shown += 1
            assert parse(made) == tree, text
    assert shown > 40


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("t.x + T.`x` > u.x", "x + `x` > u.x"),
        ("x = 't.x' -- t.x", "x = 't.x'"),
        ("a.t.x = 1 AND t . x = 2", "a.t.x = 1 AND x = 2"),
        ("t.y = 1", "t.y = 1"),
        ("f(t.x, t.x.z)", "f(x, x.z)"),
        ("t", "t"),
    ],
)
def test_the_tables_name_goes_where_it_is_one(text: str, expected: str) -> None:
    cursor = Grammar(text)
    assert unqualified(cursor.tokens, text, [("t",)], {"x"}) == expected
