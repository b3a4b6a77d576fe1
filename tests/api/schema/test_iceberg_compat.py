"""Compatibility with Iceberg and partition columns in files, on write (P115, P155, P156)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import UnsupportedFeatureError
from deltaplane.schema import Field, Schema
from interop.verifier import verify

MAPPED = {"delta.columnMapping.mode": "name"}
LIST = pa.table({"p": ["a", "b"], "l": pa.array([[1], [2]], pa.list_(pa.int64()))})


def log(path: str, kind: str) -> dict:
    lines = (Path(path, "_delta_log") / f"{0:020d}.json").read_text().splitlines()
    return next(json.loads(line)[kind] for line in lines if kind in json.loads(line))


@pytest.mark.parametrize(
    ("configuration", "data", "why"),
    [
        (
            {"delta.enableIcebergCompatV2": "true", "delta.columnMapping.mode": "none"},
            LIST,
            "icebergCompatV2, which needs column mapping",
        ),
        ({**MAPPED, "delta.enableIcebergCompatV1": "true"}, LIST, "icebergCompatV1.*no lists.*`l`"),
        (
            {**MAPPED, "delta.enableIcebergCompatV1": "true", "delta.enableIcebergCompatV2": "true"},
            LIST,
            "are both on",
        ),
        (
            {**MAPPED, "delta.enableIcebergCompatV2": "true", "delta.enableDeletionVectors": "true"},
            LIST,
            "no deletion vectors",
        ),
        ({**MAPPED, "delta.enableIcebergCompatV3": "true"}, LIST, "row tracking|rowTracking"),
        ({**MAPPED, "delta.enableIcebergCompatV2": "true"}, LIST.append_column("v", pa.nulls(2)), "no void.*`v`"),
    ],
)
def test_what_stands_in_the_way_is_named(
    configuration: dict[str, str], data: pa.Table, why: str, tmp_table: Callable[[], str]
) -> None:
    path = tmp_table()
    with pytest.raises(UnsupportedFeatureError, match=why):
        write_deltalake(path, data, configuration=configuration)
    assert not Path(path).exists() or not DeltaTable.is_deltatable(path)


@pytest.mark.parametrize("version", ["V1", "V2"])
def test_a_new_table_gets_the_column_mapping_that_it_needs(version: str, tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    write_deltalake(path, LIST.select(["p"]), configuration={f"delta.enableIcebergCompat{version}": "true"})
    assert DeltaTable(path).metadata().configuration["delta.columnMapping.mode"] == "name"
    assert DeltaTable(path).to_pyarrow_table() == LIST.select(["p"])
    # A table that is there keeps its columns' names in files.
    path = tmp_table()
    write_deltalake(path, LIST)
    with pytest.raises(UnsupportedFeatureError, match="needs column mapping"):
        DeltaTable(path).alter.set_table_properties({f"delta.enableIcebergCompat{version}": "true"})


V3 = {**MAPPED, "delta.enableRowTracking": "true", "delta.enableIcebergCompatV3": "true"}


def test_defaults_of_version_3_are_literals(tmp_table: Callable[[], str]) -> None:
    """P155, P107"""
    schema = Schema([Field("a", "long"), Field("d", "date", metadata={"CURRENT_DEFAULT": "current_date()"})])
    with pytest.raises(UnsupportedFeatureError, match=r"icebergCompatV3.*`d` is `current_date\(\)`"):
        DeltaTable.create(tmp_table(), schema, configuration=V3)
    DeltaTable.create(tmp_table(), schema, configuration={**MAPPED, "delta.enableIcebergCompatV2": "true"})
    schema = Schema([Field("a", "long"), Field("d", "date", metadata={"CURRENT_DEFAULT": "DATE'2024-01-01'"})])
    table = DeltaTable.create(tmp_table(), schema, configuration=V3)
    with pytest.raises(UnsupportedFeatureError, match="literals as defaults only"):
        table.alter.set_default("a", "1 + 1")
    table.alter.set_default("a", "-1")


@pytest.mark.parametrize("version", ["V1", "V2"])
def test_existing_tables_become_compatible(tmp_table: Callable[[], str], version: str) -> None:
    """P155: as delta-spark 4.4.0 allows."""
    path = tmp_table()
    write_deltalake(path, LIST.select(["p"]) if version == "V1" else LIST)
    table, key = DeltaTable(path), f"delta.enableIcebergCompat{version}"
    with pytest.raises(UnsupportedFeatureError, match="needs column mapping"):
        table.alter.set_table_properties({key: "true"})
    plan = table.alter.set_table_properties({**MAPPED, key: "true"})
    assert plan.added_features == ["columnMapping", f"icebergCompat{version}"]
    write_deltalake(path, pa.table({"p": ["c"]}), mode="append")
    assert sorted(DeltaTable(path).to_pyarrow_table()["p"].to_pylist()) == ["a", "b", "c"]
    if version == "V2":
        nested = [f.metadata.get("delta.columnMapping.nested.ids") for f in table.schema().fields]
        assert nested == [None, {"l.element": 3}]
        assert table.metadata().configuration["delta.columnMapping.maxColumnId"] == "3"
    other = f"delta.enableIcebergCompat{'V1' if version == 'V2' else 'V2'}"
    with pytest.raises(UnsupportedFeatureError, match=r"are both on|no lists"):
        table.alter.set_table_properties({other: "true"})
    with pytest.raises(UnsupportedFeatureError, match="no deletion vectors"):
        table.alter.set_table_properties({"delta.enableDeletionVectors": "true"})
    table.alter.set_table_properties({key: "false"})
    verify(path)


def test_what_stands_in_the_way_of_an_existing_table(tmp_table: Callable[[], str]) -> None:
    """P155"""

    def refused(why: str, version: str, **options: Any) -> DeltaTable:
        write_deltalake(path := tmp_table(), LIST.select(["p"]).append_column("v", pa.array([1, 2])), **options)
        table = DeltaTable(path)
        change = {**MAPPED, f"delta.enableIcebergCompat{version}": "true"}
        with pytest.raises(UnsupportedFeatureError, match=why):
            table.alter.set_table_properties(change)
        return table

    refused("icebergCompatV1 .* without the partition columns", "V1", partition_by="p")
    # The protocol requires it of new files only.
    write_deltalake(path := tmp_table(), LIST, partition_by="p", configuration=MAPPED)
    DeltaTable(path).alter.set_table_properties({"delta.enableIcebergCompatV2": "true"})
    write_deltalake(path, LIST, mode="append")
    with pytest.raises(UnsupportedFeatureError, match=r"keeps its partition columns \(\[p\]\)"):
        write_deltalake(path, LIST.select(["p"]), mode="overwrite", schema_mode="overwrite", partition_by=[])
    off = {"delta.enableDeletionVectors": "false"}
    listed = {"delta.feature.deletionVectors": "supported"}
    refused("icebergCompatV1, which has no deletion vectors, but the table's protocol", "V1", configuration=listed)
    refused("icebergCompatV3.*needs row tracking", "V3", configuration=off)
    write_deltalake(path := tmp_table(), LIST, configuration=MAPPED)
    commit = Path(path, "_delta_log", f"{0:020}.json")
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        action.get("add", {}).pop("stats", None)
    commit.write_text("\n".join(map(json.dumps, actions)))
    commit.with_suffix(".crc").unlink(missing_ok=True)
    with pytest.raises(UnsupportedFeatureError, match="has no number of rows"):
        DeltaTable(path).alter.set_table_properties({"delta.enableIcebergCompatV2": "true"})


def test_existing_tables_get_version_3(tmp_table: Callable[[], str]) -> None:
    """P155: existing rows get row ids; rows may be deleted by vectors."""
    path = tmp_table()
    write_deltalake(path, LIST, configuration={"delta.enableDeletionVectors": "true"})
    table = DeltaTable(path)
    table.delete("p = 'a'")
    plan = table.alter.set_table_properties(V3)
    assert set(plan.added_features) == {"columnMapping", "domainMetadata", "icebergCompatV3", "rowTracking"}
    nested = [f.metadata.get("delta.columnMapping.nested.ids") for f in table.schema().fields]
    assert nested == [None, {"l.element": 3}]
    table.update(updates={"p": "'c'"})
    ids = table.to_pyarrow_table(columns=["p", "_row_id"]).to_pylist()
    assert ids == [{"p": "c", "_row_id": 1}]
    # P141: Iceberg readers recognise the columns of row ids by these field ids.
    names = [v for k, v in sorted(table.metadata().configuration.items()) if "materializedRow" in k]
    file = pq.read_schema(Path(path, table.files()[0]))
    field_ids = {file.field(name).metadata[b"PARQUET:field_id"] for name in names}
    assert field_ids == {b"2147483540", b"2147483539"}
    assert file.field(names[1]).metadata[b"PARQUET:field_id"] == b"2147483540"
    verify(path)


def test_version_3_where_rows_have_ids_already(tmp_table: Callable[[], str]) -> None:
    """P155: refused if files store ids in columns that Iceberg readers don't know; delta-spark
    refuses all such tables."""
    path = tmp_table()
    tracked = {**MAPPED, "delta.enableRowTracking": "true"}
    write_deltalake(path, LIST, configuration=tracked)
    DeltaTable(path).alter.set_table_properties({"delta.enableIcebergCompatV3": "true"})
    DeltaTable(path).update(updates={"p": "'x'"}, predicate="p = 'a'")
    verify(path)
    # Disabled and enabled again: files rewritten in between count.
    table = DeltaTable(path)
    table.alter.set_table_properties({"delta.enableIcebergCompatV3": "false"})
    table.alter.set_table_properties({"delta.enableIcebergCompatV3": "true"})
    table.alter.set_table_properties({"delta.enableIcebergCompatV3": "false"})
    table.update(updates={"p": "'y'"}, predicate="p = 'b'")
    with pytest.raises(UnsupportedFeatureError, match=r"icebergCompatV3.*holds ids of its rows.*new table"):
        table.alter.set_table_properties({"delta.enableIcebergCompatV3": "true"})


def test_version_2_gives_ids_to_elements(tmp_table: Callable[[], str]) -> None:
    """P115, P155: with the partition columns in the files, last and without statistics."""
    path = tmp_table()
    write_deltalake(path, LIST, partition_by="p", configuration={**MAPPED, "delta.enableIcebergCompatV2": "true"})
    metadata, protocol = log(path, "metaData"), log(path, "protocol")
    assert {"columnMapping", "icebergCompatV2"} <= set(protocol["writerFeatures"])
    p, items = json.loads(metadata["schemaString"])["fields"]
    name = items["metadata"]["delta.columnMapping.physicalName"]
    nested = items["metadata"]["delta.columnMapping.nested.ids"]
    assert nested == {f"{name}.element": 3}
    assert metadata["configuration"]["delta.columnMapping.maxColumnId"] == "3"
    add = log(path, "add")
    schema = pq.read_schema(Path(path, add["path"]))
    assert schema.names == [name, p["metadata"]["delta.columnMapping.physicalName"]]
    assert schema.field(0).type.value_field.metadata[b"PARQUET:field_id"] == b"3"
    assert set(json.loads(add["stats"])["nullCount"]) == {name}
    assert DeltaTable(path).to_pyarrow_table().sort_by("p").to_pylist() == LIST.to_pylist()
    verify(path)


@pytest.mark.parametrize(
    "configuration",
    [{"delta.enableMaterializePartitionColumnsFeature": "true"}, {"delta.writePartitionColumnsToParquet": "true"}],
)
def test_partition_columns_in_files(configuration: dict[str, str], tmp_table: Callable[[], str]) -> None:
    """P156: partition columns are last and have no statistics, and readers still use the log's
    values."""
    path = tmp_table()
    data = pa.table({"p": pa.array([1, 2, None], pa.int32()), "v": ["a", "b", "c"]})
    write_deltalake(path, data, partition_by="p", configuration=configuration)
    add = log(path, "add")
    assert pq.read_schema(Path(path, add["path"])).names == ["v", "p"]
    assert set(json.loads(add["stats"])["minValues"]) == {"v"}
    feature = "materializePartitionColumns" in log(path, "protocol").get("writerFeatures", [])
    assert feature == ("delta.enableMaterializePartitionColumnsFeature" in configuration)
    assert DeltaTable(path).to_pyarrow_table().sort_by("v").to_pylist() == data.to_pylist()
    verify(path)
