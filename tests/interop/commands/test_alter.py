"""ALTER between engines: other engines read and write tables that deltaplane changed, and the
reverse."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from deltaplane import DeltaTable, Field, write_deltalake
from deltaplane.schema import StructType
from interop.delta_spark import DeltaSpark
from interop.same import assert_same
from interop.verifier import verify

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "s": pa.array([{"x": 1}, None], pa.struct([("x", pa.int32())]))})


def last(table: str) -> dict[str, Any]:
    return DeltaTable(table).history(1)[0]


def test_we_alter_they_read_and_write_on(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    write_deltalake(path, ROWS)
    table = DeltaTable(path)
    table.alter.add_columns([Field("day", "date"), Field("note", "string")], first=True)
    table.alter.add_columns(Field("s", StructType([Field("y", "string")])))
    table.alter.reorder("note", after="s")
    table.alter.set_comment("id", "the key")
    table.alter.set_table_properties({"delta.checkpointInterval": "4", "owner": "us"})
    table.alter.set_table_description("ours")
    delta_spark.sql(
        f"insert into delta.`{path}` values (date'2026-01-01', 3, named_struct('x', 9, 'y', 'b'), 'from spark')"
    )
    more = pa.table({"id": pa.array([4], pa.int64()), "note": ["from deltalake"]})
    deltalake.write_deltalake(path, more, mode="append", schema_mode="merge")
    write_deltalake(path, pa.table({"id": pa.array([5], pa.int64())}), mode="append")
    assert_same(DeltaTable(path).to_pyarrow_table(), delta_spark.read(path))
    described = delta_spark.sql(f"describe detail delta.`{path}`").to_pylist()[0]
    assert (described["description"], dict(described["properties"])) == (
        "ours",
        {"delta.checkpointInterval": "4", "owner": "us"},
    )
    # delta-spark refuses commits of others before it reads the history, but accepts deltaplane's.
    operations = delta_spark.sql(f"describe history delta.`{path}`")["operation"].to_pylist()
    assert operations[-6:] == [
        "SET TBLPROPERTIES",
        "CHANGE COLUMN",
        "CHANGE COLUMN",
        "ADD COLUMNS",
        "ADD COLUMNS",
        "WRITE",
    ]
    verify(path)


def test_they_alter_we_read_and_alter_on(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    write_deltalake(path, ROWS)
    here = f"delta.`{path}`"
    delta_spark.sql(f"alter table {here} add columns (s.y string first, day date after id)")
    theirs = last(path)
    delta_spark.sql(f"alter table {here} set tblproperties ('delta.appendOnly' = 'true')")
    deltalake.DeltaTable(path).alter.add_columns(deltalake.Field("z", deltalake.schema.PrimitiveType("long")))
    table = DeltaTable(path)
    assert [f.name for f in table.schema().fields] == ["id", "day", "s", "z"]
    table.alter.unset_table_properties("delta.appendOnly")
    table.alter.add_columns(Field("q", "string"), into="s", first=True)
    ours = last(path)
    assert set(ours["operationParameters"]) == set(theirs["operationParameters"])
    columns = [json.loads(entry["operationParameters"]["columns"])[0] for entry in (ours, theirs)]
    assert columns[0] | {"column": None} == columns[1] | {"column": None}
    assert {**columns[0]["column"], "name": "s.y"} == columns[1]["column"]
    delta_spark.sql(f"update {here} set day = date'2026-02-02' where id = 1")
    assert_same(DeltaTable(path).to_pyarrow_table(), delta_spark.read(path))
    verify(path)


@pytest.mark.parametrize(
    "properties",
    [
        {"delta.enableChangeDataFeed": "true"},
        {"delta.feature.checkConstraints": "supported"},
        {"delta.minReaderVersion": "2", "delta.minWriterVersion": "5"},
        {"delta.feature.v2Checkpoint": "supported", "delta.checkpointInterval": "20"},
        {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"},
    ],
)
def test_protocols_rise_as_the_reference_raises_them(
    properties: dict[str, str], delta_spark: DeltaSpark, tmp_table: Callable[[], str]
) -> None:
    # P075, P093–P096
    ours, theirs = tmp_table(), tmp_table()
    for path in (ours, theirs):
        write_deltalake(path, ROWS)
    DeltaTable(ours).alter.set_table_properties(properties)
    said = ", ".join(f"'{k}' = '{v}'" for k, v in properties.items())
    delta_spark.sql(f"alter table delta.`{theirs}` set tblproperties ({said})")
    own, reference = DeltaTable(ours), DeltaTable(theirs)

    def plain(table: DeltaTable) -> tuple[Any, ...]:
        p = table.protocol()
        return p[:2], sorted(p.writer_features or []), sorted(p.reader_features or [])

    assert plain(own) == plain(reference)
    assert own.metadata().configuration == reference.metadata().configuration
    verify(ours)
