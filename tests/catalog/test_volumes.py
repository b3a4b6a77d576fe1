"""Volumes: names of folders with files, and paths in them as locations."""

from __future__ import annotations

from pathlib import Path

import pytest

import deltaplane
from catalog.conftest import ALL_BACKENDS, SCHEMA, Lake, ids, rows, serving
from deltaplane import Catalog, DeltaTable, write_deltalake
from deltaplane.exceptions import (
    InvalidArgumentError,
    StoreDeniedError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)

BACKENDS = ALL_BACKENDS
RAW = f"{SCHEMA}.raw"
PATH = "dbfs:/Volumes/main/sales/raw"


def test_volumes_are_listed_created_and_dropped(lake: Lake, tmp_path: Path) -> None:
    catalog = lake.catalog
    assert catalog.volumes(SCHEMA) == []
    catalog.create_volume(RAW, location=tmp_path / "raw", comment="files of others")
    catalog.create_volume(f"{SCHEMA}.own")
    assert catalog.volumes(SCHEMA) == [f"{SCHEMA}.own", RAW]
    info = catalog.volume(RAW)
    assert info["location"] == f"file://{tmp_path}/raw"
    assert (info["table_type"], info["comment"], info["full_name"]) == ("EXTERNAL", "files of others", RAW)
    own = catalog.volume(f"{SCHEMA}.own")
    assert (own["table_type"], own["location"].rpartition("/")[2]) == ("MANAGED", own["id"])
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_volume(RAW, location=tmp_path / "other")
    with pytest.raises(TableNotFoundError, match=r"no volume main\.sales\.absent"):
        catalog.volume(f"{SCHEMA}.absent")
    with pytest.raises(TableNotFoundError):
        catalog.volumes("main.absent")
    # A schema with volumes isn't empty.
    with pytest.raises(InvalidArgumentError, match="not empty"):
        catalog.drop(SCHEMA)
    catalog.drop_volume(RAW)
    with pytest.raises(TableNotFoundError):
        catalog.drop_volume(RAW)
    assert catalog.volumes(SCHEMA) == [f"{SCHEMA}.own"]
    catalog.drop(SCHEMA, force=True)
    assert catalog.schemas() == []


def test_paths_are_locations(lake: Lake, tmp_path: Path) -> None:
    lake.catalog.create_volume(RAW, location=tmp_path / "raw")
    write_deltalake(f"{PATH}/plain", rows(1), storage_options=lake.options)
    assert ids(DeltaTable(tmp_path / "raw" / "plain")) == [1]
    assert ids(DeltaTable(f"{PATH}/plain", storage_options=lake.options)) == [1]
    table = lake.catalog.create_table(f"{SCHEMA}.outside", rows().schema, location=f"{PATH}/outside")
    lake.write("outside", rows(2))
    assert ids(DeltaTable(tmp_path / "raw" / "outside")) == [2]
    assert lake.catalog.info(f"{SCHEMA}.outside")["location"] == f"file://{tmp_path}/raw/outside"
    assert "catalogManaged" not in (table.protocol().writer_features or ())
    assert ids(lake.catalog.register(f"{SCHEMA}.plain", f"{PATH}/plain")) == [1]
    deltaplane.sql(f"CREATE TABLE {SCHEMA}.made (id BIGINT) USING delta LOCATION '{PATH}/made'", catalog=lake.catalog)
    assert lake.catalog.info(f"{SCHEMA}.made")["location"] == f"file://{tmp_path}/raw/made"


def test_copy_into_reads_a_volume(lake: Lake, tmp_path: Path) -> None:
    lake.catalog.create_volume(RAW, location=tmp_path / "raw")
    day = tmp_path / "raw" / "day"
    day.mkdir(parents=True)
    (day / "a.csv").write_text("id,text\n7,seven\n")
    lake.write("t", rows(1))
    copy = f"COPY INTO {SCHEMA}.t FROM '{PATH}/day' FILEFORMAT = CSV FORMAT_OPTIONS ('header' = 'true')"
    for _ in range(2):
        deltaplane.sql(copy, catalog=lake.catalog)
    assert ids(lake.open("t")) == [1, 7]
    (day / "b.csv").write_text("id,text\n8,eight\n")
    deltaplane.sql(copy, catalog=lake.catalog)
    assert ids(lake.open("t")) == [1, 7, 8]


def test_locations_do_not_overlap(lake: Lake, tmp_path: Path) -> None:
    catalog = lake.catalog
    catalog.create_volume(RAW, location=tmp_path / "raw")
    lake.write("t", rows(1))
    write_deltalake(tmp_path / "table", rows(1))
    catalog.register(f"{SCHEMA}.table", tmp_path / "table")
    places = [
        tmp_path / "raw" / "in",
        tmp_path / "raw",
        tmp_path / "table" / "in",
        lake.folder("t"),
        lake.folder("t").parent,
    ]
    for place in [*places, tmp_path]:
        with pytest.raises(InvalidArgumentError, match=r"overlaps|managed tables"):
            catalog.create_volume(f"{SCHEMA}.other", location=place)
    with pytest.raises(InvalidArgumentError):
        catalog.create_volume(f"{SCHEMA}.other", location="ftp://host/files")
    assert catalog.volumes(SCHEMA) == [RAW]


def test_paths_that_are_refused(lake: Lake, tmp_path: Path) -> None:
    lake.catalog.create_volume(RAW, location=tmp_path / "raw")
    for path, error, words in (
        ("dbfs:/FileStore/t", UnsupportedFeatureError, "dbfs:/Volumes/"),
        ("dbfs:/Volumes/main/sales", InvalidArgumentError, "names no volume"),
        (f"{PATH}/../secret", InvalidArgumentError, r"steps \. or \.\."),
        ("dbfs:/Volumes/main/sales/absent/t", TableNotFoundError, "no volume"),
    ):
        with pytest.raises(error, match=words):
            DeltaTable(path, storage_options=lake.options)
    with pytest.raises(InvalidArgumentError, match="catalog"):
        DeltaTable(f"{PATH}/t")


def test_volumes_need_rights(database: str, tmp_path: Path) -> None:
    owner = Catalog(database)
    owner.create_schema("main.hr")
    tokens = {}
    for name, access, schema in (
        ("reader", "READ", SCHEMA),
        ("writer", "WRITE", SCHEMA),
        ("other", "WRITE", "main.hr"),
    ):
        owner.grant(name, access, schema)
        tokens[name] = owner.create_token(name)
    with serving(database, tmp_path / "log") as (url, _):
        reader, writer, other = (Catalog(url, tokens[name]) for name in ("reader", "writer", "other"))
        with pytest.raises(StoreDeniedError, match="WRITE"):
            reader.create_volume(RAW, location=tmp_path / "raw")
        writer.create_volume(RAW, location=tmp_path / "raw")
        assert reader.volumes(SCHEMA) == [RAW]
        with pytest.raises(StoreDeniedError):
            other.volume(RAW)
        # A table within a volume would give its owner the volume's files.
        write_deltalake(tmp_path / "raw" / "t", rows(1))
        with pytest.raises(StoreDeniedError):
            other.register("main.hr.t", tmp_path / "raw" / "t")
        with pytest.raises(InvalidArgumentError, match="overlaps"):
            other.create_volume("main.hr.raw", location=tmp_path / "raw" / "in")
        with pytest.raises(StoreDeniedError):
            reader.drop_volume(RAW)
        writer.register(f"{SCHEMA}.t", tmp_path / "raw" / "t")
        writer.drop_volume(RAW)
