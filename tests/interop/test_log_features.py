"""In-commit timestamps, row ids, domains, clustering, checksums, V2 checkpoints, compactions:
delta-spark reads deltaplane's tables, continues, and deltaplane reads the result."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from deltaplane import DeltaTable, write_deltalake
from interop.datasets import numbered
from interop.delta_spark import DeltaSpark
from interop.same import assert_same
from interop.verifier import verify


def log(table: str) -> Path:
    return Path(table) / "_delta_log"


def actions(table: str, version: int, kind: str) -> list[dict[str, Any]]:
    lines = (log(table) / f"{version:020d}.json").read_text().splitlines()
    return [a[kind] for a in map(json.loads, lines) if kind in a]


def create(table: str, **arguments: Any) -> DeltaTable:
    return DeltaTable.create(table, numbered(0, 0).schema, **arguments)


def append(table: str, start: int, count: int = 2) -> None:
    write_deltalake(table, numbered(start, count), mode="append")


def test_own_times_both_ways(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    # P082, P083, P084: enabled at creation by deltaplane, later by delta-spark
    table = tmp_table()
    create(table, configuration={"delta.enableInCommitTimestamps": "true"})
    append(table, 0)
    delta_spark.write(table, numbered(2, 2))
    append(table, 4)
    ours = {e["version"]: e["timestamp"] for e in DeltaTable(table).history()}
    described = delta_spark.sql(f"describe history delta.`{table}`").to_pylist()
    assert {r["version"]: round(r["timestamp"].timestamp() * 1000) for r in described} == ours
    stamps = [actions(table, v, "commitInfo")[0]["inCommitTimestamp"] for v in range(4)]
    assert stamps == [ours[v] for v in range(4)] == sorted(set(stamps))
    assert_same(delta_spark.read(table), numbered(0, 6))
    verify(table)

    for who in ("we", "they"):
        later = tmp_table()
        write_deltalake(later, numbered(0, 2))
        key = "delta.enableInCommitTimestamps"
        if who == "we":
            DeltaTable(later).alter.set_table_properties({key: "true"})
        else:
            delta_spark.sql(f"alter table delta.`{later}` set tblproperties ('{key}' = 'true')")
        append(later, 2)
        configuration = DeltaTable(later).metadata().configuration
        assert configuration["delta.inCommitTimestampEnablementVersion"] == "1"
        described = delta_spark.sql(f"describe history delta.`{later}`").to_pylist()
        assert {r["version"]: round(r["timestamp"].timestamp() * 1000) for r in described} == {
            e["version"]: e["timestamp"] for e in DeltaTable(later).history()
        }
        verify(later)


def row_ids(delta_spark: DeltaSpark, table: str) -> list[tuple[int, int, int]]:
    rows = delta_spark.sql(
        f"select id, _metadata.row_id as r, _metadata.row_commit_version as v from delta.`{table}` order by id"
    )
    return [(r["id"], r["r"], r["v"]) for r in rows.to_pylist()]


def test_row_ids_go_on(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    # P140-P143
    table = tmp_table()
    create(table, configuration={"delta.enableRowTracking": "true"})
    append(table, 0)
    append(table, 2)
    assert row_ids(delta_spark, table) == [(0, 0, 1), (1, 1, 1), (2, 2, 2), (3, 3, 2)]
    delta_spark.write(table, numbered(4, 2))
    delta_spark.sql(f"delete from delta.`{table}` where id = 1")
    DeltaTable(table).create_checkpoint()
    append(table, 6)
    seen = row_ids(delta_spark, table)
    assert [(i, v) for i, _, v in seen] == [(0, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 5), (7, 5)]
    assert len({r for _, r, _ in seen}) == len(seen)
    assert seen[:3] == [(0, 0, 1), (2, 2, 2), (3, 3, 2)]
    mark = json.loads(DeltaTable(table).domain_metadata()["delta.rowTracking"])["rowIdHighWaterMark"]
    assert mark >= max(r for _, r, _ in seen)
    verify(table)


def test_row_ids_that_come_late(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    # P140, P141: existing files get ids, delta-spark reads them and continues; a vector and a
    # partition stay
    table = tmp_table()
    write_deltalake(table, numbered(0, 2), configuration={"delta.enableDeletionVectors": "true"})
    append(table, 2)
    delta_spark.sql(f"delete from delta.`{table}` where id = 1")
    plan = DeltaTable(table).alter.set_table_properties({"delta.enableRowTracking": "true"})
    assert plan.added_features == ["domainMetadata", "rowTracking"]
    assert [e["operation"] for e in DeltaTable(table).history(3)] == [
        "SET TBLPROPERTIES",
        "ROW TRACKING BACKFILL",
        "UPGRADE PROTOCOL",
    ]
    before = row_ids(delta_spark, table)
    assert [(i, v) for i, _, v in before] == [(0, 4), (2, 4), (3, 4)]
    assert sorted(r for _, r, _ in before) in ([0, 2, 3], [0, 1, 2])
    delta_spark.execute(f"update delta.`{table}` set name = 'new' where id = 2")
    append(table, 4)
    after = row_ids(delta_spark, table)
    assert [r for _, r, _ in after[:3]] == [r for _, r, _ in before]
    assert len({r for _, r, _ in after}) == 5
    verify(table)
    # P098: both continue without the feature.
    plan = DeltaTable(table).alter.drop_feature("rowTracking")
    assert plan.removed_features == ["rowTracking"]
    delta_spark.execute(f"delete from delta.`{table}` where id = 4")
    append(table, 6)
    rows = DeltaTable(table).to_pyarrow_table()
    assert sorted(rows["id"].to_pylist()) == [0, 2, 3, 5, 6, 7]
    assert_same(delta_spark.read(table), rows)
    verify(table)
    assert not any("baseRowId" in a for a in actions(table, DeltaTable(table).version(), "add"))


def test_clustering_and_domains(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    # P151, P152
    table = tmp_table()
    create(table, cluster_by=["id"])
    append(table, 0)
    DeltaTable(table).set_domain_metadata("app.settings", '{"level": 3}')
    append(table, 2)
    detail = delta_spark.sql(f"describe detail delta.`{table}`").to_pylist()[0]
    assert detail["clusteringColumns"] == ["id"]
    delta_spark.write(table, numbered(4, 2))
    delta_spark.execute(f"optimize delta.`{table}`")
    delta_spark.sql(f"alter table delta.`{table}` cluster by (name)")
    append(table, 6)
    domains = DeltaTable(table).domain_metadata()
    assert domains["app.settings"] == '{"level": 3}'
    assert json.loads(domains["delta.clustering"])["clusteringColumns"] == [["name"]]
    assert_same(delta_spark.read(table), numbered(0, 8))
    assert_same(DeltaTable(table).to_pyarrow_table(), numbered(0, 8))
    verify(table)


def test_checksums_are_sound_to_delta_spark(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    # P018: delta-spark compares each with the state that it computes from the log
    table = tmp_table()
    create(
        table,
        partition_by=["day"],
        configuration={"delta.enableRowTracking": "true", "delta.enableInCommitTimestamps": "true"},
    )
    append(table, 0)
    write_deltalake(table, numbered(0, 4), mode="overwrite")
    assert delta_spark.checksum(table) == {"there": True, "sound": True}
    delta_spark.write(table, numbered(4, 2))
    append(table, 6)
    assert delta_spark.checksum(table) == {"there": True, "sound": True}
    theirs, ours = (json.loads((log(table) / f"{v:020d}.crc").read_text()) for v in (3, 4))
    assert ours["numFiles"] > theirs["numFiles"]
    assert_same(delta_spark.read(table), numbered(0, 8))
    verify(table)


@pytest.mark.parametrize("left", ["nothing", "a part", "zeros"])
def test_nobody_needs_a_checksum_that_a_power_failure_cut_off(
    left: str, delta_spark: DeltaSpark, tmp_table: Callable[[], str]
) -> None:
    """P018, P019: commits are synced, their checksums aren't."""
    table = tmp_table()
    append(table, 0)
    append(table, 2)

    def cut(version: int) -> None:
        checksum = log(table) / f"{version:020d}.crc"
        text = checksum.read_bytes()
        checksum.write_bytes({"nothing": b"", "a part": text[: len(text) // 2], "zeros": bytes(len(text))}[left])

    cut(1)
    assert_same(delta_spark.read(table), numbered(0, 4))
    assert_same(pa.table(deltalake.DeltaTable(table).to_pyarrow_table()), numbered(0, 4))
    append(table, 4)
    cut(2)
    delta_spark.write(table, numbered(6, 2))
    append(table, 8)
    for read in (delta_spark.read(table), DeltaTable(table).to_pyarrow_table()):
        assert_same(read, numbered(0, 10))
    # A log without checksums is valid; the verifier refuses damaged ones.
    for version in (1, 2):
        (log(table) / f"{version:020d}.crc").unlink()
    verify(table)


def test_v2_checkpoints_both_ways(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    # P056-P059
    table = tmp_table()
    create(table, configuration={"delta.checkpointPolicy": "v2", "delta.enableRowTracking": "true"})
    append(table, 0)
    write_deltalake(table, numbered(0, 4), mode="overwrite")
    DeltaTable(table).create_checkpoint()
    # One sidecar of live files, one of tombstones.
    assert len(list((log(table) / "_sidecars").iterdir())) == 2
    verify(table)
    # Only the checkpoint contains the first versions.
    for version in (0, 1):
        for kind in ("json", "crc"):
            (log(table) / f"{version:020d}.{kind}").unlink()
    assert_same(delta_spark.read(table), numbered(0, 4))
    delta_spark.write(table, numbered(4, 2))
    assert row_ids(delta_spark, table)[:1] == [(0, row_ids(delta_spark, table)[0][1], 2)]
    delta_spark.checkpoint(table)
    append(table, 6)
    DeltaTable(table).create_checkpoint()
    assert_same(delta_spark.read(table), numbered(0, 8))
    assert_same(DeltaTable(table).to_pyarrow_table(), numbered(0, 8))
    assert delta_spark.snapshot(table)["version"] == 4
    assert set(DeltaTable(table).domain_metadata()) == {"delta.rowTracking"}
    plain = tmp_table()
    create(plain, configuration={"delta.checkpointPolicy": "v2"})
    append(plain, 0)
    DeltaTable(plain).create_checkpoint()
    (log(plain) / f"{0:020d}.json").unlink()
    assert_same(DeltaTable(plain).to_pyarrow_table(), numbered(0, 2))
    assert deltalake.DeltaTable(plain).version() == 1


def test_others_read_a_v2_checkpoint_that_names_sidecars_again(
    delta_spark: DeltaSpark, tmp_table: Callable[[], str]
) -> None:
    # P056, P062: sidecars have tags, and some are older than the checkpoint
    table = tmp_table()
    create(table, partition_by=["day"], configuration={"delta.checkpointPolicy": "v2"})
    for start in range(0, 8, 2):
        append(table, start)
    sidecars = log(table) / "_sidecars"
    DeltaTable(table).create_checkpoint()
    first = {path.name for path in sidecars.iterdir()}
    append(table, 8)
    DeltaTable(table).create_checkpoint()
    assert {path.name for path in sidecars.iterdir()} > first, "one is named again"
    verify(table)
    # Only the second checkpoint remains readable. (delta-spark requires a checkpoint's own commit
    # to exist.)
    for path in log(table).glob("0*"):
        if int(path.name[:20]) < 5:
            path.unlink()
    assert_same(DeltaTable(table).to_pyarrow_table(), numbered(0, 10))
    assert sorted(deltalake.DeltaTable(table).file_uris()) == sorted(DeltaTable(table).file_uris())
    assert_same(delta_spark.read(table), numbered(0, 10))
    delta_spark.write(table, numbered(10, 2))
    delta_spark.checkpoint(table)
    append(table, 12)
    DeltaTable(table).create_checkpoint()
    assert_same(DeltaTable(table).to_pyarrow_table(), numbered(0, 14))
    assert_same(delta_spark.read(table), numbered(0, 14))
    verify(table)


def test_compactions_and_cleanup_leave_the_same_rows(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    # P011, P012, P063
    import os

    table = tmp_table()
    two_days = dict.fromkeys(("delta.logRetentionDuration", "delta.deletedFileRetentionDuration"), "interval 2 days")
    create(table, configuration=two_days)
    for start in range(0, 8, 2):
        append(table, start)
    write_deltalake(table, numbered(0, 4), mode="overwrite")
    opened = DeltaTable(table)
    opened.compact_logs(1, 4)
    assert (log(table) / f"{1:020d}.{4:020d}.compacted.json").exists()
    assert_same(delta_spark.read(table), numbered(0, 4))
    assert_same(DeltaTable(table).to_pyarrow_table(), numbered(0, 4))
    verify(table)
    DeltaTable(table, version=4).create_checkpoint()
    start = time.time() - 10 * 86_400
    for version in range(5):
        os.utime(log(table) / f"{version:020d}.json", (start + version, start + version))
    copy = tmp_table()
    shutil.copytree(table, copy)
    opened.cleanup_metadata()
    assert sorted(p.name for p in log(table).glob("*.json") if "compacted" not in p.name) == [
        f"{v:020d}.json" for v in (4, 5)
    ]
    assert_same(delta_spark.read(table), numbered(0, 4))
    assert_same(DeltaTable(table, version=4).to_pyarrow_table(), numbered(0, 8))
    append(table, 4)
    assert_same(delta_spark.read(table), numbered(0, 6))
    assert_same(deltalake.DeltaTable(table).to_pyarrow_table(), numbered(0, 6))
    # Requested by a commit, or by the table's properties.
    from deltaplane import PostCommitHookProperties

    never = PostCommitHookProperties(cleanup_expired_logs=False)
    write_deltalake(copy, numbered(4, 2), mode="append", post_commithook_properties=never)
    assert (log(copy) / f"{0:020d}.json").exists()
    always = PostCommitHookProperties(cleanup_expired_logs=True)
    write_deltalake(copy, numbered(6, 2), mode="append", post_commithook_properties=always)
    assert not (log(copy) / f"{0:020d}.json").exists()
    assert DeltaTable(copy).count() == 8


def test_a_protocol_s_domain_is_not_the_user_s(tmp_table: Callable[[], str]) -> None:
    # P151
    from deltaplane.exceptions import InvalidArgumentError, UnsupportedFeatureError

    plain, clustered = create(tmp_table()), create(tmp_table(), cluster_by="id")
    with pytest.raises(UnsupportedFeatureError, match="app"):
        plain.set_domain_metadata("app", "{}")
    for name in ("delta.clustering", ""):
        with pytest.raises(InvalidArgumentError):
            clustered.set_domain_metadata(name, "{}")
    clustered.set_domain_metadata("app", "{}")
    clustered.remove_domain_metadata("app")
    assert set(clustered.domain_metadata()) == {"delta.clustering"}
    with pytest.raises(InvalidArgumentError, match="app"):
        clustered.remove_domain_metadata("app")
    with pytest.raises(InvalidArgumentError, match="nope"):
        create(f"{plain.location}-2", cluster_by="nope")
    write_deltalake(f"{plain.location}-3", pa.table({"id": [1]}), cluster_by="id")
