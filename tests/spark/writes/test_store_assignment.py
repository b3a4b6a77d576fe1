"""`spark.sql.storeAssignmentPolicy`: every command that stores values casts them by the session's
policy, with Spark's own casts as the oracle."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

import deltaplane
from deltaplane import spark as dp
from deltaplane.exceptions import ConstraintViolationError, DeltaError
from deltaplane.spark.execution.store_cast import stored_by_position
from sparks import is_at_least

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]

POLICY = "spark.sql.storeAssignmentPolicy"
FOLLOWS_ANSI = "spark.databricks.delta.updateAndMergeCastingFollowsAnsiEnabledFlag"

# Values by column name, and the types in which they are stored: most are out of range everywhere.
VALUES = {
    "big": ("3000000000L", "int"),
    "word": ("'abc'", "int"),
    "rounded": ("1.7D", "int"),
    "huge": ("1e20D", "bigint"),
    "day": ("DATE'2020-01-02'", "int"),
    "decimals": ("CAST(12345678.90 AS DECIMAL(10,2))", "decimal(5,2)"),
    "maybe": ("'maybe'", "boolean"),
    "no_day": ("'x'", "date"),
    "infinite": ("1e300D", "float"),
    "small": ("300", "tinyint"),
    "instant": ("TIMESTAMP'2020-01-02 03:04:05'", "bigint"),
    "struct": ("named_struct('a', 3000000000L)", "struct<a: int>"),
    "list": ("array(3000000000L, 7L)", "array<int>"),
    "words": ("array('abc', '8')", "array<int>"),
    "map": ("map('k', 3000000000L)", "map<string, int>"),
    "nested": ("named_struct('a', array(named_struct('b', 'zz')))", "struct<a: array<struct<b: int>>>"),
}

Command = Callable[["SparkSession", str, "list[str]", "list[str]"], Any]


def _frame(spark: SparkSession) -> DataFrame:
    return spark.table("new_values")


def _sets(columns: list[str], values: list[str]) -> str:
    return ", ".join(f"{column} = {value}" for column, value in zip(["id", *columns], ["1", *values], strict=True))


# Each command that obeys the policy, over a table at a path and the view `new_values` with the same
# columns.
COMMANDS: dict[str, Command] = {
    "select": lambda s, t, c, v: s.sql(f"INSERT INTO {t} SELECT * FROM new_values"),
    "values": lambda s, t, c, v: s.sql(f"INSERT INTO {t} VALUES (1, {', '.join(v)})"),
    "columns": lambda s, t, c, v: s.sql(
        f"INSERT INTO {t} ({', '.join(c)}, id) SELECT {', '.join(c)}, id FROM new_values"
    ),
    "by name": lambda s, t, c, v: s.sql(f"INSERT INTO {t} BY NAME SELECT {', '.join(c)}, id FROM new_values"),
    "overwrite": lambda s, t, c, v: s.sql(f"INSERT OVERWRITE {t} SELECT * FROM new_values"),
    "replace where": lambda s, t, c, v: s.sql(f"INSERT INTO {t} REPLACE WHERE id = 1 SELECT * FROM new_values"),
    "update": lambda s, t, c, v: s.sql(f"UPDATE {t} SET {_sets(c, v)}"),
    "merge update": lambda s, t, c, v: s.sql(
        f"MERGE INTO {t} USING new_values AS s ON true WHEN MATCHED THEN UPDATE SET {_sets(c, [f's.{n}' for n in c])}"
    ),
    "merge insert": lambda s, t, c, v: s.sql(
        f"MERGE INTO {t} AS t USING new_values AS s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
    ),
    "insertInto": lambda s, t, c, v: _frame(s).write.insertInto(t),
    "insertInto overwrite": lambda s, t, c, v: _frame(s).write.insertInto(t, overwrite=True),
}
if is_at_least("4.0"):
    COMMANDS["mergeInto"] = lambda s, t, c, v: (
        _frame(s).mergeInto(t, F.expr("false")).whenNotMatched().insertAll().merge()
    )
# By-name commands that cast rows unless these are refused before.
COMMANDS |= {
    "saveAsTable": lambda s, t, c, v: _frame(s).write.format("delta").mode("append").saveAsTable(t),
    "saveAsTable that merges": lambda s, t, c, v: (
        _frame(s).write.format("delta").mode("append").option("mergeSchema", "true").saveAsTable(t)
    ),
    "writeTo": lambda s, t, c, v: _frame(s).writeTo(t).append(),
    "writeTo that merges": lambda s, t, c, v: _frame(s).writeTo(t).option("mergeSchema", "true").append(),
    "writeTo overwrite": lambda s, t, c, v: _frame(s).writeTo(t).overwrite(F.expr("true")),
    "writeTo overwritePartitions": lambda s, t, c, v: _frame(s).writeTo(t).overwritePartitions(),
}


def _made(spark: SparkSession, path: str, types: dict[str, str]) -> str:
    """A table with one row of nulls, in the form for statements."""
    columns = ", ".join(["id int", *(f"{name} {type_name}" for name, type_name in types.items())])
    spark.sql(f"CREATE TABLE delta.`{path}` ({columns}) USING delta")
    spark.sql(f"INSERT INTO delta.`{path}` (id) VALUES (0)")
    return f"delta.`{path}`"


def _new_values(spark: SparkSession, values: dict[str, str]) -> None:
    frame = spark.range(1).selectExpr("1 AS id", *(f"{value} AS {name}" for name, value in values.items()))
    frame.createOrReplaceTempView("new_values")


def _row(path: str) -> dict[str, Any]:
    (row,) = (row for row in deltaplane.DeltaTable(path).to_pyarrow_table().to_pylist() if row["id"] == 1)
    return dict(row)


def test_legacy_casts_never_fail(spark: SparkSession, tmp_path: Path, conf: dict[str, str]) -> None:
    """Each command stores the results of Spark's own casts in queries with `spark.sql.ansi.enabled`
    off."""
    types = {name: type_name for name, (_, type_name) in VALUES.items()}
    conf["spark.sql.ansi.enabled"] = "false"
    wanted = spark.range(1).selectExpr(
        "1 AS id", *(f"CAST({v} AS {type_name}) AS {n}" for n, (v, type_name) in VALUES.items())
    )
    dp.write(wanted, str(tmp_path / "wanted"))
    expected = _row(str(tmp_path / "wanted"))
    assert (expected["big"], expected["word"], expected["rounded"], expected["words"]) == (
        -1294967296,
        None,
        1,
        [None, 8],
    )
    conf["spark.sql.ansi.enabled"] = "true"
    conf[POLICY] = "legacy"
    empty = _made(spark, str(tmp_path / "empty"), types)
    assert spark.table(empty).count() == 1
    for name, run in COMMANDS.items():
        path = str(tmp_path / name)
        spark.sql(f"CREATE TABLE delta.`{path}` SHALLOW CLONE {empty}")
        _new_values(spark, {n: v for n, (v, _) in VALUES.items()})
        run(spark, f"delta.`{path}`", list(VALUES), [value for value, _ in VALUES.values()])
        assert _row(path) == expected, name


def test_strict_refuses_what_may_not_fit(spark: SparkSession, tmp_path: Path, conf: dict[str, str]) -> None:
    wider = _made(spark, str(tmp_path / "wider"), {"v": "bigint", "w": "string"})
    narrower = _made(spark, str(tmp_path / "narrower"), {"v": "int"})
    conf[POLICY] = "STRICT"
    for name, run in COMMANDS.items():
        _new_values(spark, {"v": "3L"})
        with pytest.raises(DeltaError) as refused:
            run(spark, narrower, ["v"], ["3L"])
        error: Any = refused.value
        assert error.getCondition() == "CANNOT_UP_CAST_DATATYPE", name
        assert isinstance(error, PySparkException)
    assert len(deltaplane.DeltaTable(str(tmp_path / "narrower")).history()) == 2
    for name, run in COMMANDS.items():
        path = str(tmp_path / name)
        spark.sql(f"CREATE TABLE delta.`{path}` SHALLOW CLONE {wider}")
        _new_values(spark, {"v": "3", "w": "5"})
        run(spark, f"delta.`{path}`", ["v", "w"], ["3", "5"])
        assert _row(path) == {"id": 1, "v": 3, "w": "5"}, name


def test_strict_takes_what_spark_calls_an_up_cast(spark: SparkSession, conf: dict[str, str]) -> None:
    conf[POLICY] = "STRICT"
    simple = "boolean tinyint smallint int bigint float double decimal(5,2) decimal(20,2) string binary date timestamp".split()
    types = [
        *simple,
        "timestamp_ntz",
        "array<int>",
        "array<bigint>",
        "map<string,int>",
        "struct<a:int>",
        "struct<a:bigint>",
    ]
    jvm: Any = spark._jvm
    casts = jvm.org.apache.spark.sql.catalyst.expressions.Cast
    schemas = {type_name: spark.createDataFrame([], f"v {type_name}").schema for type_name in types}
    parsed = {type_name: jvm.org.apache.spark.sql.types.DataType.fromDDL(type_name) for type_name in types}
    for old in types:
        rows = spark.createDataFrame([], schemas[old])
        for new in types:
            if casts.canUpCast(parsed[old], parsed[new]):
                assert stored_by_position(rows, schemas[new]).schema == schemas[new]
                continue
            with pytest.raises(DeltaError, match="CANNOT_UP_CAST_DATATYPE"):
                stored_by_position(rows, schemas[new])


def test_what_a_cast_makes_null_breaks_not_null(spark: SparkSession, tmp_path: Path, conf: dict[str, str]) -> None:
    conf[POLICY] = "LEGACY"
    path = str(tmp_path / "t")
    spark.sql(f"CREATE TABLE delta.`{path}` (id int, v int NOT NULL) USING delta")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (0, 1)")
    _new_values(spark, {"v": "'abc'"})
    for name in ("select", "values", "update", "merge insert", "writeTo"):
        with pytest.raises(ConstraintViolationError):
            COMMANDS[name](spark, f"delta.`{path}`", ["v"], ["'abc'"])
    assert len(deltaplane.DeltaTable(path).history()) == 2


def test_update_and_merge_may_follow_ansi(spark: SparkSession, tmp_path: Path, conf: dict[str, str]) -> None:
    table = _made(spark, str(tmp_path / "t"), {"v": "int"})
    _new_values(spark, {"v": "'abc'"})
    conf[FOLLOWS_ANSI] = "true"
    conf["spark.sql.ansi.enabled"] = "false"
    for name in ("update", "merge update", "merge insert"):
        spark.sql(f"UPDATE {table} SET id = 0, v = 7")
        COMMANDS[name](spark, table, ["v"], ["'abc'"])
        assert _row(str(tmp_path / "t")) == {"id": 1, "v": None}, name
        spark.sql(f"DELETE FROM {table} WHERE id = 0")
    with pytest.raises(PySparkException, match="CAST_INVALID_INPUT"):
        COMMANDS["select"](spark, table, ["v"], ["'abc'"])
    conf[POLICY] = "LEGACY"
    conf["spark.sql.ansi.enabled"] = "true"
    with pytest.raises(PySparkException, match="CAST_INVALID_INPUT"):
        COMMANDS["update"](spark, table, ["v"], ["'abc'"])


# Values, the types in which they are stored, and what delta-spark 4.4 stores by each policy, or the
# condition of its refusal, when a stream appends them.
_OVERFLOWS, _UP_CAST, _UNLIKE = (
    "CAST_OVERFLOW_IN_TABLE_INSERT",
    "CANNOT_UP_CAST_DATATYPE",
    "DELTA_FAILED_TO_MERGE_FIELDS",
)
STREAMED: list[tuple[str, str, Any, Any, Any]] = [
    # value, type, ANSI, LEGACY, STRICT
    ("3000000000L", "int", _OVERFLOWS, -1294967296, _UP_CAST),
    ("'abc'", "int", "CAST_INVALID_INPUT", None, _UP_CAST),
    ("'12'", "int", 12, 12, _UP_CAST),
    ("1.7D", "int", 1, 1, _UP_CAST),
    ("CAST(12345678.90 AS DECIMAL(10,2))", "decimal(5,2)", _OVERFLOWS, None, _UP_CAST),
    ("300", "tinyint", _OVERFLOWS, 44, _UP_CAST),
    ("3", "bigint", 3, 3, 3),
    ("3", "string", "3", "3", "3"),
    ("named_struct('a', 3000000000L)", "struct<a: int>", _OVERFLOWS, {"a": -1294967296}, _UP_CAST),
    ("array(3000000000L, 7L)", "array<int>", _OVERFLOWS, [-1294967296, 7], _UP_CAST),
    ("array('7')", "array<int>", [7], [7], _UP_CAST),
    ("DATE'2020-01-02'", "int", _UNLIKE, _UNLIKE, _UNLIKE),
]
# Types of other families, which delta-spark refuses by each policy.
UNLIKE = [
    ("true", "int"),
    ("1", "boolean"),
    ("TIMESTAMP'2020-01-02 03:04:05'", "bigint"),
    ("5L", "timestamp"),
    ("'true'", "boolean"),
    ("array(true)", "array<int>"),
    ("named_struct('a', DATE'2020-01-02')", "struct<a: int>"),
    ("5", "array<int>"),
]


def _stream(spark: SparkSession, folder: Path, table: Path, value: str, *, by_batches: bool) -> None:
    """Appends one row with this value to a table by a stream that reads Parquet files."""
    files = folder / "files"
    if not files.exists():
        spark.sql("SELECT 1 AS id").write.parquet(str(files))
    rows = spark.readStream.schema("id int").parquet(str(files)).selectExpr("id", f"{value} AS c")
    writer = rows.writeStream.option("checkpointLocation", f"{table}_checkpoint").trigger(availableNow=True)
    if by_batches:

        def insert(batch: DataFrame, _: int) -> None:
            batch.createOrReplaceTempView("of_batch")
            batch.sparkSession.sql(f"INSERT INTO delta.`{table}` SELECT * FROM of_batch")

        query = writer.foreachBatch(insert).start()
    else:
        query = writer.format("delta").start(str(table))
    query.awaitTermination(60)


@pytest.mark.parametrize("policy", ["ANSI", "LEGACY", "STRICT"])
def test_a_stream_casts_by_the_policy_within_families_of_types(
    spark: SparkSession, tmp_path: Path, conf: dict[str, str], policy: str
) -> None:
    cases = [
        (value, kind, dict(zip(("ANSI", "LEGACY", "STRICT"), wanted, strict=True))[policy])
        for value, kind, *wanted in STREAMED
    ]
    if policy == "LEGACY":
        cases += [(value, kind, _UNLIKE) for value, kind in UNLIKE]
    conf[POLICY] = policy
    for number, (value, kind, wanted) in enumerate(cases):
        table = tmp_path / f"t{number}"
        spark.sql(f"CREATE TABLE delta.`{table}` (id int, c {kind}) USING delta")
        if isinstance(wanted, str) and wanted.isupper():
            with pytest.raises(PySparkException, match=wanted):
                _stream(spark, tmp_path, table, value, by_batches=False)
            assert deltaplane.DeltaTable(str(table)).version() == 0
        else:
            _stream(spark, tmp_path, table, value, by_batches=False)
            assert _row(str(table)) == {"id": 1, "c": wanted}, value


def test_an_insert_of_a_streams_batch_casts_by_the_policy(
    spark: SparkSession, tmp_path: Path, conf: dict[str, str]
) -> None:
    for policy, wanted in (("LEGACY", -1294967296), ("ANSI", _OVERFLOWS), ("STRICT", _UP_CAST)):
        table = tmp_path / policy
        spark.sql(f"CREATE TABLE delta.`{table}` (id int, c int) USING delta")
        conf[POLICY] = policy
        if isinstance(wanted, str):
            with pytest.raises(PySparkException, match=wanted):
                _stream(spark, tmp_path, table, "3000000000L", by_batches=True)
        else:
            _stream(spark, tmp_path, table, "3000000000L", by_batches=True)
            assert _row(str(table)) == {"id": 1, "c": wanted}


def test_fields_of_cast_structs_are_matched_by_name_by_name(spark: SparkSession, tmp_path: Path) -> None:
    """INSERT BY NAME matches fields by name at every depth, with a cast and without; delta-spark
    4.4 matches them by position where it casts."""
    table = f"delta.`{tmp_path / 't'}`"
    pair = "struct<x: int, y: string>"
    spark.sql(f"CREATE TABLE {table} (id int, l array<{pair}>, ll array<array<{pair}>>, s {pair}) USING delta")
    for y, x in (("'2'", "1"), ("2", "1"), ("2L", "'1'")):
        swapped = f"named_struct('y', {y}, 'x', {x})"
        query = f"SELECT 1 AS id, array({swapped}) AS l, array(array({swapped})) AS ll, {swapped} AS s"
        spark.sql(f"INSERT INTO {table} BY NAME {query}")
        by_name = {"x": 1, "y": "2"}
        assert _row(str(tmp_path / "t")) == {"id": 1, "l": [by_name], "ll": [[by_name]], "s": by_name}
        spark.sql(f"DELETE FROM {table}")


def test_listed_columns_take_fields_within_arrays_and_maps_by_name(spark: SparkSession, tmp_path: Path) -> None:
    """delta-spark 4.4 casts a struct by position, and leaves an array or a map that has the names
    and types of its column as it is, so that its fields have the values of their names."""
    table = f"delta.`{tmp_path / 't'}`"
    pair = "struct<x: int, y: int>"
    spark.sql(
        f"CREATE TABLE {table} (id int, l array<{pair}>, m map<string, {pair}>, s {pair}, q struct<l: array<{pair}>, z: int>) "
        "USING delta"
    )
    swapped = "named_struct('y', 2, 'x', 1)"
    by_name, by_place = {"x": 1, "y": 2}, {"x": 2, "y": 1}
    inserted = {
        f"(id, l) VALUES (1, array({swapped}))": ("l", [by_name]),
        f"(id, l) SELECT 1, array({swapped})": ("l", [by_name]),
        f"(id, m) VALUES (1, map('k', {swapped}))": ("m", [("k", by_name)]),
        f"(id, q) VALUES (1, named_struct('a', array({swapped}), 'z', 5))": ("q", {"l": [by_name], "z": 5}),
        f"(id, s) VALUES (1, {swapped})": ("s", by_place),
        "(id, l) VALUES (1, array(named_struct('y', 2L, 'x', 1)))": ("l", [by_place]),
        f"VALUES (1, array({swapped}), NULL, NULL, NULL)": ("l", [by_place]),
        f"BY NAME SELECT 1 AS id, array({swapped}) AS l, {swapped} AS s": ("s", by_name),
    }
    for rest, (column, wanted) in inserted.items():
        spark.sql(f"INSERT INTO {table} {rest}")
        assert _row(str(tmp_path / "t"))[column] == wanted, rest
        spark.sql(f"DELETE FROM {table}")


def test_writes_by_name_that_take_new_columns_cast_the_others(enabled: SparkSession, path: str) -> None:
    enabled.sql(
        f"CREATE TABLE delta.`{path}` (id INT, s STRUCT<a: INT, b: STRING>, l ARRAY<STRUCT<x: INT>>) USING delta"
    )
    rows = enabled.sql(
        "SELECT '4' AS id, named_struct('b', 5, 'c', 6) AS s, array(named_struct('x', 7L, 'y', 8)) AS l, 9 AS new"
    )
    rows.writeTo(f"delta.`{path}`").option("mergeSchema", "true").append()
    [row] = enabled.read.format("delta").load(path).collect()
    assert row.asDict(recursive=True) == {
        "id": 4,
        "s": {"a": None, "b": "5", "c": 6},
        "l": [{"x": 7, "y": 8}],
        "new": 9,
    }
    nested = enabled.sql("SELECT array(1) AS id")
    with pytest.raises(PySparkException, match="DELTA_FAILED_TO_MERGE_FIELDS"):
        nested.writeTo(f"delta.`{path}`").option("mergeSchema", "true").append()


def test_mode_ignore_takes_any_rows_where_a_table_is(enabled: SparkSession, path: str) -> None:
    twice = enabled.sql("SELECT 3 AS id, 4 AS id")
    with pytest.raises(PySparkException, match="DELTA_DUPLICATE_COLUMNS_FOUND"):
        twice.write.format("delta").mode("ignore").save(path)
    enabled.range(1).write.format("delta").save(path)
    twice.write.format("delta").mode("ignore").save(path)
    assert enabled.read.format("delta").load(path).count() == 1
