"""Writes of no rows make a version only where they change the table, as in delta-spark; and names
of columns in INSERT."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException

from deltaplane import DeltaTable
from deltaplane import spark as dp
from deltaplane.exceptions import InvalidArgumentError, SchemaMismatchError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]


def version(path: str) -> int:
    return DeltaTable(path).version()


def test_overwrites_by_a_frame_of_no_rows(enabled: SparkSession, path: str) -> None:
    enabled.sql("SELECT 1 AS id, 'a' AS v").write.format("delta").save(path)
    none = enabled.sql("SELECT 3 AS id, 'c' AS v WHERE false")

    def overwrite(**options: str) -> int:
        none.write.format("delta").mode("overwrite").options(**options).save(path)
        return version(path)

    assert overwrite() == 1, "it takes the row away"
    assert [overwrite(), overwrite(mergeSchema="true"), overwrite(overwriteSchema="true")] == [1, 1, 1]
    assert overwrite(txnAppId="a", txnVersion="1") == 2, "the application's version is kept"
    wider = enabled.sql("SELECT 3 AS id, 'c' AS v, 4 AS more WHERE false")
    wider.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)
    assert (version(path), [f.name for f in DeltaTable(path).schema().fields]) == (3, ["id", "v", "more"])


def test_statements_that_replace_nothing(enabled: SparkSession, path: str) -> None:
    enabled.sql(f"CREATE TABLE delta.`{path}` (id INT, v STRING) USING delta PARTITIONED BY (v)")
    for statement in (
        "INSERT OVERWRITE {} SELECT 1, 'a' WHERE false",
        "INSERT OVERWRITE {} PARTITION (v = 'b') SELECT 1 WHERE false",
        "INSERT INTO {} REPLACE WHERE v = 'b' SELECT 1, 'b' WHERE false",
        "INSERT INTO {} REPLACE WHERE id = 7 SELECT 1, 'b' WHERE false",
    ):
        enabled.sql(statement.format(f"delta.`{path}`"))
        assert version(path) == 0, statement
    none = enabled.sql("SELECT 1 AS id, 'b' AS v WHERE false")
    assert dp.write(none, path, "overwrite", replace_where="id = 7", txn=("a", 1)).version == 1, "the version is kept"
    enabled.sql(f"INSERT INTO delta.`{path}` VALUES (7, 'b')")
    enabled.sql(f"INSERT INTO delta.`{path}` REPLACE WHERE id = 7 SELECT 1, 'b' WHERE false")
    assert (version(path), DeltaTable(path).count()) == (3, 0)


def test_a_dynamic_overwrite_needs_the_partition_columns(
    enabled: SparkSession, path: str, conf: dict[str, str]
) -> None:
    # Without a value the rows would replace the partition of null.
    enabled.sql(f"CREATE TABLE delta.`{path}` (id INT, v STRING, n INT) USING delta PARTITIONED BY (v)")
    enabled.sql(f"INSERT INTO delta.`{path}` VALUES (1, NULL, 1), (2, 'b', 2)")
    conf["spark.sql.sources.partitionOverwriteMode"] = "dynamic"
    for rows in ("(id) VALUES (3)", "BY NAME SELECT 3 AS id, 4 AS n"):
        with pytest.raises(SchemaMismatchError, match="lacks the partition column `v`"):
            enabled.sql(f"INSERT OVERWRITE delta.`{path}` {rows}")
    enabled.sql(f"INSERT OVERWRITE delta.`{path}` (v, id) VALUES ('b', 3)")
    enabled.sql(f"INSERT OVERWRITE delta.`{path}` PARTITION (v = 'c') BY NAME SELECT 5 AS id")
    written = DeltaTable(path).to_pyarrow_table().to_pylist()
    assert sorted((row["id"], row["v"]) for row in written) == [(1, None), (3, "b"), (5, "c")]


def test_names_of_columns_by_the_sessions_case(enabled: SparkSession, path: str, conf: dict[str, str]) -> None:
    enabled.sql(f"CREATE TABLE delta.`{path}` (id INT, v STRING) USING delta")
    enabled.sql(f"INSERT INTO delta.`{path}` (V, ID) VALUES ('a', 1)")
    conf["spark.sql.caseSensitive"] = "true"
    with pytest.raises(AnalysisException, match="no column `V` in this case") as refused:
        enabled.sql(f"INSERT INTO delta.`{path}` (V, ID) VALUES ('b', 2)")
    assert isinstance(refused.value, InvalidArgumentError)
    assert refused.value.getCondition() == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    enabled.sql(f"INSERT INTO delta.`{path}` (v, id) VALUES ('c', 3)")
    assert sorted(DeltaTable(path).to_pyarrow_table()["id"].to_pylist()) == [1, 3]
