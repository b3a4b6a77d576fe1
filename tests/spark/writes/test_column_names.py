"""Columns whose names are those of hidden columns, of aliases or of the log's fields: Spark's
commands change their values and no others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from column_names import NAMES, PLAIN, TRACKED, everywhere, firsts, rows
from deltaplane import write_deltalake
from deltaplane.spark import DeltaTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def frame(spark: SparkSession, firsts_of_rows: Mapping[int, int]) -> DataFrame:
    table = rows(firsts_of_rows)
    columns = ", ".join(f"`{name}` bigint" for name in table.column_names)
    return spark.createDataFrame([tuple(row.values()) for row in table.to_pylist()], columns)


@pytest.mark.parametrize("configuration", [PLAIN, TRACKED], ids=["plain", "tracked"])
def test_commands_change_these_columns_and_nothing_else(
    enabled: SparkSession, tmp_path: Path, configuration: dict[str, str]
) -> None:
    path = str(tmp_path / "t")
    place = f"delta.`{path}`"
    write_deltalake(path, rows({i: 1000 * i for i in range(6)}), configuration=configuration)
    values = ", ".join(f"`{name}` = `{name}` + 100" for name in NAMES)
    enabled.sql(f"UPDATE {place} SET {values} WHERE {everywhere('# = 2000 + %')}")
    enabled.sql(f"DELETE FROM {place} WHERE {everywhere('# = 3000 + %')}")
    assert firsts(path) == {0: 0, 1: 1000, 2: 2100, 4: 4000, 5: 5000}
    source = frame(enabled, {0: 7000, 1: 8000, 9: 9000}).alias("s")
    (
        DeltaTable.forPath(enabled, path)
        .alias("t")
        .merge(source, "s.id_ = t.id_ AND " + everywhere("s.# > t.#"))
        .whenMatchedUpdateAll()
        .whenNotMatchedInsertAll()
        .whenNotMatchedBySourceDelete(everywhere("t.# = 4000 + %"))
        .execute()
    )
    assert firsts(path) == {0: 7000, 1: 8000, 2: 2100, 5: 5000, 9: 9000}
    replaced = frame(enabled, {6: 5000}).write.format("delta").mode("overwrite")
    replaced.option("replaceWhere", everywhere("# = 5000 + %")).save(path)
    enabled.sql(f"OPTIMIZE {place} ZORDER BY (`_row`, path)")
    expected = {0: 7000, 1: 8000, 2: 2100, 6: 5000, 9: 9000}
    assert firsts(path) == expected
    shown = enabled.sql(f"SELECT a.* FROM {place} a JOIN {place} b ON {everywhere('a.# = b.#')}").orderBy("id_")
    assert [tuple(row) for row in shown.collect()] == [tuple(row.values()) for row in rows(expected).to_pylist()]
    feed = enabled.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 1).load(path)
    changes = [row.asDict() for row in feed.collect()]
    for i, name in enumerate(NAMES):
        assert {row[name] - i for row in changes if row["_change_type"] == "delete"} == {3000, 4000, 5000}
        assert {row[name] - i for row in changes if row["_change_type"] == "update_postimage"} == {2100, 7000, 8000}
