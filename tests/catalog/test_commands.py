"""Every family of commands on a managed table, by its name in the catalog (P158)."""

from __future__ import annotations

import json
import pickle
import subprocess
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pytest

import deltaplane
from catalog.conftest import ALL_BACKENDS, COMMAND, SCHEMA, Lake, ids, rows
from deltaplane import DeltaTable, GroupWriter
from deltaplane.exceptions import (
    ConcurrentWriteException,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)

BACKENDS = ALL_BACKENDS
NEEDED = {"catalogManaged", "deletionVectors", "inCommitTimestamp", "v2Checkpoint", "vacuumProtocolCheck"}


def test_a_write_creates_a_managed_table(lake: Lake) -> None:
    assert lake.write("t", rows(1, 2)) == 0
    table = lake.open("t")
    assert ids(table) == [1, 2]
    assert set(table.protocol().writer_features or ()) >= NEEDED
    assert table.location == lake.location("t")
    info = lake.catalog.info(f"{SCHEMA}.t")
    properties = table.metadata().configuration
    assert (info["table_type"], info["id"]) == ("MANAGED", properties["io.unitycatalog.tableId"])
    assert properties["delta.checkpointPolicy"] == "v2"
    assert properties["delta.checkpoint.writeStatsAsStruct"] == "true"
    assert not DeltaTable.is_deltatable(lake.location("absent"), lake.options)
    # Without this folder Delta's kernel can't append.
    assert (lake.folder("t") / "_delta_log" / "_staged_commits").is_dir()


def test_modes_of_writes(lake: Lake) -> None:
    assert lake.write("t", rows(1), "error") == 0
    with pytest.raises(TableAlreadyExistsError):
        lake.write("t", rows(2), "error")
    assert lake.write("t", rows(2), "ignore") is None
    assert lake.write("t", rows(2), "append") == 1
    assert lake.write("t", rows(3, 4), "overwrite") == 2
    assert lake.write("t", rows(5), "overwrite", predicate="id >= 4") == 3
    assert ids(lake.open("t")) == [3, 5]
    wider = rows(6).append_column("more", pa.array([1.5]))
    assert lake.write("t", wider, "append", schema_mode="merge") == 4
    assert lake.open("t").to_pyarrow_table().column_names == ["id", "text", "more"]
    narrow = pa.table({"id": pa.array([9], pa.int64())})
    assert lake.write("t", narrow, "overwrite", schema_mode="overwrite") == 5
    table = lake.open("t")
    assert (ids(table), table.to_pyarrow_table().column_names) == ([9], ["id"])
    assert set(table.protocol().writer_features or ()) >= NEEDED


def test_rows_are_changed(lake: Lake) -> None:
    lake.write("t", rows(*range(10)))
    table = lake.open("t")
    table.update({"text": "'new'"}, predicate="id < 2")
    table.delete("id = 9")
    merged = table.merge(rows(3, 20), "t.id = s.id", source_alias="s", target_alias="t")
    merged.when_matched_update_all().when_not_matched_insert_all().execute()
    assert ids(table) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 20]
    assert table.to_pyarrow_table(filters="text = 'new'").num_rows == 2
    operations = [entry["operation"] for entry in table.history()]
    assert operations[:3] == ["MERGE", "DELETE", "UPDATE"]


def test_versions(lake: Lake) -> None:
    for number in range(4):
        lake.write("t", rows(number))
    table = lake.open("t")
    assert [entry["version"] for entry in DeltaTable.history_of(lake.location("t"), 2, lake.options)] == [3, 2]
    assert ids(lake.open("t", 1)) == [0, 1]
    moment = table.history()[2]["timestamp"]
    then = DeltaTable(lake.location("t"), datetime.fromtimestamp(moment / 1000, timezone.utc), lake.options)
    assert then.version() == 1
    table.load_as_version(0)
    table.restore(0)
    assert ids(lake.open("t")) == [0]
    table.update_incremental()
    assert table.version() == 4


