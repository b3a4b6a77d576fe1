"""`deltaplane.Catalog` over a Hive metastore, and SQL by its names."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

import deltaplane
from deltaplane import Catalog, DeltaTable, write_deltalake
from deltaplane.exceptions import (
    InvalidArgumentError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


@pytest.fixture
def catalog(metastore_uri: str) -> Catalog:
    """The metastore, as users name it."""
    return Catalog(metastore_uri)


def test_tables_by_name(catalog: Catalog, schema: str, tmp_path: Path) -> None:
    assert schema in catalog.schemas()
    table = catalog.create_table(f"{schema}.a", ROWS.schema, description="numbers")
    write_deltalake(table, ROWS, mode="append")
    assert catalog.table(f"{schema}.a").to_pyarrow_table().num_rows == 2
    assert catalog.info(f"{schema}.a")["location"] == f"{tmp_path}/{schema}/a"
    catalog.create_table(f"{schema}.placed", ROWS.schema, location=tmp_path / "placed")
    write_deltalake(str(tmp_path / "there"), ROWS)
    assert catalog.register(f"{schema}.there", tmp_path / "there").to_pyarrow_table().num_rows == 2
    assert catalog.tables(schema) == [f"{schema}.a", f"{schema}.placed", f"{schema}.there"]
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table(f"{schema}.a", ROWS.schema)
    assert catalog.create_table(f"{schema}.a", ROWS.schema, mode="ignore").version() == 1
    catalog.rename(f"{schema}.there", "moved")
    assert catalog.exists(f"{schema}.moved")
    catalog.drop(f"{schema}.moved")
    catalog.drop(f"{schema}.moved", missing_ok=True)
    with pytest.raises(TableNotFoundError):
        catalog.table(f"{schema}.moved")
    DeltaTable(str(tmp_path / "placed")).alter.set_table_properties({"mine": "1"})
    catalog.refresh(f"{schema}.placed")
    assert catalog.info(f"{schema}.placed")["properties"]["mine"] == "1"
    assert pickle.loads(pickle.dumps(catalog)).tables(schema) == [f"{schema}.a", f"{schema}.placed"]
    with pytest.raises(UnsupportedFeatureError):
        catalog.catalogs()


def test_schemas(catalog: Catalog, schema: str, tmp_path: Path) -> None:
    catalog.create_schema(f"{schema}_more", "another", tmp_path / "more")
    catalog.create_table(f"{schema}_more.t", ROWS.schema)
    assert DeltaTable.is_deltatable(str(tmp_path / "more" / "t"))
    with pytest.raises(InvalidArgumentError):
        catalog.drop(f"{schema}_more")
    catalog.drop(f"{schema}_more", force=True)
    assert not catalog.exists(f"{schema}_more")
    assert DeltaTable.is_deltatable(str(tmp_path / "more" / "t"))


def test_sql_by_names(catalog: Catalog, schema: str, tmp_path: Path) -> None:
    deltaplane.sql(f"CREATE TABLE {schema}.t (id BIGINT) USING delta", catalog=catalog)
    deltaplane.sql(f"INSERT INTO {schema}.t VALUES (1), (2)", catalog=catalog)
    deltaplane.sql(f"ALTER TABLE {schema}.t ADD COLUMNS (note STRING)", catalog=catalog)
    assert deltaplane.sql(f"SELECT * FROM {schema}.t WHERE id = 2", catalog=catalog).to_pylist() == [
        {"id": 2, "note": None}
    ]
    assert '"note"' in catalog.info(f"{schema}.t")["properties"]["spark.sql.sources.schema"]
    write_deltalake(str(tmp_path / "plain"), ROWS)
    text = f"SELECT count(*) AS n FROM {schema}.t a JOIN delta.`{tmp_path / 'plain'}` b ON a.id = b.id"
    assert deltaplane.sql(text, catalog=catalog).to_pylist() == [{"n": 2}]
    deltaplane.sql(f"CREATE TABLE {schema}.named USING delta LOCATION '{tmp_path / 'plain'}'", catalog=catalog)
    assert catalog.table(f"{schema}.named").to_pyarrow_table().num_rows == 2
