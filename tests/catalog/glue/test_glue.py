"""AWS Glue's catalog on moto: every method, names as locations, races, refusals."""

from __future__ import annotations

import json
import logging
import sys
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaplane
from catalog.glue.conftest import Lake
from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import (
    InvalidArgumentError,
    StoreDeniedError,
    StoreUnavailableError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from deltaplane.metastores.glue import GlueCatalog
from stores.servers import MOTO, saying_its_port

COLUMNS = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
HOSTILE = ["`a.b`", "`x;drop table y`", "x'--", 'x" or "1"="1', "café", "表", "`tick``tock`", "a b", "%2e%2e", "x*"]
SECRET = "very-secret-key-of-nobody"


def store(lake: Lake) -> dict[str, str]:
    return {key: value for key, value in lake.options.items() if key != "aws_endpoint_url_glue"}


def entry(lake: Lake, table: str) -> dict[str, Any]:
    item = lake.catalog._entry(lake.schema, table)
    assert item is not None
    native: dict[str, Any] = item.native
    return native


def names(lake: Lake, table: str) -> list[str]:
    return [column["Name"] for column in entry(lake, table)["StorageDescriptor"]["Columns"]]


def test_every_method(lake: Lake) -> None:
    catalog, schema = lake.catalog, lake.schema
    assert schema in catalog.schemas()
    assert catalog.tables(schema) == []
    where = f"{lake.root}/elsewhere"
    write_deltalake(where, pa.table({"id": [1, 2]}), storage_options=store(lake))
    columns = DeltaTable(where, storage_options=store(lake)).schema().to_json()
    name = f"{schema}.numbers"
    assert not catalog.exists(name)
    catalog.create(name, where, columns, (), {"some.key": "1"})
    assert catalog.exists(name)
    assert catalog.tables(schema) == ["numbers"]
    assert catalog.location(name) == where
    with pytest.raises(TableAlreadyExistsError, match="numbers exists already"):
        catalog.create(name, f"{lake.root}/other", COLUMNS)
    assert catalog.refresh(name, store(lake))
    assert not catalog.refresh(name, store(lake))
    catalog.rename(name, f"{schema}.renamed")
    assert catalog.tables(schema) == ["renamed"]
    assert catalog.location(f"{schema}.renamed") == where
    catalog.create(f"{schema}.taken", where, COLUMNS)
    with pytest.raises(TableAlreadyExistsError):
        catalog.rename(f"{schema}.renamed", f"{schema}.taken")
    with pytest.raises(TableNotFoundError, match="the schema nowhere"):
        catalog.rename(f"{schema}.renamed", "nowhere.t")
    catalog.drop(f"{schema}.renamed")
    assert catalog.tables(schema) == ["taken"]
    assert DeltaTable(where, storage_options=store(lake)).to_pyarrow_table().num_rows == 2
    for call in (catalog.location, catalog.drop, catalog.refresh, lambda n: catalog.rename(n, f"{schema}.z")):
        with pytest.raises(TableNotFoundError, match=f"there is no table {name}"):
            call(name)


def test_a_schema_is_dropped_when_it_is_empty(lake: Lake) -> None:
    lake.catalog.create(f"{lake.schema}.t", f"{lake.root}/t", COLUMNS)
    assert lake.catalog.info(f"{lake.schema}.t")["location"] == f"{lake.root}/t"
    with pytest.raises(InvalidArgumentError, match="isn't empty"):
        lake.catalog.drop_schema(lake.schema)
    assert lake.catalog.tables(lake.schema) == ["t"]
    lake.catalog.drop_schema(lake.schema, force=True)
    assert not lake.catalog.has_schema(lake.schema)
    with pytest.raises(TableNotFoundError):
        lake.catalog.drop_schema(lake.schema)


def test_an_entry_is_what_other_engines_read(lake: Lake) -> None:
    """Athena: the provider, the SerDe's path, an external table, columns with Hive's types. Trino:
    the provider and the path. Spark: the provider and its own form of the schema."""
    rows = pa.table({"id": pa.array([1], pa.int64()), "day": ["mon"], "at": pa.array([0], pa.timestamp("us", "UTC"))})
    write_deltalake(f"glue://{lake.schema}.t", rows, partition_by="day", storage_options=lake.options)
    native = entry(lake, "t")
    assert native["TableType"] == "EXTERNAL_TABLE"
    assert native["Parameters"]["EXTERNAL"] == "TRUE"
    assert native["Parameters"]["spark.sql.sources.provider"] == "delta"
    assert native["Parameters"]["table_type"] == "delta"
    assert [f["name"] for f in json.loads(native["Parameters"]["spark.sql.sources.schema"])["fields"]] == [
        "id",
        "day",
        "at",
    ]
    storage = native["StorageDescriptor"]
    assert storage["Location"] == storage["SerdeInfo"]["Parameters"]["path"] == f"{lake.root}/t"
    assert storage["Columns"] == [{"Name": "id", "Type": "bigint"}, {"Name": "at", "Type": "timestamp"}]
    assert native["PartitionKeys"] == [{"Name": "day", "Type": "string"}]


def test_an_entry_as_athenas_documentation_makes_it_opens(lake: Lake) -> None:
    where = f"{lake.root}/by-hand"
    write_deltalake(where, pa.table({"id": [7]}), storage_options=store(lake))
    for number, (parameters, serde) in enumerate(
        [
            (
                {"spark.sql.sources.provider": "delta", "EXTERNAL": "TRUE"},
                {"serialization.format": "1", "path": f"{where}/"},
            ),
            ({"table_type": "DELTA", "EXTERNAL": "TRUE"}, {}),
        ]
    ):
        table: dict[str, Any] = {
            "Name": f"athena{number}",
            "TableType": "EXTERNAL_TABLE",
            "Parameters": parameters,
            "StorageDescriptor": {
                "Columns": [{"Name": "col", "Type": "array<string>"}],
                "Location": f"{where}/",
                "SerdeInfo": {"Parameters": serde},
            },
        }
        lake.catalog._client.create_table(DatabaseName=lake.schema, TableInput=table)
        opened = DeltaTable(f"glue://{lake.schema}.athena{number}", storage_options=lake.options)
        assert opened.to_pyarrow_table()["id"].to_pylist() == [7]
    assert lake.catalog.tables(lake.schema) == ["athena0", "athena1"]


def test_what_is_no_delta_table(lake: Lake) -> None:
    table = {"Name": "ice", "TableType": "EXTERNAL_TABLE", "Parameters": {"table_type": "ICEBERG"}}
    lake.catalog._client.create_table(DatabaseName=lake.schema, TableInput=table)
    assert lake.catalog.exists(f"{lake.schema}.ice")
    assert lake.catalog.tables(lake.schema) == []
    for call in (lake.catalog.location, lake.catalog.drop, lake.catalog.refresh):
        with pytest.raises(InvalidArgumentError, match="isn't a Delta table"):
            call(f"{lake.schema}.ice")
    with pytest.raises(InvalidArgumentError, match="isn't a Delta table"):
        write_deltalake(f"glue://{lake.schema}.ice", pa.table({"id": [1]}), storage_options=lake.options)


def test_commits_by_name_keep_the_entry_in_step(lake: Lake) -> None:
    name = f"glue://{lake.schema}.t"
    DeltaTable.create(name, pa.schema({"id": pa.int64()}), storage_options=lake.options)
    wider = pa.table({"id": pa.array([1], pa.int64()), "a": [1.5]})
    write_deltalake(name, wider, mode="append", schema_mode="merge", storage_options=lake.options)
    assert names(lake, "t") == ["id", "a"]
    deltaplane.sql(f"ALTER TABLE delta.`{name}` ADD COLUMNS (b INT COMMENT 'bees')", storage_options=lake.options)
    assert entry(lake, "t")["StorageDescriptor"]["Columns"][2] == {"Name": "b", "Type": "int", "Comment": "bees"}
    table = DeltaTable(name, storage_options=lake.options)
    table.alter.set_table_properties({"mine": "1"})
    assert entry(lake, "t")["Parameters"]["mine"] == "1"
    table.restore(0)
    assert names(lake, "t") == ["id"]
    assert "mine" not in entry(lake, "t")["Parameters"]


@pytest.mark.parametrize("part", HOSTILE)
def test_hostile_names_reach_no_other_table(lake: Lake, part: str) -> None:
    lake.catalog.create(f"{lake.schema}.x", f"{lake.root}/x", COLUMNS)
    name = f"{lake.schema}.{part}"
    assert not lake.catalog.exists(name)
    for call in (lake.catalog.location, lake.catalog.drop):
        with pytest.raises(TableNotFoundError):
            call(name)
    lake.catalog.create(name, f"{lake.root}/y", COLUMNS)
    assert lake.catalog.location(name) == f"{lake.root}/y"
    assert lake.catalog.location(f"{lake.schema}.x") == f"{lake.root}/x"
    lake.catalog.drop(name)
    assert lake.catalog.tables(lake.schema) == ["x"]


def test_a_name_that_leaves_its_schemas_directory(lake: Lake) -> None:
    for part in ("`..`", "`../../other`", "`a/b`", "`a\\b`"):
        with pytest.raises(InvalidArgumentError, match="no directory"):
            write_deltalake(f"glue://{lake.schema}.{part}", pa.table({"id": [1]}), storage_options=lake.options)


def test_a_schema_without_a_location(lake: Lake) -> None:
    lake.catalog.create_schema(f"{lake.schema}_bare")
    with pytest.raises(InvalidArgumentError, match="has no location"):
        write_deltalake(f"glue://{lake.schema}_bare.t", pa.table({"id": [1]}), storage_options=lake.options)


def test_eight_creators_of_one_name(lake: Lake) -> None:
    barrier = threading.Barrier(8)

    def create(number: int) -> bool:
        catalog = GlueCatalog("glue://", lake.options)
        barrier.wait()
        try:
            catalog.create(f"{lake.schema}.one", f"{lake.root}/{number}", COLUMNS)
        except TableAlreadyExistsError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(create, range(8))) == 1


