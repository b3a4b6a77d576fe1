"""Ending column mapping: files are rewritten with the columns' names, and the feature is dropped
(P098, P114)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaplane import DeltaTable, Field, _native, write_deltalake
from deltaplane.commands.remove_column_mapping import remove_column_mapping
from deltaplane.commands.rewriting import Settings, Target
from deltaplane.exceptions import (
    ConcurrentAppendException,
    InvalidArgumentError,
    MetadataChangedException,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from interop.verifier import verify

NONE = {"delta.columnMapping.mode": "none"}
NAMED = {"delta.columnMapping.mode": "name"}
EVERYTHING = {
    **NAMED,
    "delta.enableChangeDataFeed": "true",
    "delta.enableDeletionVectors": "true",
    "delta.enableRowTracking": "true",
}


def rows(*ids: int) -> pa.Table:
    inner = pa.struct([("x", pa.int32()), ("y", pa.string())])
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "p": [f"p{i % 2}" for i in ids],
            "gone": pa.array([-i for i in ids], pa.int32()),
            "s": pa.array([{"x": i, "y": f"y{i}"} for i in ids], inner),
        }
    )


def written(path: str, configuration: dict[str, str], **options: Any) -> DeltaTable:
    write_deltalake(path, rows(1, 2, 3, 4), configuration=configuration, **options)
    write_deltalake(path, rows(5, 6), mode="append")
    return DeltaTable(path)


def renamed(table: DeltaTable) -> DeltaTable:
    """A table whose files contain none of its column names."""
    table.alter.rename_column("id", "key")
    table.alter.rename_column("s.x", "z")
    table.alter.rename_column("p", "part")
    table.alter.drop_columns("gone")
    table.alter.add_columns(Field("gone", "string"))
    return table


def actions(path: str, version: int, kind: str) -> list[dict[str, Any]]:
    lines = Path(path, "_delta_log", f"{version:020d}.json").read_text().splitlines()
    return [a[kind] for a in map(json.loads, lines) if kind in a]


def all_rows(table: DeltaTable, *more: str) -> list[dict[str, Any]]:
    columns = [*(f.name for f in table.schema().fields), *more]
    rows: list[dict[str, Any]] = table.to_pyarrow_table(columns=columns).sort_by("key").to_pylist()
    return rows


def test_files_get_the_columns_names(tmp_table: Callable[[], str]) -> None:
    """One commit without changed rows: ids, partitions, statistics, vectors and the feed stay
    correct."""
    path = tmp_table()
    table = written(path, EVERYTHING, partition_by="p")
    table.delete("id = 2")
    table.update(updates={"s": "named_struct('x', 0, 'y', 'new')"}, predicate="id = 3")
    renamed(table)
    before, version = all_rows(table, "_row_id", "_row_commit_version"), table.version()
    plan = table.alter.set_table_properties(NONE, dry_run=True)
    assert (plan.version, table.version(), plan.before) == (None, version, plan.after)

    plan = table.alter.set_table_properties(NONE)
    assert (plan.operation, plan.version) == ("REMOVE COLUMN MAPPING", version + 1)
    assert all_rows(table, "_row_id", "_row_commit_version") == before
    entry = table.history(1)[0]
    assert (entry["operation"], entry["tags"]) == ("REMOVE COLUMN MAPPING", {"delta.rowTracking.preserved": "true"})
    adds, removes = (actions(path, version + 1, kind) for kind in ("add", "remove"))
    assert not any(a["dataChange"] for a in adds + removes)
    assert {a["partitionValues"]["part"] for a in adds} == {"p0", "p1"}
    assert not any("deletionVector" in a for a in adds)
    assert len(removes) == len(set(DeltaTable(path, version=version).files()))
    stats = [json.loads(a["stats"]) for a in adds]
    assert {tuple(sorted(s["minValues"])) for s in stats} == {("key", "s")}
    for a in adds:
        file = pq.read_schema(Path(path, a["path"]))
        assert file.names[:3] == ["key", "s", "gone"]
        assert file.field("s").type.names == ["z", "y"]
        assert not (file.field("key").metadata or {}).get(b"PARQUET:field_id")
    metadata = table.metadata()
    assert not [k for k in metadata.configuration if "columnMapping" in k]
    assert "columnMapping" not in table.schema().to_json()
    assert table.load_cdf(version + 1).to_arrow().num_rows == 0
    verify(path)

    table.merge(
        pa.table({"key": [3, 9]}), "t.key = s.key", source_alias="s", target_alias="t"
    ).when_matched_delete().when_not_matched_insert({"key": "s.key", "part": "'p9'"}).execute()
    assert [r["key"] for r in all_rows(table)] == [1, 4, 5, 6, 9]
    assert [r["key"] for r in all_rows(DeltaTable(path, version=version))] == [1, 3, 4, 5, 6]
    assert table.to_pyarrow_table(filters="part = 'p9'").num_rows == 1
    verify(path)


def test_the_feature_goes(tmp_table: Callable[[], str]) -> None:
    """P098: old versions stay behind protected checkpoints, or must become old enough."""
    path = tmp_table()
    table = renamed(written(path, NAMED))
    before, version = all_rows(table), table.version()
    plan = table.alter.drop_feature("columnMapping", dry_run=True)
    assert (plan.removed_features, plan.version, table.version()) == (["columnMapping"], None, version)
    with pytest.raises(InvalidArgumentError, match="DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD"):
        table.alter.drop_feature("columnMapping", truncate_history=True)
    plan = table.alter.drop_feature("columnMapping")
    assert (plan.removed_features, plan.added_features) == (["columnMapping"], ["checkpointProtection"])
    assert [h["operation"] for h in table.history()].count("REMOVE COLUMN MAPPING") == 1
    assert all_rows(DeltaTable(path)) == before == all_rows(DeltaTable(path, version=version))
    write_deltalake(path, pa.table({"key": [7]}), mode="append")
    assert [r["key"] for r in all_rows(DeltaTable(path))] == [1, 2, 3, 4, 5, 6, 7]
    verify(path)


def test_clustering_columns_keep_their_meaning(tmp_table: Callable[[], str]) -> None:
    """P112, P152: the domain stores the columns' physical names."""
    path = tmp_table()
    write_deltalake(path, rows(1, 2), configuration=NAMED)
    table = DeltaTable(path)
    table.alter.cluster_by(["s.x", "id"])
    table.alter.rename_column("s.x", "z")
    table.alter.set_table_properties(NONE)
    (domain,) = actions(path, table.version(), "domainMetadata")
    assert json.loads(domain["configuration"])["clusteringColumns"] == [["s", "z"], ["id"]]
    table.optimize.compact()
    verify(path)


