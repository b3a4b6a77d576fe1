"""Session settings of the documentation, each with commands that they affect."""

from __future__ import annotations

from collections.abc import Iterator

from interop.differential.scenarios import Scenario, python, scenario, some

DELTA = "spark.databricks.delta."
DEFAULTS = f"{DELTA}properties.defaults."
SETTINGS: tuple[dict[str, str], ...] = (
    {f"{DEFAULTS}appendOnly": "true"},
    {f"{DEFAULTS}appendOnly": "x"},
    {f"{DEFAULTS}enableChangeDataFeed": "true"},
    {f"{DEFAULTS}enableRowTracking": "true"},
    {f"{DEFAULTS}enableDeletionVectors": "true"},
    {f"{DEFAULTS}columnMapping.mode": "name"},
    {f"{DEFAULTS}columnMapping.mode": "id"},
    {f"{DEFAULTS}minReaderVersion": "3", f"{DEFAULTS}minWriterVersion": "7"},
    {f"{DEFAULTS}minWriterVersion": "5"},
    {f"{DEFAULTS}checkpointInterval": "2"},
    {f"{DEFAULTS}checkpointPolicy": "v2"},
    {f"{DEFAULTS}enableInCommitTimestamps": "true"},
    {f"{DEFAULTS}enableTypeWidening": "true"},
    {f"{DEFAULTS}feature.allowColumnDefaults": "supported"},
    {f"{DEFAULTS}feature.nope": "supported"},
    {f"{DEFAULTS}nope": "x"},
    {f"{DEFAULTS}dataSkippingNumIndexedCols": "1"},
    {f"{DEFAULTS}isolationLevel": "Serializable"},
    {f"{DEFAULTS}logRetentionDuration": "interval 2 days"},
    {f"{DELTA}schema.autoMerge.enabled": "true"},
    {f"{DELTA}commitInfo.userMetadata": "of the session"},
    {f"{DELTA}write.txnAppId": "app", f"{DELTA}write.txnVersion": "1"},
    {
        f"{DELTA}write.txnAppId": "app",
        f"{DELTA}write.txnVersion": "1",
        f"{DELTA}write.txnVersion.autoReset.enabled": "true",
    },
    {f"{DELTA}write.txnAppId": "app"},
    {f"{DELTA}write.txnVersion": "1"},
    {f"{DELTA}optimizeWrite.enabled": "true"},
    {f"{DELTA}autoCompact.enabled": "true", f"{DELTA}autoCompact.minNumFiles": "2"},
    {f"{DELTA}optimize.repartition.enabled": "true"},
    {f"{DELTA}merge.repartitionBeforeWrite.enabled": "false"},
    {f"{DELTA}replaceWhere.dataColumns.enabled": "false"},
    {f"{DELTA}replaceWhere.constraintCheck.enabled": "false"},
    {f"{DELTA}retentionDurationCheck.enabled": "false"},
    {f"{DELTA}vacuum.parallelDelete.enabled": "true"},
    {f"{DELTA}catalog.update.enabled": "true"},
    {f"{DELTA}checkpoint.partSize": "1"},
    {f"{DELTA}convert.useMetadataLog": "false"},
    {"spark.sql.sources.partitionOverwriteMode": "dynamic"},
    {"spark.sql.ansi.enabled": "false"},
    {"spark.sql.caseSensitive": "true"},
    {"spark.sql.session.timeZone": "America/New_York"},
)


def scenarios() -> Iterator[Scenario]:
    for number, settings in enumerate(SETTINGS):
        frame = 'spark.sql("SELECT 5 AS id, \'e\' AS v").write.format("delta")'
        yield scenario(
            f"settings/{number}",
            "CREATE TABLE t (id INT, v STRING) USING delta PARTITIONED BY (v)",
            "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
            "UPDATE t SET id = 9 WHERE id = 1",
            "DELETE FROM t WHERE id = 2",
            "MERGE INTO t USING (SELECT 3 AS id, 'm' AS v, 1 AS extra) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * "
            "WHEN NOT MATCHED THEN INSERT *",
            python(f'{frame}.mode("append").save(dir + "/t")'),
            python(f'{frame}.mode("overwrite").save(dir + "/p")'),
            python(f'{frame}.mode("overwrite").option("replaceWhere", "id = 5").save(dir + "/t")'),
            python(f'{frame}.mode("overwrite").option("replaceWhere", "id = 6").save(dir + "/t")'),
            "INSERT OVERWRITE t VALUES (7, 'g')",
            "CREATE TABLE u (id INT, v STRING) USING delta",
            "CREATE TABLE w USING delta AS SELECT 1 AS id",
            "ALTER TABLE u SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
            some("OPTIMIZE t", "metrics.numFilesAdded"),
            some("VACUUM t RETAIN 0 HOURS DRY RUN"),
            "SHOW TBLPROPERTIES w",
            "SELECT ID FROM t",
            settings=settings,
        )
