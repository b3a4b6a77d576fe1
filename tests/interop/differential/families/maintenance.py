"""OPTIMIZE, ZORDER, REORG, VACUUM, RESTORE, GENERATE, CONVERT and the like."""

from __future__ import annotations

from collections.abc import Iterator

from interop.differential.scenarios import (
    FILES,
    KEEP_VERSIONS,
    RESTORED,
    Scenario,
    Step,
    groups,
    python,
    scenario,
    some,
)

TABLES = {
    "plain": "",
    "partitioned": "PARTITIONED BY (v)",
    "clustered": "CLUSTER BY (id)",
    "vectors": "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = 'name')",
}
OPTIMIZES = (
    "OPTIMIZE t",
    "OPTIMIZE t WHERE v = 'a'",
    "OPTIMIZE t WHERE id = 1",
    "OPTIMIZE t WHERE nope = 1",
    "OPTIMIZE t WHERE v = 'a' ZORDER BY (id)",
    "OPTIMIZE t ZORDER BY (id)",
    "OPTIMIZE t ZORDER BY id",
    "OPTIMIZE t ZORDER BY (id, n)",
    "OPTIMIZE t ZORDER BY (v)",
    "OPTIMIZE t ZORDER BY (nope)",
    "OPTIMIZE t ZORDER BY (s.a)",
    "OPTIMIZE t ZORDER BY (s)",
    "OPTIMIZE t ZORDER BY ()",
    "OPTIMIZE t ZORDER BY (id, id)",
    "OPTIMIZE t FULL",
    "OPTIMIZE nowhere",
    "OPTIMIZE '{dir}/t'",
    "OPTIMIZE '{dir}/nowhere'",
    "OPTIMIZE delta.`{dir}/t`",
    "OPTIMIZE delta.`{dir}/nowhere`",
    "OPTIMIZE vw",
    "OPTIMIZE pq",
    "OPTIMIZE",
    "OPTIMIZE t WHERE",
    "OPTIMIZE t WHERE v = 'zzz'",
    "OPTIMIZE t WHERE v IN (SELECT 'a')",
    "REORG TABLE t APPLY (PURGE)",
    "REORG TABLE t WHERE v = 'a' APPLY (PURGE)",
    "REORG TABLE t WHERE id = 1 APPLY (PURGE)",
    "REORG TABLE t APPLY (NOPE)",
    "REORG TABLE t APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 2))",
    "REORG TABLE nowhere APPLY (PURGE)",
    "REORG TABLE vw APPLY (PURGE)",
    "REORG TABLE t",
)
VACUUMS = (
    "VACUUM t DRY RUN",
    "VACUUM t",
    "VACUUM t RETAIN 200 HOURS",
    "VACUUM t RETAIN 200 HOURS DRY RUN",
    "VACUUM t RETAIN 0 HOURS",
    "VACUUM t RETAIN 0 HOURS DRY RUN",
    "VACUUM t RETAIN -1 HOURS",
    "VACUUM t RETAIN x HOURS",
    "VACUUM t RETAIN 0.5 HOURS",
    "VACUUM t RETAIN 7 DAYS",
    "VACUUM t FULL",
    "VACUUM t LITE",
    "VACUUM t LITE DRY RUN",
    "VACUUM t FULL DRY RUN",
    "VACUUM '{dir}/t'",
    "VACUUM delta.`{dir}/t` DRY RUN",
    "VACUUM '{dir}/nowhere'",
    "VACUUM delta.`{dir}/nowhere`",
    "VACUUM nowhere",
    "VACUUM vw",
    "VACUUM pq",
    "VACUUM",
    "VACUUM t USING INVENTORY nowhere",
    "VACUUM t USING INVENTORY (SELECT 'x' AS path, 1L AS length, false AS isDir, 1L AS modificationTime) DRY RUN",
    "VACUUM t USING INVENTORY (SELECT 1 AS nope)",
    "VACUUM t DRY RUN RETAIN 200 HOURS",
)
RESTORES = (
    "RESTORE TABLE t TO VERSION AS OF 1",
    "RESTORE t TO VERSION AS OF 0",
    "RESTORE t VERSION AS OF 1",
    "RESTORE TABLE t TO VERSION AS OF 3",
    "RESTORE TABLE t TO VERSION AS OF 99",
    "RESTORE TABLE t TO VERSION AS OF -1",
    "RESTORE TABLE t TO VERSION AS OF x",
    "RESTORE TABLE t TO VERSION AS OF '1'",
    "RESTORE TABLE t TO TIMESTAMP AS OF '2020-01-02 12:00:00'",
    "RESTORE TABLE t TO TIMESTAMP AS OF '2020-01-02'",
    "RESTORE TABLE t TO TIMESTAMP AS OF '2019-01-01'",
    "RESTORE TABLE t TO TIMESTAMP AS OF '2099-01-01'",
    "RESTORE TABLE t TO TIMESTAMP AS OF 'x'",
    "RESTORE TABLE t TO TIMESTAMP AS OF current_timestamp()",
    "RESTORE TABLE delta.`{dir}/t` TO VERSION AS OF 1",
    "RESTORE TABLE delta.`{dir}/nowhere` TO VERSION AS OF 1",
    "RESTORE TABLE nowhere TO VERSION AS OF 1",
    "RESTORE TABLE vw TO VERSION AS OF 1",
    "RESTORE TABLE pq TO VERSION AS OF 1",
    "RESTORE TABLE t",
    "RESTORE TABLE t TO",
)