def test_empty_tables_and_files_that_fit(tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    write_deltalake(path, rows(1, 2))
    table = DeltaTable(path)
    files = table.files()
    table.alter.set_table_properties(NAMED)
    table.alter.set_table_properties(NONE)
    assert table.files() == files
    assert table.alter.set_table_properties(NONE).operation == "SET TBLPROPERTIES"
    empty = DeltaTable.create(tmp_table(), table.schema(), configuration=NAMED)
    assert empty.alter.set_table_properties(NONE).version == 1
    assert empty.to_pyarrow_table().num_rows == 0


def test_who_comes_between(tmp_table: Callable[[], str]) -> None:
    """A file added concurrently has the old names; a write planned before would add some."""
    path = tmp_table()
    table = renamed(written(path, NAMED))
    old = _native.Snapshot.open(path)
    write_deltalake(path, pa.table({"key": [7]}), mode="append")
    with pytest.raises(ConcurrentAppendException):
        remove_column_mapping(Target(path, old), Settings())
    table = DeltaTable(path)
    table.alter.rename_column("key", "id")
    old = _native.Snapshot.open(path)
    table.alter.rename_column("id", "key")
    with pytest.raises(MetadataChangedException):
        remove_column_mapping(Target(path, old), Settings())
    data = {p.name for p in Path(path).rglob("*.parquet")}
    table.alter.set_table_properties(NONE)
    assert len(data) == len(DeltaTable(path, version=table.version() - 1).files()), "what was written was taken back"


def test_what_needs_the_mapping_is_named(tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    write_deltalake(path, rows(1), configuration={**NAMED, "delta.enableIcebergCompatV2": "true"})
    table = DeltaTable(path)
    with pytest.raises(UnsupportedFeatureError, match=r"icebergCompatV2.*needs column mapping"):
        table.alter.set_table_properties(NONE)
    with pytest.raises(InvalidArgumentError, match=r"icebergCompatV2.*drop those first"):
        table.alter.drop_feature("columnMapping")
    write_deltalake(path := tmp_table(), rows(1), configuration=NAMED)
    table = DeltaTable(path)
    with pytest.raises(InvalidArgumentError, match="by itself"):
        table.alter.set_table_properties({**NONE, "owner": "me"})
    with pytest.raises(InvalidArgumentError, match=r"alter.set_table_properties"):
        table.alter.unset_table_properties("delta.columnMapping.mode")
    table.alter.rename_column("id", "the id")
    with pytest.raises(InvalidArgumentError, match="`the id`"):
        table.alter.set_table_properties(NONE)


def test_changes_do_not_cross_the_end_of_a_mapping(tmp_table: Callable[[], str]) -> None:
    """P132: names in older files may belong to other columns now; delta-spark 4.4.0 returns
    nulls."""
    path = tmp_table()
    table = renamed(written(path, {**NAMED, "delta.enableChangeDataFeed": "true"}))
    table.alter.set_table_properties(NONE)
    ended = table.version()
    write_deltalake(path, pa.table({"key": [7]}), mode="append")
    # With a new mapping, the same names denote other columns.
    for mapped in (False, True):
        if mapped:
            DeltaTable(path).alter.set_table_properties(NAMED)
        with pytest.raises(SchemaMismatchError, match=r"column mapping ended.*begin another one with it"):
            DeltaTable(path).load_cdf(ended - 1).to_arrow()
        assert DeltaTable(path).load_cdf(ended).to_arrow()["key"].to_pylist() == [7]
