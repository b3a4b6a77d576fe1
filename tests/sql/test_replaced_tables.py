"""`CREATE OR REPLACE TABLE` of an existing table: the result equals that of CREATE TABLE."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import deltaplane
from deltaplane import DeltaTable

# Columns and properties: each adds a table feature that the replaced table lacks, together with
# another property.
DEFINITIONS = {
    "generated": ("a INT, g INT GENERATED ALWAYS AS (a + 1)", ""),
    "identity": ("a INT, k BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 5)", ""),
    "default": ("a INT, d STRING DEFAULT 'd'", "'delta.feature.allowColumnDefaults' = 'supported'"),
    "variant": ("a INT, v VARIANT", ""),
    "timestamps without a zone": ("a INT, n TIMESTAMP_NTZ", ""),
    "a change feed": ("a INT", "'delta.enableChangeDataFeed' = 'true'"),
    "deletion vectors": ("a INT", "'delta.enableDeletionVectors' = 'true'"),
    "wider types": ("a INT", "'delta.enableTypeWidening' = 'true'"),
    "commit times": ("a INT", "'delta.enableInCommitTimestamps' = 'true'"),
    "checkpoints": ("a INT", "'delta.checkpointPolicy' = 'v2'"),
    "a constraint": ("a INT", "'delta.constraints.positive' = 'a > 0'"),
}


def _facts(path: str) -> dict[str, Any]:
    """A table's definition without generated names."""
    table = DeltaTable(path)
    columns = re.sub(r"col-[0-9a-f-]{36}", "", table.schema().to_json())
    properties = {key: value for key, value in table.metadata().configuration.items() if "materialized" not in key}
    # The version and time at which in-commit timestamps were enabled are only recorded for an
    # existing table.
    properties = {key: value for key, value in properties.items() if "inCommitTimestampEnablement" not in key}
    return {"columns": columns, "properties": properties, "rows": table.to_pyarrow_table().to_pylist()}


def _features(path: str) -> set[str]:
    protocol = DeltaTable(path).protocol()
    return {*(protocol.reader_features or ()), *(protocol.writer_features or ())}


@pytest.mark.parametrize("definition", DEFINITIONS)
@pytest.mark.parametrize("clusters", ["", " CLUSTER BY (a)"])
def test_a_replaced_table_is_what_a_new_one_would_be(
    tmp_table: Callable[[], str], definition: str, clusters: str
) -> None:
    columns, properties = DEFINITIONS[definition]
    described = f"({columns}){clusters} TBLPROPERTIES ('own' = '1'{', ' if properties else ''}{properties})"
    new, replaced = tmp_table(), tmp_table()
    deltaplane.sql(f"CREATE TABLE delta.`{new}` {described}")
    deltaplane.sql(f"CREATE TABLE delta.`{replaced}` (a STRING, old INT) TBLPROPERTIES ('gone' = '1')")
    deltaplane.sql(f"INSERT INTO delta.`{replaced}` VALUES ('x', 1)")
    deltaplane.sql(f"CREATE OR REPLACE TABLE delta.`{replaced}` {described}")
    for path in (new, replaced):
        deltaplane.sql(f"INSERT INTO delta.`{path}` (a) VALUES (7)")
    assert _facts(replaced) == _facts(new)
    assert _features(new) <= _features(replaced)
    assert DeltaTable(replaced, version=1).to_pyarrow_table().to_pylist() == [{"a": "x", "old": 1}]
