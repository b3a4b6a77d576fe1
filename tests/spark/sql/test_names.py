"""`deltaplane.spark.enable`: Delta's interfaces use the native implementation, everything else
stays Spark's, and `disable` reverts it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deltaplane import DeltaTable, exceptions
from deltaplane import spark as dp
from deltaplane.spark import DeltaTable as SparkTable
from deltaplane.spark.jvm import internals as _internals
from following import needs_data_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def is_native(df: DataFrame) -> bool:
    """Whether Spark scans the files itself."""
    return "FileScan parquet" in df._jdf.queryExecution().executedPlan().toString()


def ids(df: DataFrame) -> list[int]:
    return sorted(row.id for row in df.collect())


def test_batches(enabled: SparkSession, path: str) -> None:
    rows = enabled.range(4).selectExpr("id", "id % 2 AS p")
    rows.write.format("delta").partitionBy("p").option("userMetadata", "one").save(path)
    with pytest.raises(exceptions.TableAlreadyExistsError):
        rows.write.format("delta").save(path)
    rows.write.save(path, format="DELTA", mode="append", txnAppId="a", txnVersion=1)
    rows.write.format("deltaplane").mode("append").options(txnAppId="a", txnVersion=1).save(path)
    rows.where("p = 1").write.format("delta").mode("overwrite").option("replaceWhere", "p = 1").save(path)
    assert DeltaTable(path).version() == 2
    assert DeltaTable(path).metadata().partition_columns == ["p"]
    read = enabled.read.format("delta").load(path)
    assert is_native(read)
    assert ids(read) == [0, 0, 1, 2, 2, 3]
    assert ids(enabled.read.load(path, format="delta", versionAsOf=0)) == [0, 1, 2, 3]
    assert ids(enabled.read.option("versionAsOf", 1).table(f"delta.`{path}`")) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert ids(enabled.table(f"delta.`{path}`")) == ids(read)


def test_statements(enabled: SparkSession, path: str) -> None:
    enabled.range(4).write.format("delta").save(path)
    frame = enabled.sql(f"SELECT id FROM delta.`{path}` WHERE id > 1")
    assert is_native(frame)
    assert ids(frame) == [2, 3]
    assert enabled.sql(f"UPDATE delta.`{path}` SET id = id + 10 WHERE id = 3").collect()[0].num_affected_rows == 1
    assert ids(enabled.sql(f"SELECT id FROM delta.`{path}`")) == [0, 1, 2, 13]
    assert ids(enabled.sql(f"SELECT id FROM delta.`{path}` VERSION AS OF 0")) == [0, 1, 2, 3]
    enabled.range(7, 8).createOrReplaceTempView("more")
    enabled.sql(f"INSERT INTO delta.`{path}` SELECT id FROM more")
    joined = enabled.sql(f"SELECT m.id FROM more AS m JOIN delta.`{path}` AS t ON m.id = t.id")
    assert ids(joined) == [7]
    assert ids(enabled.sql("SELECT id FROM more")) == [7]
    assert enabled.sql("SELECT :x AS id", args={"x": 3}).collect()[0].id == 3
    with pytest.raises(exceptions.UnsupportedFeatureError, match="ANALYZE isn't a statement"):
        enabled.sql(f"ANALYZE TABLE delta.`{path}` COMPUTE STATISTICS")
    some = enabled.range(1, 3)
    joined = f"SELECT t.id FROM delta.`{path}` t JOIN {{some}} s ON t.id = s.id WHERE t.id < :most"
    expected = sorted(set(ids(enabled.read.format("delta").load(path))) & {1})
    assert ids(enabled.sql(joined, args={"most": 2}, some=some)) == expected


def test_statements_with_parameters(enabled: SparkSession, path: str) -> None:
    rows = enabled.createDataFrame([(1, "it's"), (2, "b"), (3, "c")], "id int, name string")
    rows.write.format("delta").save(path)
    frame = enabled.sql(
        f"SELECT id FROM delta.`{path}` WHERE (name = :name AND name <> ':name') OR id > :low - 1",
        args={"name": "it's", "low": 3},
    )
    assert ids(frame) == [1, 3]
    assert ids(enabled.sql(f"SELECT id FROM delta.`{path}` WHERE id BETWEEN ? AND ?", args=[2, 3])) == [2, 3]
    enabled.sql(f"UPDATE delta.`{path}` SET name = :to WHERE name = :of", args={"to": "d\\e", "of": "it's"})
    enabled.sql(f"DELETE FROM delta.`{path}` WHERE id = ?", args=[2])
    left = enabled.read.format("delta").load(path).orderBy("id").collect()
    assert [tuple(row) for row in left] == [(1, "d\\e"), (3, "c")]
    with pytest.raises(exceptions.InvalidArgumentError, match="more parameters than values"):
        enabled.sql(f"DELETE FROM delta.`{path}` WHERE id = ? OR id = ?", args=[2])


def test_the_second_writer(enabled: SparkSession, path: str, name: str) -> None:
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F

    rows = enabled.range(6).selectExpr("id", "id % 3 AS p")
    there = f"delta.`{path}`"
    with pytest.raises(AnalysisException, match="there is no Delta table"):
        rows.writeTo(there).append()
    with pytest.raises(AnalysisException, match="to be replaced"):
        rows.writeTo(there).using("delta").replace()
    rows.writeTo(there).using("delta").partitionedBy(F.col("p")).tableProperty("delta.appendOnly", "false").create()
    made = DeltaTable(path).metadata()
    assert (made.partition_columns, made.configuration) == (["p"], {"delta.appendOnly": "false"})
    with pytest.raises(AnalysisException, match="already"):
        rows.writeTo(there).create()
    rows.where("id = 5").writeTo(there).option("txnAppId", "a").option("txnVersion", 1).append()
    rows.where("id = 5").writeTo(there).options(txnAppId="a", txnVersion=1).append()
    assert ids(enabled.table(there)) == [0, 1, 2, 3, 4, 5, 5]
    enabled.createDataFrame([(8, 2)], "id long, p long").writeTo(there).overwritePartitions()
    assert ids(enabled.table(there)) == [0, 1, 3, 4, 8]
    enabled.createDataFrame([(9, 0)], "id long, p long").writeTo(there).overwrite(F.col("p") == 0)
    assert ids(enabled.table(there)) == [1, 4, 8, 9]
    enabled.range(2).writeTo(there).createOrReplace()
    assert ids(enabled.table(there)) == [0, 1]
    assert DeltaTable(path).metadata().partition_columns == []
    with pytest.raises(AnalysisException, match="partitioned by columns"):
        rows.writeTo(there).using("delta").partitionedBy(F.years("id")).createOrReplace()
    enabled.range(3).writeTo(name).using("delta").create()
    enabled.range(3, 4).writeTo(f"spark_catalog.default.{name}").append()
    assert ids(enabled.table(name)) == [0, 1, 2, 3]
    enabled.range(1).writeTo(f"{name}_plain").using("parquet").create()
    enabled.sql(f"DROP TABLE {name}_plain")


def test_partitions_are_replaced_as_they_are_written(enabled: SparkSession, path: str) -> None:
    rows = enabled.range(4).selectExpr("id", "id % 2 AS p")
    rows.write.format("delta").partitionBy("p").save(path)
    more = enabled.createDataFrame([(7, 1)], "id long, p long").write.format("delta").mode("overwrite")
    more.option("partitionOverwriteMode", "dynamic").save(path)
    assert ids(enabled.read.format("delta").load(path)) == [0, 2, 7]
    enabled.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        enabled.createDataFrame([(8, 0)], "id long, p long").write.format("delta").mode("overwrite").save(path)
    finally:
        enabled.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert ids(enabled.read.format("delta").load(path)) == [7, 8]


def test_a_new_table_is_clustered(enabled: SparkSession, path: str) -> None:
    enabled.range(4).write.format("delta").clusterBy("id").save(path)
    enabled.sql(f"CREATE TABLE delta.`{path} too` CLUSTER BY (id) AS SELECT * FROM delta.`{path}`")
    for location in (path, path + " too"):
        (row,) = enabled.sql(f"DESCRIBE DETAIL delta.`{location}`").select("clusteringColumns", "numFiles").collect()
        assert row.clusteringColumns == ["id"]
        assert ids(enabled.read.format("delta").load(location)) == [0, 1, 2, 3]


def test_files_are_cared_for_by_statements(enabled: SparkSession, path: str) -> None:
    for n in range(3):
        enabled.range(n, n + 1).write.format("delta").mode("append").save(path)
    (done,) = enabled.sql(f"OPTIMIZE delta.`{path}`").collect()
    assert (done.num_added_files, done.num_removed_files) == (1, 3)
    assert enabled.sql(f"VACUUM delta.`{path}` RETAIN 200 HOURS DRY RUN").count() == 0
    assert enabled.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF 0").count() == 1
    enabled.range(3).write.parquet(path + " plain")
    enabled.sql(f"CONVERT TO DELTA parquet.`{path} plain`")
    assert ids(enabled.table(f"delta.`{path} plain`")) == [0, 1, 2]


def test_names_in_sparks_catalog(enabled: SparkSession, name: str) -> None:
    enabled.range(3).write.format("delta").saveAsTable(name)
    assert is_native(enabled.table(name))
    enabled.range(3, 5).write.format("delta").mode("append").saveAsTable(name)
    enabled.range(5, 6).write.insertInto(f"default.{name}")
    assert ids(enabled.table(name)) == ids(enabled.sql(f"SELECT id FROM {name}")) == [0, 1, 2, 3, 4, 5]
    enabled.sql(f"DELETE FROM spark_catalog.default.{name} WHERE id = 1")
    assert ids(enabled.sql(f"SELECT t.id FROM {name} t, range(2, 9) r WHERE t.id = r.id")) == [2, 3, 4, 5]
    with pytest.raises(exceptions.SchemaMismatchError, match="the columns b behind the 1 of the table"):
        enabled.range(1).selectExpr("id", "id AS b").write.insertInto(name)
    with pytest.raises(exceptions.TableAlreadyExistsError):
        enabled.range(3).write.format("delta").saveAsTable(name)


def test_files_of_managed_tables_go_with_the_name(enabled: SparkSession, name: str, path: str) -> None:
    made = [
        lambda: enabled.sql(f"CREATE TABLE {name} (id BIGINT) USING delta"),
        lambda: enabled.range(3).write.format("delta").saveAsTable(name),
        lambda: enabled.range(3).writeTo(name).using("delta").create(),
        lambda: SparkTable.create(enabled).tableName(name).addColumn("id", "long").execute(),
    ]
    for make in made:
        make()
        (where,) = enabled.sql(f"DESCRIBE DETAIL {name}").select("location").first() or ("",)
        enabled.sql(f"DROP TABLE IF EXISTS default.{name}")
        assert not Path(where).exists()
    enabled.sql(f"CREATE TABLE {name} (id BIGINT) USING delta LOCATION '{path}'")
    enabled.sql(f"DROP TABLE {name}")
    enabled.range(3).write.format("delta").mode("append").option("path", path).saveAsTable(name)
    enabled.sql(f"DROP TABLE {name}")
    assert DeltaTable(path).count() == 3


def test_a_location_is_taken_as_the_statement_says_it(enabled: SparkSession, name: str, path: str) -> None:
    columns, clauses = "id BIGINT NOT NULL, s STRUCT<a: INT>", "USING delta PARTITIONED BY (id)"
    properties = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    enabled.sql(f"CREATE TABLE delta.`{path}` ({columns}) {clauses} {properties}")
    clause = f"LOCATION '{path}'"
    others = {
        "other columns than the statement: it has no column `x`": f"({columns}, x INT) {clauses}",
        "other columns than the statement: it has the column `s` besides": f"(id BIGINT NOT NULL) {clauses}",
        "it has `s struct<a:int>`, the statement `s struct<a:bigint>`": f"(id BIGINT NOT NULL, s STRUCT<a: BIGINT>) {clauses}",
        "it has `id bigint NOT NULL`, the statement `id bigint`": f"(id BIGINT, s STRUCT<a: INT>) {clauses}",
        r"is partitioned by \(id\), not by \(\)": f"({columns}) USING delta",
        r"has the properties \(delta.columnMapping.mode=name\), not \(x=y\)": f"({columns}) {clauses} TBLPROPERTIES (x = 'y')",
    }
    for says, other in others.items():
        with pytest.raises(exceptions.TableAlreadyExistsError, match=says):
            enabled.sql(f"CREATE TABLE {name} {other} {clause}")
        assert not enabled.catalog.tableExists(name)
    for same in (f"({columns}) {clauses}", f"({columns}) {clauses} {properties}"):
        enabled.sql(f"CREATE TABLE {name} {same} {clause}")
        assert enabled.table(name).columns == ["id", "s"]
        enabled.sql(f"DROP TABLE {name}")
    assert len(DeltaTable(path).history()) == 1


@pytest.mark.parametrize("enables", [True, False])
def test_tables_are_created_by_name(spark: SparkSession, name: str, path: str, enables: bool) -> None:
    copies = [f"{name}_{n}" for n in range(3)]
    if enables:
        dp.enable(spark)

    def run(text: str) -> DataFrame:
        return spark.sql(text) if enables else dp.sql(spark, text)

    try:
        run(f"CREATE TABLE {name} (id BIGINT NOT NULL, p INT DEFAULT 7) USING DELTA PARTITIONED BY (p) COMMENT 'c'")
        run(f"INSERT INTO default.{name} (id) VALUES (1), (2)")
        assert ids(run(f"SELECT * FROM spark_catalog.default.`{name}` WHERE p = 7")) == [1, 2]
        with pytest.raises(exceptions.TableAlreadyExistsError):
            run(f"CREATE TABLE {name} (id BIGINT) USING deltaplane")
        run(f"CREATE TABLE IF NOT EXISTS {name} (other STRING) USING delta")
        run(f"CREATE OR REPLACE TABLE {name} USING delta COMMENT 'c' AS SELECT id + 1 AS id FROM {name}")
        assert ids(run(f"SELECT * FROM {name}")) == [2, 3]
        run(f"CREATE TABLE default.{copies[0]} USING delta LOCATION '{path}' AS SELECT * FROM {name} WHERE id = 2")
        assert DeltaTable(path).count() == 1
        run(f"CREATE TABLE {copies[1]} USING delta LOCATION '{path}'")
        assert ids(run(f"SELECT a.id FROM {copies[0]} a JOIN {copies[1]} b ON a.id = b.id")) == [2]
        run(f"CREATE TABLE {copies[2]} DEEP CLONE {name}")
        assert ids(run(f"SELECT id FROM {copies[2]} VERSION AS OF 0")) == [2, 3]
        with pytest.raises(exceptions.InvalidArgumentError, match="the statement says"):
            run(f"CREATE OR REPLACE TABLE {name} (id BIGINT) USING delta LOCATION '{path}'")
        with pytest.raises(exceptions.UnsupportedFeatureError, match=rf"spark_catalog\.default\.{name}"):
            run(f"CREATE TABLE lake.default.{name} (id BIGINT) USING delta")
        # Tables of other formats are handled by Spark.
        run(f"DROP TABLE {copies[2]}")
        run(f"CREATE TABLE {copies[2]} (id BIGINT) USING parquet LOCATION '{path} plain'")
        with pytest.raises(exceptions.TableAlreadyExistsError, match="parquet"):
            run(f"CREATE TABLE {copies[2]} (id BIGINT) USING delta")
    finally:
        dp.disable(spark)
        for held in copies:
            spark.sql(f"DROP TABLE IF EXISTS {held}")


def test_streams(enabled: SparkSession, path: str, name: str) -> None:
    enabled.range(3).write.format("delta").save(path)

    def copy(start: Any) -> None:
        stream = enabled.readStream.format("delta").option("maxFilesPerTrigger", 1).load(path)
        writer = stream.writeStream.format("delta").outputMode("append").trigger(availableNow=True)
        assert start(writer).awaitTermination(120)

    copy(lambda writer: writer.start(path + " out", checkpointLocation=path + " query"))
    assert ids(enabled.read.format("delta").load(path + " out")) == [0, 1, 2]
    copy(lambda writer: writer.option("checkpointLocation", path + " query two").toTable(name))
    assert ids(enabled.table(name)) == [0, 1, 2]
    assert enabled.readStream.table(name).isStreaming
    with pytest.raises(exceptions.InvalidArgumentError, match="checkpointLocation"):
        copy(lambda writer: writer.start(path + " three"))


@needs_data_source
def test_the_change_feed_under_familiar_names(enabled: SparkSession, path: str) -> None:
    dp.write(enabled.range(2), path, configuration={"delta.enableChangeDataFeed": "true"})
    feed = enabled.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0).load(path)
    assert ids(feed) == [0, 1]
    stream = enabled.readStream.format("delta").option("readChangeFeed", "true").option("startingVersion", 0)
    query = stream.load(path).writeStream.format("memory").queryName("changes").trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert ids(enabled.table("changes")) == [0, 1]


@needs_data_source
def test_without_the_native_paths_the_familiar_names_take_the_data_source(
    enabled: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dp.write(enabled.range(2), path)
    monkeypatch.setattr(_internals, "STREAMS_SUPPORTED", ("9.9",))
    query = enabled.readStream.format("delta").load(path).writeStream.format("noop").trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert "MicroBatchScan" in query._jsq.explainInternal(False)

    def unavailable(_: object) -> None:
        raise _internals.NativeScanUnavailable("it isn't there")

    monkeypatch.setattr(_internals.Jvm, "of", unavailable)
    assert ids(enabled.read.format("delta").load(path)) == [0, 1]


def test_the_rest_is_sparks(spark: SparkSession, enabled: SparkSession, path: str) -> None:
    enabled.range(3).write.mode("overwrite").parquet(path)
    assert ids(enabled.read.parquet(path)) == ids(enabled.read.format("parquet").load(path)) == [0, 1, 2]
    # Otherwise the portable data source has the name, if Spark supports registering it.
    no_table_or_name = r"no Delta table here|DATA_SOURCE_NOT_FOUND|Failed to find"
    # A session created from an enabled one is enabled, too.
    other = enabled.newSession()
    with pytest.raises(exceptions.DeltaError, match="no Delta table here"):
        other.read.format("delta").load(path)
    dp.disable(other)
    dp.disable(enabled)
    with pytest.raises(Exception, match=no_table_or_name) as caught:
        spark.read.format("delta").load(path)
    assert not isinstance(caught.value, exceptions.DeltaError)


def test_refusals(enabled: SparkSession, path: str) -> None:
    writer = enabled.range(1).write.format("delta").mode("overwrite")
    with pytest.raises(exceptions.InvalidArgumentError, match="dataChange = false"):
        enabled.range(1).write.format("delta").option("dataChange", "false").save(path)
    with pytest.raises(exceptions.InvalidArgumentError, match="needs one path"):
        writer.save()
    with pytest.raises(exceptions.InvalidArgumentError, match="knows its columns"):
        enabled.read.format("delta").schema("id long")
    with pytest.raises(exceptions.InvalidArgumentError, match="is a number"):
        enabled.read.format("delta").option("versionAsOf", "x").load(path)
