"""Rows that Spark writes are read equally by Spark, the data source and Arrow: all types, partition
values, names, schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deltaplane import DeltaTable
from deltaplane import spark as dp

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

COLUMNS = """
    b boolean, i8 tinyint, i16 smallint, i32 int, i64 bigint, f32 float, f64 double, d9 decimal(9,2), d18 decimal(18,3),
    d38 decimal(38,10), s string, bin binary, day date, ts timestamp, ntz timestamp_ntz,
    items array<struct<name: string, price: decimal(10,2), tags: array<string>>>, props map<string, struct<n: int>>,
    nested struct<a: int, b: struct<c: string>>
"""
ROW = """
    SELECT true, 1Y, -2S, 3, -4L, 1.5F, -2.25D, 1234567.89BD, 123456789012345.678BD,
    CAST('-1234567890123456789012345678.0123456789' AS decimal(38,10)), 'é"\\n', X'00FF', DATE'2024-02-29',
    TIMESTAMP'2024-03-10 03:30:00.123456', TIMESTAMP_NTZ'2024-03-10 02:30:00.123456',
    array(named_struct('name', 'x', 'price', 1.25BD, 'tags', array('p', NULL)), NULL), map('k', named_struct('n', 7)),
    named_struct('a', 1, 'b', named_struct('c', NULL))
"""
EXTREME = """
    SELECT false, -128Y, 32767S, -2147483648, 9223372036854775807L, CAST('NaN' AS float), CAST('-Infinity' AS double),
    -9999999.99BD, -999999999999999.999BD, CAST('9999999999999999999999999999.9999999999' AS decimal(38,10)), '', X'',
    DATE'0001-01-01', TIMESTAMP'0001-01-02 00:00:00', TIMESTAMP_NTZ'9999-12-31 23:59:59.999999', array(), map(), NULL
