"""RESTORE restores a version's files, columns and properties, and nothing that may only
increase."""

from __future__ import annotations

import datetime as dt
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltaplane import CommitProperties, DeltaTable, exceptions, write_deltalake
from deltaplane.schema import Field, PrimitiveType


def rows(table: DeltaTable) -> list[dict[str, Any]]:
    return sorted(table.to_pyarrow_table().to_pylist(), key=repr)


def appended(root: Path, times: int = 3) -> DeltaTable:
    for x in range(times):
        write_deltalake(root, pa.table({"x": [x]}), mode="append")
    return DeltaTable(root)


def test_files_and_metrics(tmp_path: Path) -> None:
    table = appended(tmp_path)
    write_deltalake(table, pa.table({"x": [9]}), mode="overwrite")
    sizes = {a["path"]: a["size_bytes"] for a in DeltaTable(tmp_path, 2).get_add_actions().to_pylist()}
    (now,) = table.get_add_actions().to_pylist()
    (restored,) = DeltaTable(tmp_path, 0).files()
    before, preview = table.version(), table.restore(1, dry_run=True)
    assert table.version() == DeltaTable(tmp_path).version() == before
    metrics = table.restore(1, commit_properties=CommitProperties({"who": "me"}))
    assert preview == metrics
    back = [size for path, size in sizes.items() if path in DeltaTable(tmp_path, 1).files()]
    assert metrics == {
        "numRestoredFiles": 2,
        "restoredFilesSize": sum(back),
        "numRemovedFiles": 1,
        "removedFilesSize": now["size_bytes"],
        "numOfFilesAfterRestore": 2,
        "tableSizeAfterRestore": sum(back),
    }
    assert (rows(table), table.version(), restored in table.files()) == ([{"x": 0}, {"x": 1}], 4, True)
    (entry,) = table.history(1)
    assert (entry["operation"], entry["who"]) == ("RESTORE", "me")
    assert entry["operationParameters"] == {"version": 1, "timestamp": None}
    assert entry["operationMetrics"] == {name: str(value) for name, value in metrics.items()}
    # Nothing is committed if the table already equals the target.
    assert (table.restore(4)["numRestoredFiles"], table.restore(1)["numRemovedFiles"], table.version()) == (0, 0, 4)


def test_a_moment_and_wrong_targets(tmp_path: Path) -> None:
    table = appended(tmp_path, 2)
    moment = table.history()[1]["timestamp"]
    table.restore(dt.datetime.fromtimestamp(moment / 1000, dt.timezone.utc))
    assert rows(table) == [{"x": 0}]
    assert table.history(1)[0]["operationParameters"]["version"] is None
    with pytest.raises(exceptions.VersionNotFoundError):
        table.restore(17)
    wrong: Any
    for wrong in (None, -1, True, "yesterday"):
        with pytest.raises(exceptions.InvalidArgumentError):
            table.restore(wrong)


def test_missing_files_are_named_or_left_out(tmp_path: Path) -> None:
    table = appended(tmp_path, 2)
    gone, stays = DeltaTable(tmp_path, 0).files(), table.files()
    write_deltalake(table, pa.table({"x": [9]}), mode="overwrite")
    (tmp_path / gone[0]).unlink()
    with pytest.raises(exceptions.FileMissingError, match=rf"1 files .*{gone[0]}"):
        table.restore(1)
    assert (rows(table), table.version()) == ([{"x": 9}], 2)
    assert table.restore(1, ignore_missing_files=True)["numOfFilesAfterRestore"] == 1
    assert table.files() == [f for f in stays if f != gone[0]]


def test_vectors_come_back_as_they_were(tmp_path: Path) -> None:
    # P042: one file with another vector is another file
    on = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
    write_deltalake(tmp_path, pa.table({"x": range(10)}), configuration=on)
    table = DeltaTable(tmp_path)
    states = [rows(table)]
    for condition in ("x < 3", "x = 7", "x > 1"):
        table.delete(condition)
        states.append(rows(table))
    for version in (2, 1, 0, 3):
        table.restore(version)
        assert rows(table) == states[version]
    changes = table.load_cdf(table.version()).to_arrow()
    assert changes.group_by("_change_type").aggregate([("x", "count")]).to_pylist() == [
        {"_change_type": "delete", "x_count": 10}
    ]


def test_columns_and_properties_go_back_and_the_protocol_stays(tmp_path: Path) -> None:
    # P200
    table = appended(tmp_path, 1)
    table.alter.add_columns(Field("more", PrimitiveType("long")))
    table.alter.set_table_properties({"delta.enableDeletionVectors": "true", "k": "v"})
    grown = table.protocol()
    table.restore(0)
    assert ([f.name for f in table.schema().fields], table.metadata().configuration) == (["x"], {})
    assert table.protocol() == grown
    table.restore(0, protocol_downgrade_allowed=True)
    assert (table.protocol().min_reader_version, table.protocol().min_writer_version) == (1, 2)
    assert rows(table) == [{"x": 0}]


