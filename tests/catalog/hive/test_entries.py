"""The Hive metastore as a catalog: every method, names, races and failures."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from catalog.hive.metastore_server import Forwarder
from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import (
    DeltaError,
    InvalidArgumentError,
    StoreUnavailableError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from deltaplane.metastores.entry import TableFacts
from deltaplane.metastores.front import Front
from deltaplane.metastores.hive import HiveMetastore

COLUMNS = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
HOSTILE = [
    "`a.b`",
    "`x;drop table y`",
    "x'--",
    'x" or "1"="1',
    "café",
    "表",
    "`tick``tock`",
    "`..`",
    "`../../etc`",
    "a b",
    "%2e%2e",
    "x*",
    "x|y",
]


def table_at(path: Path, **options: Any) -> DeltaTable:
    write_deltalake(str(path), pa.table({"id": [1, 2]}), **options)
    return DeltaTable(str(path))


def test_every_method(hive: HiveMetastore, schema: str, tmp_path: Path) -> None:
    assert schema in hive.schemas()
    assert hive.tables(schema) == []
    table = table_at(tmp_path / "t", description="numbers")
    name = f"{schema}.numbers"
    assert not hive.exists(name)
    hive.create(name, str(tmp_path / "t"), table.schema().to_json(), (), {"some.key": "1"})
    assert hive.exists(name)
    assert hive.exists(f"{schema.upper()}.NUMBERS")
    assert hive.tables(schema) == ["numbers"]
    assert hive.location(name) == str(tmp_path / "t")
    with pytest.raises(TableAlreadyExistsError, match=r"numbers exists already"):
        hive.create(name, str(tmp_path / "other"), COLUMNS)
    assert hive.refresh(name)
    assert not hive.refresh(name)
    hive.rename(name, f"{schema}.renamed")
    assert hive.tables(schema) == ["renamed"]
    assert hive.location(f"{schema}.renamed") == str(tmp_path / "t")
    hive.drop(f"{schema}.renamed")
    assert hive.tables(schema) == []
    assert DeltaTable(str(tmp_path / "t")).to_pyarrow_table().num_rows == 2
    for call in (hive.location, hive.drop, hive.refresh, lambda n: hive.rename(n, f"{schema}.z")):
        with pytest.raises(TableNotFoundError, match=f"there is no table {name}"):
            call(name)


def test_a_rename_to_a_taken_name_or_into_no_schema_changes_nothing(
    hive: HiveMetastore, schema: str, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        hive.create(f"{schema}.{name}", str(tmp_path / name), COLUMNS)
    with pytest.raises(TableAlreadyExistsError):
        hive.rename(f"{schema}.a", f"{schema}.b")
    with pytest.raises(TableNotFoundError, match="nowhere"):
        hive.rename(f"{schema}.a", "nowhere.a")
    assert hive.tables(schema) == ["a", "b"]


def test_a_schema_is_dropped_when_it_is_empty(hive: HiveMetastore, schema: str, tmp_path: Path) -> None:
    table_at(tmp_path / "t")
    hive.create(f"{schema}.t", str(tmp_path / "t"), COLUMNS)
    with pytest.raises(InvalidArgumentError, match="not empty"):
        hive.drop_schema(schema)
    assert hive.tables(schema) == ["t"]
    hive.drop_schema(schema, force=True)
    assert not hive.has_schema(schema)
    assert DeltaTable(str(tmp_path / "t")).version() == 0
    with pytest.raises(TableNotFoundError):
        hive.drop_schema(schema)


def test_what_an_entry_says(hive: HiveMetastore, schema: str, tmp_path: Path) -> None:
    hive.create(f"{schema}.t", str(tmp_path / "t"), COLUMNS, (), {"mine": "1"})
    info = hive.info(f"{schema}.t")
    assert info["properties"].pop("mine") == "1"
    assert {key: info[key] for key in ("full_name", "table_type", "format", "location")} == {
        "full_name": f"{schema}.t",
        "table_type": "EXTERNAL_TABLE",
        "format": "delta",
        "location": str(tmp_path / "t"),
    }
    with pytest.raises(TableNotFoundError):
        hive.info(f"{schema}.u")


def test_the_face_of_a_metastore_to_catalog(hive: HiveMetastore, schema: str, tmp_path: Path) -> None:
    front = Front("hive", hive, {"catalog_timeout": "20s"})
    assert front.describe() == hive.uri
    assert schema in front.schemas()
    front.create_schema(f"{schema}_more", "another", str(tmp_path / "more"))
    table = table_at(tmp_path / "t", description="numbers")
    front.register(f"{schema}.t", table)
    assert front.tables(schema) == [f"{schema}.t"]
    assert front.info(f"{schema}.t")["properties"]["comment"] == "numbers"
    assert [front.exists(name) for name in (schema, f"{schema}.t", f"{schema}.u", "nowhere")] == [
        True,
        True,
        False,
        False,
    ]
    opened = DeltaTable(front.location(f"{schema}.t"), storage_options=front.options(f"{schema}.t"))
    assert opened.to_pyarrow_table().num_rows == 2
    table.alter.set_table_properties({"mine": "1"})
    front.rename(f"{schema}.t", "u")
    assert front.tables(schema) == [f"{schema}.u"]
    front.refresh(f"{schema}.u")
    assert front.info(f"{schema}.u")["properties"]["mine"] == "1"
    front.drop(f"{schema}.u", False)
    front.drop(f"{schema}_more", False)
    assert not front.exists(f"{schema}_more")
    with pytest.raises(InvalidArgumentError, match="no catalogs within it"):
        front.schemas("main")


def test_schemas_that_are_missing_or_taken(hive: HiveMetastore, schema: str, tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError, match="the schema nowhere doesn't exist"):
        hive.tables("nowhere")
    with pytest.raises(TableNotFoundError, match="the schema nowhere doesn't exist"):
        hive.create("nowhere.t", str(tmp_path), COLUMNS)
    assert not hive.exists("nowhere.t")
    with pytest.raises(TableAlreadyExistsError):
        hive.create_schema(schema)


@pytest.mark.parametrize("part", HOSTILE)
def test_hostile_names_reach_no_other_table(hive: HiveMetastore, schema: str, tmp_path: Path, part: str) -> None:
    hive.create(f"{schema}.x", str(tmp_path / "x"), COLUMNS)
    name = f"{schema}.{part}"
    assert not hive.exists(name)
    for call in (hive.location, hive.drop):
        with pytest.raises(TableNotFoundError):
            call(name)
    with pytest.raises(InvalidArgumentError, match="not a valid object name"):
        hive.create(name, str(tmp_path / "y"), COLUMNS)
    with pytest.raises(InvalidArgumentError, match="names in a Hive metastore"):
        write_deltalake(f"hive://{name}", pa.table({"id": [1]}), storage_options={"catalog": hive.uri})
    assert hive.tables(schema) == ["x"]
    assert sorted(os.listdir(tmp_path)) == [schema, "x"] or sorted(os.listdir(tmp_path)) == ["x", schema]


@pytest.mark.parametrize(
    "name", ["", "t", "a.b.c", ".t", "a.", "a..b", "`a.b", "`a`b.c", "a.\x00b", "a." + "x" * 300, "``.a"]
)
def test_texts_that_are_no_names(hive: HiveMetastore, name: str) -> None:
    with pytest.raises(InvalidArgumentError):
        hive.exists(name)


def test_a_location_in_memory_is_no_entry(hive: HiveMetastore, schema: str) -> None:
    with pytest.raises(InvalidArgumentError, match="this process only"):
        hive.create(f"{schema}.t", "memory://m/t", COLUMNS)


def test_a_store_that_the_metastore_can_not_open(hive: HiveMetastore, schema: str) -> None:
    """The metastore has no classes for `s3a`: the entry has a placeholder, as Spark's have."""
    hive.create(f"{schema}.remote", "s3a://bucket/remote/", COLUMNS)
    assert hive.location(f"{schema}.remote") == "s3a://bucket/remote"
    entry = hive._entry(schema, "remote")
    assert entry is not None
    assert (entry.location or "").endswith("remote-__PLACEHOLDER__")


