"""CREATE OR REPLACE TABLE: the properties, columns and row ids of a replaced table equal
delta-spark's, which reads it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import DeltaError, DeltaTable, sql, write_deltalake
from interop.delta_spark import DeltaSpark, DeltaSparkError
from interop.same import assert_same
from interop.verifier import verify

DEFINITIONS: dict[str, Mapping[str, str]] = {
    "plain": {},
    "row tracking": {"delta.enableRowTracking": "true"},
    "deletion vectors": {"delta.enableDeletionVectors": "true"},
    "V2 checkpoints": {"delta.checkpointPolicy": "v2"},
    "mapped by name": {"delta.columnMapping.mode": "name"},
    "mapped by id": {"delta.columnMapping.mode": "id"},
    "times in commits": {"delta.enableInCommitTimestamps": "true"},
    "change feed": {"delta.enableChangeDataFeed": "true", "delta.enableTypeWidening": "true"},
    "own properties": {"a.b": "c", "delta.logRetentionDuration": "interval 60 days"},
    "all off": {
        "delta.enableRowTracking": "false",
        "delta.enableDeletionVectors": "false",
        "delta.checkpointPolicy": "classic",
        "delta.columnMapping.mode": "none",
    },
}
# Each pair of features, without the pairs that another pair covers.
PAIRS = [
    *(("plain", new) for new in DEFINITIONS if new != "plain"),
    *((old, "plain") for old in DEFINITIONS if old not in ("plain", "all off")),
    *((old, "all off") for old in ("row tracking", "deletion vectors", "V2 checkpoints", "mapped by name")),
    ("row tracking", "row tracking"),
    ("row tracking", "mapped by name"),
    ("mapped by name", "row tracking"),
    ("mapped by name", "mapped by name"),
    ("mapped by name", "mapped by id"),
    ("deletion vectors", "row tracking"),
]
# Names and timestamps that are individual to each table.
OWN = (
    "delta.rowTracking.materializedRowIdColumnName",
    "delta.rowTracking.materializedRowCommitVersionColumnName",
    "delta.inCommitTimestampEnablementTimestamp",
)


def definition(verb: str, table: str, properties: Mapping[str, str], place: str, rows: str = "") -> str:
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    says = f"TBLPROPERTIES ({listed})" if listed else ""
    return f"{verb} TABLE {table} {'' if rows else '(id int, s string)'} USING delta {place} {says} {rows}"


def state(path: str) -> dict[str, Any]:
    verify(path)
    table = DeltaTable(path)
    configuration = {k: "" if k in OWN else v for k, v in table.metadata().configuration.items()}
    adds = [
        json.loads(line)["add"]
        for line in Path(path, "_delta_log", f"{table.version():020}.json").read_text().splitlines()
        if line.startswith('{"add"')
    ]
    return {
        "version": table.version(),
        "configuration": configuration,
        "features": sorted({*(table.protocol().writer_features or ()), *(table.protocol().reader_features or ())}),
        "ids": [(add.get("baseRowId"), add.get("defaultRowCommitVersion")) for add in adds],
    }


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_a_replaced_table_is_what_delta_spark_makes_of_it(
    delta_spark: DeltaSpark, tmp_table: Callable[[], str], old: str, new: str
) -> None:
    # P093, P114, P140, P141
    ours, theirs = tmp_table(), tmp_table()
    name = f"replaced_{old}_{new}".replace(" ", "_")
    try:
        for run, table in ((delta_spark.execute, name), (sql, f"delta.`{ours}`")):
            place = f"LOCATION '{theirs}'" if table == name else ""
            run(definition("CREATE", table, DEFINITIONS[old], place))
            run(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
            run(definition("CREATE OR REPLACE", table, DEFINITIONS[new], place, "AS SELECT 5 AS id, 'z' AS s"))
    finally:
        delta_spark.execute(f"DROP TABLE IF EXISTS {name}")
    assert state(ours) == state(theirs)
    # Each program continues with the other's table.
    delta_spark.execute(f"INSERT INTO delta.`{ours}` VALUES (6, 'y')")
    sql(f"INSERT INTO delta.`{theirs}` VALUES (6, 'y')")
    sql(f"DELETE FROM delta.`{ours}` WHERE id = 5")
    assert delta_spark.read(ours).to_pylist() == [{"id": 6, "s": "y"}]
    assert_same(DeltaTable(theirs).to_pyarrow_table(), delta_spark.read(theirs))
    # The version before the replacement is read by its own columns' names in files.
    assert sorted(row["id"] for row in delta_spark.read(ours, 1).to_pylist()) == [1, 2]
    assert sorted(DeltaTable(ours, version=1).to_pyarrow_table()["id"].to_pylist()) == [1, 2]


def test_names_that_need_a_mapping_replace_plain_columns(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    sql(f"CREATE TABLE delta.`{path}` (id int) USING delta")
    sql(
        f"CREATE OR REPLACE TABLE delta.`{path}` (`a b` int, `c,d` string) USING delta "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    sql(f"INSERT INTO delta.`{path}` VALUES (1, 'x')")
    assert delta_spark.read(path).to_pylist() == [{"a b": 1, "c,d": "x"}]
    # Without column mapping the names are invalid in files: nothing changes.
    with pytest.raises(DeltaError, match="a b"):
        sql(f"CREATE OR REPLACE TABLE delta.`{path}` (`a b` int) USING delta")
    assert DeltaTable(path).version() == 2
    verify(path)


# Columns, clause and properties of tables whose features come of their columns or of a clause.
SHAPES: dict[str, tuple[str, str, str]] = {
    "plain": ("id BIGINT, s STRING", "", ""),
    "generated": ("id BIGINT, s STRING GENERATED ALWAYS AS (CAST(id AS STRING))", "", ""),
    "identity": ("id BIGINT GENERATED BY DEFAULT AS IDENTITY, s STRING", "", ""),
    "variant": ("id BIGINT, s STRING, v VARIANT", "", ""),
    "clustered": ("id BIGINT, s STRING", "CLUSTER BY (id)", ""),
    "default": (
        "id BIGINT, s STRING DEFAULT 'q'",
        "",
        "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
    ),
    "mapped": ("id BIGINT, s STRING", "", "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"),
    "partitioned": ("id BIGINT, s STRING", "PARTITIONED BY (s)", ""),
}
OF_COLUMNS = ("generated", "identity", "variant", "clustered")
SHAPE_PAIRS = [
    *(("plain", new) for new in SHAPES if new != "plain"),
    *((old, "plain") for old in OF_COLUMNS),
    *((old, new) for old in OF_COLUMNS for new in OF_COLUMNS),
    *((old, "mapped") for old in OF_COLUMNS),
    *(("mapped", new) for new in OF_COLUMNS),
    ("generated", "partitioned"),
    ("identity", "default"),
    ("partitioned", "clustered"),
]


def shape(path: str) -> dict[str, Any]:
    """Columns without names in files, partitioning, clustering, properties and features."""
    verify(path)
    table = DeltaTable(path)
    fields = json.loads(table.schema().to_json())["fields"]
    for field in fields:
        field["metadata"].pop("delta.columnMapping.physicalName", None)
    return {
        "fields": fields,
        "partitions": table.metadata().partition_columns,
        "configuration": dict(table.metadata().configuration),
        "features": sorted({*(table.protocol().writer_features or ()), *(table.protocol().reader_features or ())}),
        "versions": (table.protocol().min_reader_version, table.protocol().min_writer_version),
        "clustering": table.detail().to_pylist()[0]["clusteringColumns"],
        "rows": sorted(map(repr, table.to_pyarrow_table(columns=["id", "s"]).to_pylist())),
    }


@pytest.mark.parametrize(("old", "new"), SHAPE_PAIRS)
def test_columns_of_a_replaced_table_are_what_delta_spark_makes_of_them(
    delta_spark: DeltaSpark, tmp_table: Callable[[], str], old: str, new: str
) -> None:
    ours, theirs = tmp_table(), tmp_table()
    name = f"shaped_{old}_{new}"
    try:
        for run, table in ((delta_spark.execute, name), (sql, f"delta.`{ours}`")):
            place = f"LOCATION '{theirs}'" if table == name else ""
            for verb, kind in (("CREATE", old), ("CREATE OR REPLACE", new)):
                columns, clause, properties = SHAPES[kind]
                run(f"{verb} TABLE {table} ({columns}) USING delta {clause} {place} {properties}")
                run(f"INSERT INTO {table} (id) VALUES (6)")
    finally:
        delta_spark.execute(f"DROP TABLE IF EXISTS {name}")
    assert shape(ours) == shape(theirs)
    # Each program goes on with the other's table.
    delta_spark.execute(f"INSERT INTO delta.`{ours}` (id) VALUES (7)")
    sql(f"INSERT INTO delta.`{theirs}` (id) VALUES (7)")
    assert shape(ours)["rows"] == shape(theirs)["rows"]
    assert sorted(row["id"] for row in delta_spark.sql(f"SELECT id FROM delta.`{ours}`").to_pylist()) == [6, 7]


def fields_of(path: str) -> list[tuple[str, int | None, bool]]:
    """Path, id and whether the name in files is an old one of each field, depth first."""
    old = {physical for _, physical in names_in_files(path, 0).values()}
    return [(key, number, physical in old) for key, (number, physical) in names_in_files(path, None).items()]


def names_in_files(path: str, version: int | None) -> dict[str, tuple[int | None, str]]:
    names: dict[str, tuple[int | None, str]] = {}

    def visit(data_type: Any, path_above: str) -> None:
        if not isinstance(data_type, dict):
            return
        if data_type["type"] == "struct":
            for field in data_type["fields"]:
                metadata = field["metadata"]
                below = f"{path_above}.{field['name']}" if path_above else field["name"]
                number = metadata.get("delta.columnMapping.id")
                names[below] = (number, metadata.get("delta.columnMapping.physicalName", field["name"]))
                visit(field["type"], below)
        for part in ("elementType", "keyType", "valueType"):
            visit(data_type.get(part), f"{path_above}.{part}")

    table = DeltaTable(path) if version is None else DeltaTable(path, version=version)
    visit(json.loads(table.schema().to_json()), "")
    return names


@pytest.mark.parametrize("mode", ["name", "id"])
def test_an_overwrite_of_a_mapped_table_reuses_ids_as_delta_spark_does(
    delta_spark: DeltaSpark, tmp_table: Callable[[], str], mode: str
) -> None:
    # P110: a field keeps its id and its name in files where path (ignoring case) and type are the
    # same; delta-spark does the same, which the first comparison shows.
    inner, other = pa.struct([("a", pa.int32()), ("b", pa.int32())]), pa.struct([("e", pa.int32()), ("f", pa.string())])
    before = pa.schema(
        [
            ("id", pa.int32()),
            ("s", pa.string()),
            ("n", inner),
            ("l", pa.list_(other)),
            ("z", inner),
            ("gone", pa.int32()),
        ]
    )
    wider = pa.struct([("a", pa.int32()), ("b", pa.int64()), ("c", pa.int32())])
    swapped = pa.struct([("b", pa.int32()), ("a", pa.int32())])
    after = pa.schema(
        [
            ("S", pa.string()),
            ("id", pa.int32()),
            ("n", wider),
            ("l", pa.list_(other)),
            ("z", swapped),
            ("new", pa.int32()),
        ]
    )
    first = [{"id": 1, "s": "a", "n": {"a": 1, "b": 2}, "l": [{"e": 1, "f": "q"}], "z": {"a": 4, "b": 5}, "gone": 6}]
    second = [
        {"S": "z", "id": 5, "n": {"a": 7, "b": 8, "c": 9}, "l": [{"e": 2, "f": "r"}], "z": {"b": 1, "a": 2}, "new": 3}
    ]
    ours, theirs = tmp_table(), tmp_table()
    old, new = pa.Table.from_pylist(first, before), pa.Table.from_pylist(second, after)
    options = {"delta.columnMapping.mode": mode}
    delta_spark.write(theirs, old, **options)
    delta_spark.write(theirs, new, mode="overwrite", overwriteSchema="true")
    write_deltalake(ours, old, configuration=options)
    write_deltalake(ours, new, mode="overwrite", schema_mode="overwrite")
    assert fields_of(ours) == fields_of(theirs)
    assert DeltaTable(ours).metadata().configuration == DeltaTable(theirs).metadata().configuration
    assert {key for key, _, is_old in fields_of(ours) if is_old} >= {"S", "id", "n.a", "l", "z.a", "z.b"}
    # Both programs read both versions and write on.
    delta_spark.write(ours, new)
    write_deltalake(theirs, new, mode="append")
    for path in (ours, theirs):
        verify(path)
        assert_same(DeltaTable(path).to_pyarrow_table(), delta_spark.read(path))
        assert_same(DeltaTable(path, version=0).to_pyarrow_table(), delta_spark.read(path, 0))
        assert DeltaTable(path).to_pyarrow_table().num_rows == 2


def test_a_replacement_by_path_replaces_the_table(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    """delta-spark does so with REPLACE TABLE and with AS SELECT. Its CREATE OR REPLACE of a path by
    columns looks for no table there: it keeps the rows of one with the same columns, and refuses
    other columns. Ours does what the statement says."""
    ours, theirs = tmp_table(), tmp_table()
    for path in (ours, theirs):
        sql(f"CREATE TABLE delta.`{path}` (id INT) USING delta")
        sql(f"INSERT INTO delta.`{path}` VALUES (1)")
    delta_spark.execute(f"CREATE OR REPLACE TABLE delta.`{theirs}` (id INT) USING delta")
    assert (DeltaTable(theirs).version(), delta_spark.read(theirs).num_rows) == (1, 1)
    with pytest.raises(DeltaSparkError, match="DELTA_CREATE_TABLE_SCHEME_MISMATCH"):
        delta_spark.execute(f"CREATE OR REPLACE TABLE delta.`{theirs}` (x INT) USING delta")
    delta_spark.execute(f"REPLACE TABLE delta.`{theirs}` (x INT) USING delta")
    sql(f"CREATE OR REPLACE TABLE delta.`{ours}` (x INT) USING delta")
    for path in (ours, theirs):
        assert delta_spark.read(path).to_pydict() == {"x": []}
        assert DeltaTable(path, version=1).to_pyarrow_table().to_pydict() == {"id": [1]}
