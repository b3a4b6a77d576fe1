"""Names of the Hive metastore where a location is accepted, and entries that follow the commits."""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

import deltaplane
from catalog.hive.metastore_server import Forwarder
from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import (
    InvalidArgumentError,
    StoreUnavailableError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from deltaplane.metastores.hive import HiveMetastore
from deltaplane.write.group_writer import GroupWriter
from deltaplane.write.once_writer import OnceWriter

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "day": ["mon", "tue"]})


def entry(hive: HiveMetastore, name: str) -> Mapping[str, str]:
    item = hive._entry(*name.split("."))
    assert item is not None
    return item.parameters


def columns(hive: HiveMetastore, name: str) -> list[str]:
    return [field["name"] for field in json.loads(entry(hive, name)["spark.sql.sources.schema"])["fields"]]


def test_a_new_table_by_name(hive: HiveMetastore, schema: str, options: dict[str, str], tmp_path: Path) -> None:
    name = f"hive://{schema}.Orders"
    write_deltalake(name, ROWS, partition_by="day", storage_options=options, description="all orders")
    assert hive.location(f"{schema}.orders") == str(tmp_path / schema / "orders")
    assert columns(hive, f"{schema}.orders") == ["id", "day"]
    assert entry(hive, f"{schema}.orders")["comment"] == "all orders"
    table = DeltaTable(name, storage_options=options)
    assert table.to_pyarrow_table().num_rows == 2
    assert table.location == str(tmp_path / schema / "orders")
    assert pickle.loads(pickle.dumps(table)).to_pyarrow_table().num_rows == 2
    assert DeltaTable.is_deltatable(name, options)
    assert [commit["version"] for commit in DeltaTable.history_of(name, storage_options=options)] == [0]


def test_every_way_to_change_a_table_keeps_its_entry_in_step(
    hive: HiveMetastore, schema: str, options: dict[str, str]
) -> None:
    name, key = f"hive://{schema}.t", f"{schema}.t"
    created = DeltaTable.create(name, pa.schema({"id": pa.int64()}), storage_options=options)
    assert columns(hive, key) == ["id"]
    wider = pa.table({"id": pa.array([1], pa.int64()), "a": [1.5]})
    write_deltalake(name, wider, mode="append", schema_mode="merge", storage_options=options)
    assert columns(hive, key) == ["id", "a"]
    table = DeltaTable(name, storage_options=options)
    table.alter.set_table_properties({"delta.appendOnly": "false", "mine": "1"})
    assert entry(hive, key)["mine"] == "1"
    deltaplane.sql(f"ALTER TABLE delta.`{name}` ADD COLUMNS (b INT COMMENT 'bees')", storage_options=options)
    assert columns(hive, key) == ["id", "a", "b"]
    source = pa.table({"id": pa.array([9], pa.int64()), "c": ["x"]})
    merge = DeltaTable(name, storage_options=options).merge(
        source, "target.id = source.id", source_alias="source", target_alias="target", merge_schema=True
    )
    merge.when_not_matched_insert_all().execute()
    assert columns(hive, key) == ["id", "a", "b", "c"]
    table = DeltaTable(name, storage_options=options)
    table.restore(0)
    assert columns(hive, key) == ["id"]
    assert "mine" not in entry(hive, key)
    assert entry(hive, key)["delta.lastUpdateVersion"] == str(table.version())
    write_deltalake(name, wider, mode="overwrite", schema_mode="overwrite", storage_options=options)
    assert columns(hive, key) == ["id", "a"]
    table.update_incremental()
    table.clone(f"hive://{schema}.copy", shallow=False, storage_options=options)
    assert columns(hive, f"{schema}.copy") == ["id", "a"]
    assert created.version() == 0


def test_rows_alone_ask_the_metastore_for_the_location_only(
    schema: str, forwarder: Forwarder, metastore_uri: str
) -> None:
    options = {"catalog": forwarder.uri}
    name = f"hive://{schema}.t"
    write_deltalake(name, ROWS, storage_options=options)
    table = DeltaTable(name, storage_options=options)
    write_deltalake(table, ROWS, mode="append")
    before = forwarder.connections
    for _ in range(3):
        write_deltalake(table, ROWS, mode="append")
    table.delete("id = 1")
    assert forwarder.connections == before


