"""The one Spark session with delta-spark: a child process that answers commands, one JSON line
each.

A JVM has one configuration, and deltaplane's own Spark tests need a session without the jar. Rows
are exchanged as Arrow files. Uses no deltaplane. `interop.delta_spark` starts it with the jars as
its argument.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import IO, Any

import pyarrow as pa

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
    # For many queries on few rows, neither compiled code nor a task for each file pays.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.files.openCostInBytes": "0",
    "spark.sql.files.minPartitionNum": "1",
    # Number of tasks by which VACUUM lists, regardless of the number of directories; the default is
    # 10,000.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
}


class Worker:
    """The commands: each public method is one, its keyword arguments are the JSON's other
    members."""

    def __init__(self, jars: str, scratch: str, settings: str) -> None:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").appName("interop").config("spark.jars", jars)
        for key, value in {**SETTINGS, **json.loads(settings)}.items():
            builder = builder.config(key, value)
        self.spark = builder.config("spark.sql.warehouse.dir", f"{scratch}/warehouse").getOrCreate()
        self.spark.sparkContext.setLogLevel("OFF")
        self.delta_log = self.spark._jvm.org.apache.spark.sql.delta.DeltaLog

    def read(self, table: str, version: int | None, out: str) -> None:
        """All rows of a version into an Arrow file."""
        _save(self._load(table, version).toArrow(), out)

    def counts(self, table: str, conditions: list[str]) -> list[int]:
        """The number of rows that match each condition, by one pass over every row without
        skipping."""
        counted = [f"count_if({c}) as n{i}" for i, c in enumerate(conditions)]
        return list(self._load(table).selectExpr(*counted).collect()[0])

    def counts_skipping(self, table: str, conditions: list[str]) -> list[int]:
        """The same numbers with a query for each condition, which may skip files."""
        self._load(table).createOrReplaceTempView("counted")
        queries = [f"select {i} as i, count(*) as n from counted where {c}" for i, c in enumerate(conditions)]
        rows = self.spark.sql(" union all ".join(queries)).collect()
        return [row.n for row in sorted(rows, key=lambda row: row.i)]

    def files_read(self, table: str, condition: str) -> int:
        """The number of files that a query with this condition opens."""
        frame = self._load(table).where(condition)
        frame._jdf.queryExecution().toRdd().count()
        leaves = frame._jdf.queryExecution().executedPlan().collectLeaves()
        metrics = [leaves.apply(i).metrics().get("numFiles") for i in range(leaves.size())]
        return sum(m.get().value() for m in metrics if m.isDefined())

    def sql(self, text: str, out: str) -> None:
        """Runs a statement and saves its result."""
        self.delta_log.clearCache()
        _save(self.spark.sql(text).toArrow(), out)

    def execute(self, text: str) -> None:
        """Runs a statement whose result doesn't fit into an Arrow file."""
        self.delta_log.clearCache()
        self.spark.sql(text).collect()

    def changes(self, table: str, options: dict[str, str]) -> int:
        """The number of rows in the change feed."""
        self.delta_log.clearCache()
        reader = self.spark.read.format("delta").option("readChangeFeed", "true")
        return reader.options(**options).load(table).count()

    def stream(self, table: str, options: dict[str, str], checkpoint: str) -> int:
        """The number of rows that one run of a streaming query reads."""
        self.delta_log.clearCache()
        frame = self.spark.readStream.format("delta").options(**options).load(table)
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return sum(progress["numInputRows"] for progress in query.recentProgress)

    def write(self, source: str, table: str, mode: str, partition_by: list[str], options: dict[str, str]) -> None:
        """Writes an Arrow file's rows."""
        from pyspark.sql.pandas.types import from_arrow_schema

        self.delta_log.clearCache()
        with pa.OSFile(source) as file:
            rows = pa.ipc.open_file(file).read_all()
        schema = from_arrow_schema(rows.schema, prefer_timestamp_ntz=True)
        writer = self.spark.createDataFrame(rows, schema).write.format("delta").mode(mode).options(**options)
        (writer.partitionBy(*partition_by) if partition_by else writer).save(table)

    def checkpoint(self, table: str) -> None:
        """Writes a checkpoint of the newest version."""
        self.delta_log.clearCache()
        none = self.spark._jvm.scala.Option.empty()
        log = self.delta_log.forTable(self.spark._jsparkSession, table)
        log.checkpoint(log.update(False, none, none), none)

    def snapshot(self, table: str) -> dict[str, Any]:
        """Version, number of files, and the protocol of the newest snapshot."""
        self.delta_log.clearCache()
        none = self.spark._jvm.scala.Option.empty()
        snapshot = self.delta_log.forTable(self.spark._jsparkSession, table).update(False, none, none)
        protocol = snapshot.protocol()
        return {
            "version": snapshot.version(),
            "num_files": snapshot.numOfFiles(),
            "protocol": [protocol.minReaderVersion(), protocol.minWriterVersion()],
        }

    def checksum(self, table: str) -> dict[str, bool]:
        """Whether the newest version has a checksum, and whether it equals the state computed from
        the log."""
        self.delta_log.clearCache()
        none = self.spark._jvm.scala.Option.empty()
        snapshot = self.delta_log.forTable(self.spark._jsparkSession, table).update(False, none, none)
        nothing = self.spark._jvm.scala.Predef.Map().empty()
        return {"there": snapshot.checksumOpt().isDefined(), "sound": snapshot.validateChecksum(nothing)}

    def transaction_version(self, table: str, app_id: str) -> int | None:
        """The last version that an application committed."""
        self.delta_log.clearCache()
        none = self.spark._jvm.scala.Option.empty()
        snapshot = self.delta_log.forTable(self.spark._jsparkSession, table).update(False, none, none)
        version = snapshot.transactions().get(app_id)
        return version.get() if version.isDefined() else None

    def _load(self, table: str, version: int | None = None) -> Any:
        self.delta_log.clearCache()
        reader = self.spark.read.format("delta")
        return (reader if version is None else reader.option("versionAsOf", version)).load(table)


def _save(rows: pa.Table, out: str) -> None:
    with pa.OSFile(out, "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
        writer.write_table(rows)


def _answer(commands: dict[str, Callable[..., Any]], line: str) -> dict[str, Any]:
    request = json.loads(line)
    try:
        return {"result": commands[request.pop("command")](**request)}
    except Exception as e:  # noqa: BLE001 - whatever Spark raises belongs to the test that asked
        return {"error": f"{type(e).__name__}: {e}", "trace": traceback.format_exc()[-4000:]}


def _serve(answers: IO[str], jars: str, scratch: str, settings: str) -> None:
    worker = Worker(jars, scratch, settings)
    commands = {n: getattr(worker, n) for n in vars(Worker) if not n.startswith("_")}
    print(json.dumps({"result": "ready"}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(_answer(commands, line)), file=answers, flush=True)
    worker.spark.stop()


if __name__ == "__main__":
    # Spark and the JVM print to standard output, so answers have a descriptor of their own.
    own = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _serve(own, *sys.argv[1:])