def test_a_missing_location(hive: HiveMetastore, schema: str, options: dict[str, str], tmp_path: Path) -> None:
    hive.create(f"{schema}.gone", str(tmp_path / "gone"), COLUMNS)
    with pytest.raises(TableNotFoundError):
        DeltaTable(f"hive://{schema}.gone", storage_options=options)
    with pytest.raises(TableNotFoundError):
        hive.refresh(f"{schema}.gone")
    assert not DeltaTable.is_deltatable(f"hive://{schema}.gone", options)


def test_eight_creators_of_one_name(hive: HiveMetastore, schema: str, tmp_path: Path) -> None:
    barrier = threading.Barrier(8)

    def create(number: int) -> int | None:
        barrier.wait()
        try:
            HiveMetastore(hive.uri).create(f"{schema}.one", str(tmp_path / str(number)), COLUMNS)
        except TableAlreadyExistsError:
            return None
        return number

    with ThreadPoolExecutor(8) as pool:
        winners = [number for number in pool.map(create, range(8)) if number is not None]
    assert len(winners) == 1
    assert hive.location(f"{schema}.one") == str(tmp_path / str(winners[0]))


def test_an_older_version_replaces_no_newer_entry(hive: HiveMetastore, schema: str, tmp_path: Path) -> None:
    from deltaplane import _native

    table = table_at(tmp_path / "t")
    hive.create(f"{schema}.t", str(tmp_path / "t"), table.schema().to_json())
    older = _native.Snapshot.open(str(tmp_path / "t"))
    table.alter.set_table_properties({"some.key": "new"})
    assert hive.refresh(f"{schema}.t")
    assert not hive.refresh(f"{schema}.t", snapshot=older)
    entry = hive._entry(schema, "t")
    assert entry is not None
    assert entry.parameters["some.key"] == "new"
    assert entry.parameters["delta.lastUpdateVersion"] == "1"