def test_group_and_once_writers_take_names(hive: HiveMetastore, schema: str, options: dict[str, str]) -> None:
    name = f"hive://{schema}.t"
    once = OnceWriter(name, storage_options=options)
    once.append(ROWS, "app", 1)
    once.append(ROWS, "app", 1)
    GroupWriter(name, storage_options=options).append(ROWS)
    assert DeltaTable(name, storage_options=options).to_pyarrow_table().num_rows == 4
    assert columns(hive, f"{schema}.t") == ["id", "day"]


def test_a_query_over_names(schema: str, options: dict[str, str]) -> None:
    for table in ("a", "b"):
        write_deltalake(f"hive://{schema}.{table}", ROWS, storage_options=options)
    text = f"SELECT count(*) AS n FROM delta.`hive://{schema}.a` a JOIN delta.`hive://{schema}.b` b ON a.id = b.id"
    assert deltaplane.sql(text, storage_options=options).to_pylist() == [{"n": 2}]
    deltaplane.sql(f"CREATE TABLE delta.`hive://{schema}.c` (x INT) USING delta", storage_options=options)
    assert HiveMetastore(options["catalog"]).tables(schema) == ["a", "b", "c"]


def test_a_metastore_that_is_away_after_a_commit_is_a_warning(
    hive: HiveMetastore, schema: str, forwarder: Forwarder, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"catalog": forwarder.uri, "catalog_timeout": "2s"}
    write_deltalake(f"hive://{schema}.t", ROWS, storage_options=options)
    table = DeltaTable(f"hive://{schema}.t", storage_options=options)
    forwarder.cut()
    with caplog.at_level(logging.WARNING, "deltaplane"):
        table.alter.set_table_properties({"mine": "1"})
    assert table.version() == 1
    assert [r.message for r in caplog.records if "the commit is safe" in r.message and f"{schema}.t" in r.message]
    assert "mine" not in entry(hive, f"{schema}.t")
    assert hive.refresh(f"{schema}.t")
    assert entry(hive, f"{schema}.t")["mine"] == "1"
    with pytest.raises(StoreUnavailableError, match="no Hive metastore answers"):
        DeltaTable(f"hive://{schema}.t", storage_options=options)


def test_an_entry_that_names_another_table_now_is_left_alone(
    hive: HiveMetastore, schema: str, options: dict[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    name = f"{schema}.t"
    write_deltalake(f"hive://{name}", ROWS, storage_options=options)
    table = DeltaTable(f"hive://{name}", storage_options=options)
    hive.drop(name)
    write_deltalake(str(tmp_path / "other"), pa.table({"x": [1]}))
    hive.create(name, str(tmp_path / "other"), DeltaTable(str(tmp_path / "other")).schema().to_json())
    with caplog.at_level(logging.WARNING, "deltaplane"):
        table.alter.set_table_properties({"mine": "1"})
    assert columns(hive, name) == ["x"]
    assert any("another location" in record.message for record in caplog.records)


def test_writers_that_create_one_table_by_name(hive: HiveMetastore, schema: str, options: dict[str, str]) -> None:
    name = f"hive://{schema}.shared"

    def append(number: int) -> None:
        rows = pa.table({"id": pa.array([number], pa.int64())})
        write_deltalake(name, rows, mode="append", storage_options=options)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(append, range(6)))
    assert sorted(DeltaTable(name, storage_options=options).to_pyarrow_table()["id"].to_pylist()) == list(range(6))
    assert columns(hive, f"{schema}.shared") == ["id"]
    with pytest.raises(TableAlreadyExistsError):
        write_deltalake(name, ROWS, storage_options=options)


@pytest.mark.parametrize(
    ("catalog", "problem"),
    [(None, "needs the storage option catalog"), ("glue://eu-west-1", "thrift://"), ("https://host", "thrift://")],
)
def test_a_name_needs_its_kind_of_catalog(catalog: str | None, problem: str) -> None:
    options = {} if catalog is None else {"catalog": catalog}
    with pytest.raises(InvalidArgumentError, match=problem):
        DeltaTable("hive://a.b", storage_options=options)


def test_what_a_name_does_not_find(schema: str, options: dict[str, str]) -> None:
    with pytest.raises(TableNotFoundError, match=f"there is no table {schema}.nothing"):
        DeltaTable(f"hive://{schema}.nothing", storage_options=options)
    with pytest.raises(TableNotFoundError, match="the schema nowhere doesn't exist"):
        write_deltalake("hive://nowhere.t", ROWS, storage_options=options)
    assert not DeltaTable.is_deltatable(f"hive://{schema}.nothing", options)
    with pytest.raises(InvalidArgumentError, match=r"schema\.table"):
        DeltaTable("hive://one", storage_options=options)
