"""`df.write`, `df.writeTo` and `df.mergeInto`: modes, options and bad input."""

from __future__ import annotations

from collections.abc import Iterator

from interop.differential.scenarios import DETAIL, HISTORY, Scenario, Step, groups, python, scenario, some

FRAMES = {
    "same": "SELECT 3 AS id, 'c' AS v",
    "more": "SELECT 3 AS id, 'c' AS v, 5 AS n",
    "less": "SELECT 3 AS id",
    "other type": "SELECT '3' AS id, 'c' AS v",
    "wider": "SELECT 3L AS id, 'c' AS v",
    "other case": "SELECT 3 AS ID, 'c' AS V",
    "other order": "SELECT 'c' AS v, 3 AS id",
    "twice": "SELECT 3 AS id, 4 AS id",
    "of partition a": "SELECT 3 AS id, 'a' AS v",
    "none": "SELECT 3 AS id, 'c' AS v WHERE false",
    "null": "SELECT 3 AS id, NULL AS v",
    "blank name": "SELECT 3 AS id, 'c' AS v, 1 AS `a b`",
}
# Options of a write, in the text of a step.
OPTIONS = (
    "",
    '.option("mergeSchema", "true")',
    '.option("overwriteSchema", "true")',
    '.option("mergeSchema", "true").option("overwriteSchema", "true")',
    '.option("replaceWhere", "v = \'a\'")',
    '.option("replaceWhere", "id = 1")',
    '.option("partitionOverwriteMode", "dynamic")',
    '.partitionBy("v")',
    '.partitionBy("id")',
)
MODES = ("append", "overwrite", "ignore", "error")
# Options whose effect or refusal doesn't depend on the frame.
SINGLE = (
    '.mode("append").option("txnAppId", "a").option("txnVersion", "1")',
    '.mode("append").option("txnAppId", "a").option("txnVersion", "0")',
    '.mode("append").option("txnAppId", "a").option("txnVersion", "2")',
    '.mode("append").option("txnAppId", "a")',
    '.mode("append").option("txnVersion", "1")',
    '.mode("append").option("txnAppId", "a").option("txnVersion", "x")',
    '.mode("append").option("userMetadata", "note")',
    '.mode("overwrite").option("userMetadata", "note")',
    '.mode("append").option("maxRecordsPerFile", "1")',
    '.mode("append").option("maxRecordsPerFile", "0")',
    '.mode("append").option("maxRecordsPerFile", "x")',
    '.mode("append").option("mergeSchema", "x")',
    '.mode("overwrite").option("overwriteSchema", "x")',
    '.mode("append").option("overwriteSchema", "true")',
    '.mode("append").option("replaceWhere", "id = 1")',
    '.mode("overwrite").option("replaceWhere", "nope = 1")',
    '.mode("overwrite").option("replaceWhere", "id")',
    '.mode("overwrite").option("replaceWhere", "id >")',
    '.mode("overwrite").option("replaceWhere", "true")',
    '.mode("overwrite").option("replaceWhere", "")',
    '.mode("overwrite").option("replaceWhere", "id = 3 AND v = \'c\'")',
    '.mode("overwrite").option("replaceWhere", "id IN (3, 1)")',
    '.mode("overwrite").option("replaceWhere", "id = 1").option("overwriteSchema", "true")',
    '.mode("overwrite").option("replaceWhere", "id = 1").option("partitionOverwriteMode", "dynamic")',
    '.mode("overwrite").option("partitionOverwriteMode", "dynamic").option("overwriteSchema", "true")',
    '.mode("overwrite").option("partitionOverwriteMode", "static")',
    '.mode("overwrite").option("partitionOverwriteMode", "x")',
    '.mode("overwrite").option("dataChange", "false")',
    '.mode("append").option("dataChange", "false")',
    '.mode("append").option("optimizeWrite", "true")',
    '.mode("append").option("compression", "zstd")',
    '.mode("append").option("compression", "nope")',
    '.mode("append").option("delta.appendOnly", "true")',
    '.mode("append").option("nosuchoption", "true")',
    '.mode("append").option("versionAsOf", "0")',
    '.mode("append").option("isolationLevel", "x")',
    '.mode("append").sortBy("id")',
    '.mode("append").bucketBy(4, "id")',
    '.mode("append").clusterBy("id")',
    '.mode("nope")',
)
TO = (
    ".append()",
    ".overwrite(F.expr('id = 1'))",
    ".overwrite(F.expr('true'))",
    ".overwrite(F.col('nope') == 1)",
    ".overwritePartitions()",
    ".create()",
    ".replace()",
    ".createOrReplace()",
    ".using('delta').create()",
    ".using('delta').replace()",
    ".using('delta').createOrReplace()",
    ".using('delta').partitionedBy(F.col('v')).createOrReplace()",
    ".using('delta').partitionedBy(F.bucket(4, 'id')).createOrReplace()",
    ".using('delta').clusterBy('id').createOrReplace()",
    ".using('delta').tableProperty('delta.appendOnly', 'true').createOrReplace()",
    ".using('delta').tableProperty('delta.nope', 'true').createOrReplace()",
    ".using('delta').option('mergeSchema', 'true').append()",
    ".option('mergeSchema', 'true').overwritePartitions()",
    ".option('overwriteSchema', 'true').replace()",
    ".option('txnAppId', 'a').option('txnVersion', '1').append()",
    ".option('userMetadata', 'note').append()",
)
MERGES = (
    ".whenMatched().updateAll()",
    ".whenMatched().update({'v': F.col('s.v')})",
    ".whenMatched().delete()",
    ".whenNotMatched().insertAll()",
    ".whenNotMatched().insert({'id': F.col('s.id')})",
    ".whenNotMatchedBySource().delete()",
    ".whenNotMatchedBySource().update({'v': F.lit('gone')})",
    ".whenMatched(F.col('s.id') == 1).updateAll().whenNotMatched().insertAll()",
    ".withSchemaEvolution().whenMatched().updateAll().whenNotMatched().insertAll()",
    ".whenMatched().update({'nope': F.lit(1)})",
    "",
)


