"""Following a table that delta-spark writes, and delta-spark reading an application's batches."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from deltaplane import DeltaTable, OnceWriter
from interop.delta_spark import DeltaSpark


def test_new_rows_of_delta_spark_and_batches_for_it(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    # P028, P042, P076
    here, there = tmp_table(), tmp_table()
    delta_spark.execute(
        f"CREATE TABLE delta.`{here}` (id BIGINT, p INT) USING delta PARTITIONED BY (p) "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' = 'true')"
    )
    for first in (0, 10, 20):
        delta_spark.execute(
            f"INSERT INTO delta.`{here}` SELECT id, cast(id % 2 AS INT) FROM range({first}, {first + 5})"
        )
    delta_spark.execute(f"OPTIMIZE delta.`{here}`")
    delta_spark.execute(f"DELETE FROM delta.`{here}` WHERE id = 11")
    delta_spark.execute(f"INSERT INTO delta.`{here}` VALUES (30, 0)")
    table = DeltaTable(here)
    items = list(table.tail(since=0, skip_change_commits=True))
    assert [rows.version for rows in items] == [1, 2, 3, 6], "the compaction and the delete have no new rows"
    writer = OnceWriter(there)
    for _ in range(2):
        for rows in table.tail(since=0, skip_change_commits=True):
            writer.append(rows, "copy", rows.version)
    expected = [0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 20, 21, 22, 23, 24, 30]
    assert sorted(delta_spark.read(there)["id"].to_pylist()) == expected
    assert delta_spark.transaction_version(there, "copy") == 6
    # All rows of the newest version, without those that its vectors delete.
    (whole,) = table.tail()
    assert sorted(whole.to_arrow()["id"].to_pylist()) == sorted({*expected} - {11})
    changes = pa.concat_tables(rows.to_arrow() for rows in table.tail(since=3, read_change_feed=True))
    assert sorted(zip(changes["_change_type"].to_pylist(), changes["id"].to_pylist(), strict=True)) == [
        ("delete", 11),
        ("insert", 30),
    ]
