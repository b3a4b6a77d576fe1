"""Queries return Spark's results over the same rows: values, types and, for ordered queries, the
order."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import deltaplane
from deltaplane import DeltaError, DeltaTable, write_deltalake
from sql import queries
from sql.drawn import Drawing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Number of drawn queries; the seed is fixed, so that two runs compare the same.
DRAWN = int(os.environ.get("DELTAPLANE_DRAWN_QUERIES", "60"))
SEED = int(os.environ.get("DELTAPLANE_DRAWN_SEED", "20240229"))

TABLES = {"sales": queries.SALES, "codes": queries.CODES, "empty": queries.EMPTY, "tags": queries.TAGS}


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The tables as Delta tables of several files, so that files can be skipped."""
    folder = tmp_path_factory.mktemp("tables")
    for name, data in TABLES.items():
        path = str(folder / name)
        write_deltalake(path, data.slice(0, 5))
        if data.num_rows > 5:
            write_deltalake(path, data.slice(5), mode="append")
    return {name: str(folder / name) for name in TABLES}


@pytest.fixture(scope="module")
def views(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    import pyarrow.parquet as pq

    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    folder: Path = tmp_path_factory.mktemp("parquet")
    for name, data in TABLES.items():
        # pyarrow's bounds omit NaN, and a dictionary separates -0.0 and 0.0: Spark's reader would
        # lose rows by both.
        pq.write_table(data, folder / f"{name}.parquet", write_statistics=False, use_dictionary=False)
        spark.read.parquet(str(folder / f"{name}.parquet")).createOrReplaceTempView(name)
    yield spark
    for name in TABLES:
        spark.catalog.dropTempView(name)
    spark.conf.set("spark.sql.session.timeZone", before)


def plain(value: Any) -> Any:
    """A value in a form comparable with Spark's: NaN equals NaN, the sign of zero counts, and so
    does the type."""
    if isinstance(value, float):
        return ("float", "nan" if math.isnan(value) else repr(value))
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return (type(value).__name__, value)


def rows(table: pa.Table, ordered: bool) -> list[str]:
    texts = [repr([plain(v) for v in row.values()]) for row in table.to_pylist()]
    return texts if ordered else sorted(texts)


def one_zero(table: pa.Table) -> list[str]:
    """The rows in order; both zeros count as equal in the order."""
    return [row.replace("'-0.0'", "'0.0'") for row in rows(table, True)]


def rounded(table: pa.Table) -> list[str]:
    """The rows with nine digits of each floating-point number."""

    def shown(value: Any) -> Any:
        return f"{value + 0.0:.9g}" if isinstance(value, float) else plain(value)

    return sorted(repr([shown(v) for v in row.values()]) for row in table.to_pylist())


def ordered(query: str) -> bool:
    return "ORDER BY" in query.rsplit(")", 1)[-1]


def alike(ours: pa.DataType, theirs: pa.DataType) -> bool:
    """Compares types without names of nested fields and the spelling of UTC."""
    if pa.types.is_timestamp(ours):
        return pa.types.is_timestamp(theirs) and (ours.tz is None) == (theirs.tz is None)
    if pa.types.is_list(ours):
        return pa.types.is_list(theirs) and alike(ours.value_type, theirs.value_type)
    return ours == theirs


@pytest.mark.spark
@pytest.mark.parametrize("query", queries.QUERIES)
def test_rows_are_those_of_spark(views: SparkSession, paths: dict[str, str], query: str) -> None:
    ours = deltaplane.sql(query, tables=paths)
    theirs = views.sql(query).toArrow()
    assert ours.column_names == theirs.column_names
    pairs = zip(ours.schema, theirs.schema, strict=True)
    assert [(a.name, a.type, b.type) for a, b in pairs if not alike(a.type, b.type)] == []
    assert rows(ours, ordered(query)) == rows(theirs, ordered(query))


@pytest.mark.spark
@pytest.mark.parametrize("query", queries.STATISTICS)
def test_statistics_are_those_of_spark(views: SparkSession, paths: dict[str, str], query: str) -> None:
    ours, theirs = deltaplane.sql(query, tables=paths), views.sql(query).toArrow()
    assert ours.schema.types == theirs.schema.types
    assert rounded(ours) == rounded(theirs)


@pytest.mark.spark
@pytest.mark.parametrize("query", queries.FAILING)
def test_what_spark_refuses_is_refused(views: SparkSession, paths: dict[str, str], query: str) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    with pytest.raises((PySparkException, Py4JError)):
        views.sql(query).toArrow()
    with pytest.raises(DeltaError):
        # A row after the first batch may be the one that fails.
        deltaplane.sql(query, tables=paths).to_arrow()


@pytest.mark.spark
@pytest.mark.parametrize("condition", queries.CONDITIONS)
def test_commands_mean_the_rows_that_spark_selects(
    views: SparkSession, paths: dict[str, str], tmp_path: Path, condition: str
) -> None:
    meant = [row.id for row in views.sql(f"SELECT id FROM sales z WHERE {condition} ORDER BY id").collect()]
    for vectors in ("false", "true"):
        path = str(tmp_path / vectors)
        shutil.copytree(paths["sales"], path)
        DeltaTable(path).alter.set_table_properties({"delta.enableDeletionVectors": vectors})
        tables = {**paths, "sales": path}
        updated = deltaplane.sql(f"UPDATE sales z SET id = -id WHERE {condition}", tables=tables, dry_run=True)
        deltaplane.sql(f"DELETE FROM sales AS z WHERE {condition}", tables=tables)
        left = deltaplane.sql("SELECT id FROM sales", tables=tables)["id"].to_pylist()
        assert sorted(left) == [n for n in range(1, 13) if n not in meant]
        assert updated.rows.get("numUpdatedRows", 0) == len(meant)
        assert updated.changed == bool(meant)


def test_the_comparison_can_fail() -> None:
    a, b = pa.table({"x": [0.0, None]}), pa.table({"x": [-0.0, None]})
    assert rows(a, True) != rows(b, True)
    assert rows(pa.table({"x": [1, 2]}), True) != rows(pa.table({"x": [2, 1]}), True)
    assert rows(pa.table({"x": [1, 2]}), False) == rows(pa.table({"x": [2, 1]}), False)
    assert not alike(pa.int32(), pa.int64())
    assert ordered("SELECT x FROM (SELECT 1 AS x) ORDER BY x")
    assert not ordered("SELECT x FROM (SELECT 1 AS x ORDER BY x)")


@pytest.mark.spark
@pytest.mark.slow
def test_drawn_queries_give_what_spark_gives(views: SparkSession, paths: dict[str, str]) -> None:
    # Engines may differ in which row fails first, and in whether a filter removes it before:
    # failures aren't compared.
    drawing = Drawing(SEED)
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    same, differ = 0, []
    for _ in range(DRAWN):
        query = drawing.query()
        try:
            ours = deltaplane.sql(query, tables=paths)
            theirs = views.sql(query).toArrow()
        except (DeltaError, PySparkException, Py4JError):
            continue
        same_types = all(alike(a.type, b.type) for a, b in zip(ours.schema, theirs.schema, strict=True))
        same_order = not ordered(query) or one_zero(ours) == one_zero(theirs)
        if same_types and same_order and rows(ours, False) == rows(theirs, False):
            same += 1
        else:
            differ.append(query)
    assert differ == []
    assert same > DRAWN * 0.6, same