"""


def every_type(spark: SparkSession) -> DataFrame:
    nulls = "SELECT " + ", ".join(["NULL"] * 18)
    return cast_to(spark.sql(f"{ROW} UNION ALL {EXTREME} UNION ALL {nulls}"), COLUMNS)


def cast_to(rows: DataFrame, columns: str) -> DataFrame:
    """The rows with the names and types of a DDL text."""
    from pyspark.sql.types import StructType

    schema = StructType.fromDDL(columns)
    by_place = rows.toDF(*[f"c{i}" for i in range(len(schema))])
    return by_place.select(*[by_place[f"c{i}"].cast(f.dataType).alias(f.name) for i, f in enumerate(schema.fields)])


def texts(df: DataFrame) -> list[str]:
    """Rows as sorted text, including NaN."""
    return sorted(str(row) for row in df.collect())


@pytest.mark.usefixtures("in_new_york")
@pytest.mark.usefixtures("sources")
def test_all_types_survive_in_a_zone_with_daylight_saving(spark: SparkSession, path: str) -> None:
    df = every_type(spark)
    assert dp.write(df, path).version == 0
    native = dp.read(spark, path)
    assert native.schema == df.schema
    assert texts(native) == texts(df)
    source = spark.read.format("deltaplane").load(path)
    assert source.schema == df.schema
    assert texts(source) == texts(df)


@pytest.mark.usefixtures("in_new_york")
def test_timestamps_are_instants_and_ntz_is_not(spark: SparkSession, path: str) -> None:
    dp.write(spark.sql("SELECT TIMESTAMP'2024-03-10 03:30:00' AS ts, TIMESTAMP_NTZ'2024-03-10 02:30:00' AS ntz"), path)
    [row] = DeltaTable(path).to_pyarrow_table().to_pylist()
    assert row["ts"].isoformat() == "2024-03-10T07:30:00+00:00"
    assert row["ntz"].isoformat() == "2024-03-10T02:30:00"


PARTITION_VALUES = {
    "boolean": ["true", "false"],
    "tinyint": ["-128Y", "127Y"],
    "smallint": ["-32768S", "1S"],
    "int": ["-1", "2147483647"],
    "bigint": ["-9223372036854775807L", "5L"],
    "float": ["1.5F", "CAST('NaN' AS float)", "CAST('-Infinity' AS float)"],
    "double": ["1e20D", "-0.1D", "CAST('NaN' AS double)"],
    "decimal(9,2)": ["-0.05BD", "1234567.89BD"],
    "decimal(38,10)": ["CAST('-1234567890123456789012345678.0123456789' AS decimal(38,10))", "128BD", "-1BD"],
    "string": ["'a/b'", "'a%2Fb'", "'x=y z'", "'é}'", "'__x'", "'2024-01-01'"],
    "binary": ["X'6162'", "X'2F25'"],
    "date": ["DATE'2024-02-29'", "DATE'0001-01-01'", "DATE'9999-12-31'"],
    "timestamp": ["TIMESTAMP'2024-03-10 03:30:00.123456'", "TIMESTAMP'1969-12-31 23:59:59'"],
    "timestamp_ntz": ["TIMESTAMP_NTZ'2024-03-10 02:30:00.123456'", "TIMESTAMP_NTZ'2024-01-01 00:00:00'"],
}


@pytest.mark.usefixtures("in_new_york")
@pytest.mark.parametrize("kind", PARTITION_VALUES)
@pytest.mark.usefixtures("sources")
def test_partition_values_of_every_type(spark: SparkSession, path: str, kind: str) -> None:
    values = [*PARTITION_VALUES[kind], "NULL"]
    rows = " UNION ALL ".join(f"SELECT {i}, {value}" for i, value in enumerate(values))
    df = cast_to(spark.sql(rows), f"n int, p {kind}")
    dp.write(df, path, partition_by="p")
    native, source = dp.read(spark, path), spark.read.format("deltaplane").load(path)
    assert native.columns == ["n", "p"]
    assert texts(native) == texts(df) == texts(source)
    for i, value in enumerate(values):
        wanted = f"p <=> CAST({value} AS {kind})"
        assert [r.n for r in native.where(wanted).collect()] == [i], wanted
        assert [r.n for r in source.where(wanted).collect()] == [i], wanted


def test_names_columns_order_comments_and_not_null(spark: SparkSession, path: str) -> None:
    ddl = "`z.dot` int NOT NULL COMMENT 'first', `Ünï-code` string, `p.q` string, A_b struct<`x.y`: int>, `back``tick` int"
    df = cast_to(spark.sql("SELECT 1, 'a', 'P', named_struct('x.y', 5), 9 UNION ALL SELECT 2, 'b', 'Q', NULL, 8"), ddl)
    from pyspark.sql.types import StructType

    df = spark.createDataFrame(df.collect(), StructType.fromDDL(ddl))
    dp.write(df, path, partition_by="p.q")
    back = dp.read(spark, path)
    assert back.schema == df.schema
    assert json.loads(DeltaTable(path).schema().to_json())["fields"][0]["metadata"] == {"comment": "first"}
    assert texts(back) == texts(df)
    assert back.where("`p.q` = 'Q' AND `z.dot` = 2 AND `back``tick` = 8").count() == 1
    assert back.where("a_B.`x.y` = 5").select("`Ünï-code`").collect()[0][0] == "a"


@pytest.mark.usefixtures("sources")
def test_int96_files_of_other_writers(spark: SparkSession, tmp_path: Path, path: str) -> None:
    # The second setting's value is Spark 4's default.
    settings = {"outputTimestampType": "INT96", "int96RebaseModeInWrite": "CORRECTED"}
    for key, value in settings.items():
        spark.conf.set(f"spark.sql.parquet.{key}", value)
    try:
        df = spark.sql(
            "SELECT explode(array(TIMESTAMP'0001-01-02 03:04:05Z', TIMESTAMP'9999-12-30 00:00:00.000001Z')) AS ts"
        )
        df.coalesce(1).write.parquet(str(tmp_path / "files"))
    finally:
        for key in settings:
            spark.conf.unset(f"spark.sql.parquet.{key}")
    dp.write(df.limit(0), path)
    [file] = (tmp_path / "files").glob("*.parquet")
    file.rename(Path(path) / "int96.parquet")
    commit = {"add": {"path": "int96.parquet", "partitionValues": {}, "size": (Path(path) / "int96.parquet").stat().st_size,
                      "modificationTime": 0, "dataChange": True}}  # fmt: skip
    (Path(path) / "_delta_log" / f"{1:020}.json").write_text(json.dumps(commit))
    assert texts(dp.read(spark, path)) == texts(df) == texts(spark.read.format("deltaplane").load(path))


def test_decimal_and_long_partition_rows_match_arrow(spark: SparkSession, path: str) -> None:
    df = cast_to(spark.sql("SELECT id, id % 7, id * 1.1 FROM range(100)"), "id bigint, p bigint, v decimal(20,4)")
    dp.write(df, path, partition_by=["p", "v"])
    rows: list[Any] = sorted((r["id"], r["p"], r["v"]) for r in DeltaTable(path).to_pyarrow_table().to_pylist())
    assert rows == sorted((r.id, r.p, r.v) for r in dp.read(spark, path).collect())
