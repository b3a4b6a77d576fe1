"""Columns of the type void on Spark: only nulls, until later data gives them a type. Expected
values are those of delta-spark 4.4.0."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, PySparkException

from deltaplane import DeltaTable, exceptions
from sparks import needs_spark

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def shown(frame: DataFrame) -> tuple[str, list[tuple[object, ...]]]:
    return frame.schema.simpleString(), sorted((tuple(row) for row in frame.collect()), key=repr)


@needs_spark("4.1", "can't read columns of type void from Parquet files, which is refused")
def test_a_void_column_is_there_and_takes_the_first_type(enabled: SparkSession, name: str) -> None:
    enabled.sql(f"CREATE TABLE {name} (id INT, n VOID) USING delta")
    assert [(row.col_name, row.data_type) for row in enabled.sql(f"DESCRIBE {name}").collect()][:2] == [
        ("id", "int"),
        ("n", "void"),
    ]
    enabled.sql(f"INSERT INTO {name} VALUES (1, NULL)")
    enabled.sql(f"INSERT INTO {name} (id) VALUES (2)")
    assert shown(enabled.table(name)) == ("struct<id:int,n:void>", [(1, None), (2, None)])
    with pytest.raises(AnalysisException, match="values are given") as too_few:
        enabled.sql(f"INSERT INTO {name} VALUES (3)")
    assert too_few.value.getCondition() == "DELTA_INSERT_COLUMN_ARITY_MISMATCH"
    typed = enabled.sql("SELECT 3 AS id, 'x' AS n")
    with pytest.raises(exceptions.SchemaMismatchError, match="`n` has no type in the table yet") as caught:
        typed.write.format("delta").mode("append").saveAsTable(name)
    assert caught.value.getCondition() == "DELTA_METADATA_MISMATCH"  # type: ignore[attr-defined]
    typed.write.format("delta").mode("append").option("mergeSchema", "true").saveAsTable(name)
    enabled.sql(f"INSERT INTO {name} VALUES (4, 'y')")
    expected = [(1, None), (2, None), (3, "x"), (4, "y")]
    assert shown(enabled.table(name)) == ("struct<id:int,n:string>", expected)


@needs_spark("4.1", "can't read columns of type void from Parquet files, which is refused")
def test_a_query_of_null_makes_a_void_column(enabled: SparkSession, name: str) -> None:
    enabled.sql(f"CREATE TABLE {name} USING delta AS SELECT 1 AS id, NULL AS n")
    assert shown(enabled.table(name)) == ("struct<id:int,n:void>", [(1, None)])
    enabled.sql(f"UPDATE {name} SET id = 7")
    assert shown(enabled.sql(f"SELECT n, id FROM {name}")) == ("struct<n:void,id:int>", [(None, 7)])


VOIDS = {
    # Columns of a row that is appended or merged with evolution of the schema, with the condition
    # of delta-spark's refusal, or the table's type of the last column.
    "NULL AS v": "void",
    "named_struct('a', 2, 'v', NULL) AS s": "struct<a:int,v:void>",
    "named_struct('v', NULL, 'w', 1) AS z": "struct<v:void,w:int>",
    "named_struct('v', NULL) AS z": "DELTA_CANNOT_WRITE_EMPTY_SCHEMA.STRUCT_ALL_VOID_FIELDS",
    "array(NULL) AS z": "DELTA_COMPLEX_TYPE_COLUMN_CONTAINS_NULL_TYPE",
    "array(named_struct('a', 2, 'v', NULL)) AS z": "DELTA_COMPLEX_TYPE_COLUMN_CONTAINS_NULL_TYPE",
    "map('k', named_struct('a', 2, 'v', NULL)) AS z": "DELTA_COMPLEX_TYPE_COLUMN_CONTAINS_NULL_TYPE",
    "named_struct('a', 2, 'l', array(NULL)) AS s": "DELTA_COMPLEX_TYPE_COLUMN_CONTAINS_NULL_TYPE",
    "map('k', NULL) AS z": "DELTA_COMPLEX_TYPE_COLUMN_CONTAINS_NULL_TYPE",
}


@needs_spark("4.1", "can't read columns of type void from Parquet files, which is refused")
@pytest.mark.parametrize("merges", [False, True])
def test_nested_void_fields_evolve_as_in_delta_spark(enabled: SparkSession, tmp_path: Path, merges: bool) -> None:
    for number, (column, wanted) in enumerate(VOIDS.items()):
        path = str(tmp_path / str(number))
        enabled.sql(f"CREATE TABLE delta.`{path}` (id int, s struct<a: int>) USING delta")
        enabled.sql(f"INSERT INTO delta.`{path}` VALUES (1, named_struct('a', 1))")
        query = f"SELECT 2 AS id, {column}"

        def run(path: str = path, query: str = query) -> None:
            if merges:
                enabled.sql(
                    f"MERGE WITH SCHEMA EVOLUTION INTO delta.`{path}` t USING ({query}) q ON t.id = q.id "
                    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
                )
            else:
                enabled.sql(query).write.format("delta").mode("append").option("mergeSchema", "true").save(path)

        if wanted.isupper():
            with pytest.raises(PySparkException) as refused:
                run()
            assert refused.value.getCondition() == wanted
        else:
            run()
            rows = enabled.read.format("delta").load(path)
            name = column.split()[-1]
            assert rows.schema[name].dataType.simpleString() == wanted
            assert [row.id for row in rows.orderBy("id").collect()] == [1, 2]


_COMPLEX = "DELTA_COMPLEX_TYPE_COLUMN_CONTAINS_NULL_TYPE"
# Types that no file can hold, with the condition of delta-spark's refusal of their values, and a
# value that gives the column a type.
DECLARED = {
    "array<void>": (_COMPLEX, "array(7)"),
    "map<string,void>": (_COMPLEX, "map('k', 7)"),
    "array<struct<a:int,b:void>>": (_COMPLEX, "array(named_struct('a', 1, 'b', 7))"),
    "struct<a:array<void>>": (_COMPLEX, "named_struct('a', array(7))"),
    "struct<a:void>": ("DELTA_CANNOT_WRITE_EMPTY_SCHEMA.STRUCT_ALL_VOID_FIELDS", "named_struct('a', 7)"),
    "struct<a:struct<b:void>>": (
        "DELTA_CANNOT_WRITE_EMPTY_SCHEMA.STRUCT_ALL_VOID_FIELDS",
        "named_struct('a', named_struct('b', 7))",
    ),
}


@needs_spark("4.1", "can't read columns of type void from Parquet files, which is refused")
@pytest.mark.parametrize("declared", DECLARED)
def test_declared_types_that_no_file_can_hold(enabled: SparkSession, tmp_path: Path, declared: str) -> None:
    """Such a column has nulls until rows with a type come. Accepted here and refused by
    delta-spark: UPDATE, OPTIMIZE and the like where they write rows of the table again."""
    condition, typed = DECLARED[declared]
    path = str(tmp_path / "t")
    table = f"delta.`{path}`"
    enabled.sql(f"CREATE TABLE {table} (id int, c {declared}) USING delta")

    def condition_of(run: Callable[[], object]) -> str | None:
        with pytest.raises(PySparkException) as refused:
            run()
        return refused.value.getCondition()

    for statement in (
        f"INSERT INTO {table} VALUES (1, NULL)",
        f"INSERT INTO {table} SELECT 1, CAST(NULL AS {declared})",
        f"MERGE INTO {table} t USING (SELECT 1 AS id, NULL AS c) q ON t.id = q.id WHEN NOT MATCHED THEN INSERT *",
        f"CREATE TABLE delta.`{path}_2` USING delta AS SELECT * FROM {table}",
    ):
        assert condition_of(lambda statement=statement: enabled.sql(statement)) == condition, statement
    with_type = enabled.sql(f"SELECT 3 AS id, {typed} AS c")
    assert condition_of(lambda: with_type.write.format("delta").mode("append").save(path)) == "DELTA_METADATA_MISMATCH"
    assert condition_of(lambda: enabled.sql(f"INSERT INTO {table} SELECT 3, {typed}")) == "DELTA_METADATA_MISMATCH"
    assert DeltaTable(path).version() == 0
    for query in ("SELECT 1 AS id", "SELECT 2 AS id, NULL AS c"):
        enabled.sql(query).write.format("delta").mode("append").save(path)
    enabled.sql(f"UPDATE {table} SET id = 5 WHERE id = 2")
    enabled.sql(f"OPTIMIZE {table}")
    assert shown(enabled.table(table)) == (f"struct<id:int,c:{declared}>", [(1, None), (5, None)])
    assert enabled.sql(f"SELECT count(*) FROM {table} WHERE c IS NULL").first() == (2,)
    assert sorted(DeltaTable(path).to_pyarrow_table().to_pylist(), key=str) == [
        {"id": 1, "c": None},
        {"id": 5, "c": None},
    ]
    enabled.sql(f"ALTER TABLE {table} ADD COLUMN z {declared}")
    with_type.write.format("delta").mode("append").option("mergeSchema", "true").save(path)
    assert enabled.table(table).schema["c"].dataType.simpleString() == declared.replace("void", "int")
    assert [row.id for row in enabled.sql(f"SELECT id FROM {table} WHERE c IS NOT NULL").collect()] == [3]


@needs_spark("4.1", "can't read columns of type void from Parquet files, which is refused")
def test_a_table_of_void_columns_takes_no_rows(enabled: SparkSession, tmp_path: Path) -> None:
    table = f"delta.`{tmp_path / 't'}`"
    enabled.sql(f"CREATE TABLE {table} (a void, b array<void>) USING delta")
    assert enabled.table(table).collect() == []
    with pytest.raises(PySparkException) as refused:
        enabled.sql("SELECT NULL AS a").write.format("delta").mode("append").save(str(tmp_path / "t"))
    assert refused.value.getCondition() == "DELTA_CANNOT_WRITE_EMPTY_SCHEMA.TABLE_ALL_VOID_COLUMNS"