def test_an_update_that_lost_a_race_is_repeated(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Glue refuses an update of a version of the entry that isn't the newest."""
    from botocore.exceptions import ClientError

    name, where = f"{lake.schema}.t", f"{lake.root}/t"
    write_deltalake(where, pa.table({"id": [1]}), storage_options=store(lake), configuration={"mine": "1"})
    lake.catalog.create(name, where, COLUMNS)
    real, lost = lake.catalog._client.update_table, []

    def update(**arguments: Any) -> Any:
        if not lost:
            lost.append(arguments["VersionId"])
            raise ClientError({"Error": {"Code": "ConcurrentModificationException"}}, "UpdateTable")
        return real(**arguments)

    monkeypatch.setattr(lake.catalog._client, "update_table", update)
    assert lake.catalog.refresh(name, store(lake))
    assert lost
    assert entry(lake, "t")["Parameters"]["mine"] == "1"


def test_more_tables_than_a_page(lake: Lake) -> None:
    for number in range(105):
        lake.catalog.create(f"{lake.schema}.t{number:03}", f"{lake.root}/{number}", COLUMNS)
    assert lake.catalog.tables(lake.schema) == [f"t{number:03}" for number in range(105)]


# --- refusals -------------------------------------------------------------------------------------


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[str]:
    """The address of a moto server that knows no key."""
    with saying_its_port([sys.executable, "-c", MOTO], tmp_path / "moto.log") as endpoint:
        request = urllib.request.Request(f"{endpoint}/moto-api/reset-auth", b"0", {"Content-Type": "text/plain"})
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10).close()
        yield endpoint