def test_maintenance(lake: Lake) -> None:
    for number in range(12):
        lake.write("t", rows(number))
    table = lake.open("t")
    table.optimize.compact()
    assert table.plan().read_all().num_rows == 1
    table.optimize.z_order(["id"])
    table.create_checkpoint()
    assert list(lake.folder("t").glob("_delta_log/*.checkpoint*"))
    table.delete("id < 3")
    removed = table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert removed
    table.cleanup_metadata()
    assert table.check() == []
    assert ids(lake.open("t")) == list(range(3, 12))


def test_alter(lake: Lake) -> None:
    lake.write("t", rows(1))
    table = lake.open("t")
    table.alter.set_table_properties({"delta.appendOnly": "true", "mine": "x"})
    table.alter.add_columns([deltaplane.Field("more", "double")])
    table.alter.set_table_description("orders")
    assert lake.catalog.info(f"{SCHEMA}.t")["comment"] == "orders"
    table.alter.unset_table_properties(["delta.appendOnly"])
    table.alter.add_constraint({"positive": "id > 0"})
    assert lake.open("t").metadata().configuration["mine"] == "x"
    # What the catalog requires stays.
    with pytest.raises(deltaplane.DeltaError):
        table.alter.unset_table_properties(["io.unitycatalog.tableId"])
    assert "io.unitycatalog.tableId" in lake.open("t").metadata().configuration


def test_change_feed(lake: Lake) -> None:
    lake.write("t", rows(1), configuration={"delta.enableChangeDataFeed": "true"})
    lake.write("t", rows(2))
    table = lake.open("t")
    table.delete("id = 1")
    feed = table.load_cdf(starting_version=1).read_all()
    assert sorted(zip(feed["id"].to_pylist(), feed["_change_type"].to_pylist(), strict=True)) == [
        (1, "delete"),
        (2, "insert"),
    ]


def test_pickles_open_the_table_by_its_name(lake: Lake) -> None:
    lake.write("t", rows(1))
    table = pickle.loads(pickle.dumps(lake.open("t")))
    assert (table.location, ids(table)) == (lake.location("t"), [1])
    catalog = pickle.loads(pickle.dumps(lake.catalog))
    assert catalog.tables(SCHEMA) == [f"{SCHEMA}.t"]


def test_group_writers(lake: Lake) -> None:
    lake.write("t", rows(0))
    with GroupWriter(lake.location("t"), storage_options=lake.options) as writer:
        for number in range(1, 5):
            writer.append(rows(number))
    assert ids(lake.open("t")) == [0, 1, 2, 3, 4]


def test_a_replaced_table_stays_managed(lake: Lake) -> None:
    lake.write("t", rows(1))
    before = lake.open("t").metadata().configuration
    deltaplane.sql(f"CREATE OR REPLACE TABLE {SCHEMA}.t AS SELECT 2 AS id", catalog=lake.catalog)
    table = lake.open("t")
    after = table.metadata().configuration
    assert (ids(table), after["io.unitycatalog.tableId"]) == ([2], before["io.unitycatalog.tableId"])
    assert set(table.protocol().writer_features or ()) >= NEEDED
    lake.write("t", pa.table({"id": pa.array([3], pa.int32())}))
    assert ids(lake.open("t")) == [2, 3]


