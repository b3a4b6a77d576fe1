"""Table properties that docs.delta.io names, with good and bad values, and table features."""

from __future__ import annotations

from collections.abc import Iterator

from interop.differential.scenarios import Scenario, scenario

PROPERTIES: dict[str, tuple[str, ...]] = {
    "delta.appendOnly": ("true", "FALSE", "1"),
    "delta.autoOptimize.autoCompact": ("true", "auto", "x"),
    "delta.autoOptimize.optimizeWrite": ("true", "false", "x"),
    "delta.checkpoint.writeStatsAsJson": ("false", "x"),
    "delta.checkpoint.writeStatsAsStruct": ("true", "x"),
    "delta.checkpointInterval": ("5", "0", "-1", "x", "2.5"),
    "delta.checkpointPolicy": ("v2", "classic", "x"),
    "delta.columnMapping.mode": ("name", "id", "none", "x"),
    "delta.columnMapping.maxColumnId": ("5",),
    "delta.compatibility.symlinkFormatManifest.enabled": ("true", "x"),
    "delta.dataSkippingNumIndexedCols": ("1", "-1", "-2", "x"),
    "delta.dataSkippingStatsColumns": ("id", "id, v", "nope", "", "id,,v"),
    "delta.deletedFileRetentionDuration": (
        "interval 1 day",
        "1 day",
        "interval 1 week",
        "x",
        "interval -1 day",
        "interval 1 month",
    ),
    "delta.enableChangeDataFeed": ("true", "false", "x"),
    "delta.enableDeletionVectors": ("true", "false", "x"),
    "delta.enableExpiredLogCleanup": ("false", "x"),
    "delta.enableIcebergCompatV1": ("true", "false"),
    "delta.enableIcebergCompatV2": ("true", "false"),
    "delta.enableInCommitTimestamps": ("true", "false", "x"),
    "delta.enableRowTracking": ("true", "false", "x"),
    "delta.enableTypeWidening": ("true", "false", "x"),
    "delta.isolationLevel": ("Serializable", "WriteSerializable", "SnapshotIsolation", "x"),
    "delta.logRetentionDuration": ("interval 30 days", "interval 1 hour", "x", "30"),
    "delta.minReaderVersion": ("1", "2", "3", "9", "x"),
    "delta.minWriterVersion": ("2", "4", "5", "7", "99", "x"),
    "delta.parquet.compression.codec": ("zstd", "snappy", "x"),
    "delta.randomizeFilePrefixes": ("true", "x"),
    "delta.randomPrefixLength": ("3", "0", "x"),
    "delta.setTransactionRetentionDuration": ("interval 1 day", "x"),
    "delta.targetFileSize": ("10mb", "1048576", "x", "-1"),
    "delta.tuneFileSizesForRewrites": ("true", "x"),
    "delta.universalFormat.enabledFormats": ("iceberg", "hudi", "x"),
    "delta.constraints.c": ("id > 0", "id >", "nope > 0"),
    "delta.nope": ("x",),
    "delta.identity.start": ("1",),
    "delta.feature.deletionVectors": ("supported", "enabled", "x"),
    "delta.feature.columnMapping": ("supported",),
    "delta.feature.allowColumnDefaults": ("supported",),
    "delta.feature.appendOnly": ("supported",),
    "delta.feature.invariants": ("supported",),
    "delta.feature.checkConstraints": ("supported",),
    "delta.feature.changeDataFeed": ("supported",),
    "delta.feature.generatedColumns": ("supported",),
    "delta.feature.identityColumns": ("supported",),
    "delta.feature.timestampNtz": ("supported",),
    "delta.feature.domainMetadata": ("supported",),
    "delta.feature.rowTracking": ("supported",),
    "delta.feature.clustering": ("supported",),
    "delta.feature.v2Checkpoint": ("supported",),
    "delta.feature.vacuumProtocolCheck": ("supported",),
    "delta.feature.inCommitTimestamp": ("supported",),
    "delta.feature.typeWidening": ("supported",),
    "delta.feature.variantType": ("supported",),
    "delta.feature.icebergCompatV2": ("supported",),
    "delta.feature.checkpointProtection": ("supported",),
    "delta.feature.nope": ("supported",),
    "owner": ("me",),
    "comment": ("hello",),
    "external": ("true",),
    "a.b": ("c",),
    "a b": ("",),
    "DELTA.APPENDONLY": ("true",),
    "delta.AppendOnly": ("true",),
}
FEATURES = (
    "deletionVectors",
    "columnMapping",
    "v2Checkpoint",
    "typeWidening",
    "rowTracking",
    "inCommitTimestamp",
    "vacuumProtocolCheck",
    "checkConstraints",
    "changeDataFeed",
    "domainMetadata",
    "clustering",
    "allowColumnDefaults",
    "timestampNtz",
    "appendOnly",
    "nope",
)
TOGETHER = (
    ("delta.columnMapping.mode=name", "delta.enableChangeDataFeed=true"),
    ("delta.minReaderVersion=1", "delta.enableDeletionVectors=true"),
    ("delta.minReaderVersion=3", "delta.minWriterVersion=7"),
    ("delta.minReaderVersion=3", "delta.minWriterVersion=6"),
    ("delta.minReaderVersion=2", "delta.minWriterVersion=5", "delta.columnMapping.mode=id"),
    ("delta.minReaderVersion=1", "delta.minWriterVersion=7", "delta.feature.appendOnly=supported"),
    ("delta.enableIcebergCompatV2=true", "delta.columnMapping.mode=name"),
    ("delta.enableIcebergCompatV2=true", "delta.enableDeletionVectors=true"),
    ("delta.enableIcebergCompatV1=true", "delta.enableIcebergCompatV2=true"),
    ("delta.universalFormat.enabledFormats=iceberg", "delta.enableIcebergCompatV2=true"),
    ("delta.appendOnly=true", "delta.enableChangeDataFeed=true"),
    ("delta.feature.rowTracking=supported", "delta.feature.domainMetadata=supported"),
    ("delta.enableRowTracking=true", "delta.enableDeletionVectors=true", "delta.checkpointPolicy=v2"),
    ("a=1", "a=2"),
)