def refused_options(endpoint: str) -> dict[str, str]:
    return {
        "aws_access_key_id": "AKIANOBODYSKEY",
        "aws_secret_access_key": SECRET,
        "aws_region": "eu-west-1",
        "aws_endpoint_url_glue": endpoint,
    }


def test_wrong_credentials_are_refused_and_not_shown(strict: str) -> None:
    catalog = GlueCatalog("glue://", refused_options(strict))
    for call in (
        catalog.schemas,
        lambda: catalog.tables("s"),
        lambda: catalog.location("s.t"),
        lambda: catalog.create("s.t", "s3://b/t", COLUMNS),
        lambda: DeltaTable("glue://s.t", storage_options=refused_options(strict)),
    ):
        with pytest.raises(StoreDeniedError) as raised:
            call()
        assert SECRET not in str(raised.value)
        assert "AKIANOBODYSKEY" not in str(raised.value)
        assert raised.value.__cause__ is None


def test_no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(StoreDeniedError, match="no credentials"):
        GlueCatalog("glue://eu-west-1").schemas()


def test_half_a_pair_of_keys() -> None:
    with pytest.raises(InvalidArgumentError, match="belong together") as raised:
        GlueCatalog("glue://eu-west-1", {"aws_secret_access_key": SECRET})
    assert SECRET not in str(raised.value)


def test_a_credential_provider_signs_requests(lake: Lake) -> None:
    options = {k: v for k, v in lake.options.items() if "KEY" not in k.upper()}
    asked = []

    def provider() -> dict[str, str]:
        asked.append(1)
        return {"access_key_id": "test", "secret_access_key": "test"}

    signed = {**options, "credential_provider": provider}
    write_deltalake(f"glue://{lake.schema}.t", pa.table({"id": [1]}), storage_options=signed)
    assert asked
    assert lake.catalog.tables(lake.schema) == ["t"]


def test_no_region(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(InvalidArgumentError, match="needs a region"):
        GlueCatalog()
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    assert GlueCatalog().uri == "glue://eu-north-1"


@pytest.mark.parametrize("uri", ["glue", "glue://a.b", "glue://user:hidden@x", "glue://x/y"])
def test_addresses_that_are_none(uri: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        GlueCatalog(uri)
    assert "hidden" not in str(raised.value)


def test_a_server_that_is_away(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    away = {**lake.options, "aws_endpoint_url_glue": "http://127.0.0.1:9", "catalog_timeout": "1s"}
    with pytest.raises(StoreUnavailableError, match="gave no answer"):
        GlueCatalog("glue://", away).schemas()
    name = f"{lake.schema}.t"
    write_deltalake(f"glue://{name}", pa.table({"id": [1]}), storage_options=lake.options)
    table = DeltaTable(f"glue://{name}", storage_options=lake.options)
    lake.catalog.drop(name)
    with caplog.at_level(logging.WARNING, "deltaplane"):
        table.alter.set_table_properties({"mine": "1"})
    assert table.version() == 1
    assert any("the commit is safe" in record.message for record in caplog.records)


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore", None)
    for name in [name for name in sys.modules if name.startswith("botocore.")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"deltaplane\[glue\]"):
        GlueCatalog("glue://eu-west-1")
