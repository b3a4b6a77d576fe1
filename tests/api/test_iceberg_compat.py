"""Compatibility with Iceberg and partition columns in files, on write (P115, P155, P156)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import UnsupportedFeatureError
from interop.verifier import verify

MAPPED = {"delta.columnMapping.mode": "name"}
LIST = pa.table({"p": ["a", "b"], "l": pa.array([[1], [2]], pa.list_(pa.int64()))})


def log(path: str, kind: str) -> dict:
    lines = (Path(path, "_delta_log") / f"{0:020d}.json").read_text().splitlines()
    return next(json.loads(line)[kind] for line in lines if kind in json.loads(line))


@pytest.mark.parametrize(
    ("configuration", "data", "why"),
    [
        ({"delta.enableIcebergCompatV2": "true"}, LIST, "icebergCompatV2, which needs column mapping"),
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
    """P156: they stand last, have no statistics, and readers still use the log's values."""
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