def scenarios() -> Iterator[Scenario]:
    for key, values in PROPERTIES.items():
        created, replaced = [], []
        altered = ["CREATE TABLE t (id INT, v STRING) USING delta"]
        for number, value in enumerate(values):
            clause = f"TBLPROPERTIES ('{key}' = '{value}')"
            created.append(f"CREATE TABLE c{number} (id INT, v STRING) USING delta {clause}")
            altered += [
                f"ALTER TABLE t SET {clause}",
                f"ALTER TABLE t UNSET TBLPROPERTIES ('{key}')",
            ]
        replaced.append(f"CREATE OR REPLACE TABLE t (id INT, v STRING) USING delta {clause}")
        yield scenario(
            f"properties/create {key}",
            *created,
            "SHOW TBLPROPERTIES c0",
            f"SHOW TBLPROPERTIES c0 ('{key}')",
            tables=("c0",),
        )
        writes = ("INSERT INTO t VALUES (1, 'a')", "UPDATE t SET v = 'c' WHERE id = 2")
        yield scenario(f"properties/alter {key}", *altered, *writes, *replaced)
    for number, pairs in enumerate(TOGETHER):
        clause = ", ".join("'{}' = '{}'".format(*pair.split("=")) for pair in pairs)
        yield scenario(
            f"properties/together {number}",
            f"CREATE TABLE t (id INT, v STRING) USING delta TBLPROPERTIES ({clause})",
            "CREATE TABLE u (id INT, v STRING) USING delta",
            f"ALTER TABLE u SET TBLPROPERTIES ({clause})",
            f"ALTER TABLE t SET TBLPROPERTIES ({clause})",
            "INSERT INTO t VALUES (1, 'a')",
            tables=("t",),
        )
    for feature in FEATURES:
        yield scenario(
            f"properties/drop feature {feature}",
            f"CREATE TABLE t (id INT) USING delta TBLPROPERTIES ('delta.feature.{feature}' = 'supported')",
            f"ALTER TABLE t DROP FEATURE {feature}",
            f"ALTER TABLE t DROP FEATURE {feature} TRUNCATE HISTORY",
            tables=(),
        )
    yield scenario(
        "properties/bad statements",
        "CREATE TABLE t (id INT) USING delta",
        "ALTER TABLE t SET TBLPROPERTIES ()",
        "ALTER TABLE t SET TBLPROPERTIES ('a')",
        "ALTER TABLE t SET TBLPROPERTIES (a = 1, b = true, c = 2.5)",
        "ALTER TABLE t UNSET TBLPROPERTIES ('nope')",
        "ALTER TABLE t UNSET TBLPROPERTIES IF EXISTS ('nope')",
        "ALTER TABLE t UNSET TBLPROPERTIES ('a', 'b')",
        "ALTER TABLE nowhere SET TBLPROPERTIES ('a' = 'b')",
        "ALTER TABLE nowhere UNSET TBLPROPERTIES ('a')",
        "ALTER TABLE delta.`{dir}/t` SET TBLPROPERTIES ('p' = 'q')",
        "ALTER TABLE delta.`{dir}/nowhere` SET TBLPROPERTIES ('p' = 'q')",
        "ALTER TABLE t SET SERDEPROPERTIES ('a' = 'b')",
        "SHOW TBLPROPERTIES t",
        "SHOW TBLPROPERTIES t ('nope')",
        "SHOW TBLPROPERTIES nowhere",
        "SHOW TBLPROPERTIES delta.`{dir}/t`",
        "COMMENT ON TABLE t IS 'said'",
        "COMMENT ON TABLE t IS NULL",
        "COMMENT ON TABLE nowhere IS 'x'",
    )
