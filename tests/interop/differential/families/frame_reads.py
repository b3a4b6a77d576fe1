"""`spark.read`: options, paths and names, good and bad."""

from __future__ import annotations

from collections.abc import Iterator

from interop.differential.scenarios import KEEP_VERSIONS, Scenario, python, scenario

READS = (
    '.load(dir + "/t")',
    '.load(dir + "/t@v1")',
    '.load(dir + "/t@v99")',
    '.load(dir + "/t@20200102000000000")',
    '.load(dir + "/nowhere")',
    ".load(dir)",
    ".load()",
    '.load("")',
    '.load([dir + "/t", dir + "/t"])',
    '.load(dir + "/t/*")',
    '.load(dir + "/t/v=a")',
    '.table("t")',
    '.table("nowhere")',
    '.table("pq")',
    '.option("path", dir + "/t").load()',
    '.option("path", dir + "/t").load(dir + "/t")',
    '.option("versionAsOf", 1).load(dir + "/t")',
    '.option("versionAsOf", "0").table("t")',
    '.option("versionAsOf", 99).load(dir + "/t")',
    '.option("versionAsOf", -1).load(dir + "/t")',
    '.option("versionAsOf", "x").load(dir + "/t")',
    '.option("versionAsOf", "1.5").load(dir + "/t")',
    '.option("versionasof", 1).load(dir + "/t")',
    '.option("versionAsOf", 1).load(dir + "/t@v1")',
    '.option("timestampAsOf", "2020-01-02").load(dir + "/t")',
    '.option("timestampAsOf", "2020-01-02 00:00:00").load(dir + "/t")',
    '.option("timestampAsOf", "2020-01-02T00:00:00Z").load(dir + "/t")',
    '.option("timestampAsOf", "2019-01-02").load(dir + "/t")',
    '.option("timestampAsOf", "2099-01-02").load(dir + "/t")',
    '.option("timestampAsOf", "x").load(dir + "/t")',
    '.option("timestampAsOf", "2020-01-02").table("t")',
    '.option("timestampAsOf", "2020-01-02").option("versionAsOf", 1).load(dir + "/t")',
    '.schema("id INT").load(dir + "/t")',
    '.schema("id INT, v STRING, p INT").load(dir + "/t")',
    '.option("mergeSchema", "true").load(dir + "/t")',
    '.option("nosuchoption", "x").load(dir + "/t")',
    '.option("recursiveFileLookup", "true").load(dir + "/t")',
    '.load(dir + "/t").where("p = 1")',
    '.load(dir + "/t").where("nope = 1")',
    '.load(dir + "/t").select("nope")',
    '.load(dir + "/t").groupBy("v").count()',
    '.load(dir + "/t").select("id", "_metadata.file_name").select("id")',
    '.load(dir + "/t").select("_metadata.nope")',
    '.load(dir + "/pq")',
)
FEEDS = (
    '.option("startingVersion", 0)',
    '.option("startingVersion", 1).option("endingVersion", 2)',
    '.option("startingVersion", 2).option("endingVersion", 1)',
    '.option("startingVersion", 99)',
    '.option("startingVersion", 0).option("endingVersion", 99)',
    '.option("startingVersion", "x")',
    '.option("startingVersion", "-1")',
    '.option("startingVersion", "latest")',
    '.option("startingTimestamp", "2020-01-02")',
    '.option("startingTimestamp", "2020-01-02").option("endingTimestamp", "2020-01-03")',
    '.option("startingTimestamp", "2020-01-03").option("endingTimestamp", "2020-01-02")',
    '.option("startingTimestamp", "2019-01-02")',
    '.option("startingTimestamp", "2099-01-02")',
    '.option("startingTimestamp", "x")',
    '.option("startingVersion", 0).option("startingTimestamp", "2020-01-02")',
    '.option("startingVersion", 0).option("endingTimestamp", "2020-01-03")',
    '.option("startingVersion", 0).option("endingVersion", 1).option("endingTimestamp", "2020-01-03")',
    '.option("endingVersion", 1)',
    "",
    '.option("startingVersion", 0).option("versionAsOf", 1)',
)


def scenarios() -> Iterator[Scenario]:
    for kind, options in {
        "plain": "PARTITIONED BY (p)",
        "feed": "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'delta.columnMapping.mode' = 'name')",
    }.items():
        made = (
            f"CREATE TABLE t (id INT, v STRING, p INT) USING delta {options}",
            "INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)",
            "UPDATE t SET v = 'c' WHERE id = 1",
            "CREATE TABLE pq (id INT) USING parquet",
            "INSERT INTO pq VALUES (1)",
            KEEP_VERSIONS.format("t"),
            python('on_day("t")'),
        )
        yield scenario(f"frame_reads/{kind}", *made, *(python(f'spark.read.format("delta"){read}') for read in READS))
        yield scenario(
            f"frame_reads/{kind} changes",
            *made,
            *(
                python(
                    f'spark.read.format("delta").option("readChangeFeed", "true"){feed}.{where}.drop("_commit_timestamp")'
                )
                for feed in FEEDS
                for where in ('load(dir + "/t")', 'table("t")')
            ),
            python('spark.read.format("delta").option("readChangeFeed", "x").load(dir + "/t")'),
            python(
                'spark.read.format("delta").option("readChangeData", "true").option("startingVersion", 0).load(dir + "/t").drop("_commit_timestamp")'
            ),
        )