def _only(text: str) -> Step:
    if text.startswith(("OPTIMIZE", "REORG")):
        return some(text, *FILES)
    return some(text, *RESTORED) if text.startswith("RESTORE") else some(text)


def scenarios() -> Iterator[Scenario]:
    others = ("CREATE VIEW vw AS SELECT 1 AS id", "CREATE TABLE pq (id INT) USING parquet")
    for kind, options in TABLES.items():
        for number, text in enumerate(OPTIMIZES):
            needs = others if "vw" in text or "pq" in text else ()
            if kind != "plain" and (needs or (number + len(kind)) % 3):
                continue
            yield scenario(
                f"maintenance/{kind} {number}",
                f"CREATE TABLE t (id INT, v STRING, n INT, s STRUCT<a: INT>) USING delta {options}",
                "INSERT INTO t VALUES (1, 'a', 1, NULL)",
                "INSERT INTO t VALUES (2, 'b', 2, NULL), (3, 'a', 3, NULL)",
                *needs,
                _only(text),
            )
    for setting in ("true", "false"):
        yield scenario(
            f"maintenance/vacuum with check {setting}",
            "CREATE TABLE t (id INT, v STRING) USING delta PARTITIONED BY (v)",
            "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
            "DELETE FROM t WHERE v = 'a'",
            *others,
            *(some(text) for text in VACUUMS),
            "INSERT INTO t VALUES (9, 'z')",
            settings={"spark.databricks.delta.retentionDurationCheck.enabled": setting},
        )
    for number, group in groups(RESTORES, 3):
        yield scenario(
            f"maintenance/restore {number}",
            "CREATE TABLE t (id INT, v STRING) USING delta",
            "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
            "ALTER TABLE t ADD COLUMN n INT",
            "DELETE FROM t WHERE id = 1",
            *(others if any("vw" in text or "pq" in text for text in group) else ()),
            KEEP_VERSIONS.format("t"),
            python('on_day("t")'),
            *map(_only, group),
            "INSERT INTO t (id) VALUES (50)",
        )
    yield scenario(
        "maintenance/generate",
        "CREATE TABLE t (id INT, v STRING) USING delta PARTITIONED BY (v)",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
        *others,
        "GENERATE symlink_format_manifest FOR TABLE t",
        "GENERATE symlink_format_manifest FOR TABLE delta.`{dir}/t`",
        "GENERATE nope FOR TABLE t",
        "GENERATE symlink_format_manifest FOR TABLE nowhere",
        "GENERATE symlink_format_manifest FOR TABLE pq",
        "GENERATE symlink_format_manifest FOR TABLE delta.`{dir}/nowhere`",
        "GENERATE symlink_format_manifest",
        "FSCK REPAIR TABLE t DRY RUN",
        "MSCK REPAIR TABLE t",
        "ANALYZE TABLE t COMPUTE STATISTICS",
        "ANALYZE TABLE t COMPUTE DELTA STATISTICS",
        "REFRESH TABLE t",
        "REFRESH TABLE nowhere",
        "REPAIR TABLE t",
        "ALTER TABLE t SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        "DELETE FROM t WHERE id = 1",
        "GENERATE symlink_format_manifest FOR TABLE t",
    )
    for kind, options in TABLES.items():
        yield scenario(
            f"maintenance/in turn {kind}",
            f"CREATE TABLE t (id INT, v STRING) USING delta {options}",
            *(f"INSERT INTO t VALUES ({i}, '{'ab'[i % 2]}')" for i in range(6)),
            "DELETE FROM t WHERE id = 3",
            _only("OPTIMIZE t"),
            _only("OPTIMIZE t"),
            "UPDATE t SET v = 'b' WHERE id = 1",
            _only("REORG TABLE t APPLY (PURGE)"),
            _only("RESTORE t TO VERSION AS OF 4"),
            _only("OPTIMIZE t"),
            "DELETE FROM t WHERE id = 0",
            _only("RESTORE t TO VERSION AS OF 7"),
        )
