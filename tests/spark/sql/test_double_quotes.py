"""Double quotes and wrong types on a Spark session: Spark's meaning in SQL, refusals by name in the
Python API."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import deltaplane
from deltaplane import spark as dp
from deltaplane.exceptions import DeltaError, InvalidArgumentError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ANSI_NAMES = "spark.sql.ansi.doubleQuotedIdentifiers"


@pytest.fixture
def rows(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    path = str(tmp_path / "t")
    dp.write(spark.createDataFrame([("x", 1), ("y", 2), ("s", 3)], "s string, v int"), path)
    yield path
    spark.conf.unset(ANSI_NAMES)


def left(path: str) -> list[Any]:
    return sorted(deltaplane.DeltaTable(path).to_pyarrow_table()["s"].to_pylist())


def test_the_python_api_refuses_texts_that_may_be_columns(spark: SparkSession, rows: str) -> None:
    table, source = dp.DeltaTable.forPath(spark, rows), spark.createDataFrame([("x", 9)], "s string, other int")
    for condition in ("\"s\" != 'x'", "\"typo\" = 'x'", 's = "S"', '"t"."s" = \'x\'', "upper(\"typo\") = 'X'"):
        with pytest.raises(Exception, match=r"backticks|SYNTAX") as raised:
            table.delete(condition)
        assert '".' in condition or isinstance(raised.value, InvalidArgumentError), condition
        with pytest.raises(Exception, match=r"backticks|SYNTAX"):
            table.update(condition, {"v": "1"})
    with pytest.raises(InvalidArgumentError, match="`v`"):
        table.update(None, {"s": '"v"'})
    for condition in ('t.s = z.s AND "other" = 9', '"z.other" = 9'):
        with pytest.raises(InvalidArgumentError, match="backticks"):
            table.alias("t").merge(source.alias("z"), condition)
    merge = table.alias("t").merge(source.alias("z"), "t.s = z.s")
    with pytest.raises(InvalidArgumentError, match="backticks"):
        merge.whenMatchedDelete('"other" > 1')
    with pytest.raises(InvalidArgumentError, match="backticks"):
        merge.whenMatchedUpdate(set={"s": '"other"'})
    assert left(rows) == ["s", "x", "y"]
    table.update('s = "x"', {"s": '"new"'})
    assert left(rows) == ["new", "s", "y"]


@pytest.mark.usefixtures("ansi")
def test_the_python_api_follows_the_session_s_setting(spark: SparkSession, rows: str) -> None:
    spark.conf.set(ANSI_NAMES, "true")
    table = dp.DeltaTable.forPath(spark, rows)
    table.delete("\"s\" = 'x'")
    assert left(rows) == ["s", "y"]
    table.update("\"S\" = 'y'", {"v": '"v" + 10'})
    assert deltaplane.DeltaTable(rows).to_pyarrow_table(filters="v = 12")["s"].to_pylist() == ["y"]


@pytest.mark.usefixtures("ansi")
def test_sql_of_a_session_means_what_spark_means(enabled: SparkSession, rows: str) -> None:
    # A string, even if a column has this name: no row contains the string `v`.
    for run in (lambda text: enabled.sql(text), lambda text: deltaplane.sql(text, spark=enabled)):
        run(f'DELETE FROM delta.`{rows}` WHERE s = "v"')
        assert left(rows) == ["s", "x", "y"]
    enabled.sql(f'UPDATE delta.`{rows}` SET s = "v" WHERE s = "s"')
    assert left(rows) == ["v", "x", "y"]
    enabled.conf.set(ANSI_NAMES, "true")
    enabled.sql(f'UPDATE delta.`{rows}` SET "v" = "v" + 10 WHERE "s" = \'x\' -- "x"')
    enabled.sql(f"DELETE FROM delta.`{rows}` WHERE \"s\" != 'x'")
    assert left(rows) == ["x"]
    selected = enabled.sql(f'SELECT "v" FROM delta.`{rows}` WHERE "s" = \'x\'').collect()
    assert [row.v for row in selected] == [11]


def test_an_argument_of_a_wrong_type_is_named(spark: SparkSession, rows: str) -> None:
    frame = spark.range(1)
    needed: dict[str, dict[str, Any]] = {
        "read": {"spark": spark, "path": rows},
        "read_changes": {"spark": spark, "path": rows},
        "create_or_replace_temp_view": {"spark": spark, "name": "view", "path": rows},
        "write": {"df": frame, "path": rows},
        "plan": {"spark": spark, "path": rows},
        "read_stream": {"spark": spark, "path": rows},
        "write_stream": {"df": frame, "path": rows, "checkpoint": rows},
        "foreach_batch": {"df": frame, "function": print, "checkpoint": rows},
    }
    faults = []
    for name, arguments in needed.items():
        function = getattr(dp, name)
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD or parameter.name == "operation":
                continue
            for value in (object(), b"bytes", float("nan"), {1, 2}):
                try:
                    function(**{**arguments, parameter.name: value})
                    faults.append(f"{name}({parameter.name}={value!r}): no error")
                except DeltaError as e:
                    if parameter.name not in str(e):
                        faults.append(f"{name}({parameter.name}={value!r}): {e}")
                except Exception as e:  # noqa: BLE001 - whatever else comes out is a fault
                    faults.append(f"{name}({parameter.name}={value!r}): {type(e).__name__} {e}")
    assert [fault for fault in faults if "partition_by={1, 2}" not in fault and "cluster_by={1, 2}" not in fault] == []
    assert left(rows) == ["s", "x", "y"]