@pytest.mark.parametrize("shallow", [True, False])
def test_clones(shallow: bool, lake: Lake, tmp_path: Path) -> None:
    lake.write("t", rows(1, 2))
    table, plain = lake.open("t"), str(tmp_path / "plain")
    table.clone(plain, shallow)
    copy = DeltaTable(plain, storage_options={"allow_external_files": str(lake.folder("t"))})
    assert ids(copy) == [1, 2]
    # The clone is a table of its own, whose commits its store decides.
    assert "catalogManaged" not in (copy.protocol().writer_features or ())
    assert "io.unitycatalog.tableId" not in copy.metadata().configuration
    deltaplane.write_deltalake(copy, rows(3), mode="append")
    assert ids(copy) == [1, 2, 3]

    table.clone(lake.location("copy"), shallow, storage_options=lake.options)
    managed = lake.open("copy")
    assert (ids(managed), managed.version()) == ([1, 2], 0)
    assert set(managed.protocol().writer_features or ()) >= NEEDED
    own_id = managed.metadata().configuration["io.unitycatalog.tableId"]
    assert own_id == lake.catalog.info(f"{SCHEMA}.copy")["id"] != lake.catalog.info(f"{SCHEMA}.t")["id"]
    lake.write("copy", rows(4))
    assert (ids(lake.open("copy")), ids(lake.open("t"))) == ([1, 2, 4], [1, 2])
    # From a plain table to a managed one, which keeps its identity where it is replaced.
    ordinary = DeltaTable.create(str(tmp_path / "ordinary"), rows(7).schema)
    deltaplane.write_deltalake(ordinary, rows(7), mode="append")
    ordinary.clone(lake.location("copy"), shallow, replace=True, storage_options=lake.options)
    assert ids(lake.open("copy")) == [7]
    # From a clone of a managed table to a managed one.
    copy.clone(lake.location("copy"), shallow, replace=True, storage_options=lake.options)
    managed = lake.open("copy")
    assert (ids(managed), managed.metadata().configuration["io.unitycatalog.tableId"]) == ([1, 2, 3], own_id)
    assert set(managed.protocol().writer_features or ()) >= NEEDED
    with pytest.raises(TableAlreadyExistsError):
        table.clone(lake.location("copy"), shallow, storage_options=lake.options)


def test_the_path_alone_is_refused(lake: Lake) -> None:
    # P158
    lake.write("t", rows(1))
    lake.write("t", rows(2))
    folder = lake.folder("t")
    for call in (lambda: DeltaTable(folder), lambda: deltaplane.write_deltalake(folder, rows(3), mode="append")):
        with pytest.raises(UnsupportedFeatureError, match=r"catalogManaged.*by its name in that catalog"):
            call()
    assert ids(lake.open("t")) == [1, 2]


def test_external_tables(lake: Lake, tmp_path: Path) -> None:
    place = tmp_path / "orders"
    deltaplane.write_deltalake(place, rows(1), partition_by=["text"])
    table = lake.catalog.register(f"{SCHEMA}.orders", place)
    assert (ids(table), table.location) == ([1], lake.location("orders"))
    lake.write("orders", rows(2))
    assert ids(DeltaTable(place)) == [1, 2]
    assert lake.catalog.info(f"{SCHEMA}.orders")["table_type"] == "EXTERNAL"
    made = lake.catalog.create_table(f"{SCHEMA}.made", rows().schema, location=tmp_path / "made")
    assert (made.version(), DeltaTable(tmp_path / "made").version()) == (0, 0)
    lake.catalog.drop(f"{SCHEMA}.orders")
    assert ids(DeltaTable(place)) == [1, 2]
    with pytest.raises(TableNotFoundError):
        lake.open("orders")
    deltaplane.write_deltalake(tmp_path / "other", rows(7))
    lake.catalog.register(f"{SCHEMA}.orders", tmp_path / "other")
    assert ids(lake.open("orders")) == [7]


