"""CREATE OR REPLACE TABLE: the properties, columns and row ids of a replaced table equal
delta-spark's, which reads it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from deltaplane import DeltaError, DeltaTable, sql
from interop.delta_spark import DeltaSpark
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
    # delta-spark gives a column with an unchanged name its old id, which no reader needs.
    configuration.pop("delta.columnMapping.maxColumnId", None)
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
