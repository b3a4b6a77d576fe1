"""Parts of a log without a meaning, and files that no operation may change."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import UnsupportedFeatureError

ROWS = pa.table({"x": [1, 2, 3, 4], "p": ["a", "a", "b", "b"]})
EVERYTHING = {
    "delta.enableChangeDataFeed": "true",
    "delta.enableDeletionVectors": "true",
    "delta.enableRowTracking": "true",
}


def files(table: str) -> dict[str, str]:
    """The digest of every file that must stay unchanged: excludes the hint and checkpoints, which
    may be rewritten."""
    return {
        str(path.relative_to(table)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in Path(table).rglob("*")
        if path.is_file() and path.name != "_last_checkpoint" and not path.name.endswith("checkpoint.parquet")
    }


def actions(table: str, version: int) -> list[dict[str, Any]]:
    text = (Path(table) / "_delta_log" / f"{version:020}.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


def rewrite(table: str, version: int, changed: list[dict[str, Any]]) -> None:
    log = Path(table) / "_delta_log"
    (log / f"{version:020}.json").write_text("".join(json.dumps(action) + "\n" for action in changed))
    (log / f"{version:020}.crc").unlink(missing_ok=True)


def test_no_operation_overwrites_a_file(tmp_table: Callable[[], str]) -> None:
    # P008
    path = tmp_table()
    operations: list[Callable[[DeltaTable], object]] = [
        lambda t: t.delete("x = 1"),
        lambda t: t.update({"x": "x + 10"}, predicate="x = 2"),
        lambda t: (
            t.merge(ROWS, "t.x = s.x", source_alias="s", target_alias="t").when_not_matched_insert_all().execute()
        ),
        lambda t: t.create_checkpoint(),
        lambda t: t.compact_logs(0, 3),
        lambda t: t.optimize.compact(),
        lambda t: t.optimize.z_order(["x"]),
        lambda t: t.alter.set_table_properties({"delta.appendOnly": "false"}),
        lambda t: t.restore(1),
        lambda t: write_deltalake(t, ROWS, mode="append"),
        lambda t: write_deltalake(t, ROWS, mode="overwrite"),
        lambda t: t.create_checkpoint(),
    ]
    write_deltalake(path, ROWS, partition_by=["p"], configuration=EVERYTHING)
    seen = files(path)
    for operation in operations:
        operation(DeltaTable(path))
        now = files(path)
        assert {name: now.get(name) for name in seen} == seen
        seen = now
    assert any("deletion_vector" in name for name in seen)
    assert any(name.endswith(".crc") for name in seen)


def test_names_of_directories_mean_nothing(tmp_table: Callable[[], str]) -> None:
    # P002, P014, P015
    path = tmp_table()
    write_deltalake(path, ROWS, partition_by=["p"])
    changed = actions(path, 0)
    for action in changed:
        if "add" in action:
            moved = f"p=z/q=9/{action['add']['partitionValues']['p']}.parquet"
            (Path(path) / moved).parent.mkdir(parents=True, exist_ok=True)
            shutil.move(Path(path) / action["add"]["path"], Path(path) / moved)
            action["add"]["path"] = moved
    rewrite(path, 0, changed)
    staged = Path(path) / "_delta_log" / "_staged_commits"
    staged.mkdir()
    (staged / f"{1:020}.0d1cbc6c-e164-4b51-b2d4-3f7b1e0c51a3.json").write_text('{"remove": {"path": "x"}}\n')
    table = DeltaTable(path)
    assert table.version() == 0
    assert table.to_pyarrow_table().sort_by("x") == ROWS
    write_deltalake(path, ROWS, mode="append")
    assert DeltaTable(path).version() == 1


def test_what_belongs_elsewhere_never_enters_the_state(tmp_table: Callable[[], str]) -> None:
    # P033, P046
    path = tmp_table()
    write_deltalake(path, ROWS, configuration={"delta.checkpointPolicy": "v2"})
    before = DeltaTable(path).get_add_actions()
    extra = [
        {"checkpointMetadata": {"version": 0, "tags": {}}},
        {"sidecar": {"path": "no-such.parquet", "sizeInBytes": 1, "modificationTime": 0}},
        {"cdc": {"path": "_change_data/no-such.parquet", "partitionValues": {}, "size": 1, "dataChange": False}},
    ]
    rewrite(path, 0, [*actions(path, 0), *extra])
    table = DeltaTable(path)
    assert table.to_pyarrow_table() == ROWS
    assert table.get_add_actions() == before
    table.create_checkpoint()
    for checkpoint in (Path(path) / "_delta_log").rglob("*.parquet"):
        assert not {"commitInfo", "cdc"} & set(pq.read_schema(checkpoint).names)
    assert DeltaTable(path).to_pyarrow_table() == ROWS


@pytest.mark.parametrize("as_json", ["true", "false"])
@pytest.mark.parametrize("as_struct", ["true", "false"])
def test_statistics_may_come_in_either_form_both_or_none(
    tmp_table: Callable[[], str], as_json: str, as_struct: str
) -> None:
    # P052
    path = tmp_table()
    forms = {"delta.checkpoint.writeStatsAsJson": as_json, "delta.checkpoint.writeStatsAsStruct": as_struct}
    write_deltalake(path, ROWS, partition_by=["p"], configuration=forms)
    DeltaTable(path).create_checkpoint()
    (checkpoint,) = (Path(path) / "_delta_log").glob("*.checkpoint.parquet")
    adds = [add for add in pq.read_table(checkpoint)["add"].to_pylist() if add is not None]
    assert {add["stats"] is not None for add in adds} == {as_json == "true"}
    assert {add.get("stats_parsed") is not None for add in adds} == {as_struct == "true"}
    (Path(path) / "_delta_log" / f"{0:020}.json").unlink()
    table = DeltaTable(path)
    assert table.to_pyarrow_table().sort_by("x") == ROWS
    counted = pa.table(table.get_add_actions(flatten=True))["num_records"].to_pylist()
    assert counted == ([2, 2] if "true" in (as_json, as_struct) else [None, None])
    assert pa.table(table.scan(predicate="x > 2"))["x"].to_pylist() == [3, 4]


def test_paths_don_t_lead_into_a_catalog_s_table(tmp_table: Callable[[], str]) -> None:
    # P158: without its catalog, a reader can't tell which commits count
    path = tmp_table()
    write_deltalake(path, ROWS, configuration={"delta.enableInCommitTimestamps": "true"})
    changed = actions(path, 0)
    for action in changed:
        if "protocol" in action:
            features = ["catalogManaged", "inCommitTimestamp"]
            action["protocol"] = {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": features[:1],
                "writerFeatures": features,
            }
    rewrite(path, 0, changed)
    with pytest.raises(UnsupportedFeatureError, match="catalogManaged"):
        DeltaTable(path).to_pyarrow_table()
    with pytest.raises(UnsupportedFeatureError, match="catalogManaged"):
        write_deltalake(path, ROWS, mode="append")
    assert not (Path(path) / "_delta_log" / f"{1:020}.json").exists()
