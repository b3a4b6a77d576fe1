"""Structured streams with the trigger `availableNow`: options of source and sink."""

from __future__ import annotations

from collections.abc import Iterator

from interop.differential.scenarios import Scenario, python, scenario, some

SOURCES = (
    "",
    '.option("startingVersion", "0")',
    '.option("startingVersion", "1")',
    '.option("startingVersion", "latest")',
    '.option("startingVersion", "99")',
    '.option("startingVersion", "x")',
    '.option("startingTimestamp", "2020-01-02")',
    '.option("startingTimestamp", "2099-01-02")',
    '.option("startingTimestamp", "x")',
    '.option("startingVersion", "1").option("startingTimestamp", "2020-01-02")',
    '.option("maxFilesPerTrigger", "1")',
    '.option("maxFilesPerTrigger", "0")',
    '.option("maxFilesPerTrigger", "x")',
    '.option("maxBytesPerTrigger", "1k")',
    '.option("maxBytesPerTrigger", "x")',
    '.option("ignoreDeletes", "true")',
    '.option("ignoreChanges", "true").option("startingVersion", "0")',
    '.option("skipChangeCommits", "true").option("startingVersion", "0")',
    '.option("ignoreDeletes", "true").option("startingVersion", "0")',
    '.option("readChangeFeed", "true").option("startingVersion", "0")',
    '.option("readChangeFeed", "true")',
    '.option("excludeRegex", "nothing")',
    '.option("excludeRegex", "(")',
    '.option("failOnDataLoss", "false")',
    '.option("withEventTimeOrder", "true")',
    '.option("versionAsOf", "1")',
    '.option("ignoreDeletes", "x")',
    '.schema("id INT")',
)
SINKS = (
    '.outputMode("append")',
    '.outputMode("complete")',
    '.outputMode("update")',
    '.option("mergeSchema", "true")',
    '.option("userMetadata", "note")',
    '.option("txnAppId", "a").option("txnVersion", "1")',
    '.option("overwriteSchema", "true")',
    '.option("replaceWhere", "id = 1")',
    '.option("partitionOverwriteMode", "dynamic")',
    '.partitionBy("v")',
    '.partitionBy("nope")',
    '.option("optimizeWrite", "true")',
    '.option("delta.appendOnly", "true")',
)
NOW = '.trigger(availableNow=True).option("checkpointLocation", dir + "/checkpoint")'


def scenarios() -> Iterator[Scenario]:
    made = (
        "CREATE TABLE t (id INT, v STRING) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
        "UPDATE t SET v = 'c' WHERE id = 1",
        python('on_day("t")'),
    )
    for number, source in enumerate(SOURCES):
        read = f'spark.readStream.format("delta"){source}.load(dir + "/t").select("id", "v")'
        yield scenario(
            f"streams/source {number}",
            *made,
            python(f'run({read}.writeStream.format("delta"){NOW}.start(dir + "/out"))'),
            "INSERT INTO t VALUES (3, 'd')",
            python(f'run({read}.writeStream.format("delta"){NOW}.start(dir + "/out"))'),
            "SELECT * FROM delta.`{dir}/out`",
        )
    for number, sink in enumerate(SINKS):
        read = 'spark.readStream.format("delta").load(dir + "/t")'
        yield scenario(
            f"streams/sink {number}",
            *made,
            python(f'run({read}.writeStream.format("delta"){sink}{NOW}.start(dir + "/out"))'),
            "INSERT INTO t VALUES (3, 'd')",
            python(f'run({read}.writeStream.format("delta"){sink}{NOW}.start(dir + "/out"))'),
            *(
                [
                    python(
                        f'run({read}.groupBy("v").count().writeStream.format("delta"){sink}'
                        f'{NOW.replace("/check", "/other")}.start(dir + "/counts"))'
                    )
                ]
                if "outputMode" in sink
                else []
            ),
            "SELECT * FROM delta.`{dir}/out`",
        )
    yield scenario(
        "streams/tables",
        *made,
        "CREATE TABLE dst (id INT, v STRING, n INT) USING delta",
        python(f'run(spark.readStream.table("t").writeStream{NOW}.toTable("dst"))'),
        python(f'run(spark.readStream.table("t").writeStream{NOW.replace("/check", "/b")}.toTable("fresh"))'),
        python(
            'run(spark.readStream.table("t").writeStream.format("delta").trigger(availableNow=True).start(dir + "/x"))'
        ),
        python('spark.readStream.table("nowhere")'),
        python('spark.readStream.format("delta").load(dir + "/nowhere")'),
        python('spark.readStream.format("delta").load(dir + "/t@v1")'),
        python('spark.readStream.format("delta").load()'),
        python(f'run(spark.readStream.table("t").writeStream{NOW.replace("/check", "/c")}.toTable("dst"))'),
        tables=("dst", "fresh"),
    )
    for name, change in (
        ("delete", "DELETE FROM t WHERE id = 2"),
        ("overwrite", "INSERT OVERWRITE t VALUES (9, 'z')"),
        ("add", "ALTER TABLE t ADD COLUMN n INT"),
        ("optimize", some("OPTIMIZE t", "metrics.numFilesAdded")),
        ("restore", "RESTORE t TO VERSION AS OF 1"),
        ("truncate", "TRUNCATE TABLE t"),
        ("replace", "CREATE OR REPLACE TABLE t (id INT, v STRING) USING delta"),
        ("drop", "DROP TABLE t"),
    ):
        for option in ("", '.option("ignoreDeletes", "true")')[: 1 + (name in ("delete", "overwrite"))]:
            read = f'spark.readStream.format("delta"){option}.load(dir + "/t").select("id", "v")'
            copied = python(f'run({read}.writeStream.format("delta"){NOW}.start(dir + "/out"))')
            yield scenario(
                f"streams/after {name} {option[9:-10]}",
                *made,
                copied,
                change,
                copied,
                "INSERT INTO t (id, v) VALUES (3, 'd')",
                copied,
                "SELECT * FROM delta.`{dir}/out`",
            )