def _written(frame: str, rest: str) -> Step:
    return python(f'spark.sql("{FRAMES[frame]}").write.format("delta"){rest}')


def scenarios() -> Iterator[Scenario]:
    for partition in ("", "PARTITIONED BY (v)"):
        kind = "partitioned" if partition else "plain"
        made = (f"CREATE TABLE t (id INT, v STRING) USING delta {partition}", "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        for frame in FRAMES:
            if frame not in ("same", "more", "less", "of partition a") and partition:
                continue
            for mode in MODES[:2]:
                for number, group in groups(OPTIONS, 3):
                    if frame not in ("same", "more", "of partition a") and (number + len(frame)) % 2:
                        continue
                    yield scenario(
                        f"frame_writes/{kind} {frame} {mode} {number}",
                        *made,
                        *(_written(frame, f'.mode("{mode}"){options}.save(dir + "/t")') for options in group),
                    )
            yield scenario(
                f"frame_writes/{kind} {frame} by name",
                *made,
                _written(frame, '.mode("append").saveAsTable("t")'),
                _written(frame, '.mode("append").insertInto("t")'),
                _written(frame, '.mode("ignore").saveAsTable("t")'),
                _written(frame, '.mode("error").saveAsTable("t")'),
                _written(frame, '.mode("append").option("mergeSchema", "true").saveAsTable("t")'),
                _written(frame, '.mode("overwrite").saveAsTable("t")'),
                _written(frame, '.insertInto("t", overwrite=True)'),
                _written(frame, '.mode("overwrite").option("overwriteSchema", "true").saveAsTable("t")'),
                _written(frame, '.mode("ignore").save(dir + "/t")'),
                _written(frame, '.mode("error").save(dir + "/t")'),
            )
            yield scenario(
                f"frame_writes/{kind} {frame} new",
                *(
                    _written(frame, f'{partitioned}.mode("{mode}").save(dir + "/{mode}{i}")')
                    for i, partitioned in enumerate(
                        ("", '.partitionBy("v")', '.partitionBy("nope")') if partition else ("",)
                    )
                    for mode in (MODES if not i else MODES[:2])
                ),
                _written(frame, '.saveAsTable("t")'),
                _written(frame, '.saveAsTable("t")'),
                _written(frame, '.option("path", dir + "/e").saveAsTable("e")'),
                _written(frame, '.insertInto("nowhere")'),
            )
    for number, rest in enumerate(SINGLE):
        yield scenario(
            f"frame_writes/single {number}",
            "CREATE TABLE t (id INT, v STRING) USING delta",
            "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
            _written("same", rest + '.save(dir + "/t")'),
            *([_written("same", rest + '.save(dir + "/t")')] if "txn" in rest else []),
            _written("same", rest + '.save(dir + "/new")'),
            _written("same", rest + '.saveAsTable("t")'),
        )
    for number, rest in enumerate(TO):
        yield scenario(
            f"frame_writes/to {number}",
            "CREATE TABLE t (id INT, v STRING) USING delta PARTITIONED BY (v)",
            "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
            *(
                python(f'spark.sql("{FRAMES[frame]}").writeTo("{table}"){rest}')
                for frame, table in (("same", "t"), ("more", "t"), ("same", "nowhere"), ("other type", "t"))
            ),
        )
    for number, rest in enumerate(MERGES):
        source = "SELECT 1 AS id, 'm' AS v UNION ALL SELECT 7, 'n'"
        yield scenario(
            f"frame_writes/merge {number}",
            "CREATE TABLE t (id INT, v STRING) USING delta",
            "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
            python(f'spark.sql("{source}").alias("s").mergeInto("t", F.expr("t.id = s.id")){rest}.merge()'),
            python(
                f'spark.sql("SELECT 1 AS id, 2 AS n").alias("s").mergeInto("t", F.expr("t.id = s.id")){rest}.merge()'
            ),
            python(f'spark.sql("{source}").alias("s").mergeInto("nowhere", F.expr("true")){rest}.merge()'),
        )
    yield scenario(
        "frame_writes/facts",
        _written("same", '.option("delta.appendOnly", "true").option("userMetadata", "u").save(dir + "/p")'),
        _written("same", '.option("delta.nope", "true").save(dir + "/q")'),
        _written("same", '.option("delta.columnMapping.mode", "name").clusterBy("id").saveAsTable("t")'),
        _written("same", '.save("")'),
        _written("same", ".save()"),
        some("DESCRIBE DETAIL delta.`{dir}/p`", *DETAIL),
        some("DESCRIBE DETAIL t", *DETAIL),
        some("DESCRIBE HISTORY t", *HISTORY),
    )