def test_names(lake: Lake) -> None:
    catalog = lake.catalog
    lake.write("t", rows(1))
    assert (catalog.catalogs(), catalog.schemas(), catalog.schemas("main")) == (["main"], [SCHEMA], [SCHEMA])
    assert catalog.tables(SCHEMA) == [f"{SCHEMA}.t"]
    assert [catalog.exists(name) for name in (f"{SCHEMA}.t", SCHEMA, "main.hr")] == [True, True, False]
    held = lake.open("t")
    catalog.rename(f"{SCHEMA}.t", "orders")
    assert ids(catalog.table(f"{SCHEMA}.orders")) == [1]
    with pytest.raises(TableNotFoundError):
        held.update_incremental()
    # The name has another table by now.
    lake.write("t", rows(7))
    assert ids(lake.open("t")) == [7]
    catalog.drop(f"{SCHEMA}.t")
    with pytest.raises(TableNotFoundError):
        lake.open("t")
    lake.write("t", rows(8))
    assert ids(lake.open("t")) == [8]
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_schema(SCHEMA)
    with pytest.raises(deltaplane.DeltaError, match=r"empty|tables"):
        catalog.drop("main")
    catalog.drop("main", force=True)
    assert catalog.catalogs() == []
    catalog.drop("main", missing_ok=True)


def test_a_table_that_another_process_replaced(lake: Lake) -> None:
    lake.write("t", rows(1))
    assert ids(lake.open("t")) == [1]
    create = f"CREATE TABLE {SCHEMA}.t AS SELECT CAST(5 AS BIGINT) AS id"
    for arguments in (["catalog", "drop", lake.database, f"{SCHEMA}.t"], ["sql", "--catalog", lake.database, create]):
        subprocess.run([*COMMAND, *arguments], check=True, capture_output=True)
    assert ids(lake.open("t")) == [5]
    assert lake.write("t", pa.table({"id": pa.array([6], pa.int64())})) == 1


def test_statements(lake: Lake, tmp_path: Path) -> None:
    def run(text: str) -> list[dict[str, object]]:
        return deltaplane.sql(text, catalog=lake.catalog).to_pylist()

    run("CREATE TABLE main.sales.orders (id BIGINT NOT NULL, text STRING)")
    run("INSERT INTO main.sales.orders VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    run("UPDATE main.sales.orders SET text = 'z' WHERE id = 1")
    run("DELETE FROM main.sales.orders WHERE id = 2")
    run("CREATE TABLE main.sales.more AS SELECT CAST(3 AS BIGINT) AS id, 'new' AS text")
    run(
        "MERGE INTO main.sales.orders AS t USING main.sales.more AS s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET text = s.text"
    )
    joined = "SELECT o.id, o.text FROM main.sales.orders o LEFT JOIN main.sales.more m ON o.id = m.id ORDER BY o.id"
    assert run(joined) == [{"id": 1, "text": "z"}, {"id": 3, "text": "new"}]
    assert run("SELECT count(*) AS n FROM main.sales.orders VERSION AS OF 1") == [{"n": 3}]
    assert next(iter(run("DESCRIBE HISTORY main.sales.orders")))["operation"] == "MERGE"
    run(f"CREATE TABLE main.sales.external (id BIGINT) USING delta LOCATION '{tmp_path}/external'")
    assert lake.catalog.info("main.sales.external")["table_type"] == "EXTERNAL"
    run("CREATE TABLE IF NOT EXISTS main.sales.orders (id BIGINT)")
    with pytest.raises(TableNotFoundError):
        run("SELECT * FROM main.sales.absent")
    assert deltaplane.sql("SELECT 1 AS x FROM main.sales.more", catalog=lake.database).to_pylist() == [{"x": 1}]


def test_racing_creators(lake: Lake) -> None:
    def write(number: int) -> bool:
        try:
            lake.write("t", rows(number))
        except (ConcurrentWriteException, TableAlreadyExistsError):
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(write, range(8)))
    assert ids(lake.open("t")) == [number for number, won in enumerate(done) if won]
    assert any(done)


def test_what_is_stored_in_the_log(lake: Lake) -> None:
    lake.write("t", rows(1))
    lake.write("t", rows(2))
    lake.open("t")._snapshot.publish()
    commits = sorted(lake.folder("t").glob("_delta_log/*.json"))
    assert [int(path.stem) for path in commits] == [0, 1]
    for path in commits:
        info = json.loads(path.read_text().splitlines()[0])["commitInfo"]
        assert info["txnId"]
        assert info["inCommitTimestamp"] > 0
