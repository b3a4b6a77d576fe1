"""Tables of one Hive metastore by their names in delta-spark and in deltaplane, both ways."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import InvalidArgumentError
from deltaplane.metastores.hive import HiveMetastore
from interop.delta_spark import DeltaSpark

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def spark(hive_spark: Callable[[], DeltaSpark]) -> DeltaSpark:
    """delta-spark with the metastore, which writes schemas into it if a test asks for it."""
    return hive_spark()


def read(name: str, options: dict[str, str]) -> list[dict[str, object]]:
    rows = DeltaTable(f"hive://{name}", storage_options=options).to_pyarrow_table()
    return sorted(rows.to_pylist(), key=lambda row: str(row["id"]))


def test_our_table_by_name_in_spark(
    hive: HiveMetastore, schema: str, options: dict[str, str], spark: DeltaSpark
) -> None:
    name = f"{schema}.orders"
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "Day": ["mon", "tue"], "amount": [1.5, 2.5]})
    properties = {"delta.enableDeletionVectors": "true", "some.key": "1"}
    write_deltalake(
        f"hive://{name}", rows, partition_by="Day", description="all", configuration=properties, storage_options=options
    )
    assert spark.sql(f"SELECT id, `Day` FROM {name} ORDER BY id").to_pylist() == [
        {"id": 1, "Day": "mon"},
        {"id": 2, "Day": "tue"},
    ]
    described = {r["col_name"]: r["data_type"] for r in spark.sql(f"DESCRIBE EXTENDED {name}").to_pylist()}
    assert described["Provider"] == "delta"
    assert described["Type"] == "EXTERNAL"
    assert described["Comment"] == "all"
    listed = spark.sql(f"SHOW TABLES IN {schema}")["tableName"].to_pylist()
    assert listed == ["orders"]

    spark.execute(f"INSERT INTO {name} VALUES (3, 'wed', 3.5)")
    spark.execute(f"UPDATE {name} SET amount = 0 WHERE id = 1")
    spark.execute(f"ALTER TABLE {name} ADD COLUMNS (note STRING)")
    assert [row["amount"] for row in read(name, options)] == [0, 2.5, 3.5]

    # The entry is older than the table now, which neither engine minds, until our next change.
    write_deltalake(f"hive://{name}", rows, mode="append", storage_options=options)
    DeltaTable(f"hive://{name}", storage_options=options).alter.set_table_properties({"some.key": "2"})
    entry = hive._entry(schema, "orders")
    assert entry is not None
    assert '"note"' in entry.parameters["spark.sql.sources.schema"]
    assert spark.sql(f"SELECT count(*) AS n, count(note) AS m FROM {name}").to_pylist() == [{"n": 5, "m": 0}]
    spark.execute(f"ALTER TABLE {name} RENAME TO {schema}.renamed")
    assert hive.tables(schema) == ["renamed"]
    assert len(read(f"{schema}.renamed", options)) == 5
    hive.rename(f"{schema}.renamed", f"{schema}.again")
    assert spark.sql(f"SELECT count(*) AS n FROM {schema}.again").to_pylist() == [{"n": 5}]
    spark.execute(f"DROP TABLE {schema}.again")
    assert hive.tables(schema) == []


def test_sparks_tables_by_name_here(
    hive: HiveMetastore, schema: str, options: dict[str, str], spark: DeltaSpark, tmp_path: Path
) -> None:
    spark.execute(
        f"CREATE TABLE {schema}.managed (id BIGINT NOT NULL COMMENT 'the id', d DATE, s STRUCT<a: INT, b: ARRAY<STRING>>) "
        "USING delta PARTITIONED BY (d) COMMENT 'of Spark' TBLPROPERTIES ('some.key' = '1')"
    )
    spark.execute(f"INSERT INTO {schema}.managed VALUES (1, DATE '2020-01-01', named_struct('a', 1, 'b', array('x')))")
    spark.execute(f"CREATE TABLE {schema}.placed (id INT, Name STRING) USING delta LOCATION '{tmp_path}/a place'")
    spark.execute(f"INSERT INTO {schema}.placed VALUES (1, 'x')")
    spark.execute(f"CREATE TABLE {schema}.plain (id INT) USING parquet")
    spark.execute(f"CREATE VIEW {schema}.view AS SELECT * FROM {schema}.placed")
    assert hive.tables(schema) == ["managed", "placed"]
    assert hive.location(f"{schema}.managed") == f"{tmp_path}/{schema}/managed"
    assert hive.location(f"{schema}.placed") == f"{tmp_path}/a place"
    assert [row["s"] for row in read(f"{schema}.managed", options)] == [{"a": 1, "b": ["x"]}]
    assert read(f"{schema}.placed", options) == [{"id": 1, "Name": "x"}]
    for other in ("plain", "view"):
        with pytest.raises(InvalidArgumentError, match="isn't a Delta table"):
            DeltaTable(f"hive://{schema}.{other}", storage_options=options)
        with pytest.raises(InvalidArgumentError, match="isn't a Delta table"):
            hive.drop(f"{schema}.{other}")

    wider = pa.table({"id": pa.array([2], pa.int32()), "Name": ["y"], "more": [True]})
    write_deltalake(f"hive://{schema}.placed", wider, mode="append", schema_mode="merge", storage_options=options)
    DeltaTable(f"hive://{schema}.managed", storage_options=options).delete("id = 1")
    assert spark.sql(f"SELECT * FROM {schema}.placed ORDER BY id").to_pylist() == [
        {"id": 1, "Name": "x", "more": None},
        {"id": 2, "Name": "y", "more": True},
    ]
    assert spark.sql(f"SELECT count(*) AS n FROM {schema}.managed").to_pylist() == [{"n": 0}]
    hive.rename(f"{schema}.placed", f"{schema}.moved")
    assert spark.sql(f"SELECT count(*) AS n FROM {schema}.moved").to_pylist() == [{"n": 2}]
    with pytest.raises(InvalidArgumentError, match="managed table"):
        hive.rename(f"{schema}.managed", f"{schema}.other")
    hive.drop(f"{schema}.managed")
    assert DeltaTable(f"{tmp_path}/{schema}/managed").version() == 2
    assert "managed" not in spark.sql(f"SHOW TABLES IN {schema}")["tableName"].to_pylist()


def test_entries_that_spark_updates_itself(
    hive: HiveMetastore, schema: str, options: dict[str, str], spark: DeltaSpark
) -> None:
    """Our entries have what delta-spark writes with its own switch for it."""
    with spark.settings({"spark.databricks.delta.catalog.update.enabled": "true"}):
        spark.execute(
            f"CREATE TABLE {schema}.theirs (id BIGINT COMMENT 'the id', d DATE) USING delta COMMENT 'same' "
            "TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'some.key' = '1')"
        )
    theirs = hive._entry(schema, "theirs")
    assert theirs is not None
    location = hive.location(f"{schema}.theirs")
    hive.create(f"{schema}.ours", location, DeltaTable(location).schema().to_json())
    assert hive.refresh(f"{schema}.ours")
    ours = hive._entry(schema, "ours")
    assert ours is not None
    import json

    of_metastore = {"numFiles", "totalSize", "transient_lastDdlTime", "spark.sql.create.version", "EXTERNAL"}
    both = [
        {
            key: json.loads(value) if key == "spark.sql.sources.schema" else value
            for key, value in entry.parameters.items()
            if key not in of_metastore
        }
        for entry in (ours, theirs)
    ]
    assert both[0] == both[1]
    assert not hive.refresh(f"{schema}.theirs")


def test_a_schema_that_is_too_long_for_one_parameter(
    hive: HiveMetastore, schema: str, options: dict[str, str], spark: DeltaSpark
) -> None:
    names = [f"a_column_with_a_rather_long_name_{number}" for number in range(200)]
    columns = pa.schema([pa.field(name, pa.string()) for name in names])
    DeltaTable.create(f"hive://{schema}.wide", columns, storage_options=options)
    entry = hive._entry(schema, "wide")
    assert entry is not None
    parts = int(entry.parameters["spark.sql.sources.schema.numParts"])
    assert parts > 1
    assert spark.sql(f"SELECT * FROM {schema}.wide").column_names == names
    table = DeltaTable(f"hive://{schema}.wide", storage_options=options)
    write_deltalake(table, pa.table({"id": [1]}), mode="overwrite", schema_mode="overwrite", storage_options=options)
    entry = hive._entry(schema, "wide")
    assert entry is not None
    assert not [key for key in entry.parameters if key.startswith("spark.sql.sources.schema.")]
    assert spark.sql(f"SELECT * FROM {schema}.wide").to_pylist() == [{"id": 1}]