def test_a_property_can_not_pose_as_the_entrys_own(hive: HiveMetastore, schema: str, tmp_path: Path) -> None:
    posing = {"EXTERNAL": "FALSE", "spark.sql.sources.provider": "parquet", "numFiles": "9", "mine": "1"}
    hive.create(f"{schema}.t", str(tmp_path / "t"), COLUMNS, (), posing)
    entry = hive._entry(schema, "t")
    assert entry is not None
    assert {key: entry.parameters.get(key) for key in posing} == {
        "EXTERNAL": "TRUE",
        "spark.sql.sources.provider": "delta",
        "numFiles": None,
        "mine": "1",
    }


def test_an_entry_of_our_data_source_opens_and_stays(hive: HiveMetastore, schema: str, tmp_path: Path) -> None:
    table = table_at(tmp_path / "t")
    hive.create(f"{schema}.t", str(tmp_path / "t"), COLUMNS)
    entry = hive._entry(schema, "t")
    assert entry is not None
    facts = TableFacts(COLUMNS)
    hive._update(schema, "t", entry, {**entry.parameters, "spark.sql.sources.provider": "deltaplane"}, facts)
    table.alter.set_table_properties({"mine": "1"})
    assert hive.tables(schema) == ["t"]
    assert hive.location(f"{schema}.t") == str(tmp_path / "t")
    assert not hive.refresh(f"{schema}.t")


# --- a metastore that fails -----------------------------------------------------------------------


@contextmanager
def serving(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """The address of a server that treats each connection so."""
    listening = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            with client:
                answer(client)

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"thrift://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()


def reply(body: bytes, method: bytes = b"get_all_databases", kind: int = 2) -> bytes:
    """A message of Thrift's binary protocol."""
    return struct.pack(">Ii", 0x80010000 | kind, len(method)) + method + struct.pack(">i", 0) + body


ANSWERS = {
    "nothing": b"",
    "http": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "noise": bytes(range(256)),
    "another method": reply(b"\0", b"get_table"),
    "half a message": reply(b"\x0f\x00\x00"),
    "a huge text": reply(b"\x0b\x00\x00" + struct.pack(">i", 2**31 - 1)),
    "a negative length": reply(b"\x0b\x00\x00" + struct.pack(">i", -5)),
    "a huge list": reply(b"\x0f\x00\x00\x0b" + struct.pack(">i", 2**31 - 1)),
    "an unknown type": reply(b"\x63\x00\x00"),
    "endless nesting": reply(b"\x0c\x00\x00" * 100_000),
    "no result": reply(b"\0"),
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_answers_that_are_none(answer: bytes) -> None:
    def serve(client: socket.socket) -> None:
        client.recv(65536)
        client.sendall(answer)

    with serving(serve) as uri, pytest.raises(StoreUnavailableError):
        HiveMetastore(uri, {"catalog_timeout": "5s"}).schemas()


def test_a_server_that_never_answers_is_left_in_time() -> None:
    begun = time.monotonic()
    done = threading.Event()
    with serving(lambda client: done.wait(20) and None) as uri:
        with pytest.raises(StoreUnavailableError, match="gave no answer"):
            HiveMetastore(uri, {"catalog_timeout": "300ms"}).schemas()
        assert time.monotonic() - begun < 5
        done.set()


def test_the_next_address_is_tried(metastore_uri: str, schema: str, forwarder: Forwarder) -> None:
    away = forwarder.uri
    forwarder.cut()
    assert schema in HiveMetastore(f"{away},{metastore_uri}").schemas()
    with pytest.raises(StoreUnavailableError, match="no Hive metastore answers"):
        HiveMetastore(away, {"catalog_timeout": "2s"}).schemas()


@pytest.mark.parametrize(
    "uri",
    ["thrift://", "thrift://host:0", "thrift://host:99999", "http://host:1", "thrift://user:hidden@host:9083", "host"],
)
def test_addresses_that_are_none(uri: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        HiveMetastore(uri)
    assert "hidden" not in str(raised.value)


@pytest.mark.parametrize("timeout", ["0s", "-1s", "soon", "1e9", "9999999s", "1h"])
def test_times_that_are_none(timeout: str) -> None:
    with pytest.raises(InvalidArgumentError, match="catalog_timeout"):
        HiveMetastore("thrift://host", {"catalog_timeout": timeout})


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "thrift.Thrift", None)
    monkeypatch.setitem(__import__("sys").modules, "thrift", None)
    with pytest.raises(ImportError, match=r"deltaplane\[hive\]"):
        HiveMetastore("thrift://host")


def test_errors_are_deltaplanes(hive: HiveMetastore) -> None:
    with pytest.raises(DeltaError):
        hive.location("no.table")