def test_what_only_goes_on(tmp_path: Path) -> None:
    # P108, P111, P140: identity values, column ids and row ids are never allocated twice
    from deltaplane.statements import sql

    name = f"delta.`{tmp_path}`"
    sql(
        f"CREATE TABLE {name} (id BIGINT GENERATED ALWAYS AS IDENTITY, x INT) TBLPROPERTIES "
        "('delta.enableRowTracking' = 'true', 'delta.columnMapping.mode' = 'name')"
    )
    sql(f"INSERT INTO {name} (x) VALUES (1), (2)")
    table = DeltaTable(tmp_path)
    table.alter.add_columns(Field("more", PrimitiveType("long")))
    sql(f"INSERT INTO {name} (x) VALUES (3)")
    table.update_incremental()
    most = table.metadata().configuration["delta.columnMapping.maxColumnId"]
    used = set(table.scan(["_row_id"]).to_arrow()["_row_id"].to_pylist())
    table.restore(1)
    assert table.metadata().configuration["delta.columnMapping.maxColumnId"] == most
    sql(f"INSERT INTO {name} (x) VALUES (4)")
    table.update_incremental()
    rows_with_ids = table.scan(["id", "x", "_row_id"]).to_arrow().to_pylist()
    (new,) = [row for row in rows_with_ids if row["x"] == 4]
    assert new["id"] > 3
    assert new["_row_id"] not in used


def test_clustering_goes_back_and_users_domains_stay(tmp_path: Path) -> None:
    # P151, P152
    table = DeltaTable.create(tmp_path, pa.schema({"a": pa.int64(), "b": pa.int64()}), cluster_by=["a"])
    table.alter.cluster_by(["b"])
    table.update_incremental()
    table.set_domain_metadata("app", "1")
    clustered = table.domain_metadata()["delta.clustering"]
    table.restore(0)
    domains = table.domain_metadata()
    assert "a" in domains["delta.clustering"]
    assert domains["delta.clustering"] != clustered
    assert domains["app"] == "1"


def test_beside_a_writer_it_is_exact_or_nothing(tmp_path: Path) -> None:
    # P078
    appended(tmp_path, 2)
    lost = done = 0

    def append() -> None:
        for x in range(12):
            write_deltalake(tmp_path, pa.table({"x": [100 + x]}), mode="append")

    with ThreadPoolExecutor(1) as other:
        appending = other.submit(append)
        while not appending.done():
            table = DeltaTable(tmp_path)
            try:
                table.restore(0)
            except exceptions.DeltaConcurrentModificationException:
                lost += 1
            else:
                done += 1
        appending.result()
    for entry in DeltaTable(tmp_path).history():
        if entry["operation"] == "RESTORE":
            assert rows(DeltaTable(tmp_path, entry["version"])) == [{"x": 0}]
    assert lost + done > 0


def test_an_append_only_table_keeps_its_rows(tmp_path: Path) -> None:
    # P100
    table = appended(tmp_path, 2)
    table.alter.set_table_properties({"delta.appendOnly": "true"})
    with pytest.raises(exceptions.InvalidArgumentError, match="append-only"):
        table.restore(0)


STEP = st.sampled_from(["append", "overwrite", "delete", "update", "checkpoint", "purge", "restore"])


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(steps=st.lists(st.tuples(STEP, st.integers(0, 9)), min_size=2, max_size=8), vectors=st.booleans())
def test_any_version_of_a_random_table(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]], vectors: bool
) -> None:
    root = tmp_path_factory.mktemp("random") / "t"
    on = {"delta.enableDeletionVectors": str(vectors).lower(), "delta.enableRowTracking": "true"}
    write_deltalake(root, pa.table({"x": [1, 2, 3], "p": ["a", "b", None]}), configuration=on, partition_by=["p"])
    states: dict[int, list[dict[str, Any]]] = {}
    for name, n in steps:
        table = DeltaTable(root)
        states[table.version()] = rows(table)
        match name:
            case "append" | "overwrite":
                data = pa.table({"x": [n, n + 1], "p": ["a", "c"]})
                write_deltalake(root, data, mode=name)  # type: ignore[arg-type]
            case "delete":
                table.delete(f"x % 3 = {n % 3}")
            case "update":
                table.update({"x": "x + 1"}, predicate=f"x % 2 = {n % 2}")
            case "checkpoint":
                table.create_checkpoint()
            case "purge":
                table.purge()
            case "restore":
                to = n % (table.version() + 1)
                table.restore(to)
                assert rows(table) == states[to]
                # Rows keep their ids, and ids are unique.
                ids = table.scan(["_row_id"]).to_arrow()["_row_id"].to_pylist()
                assert len(set(ids)) == len(ids)
        newest = DeltaTable(root)
        states.setdefault(newest.version(), rows(newest))
