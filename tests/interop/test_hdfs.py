"""One table on HDFS with two engines: delta-spark's commits and deltaplane's form one history, also
while both race for versions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from deltaplane import DeltaTable, write_deltalake
from interop.delta_spark import DeltaSpark
from stores.numbers import rows
from stores.servers import SERVERS

APPENDS = 5


def test_delta_spark_and_we_on_hdfs(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    """P070: both commit by a rename that doesn't overwrite, so neither overwrites the other's
    version."""
    with SERVERS["hdfs"](tmp_path) as server:
        table = f"{server.new_bucket()}/both"
        write_deltalake(table, rows(0, 3), configuration={"delta.enableDeletionVectors": "true"})
        delta_spark.write(table, rows(3, 3))
        delta_spark.checkpoint(table)
        DeltaTable(table).delete("id = 1")
        delta_spark.execute(f"DELETE FROM delta.`{table}` WHERE id = 4")

        def ours() -> None:
            for n in range(APPENDS):
                write_deltalake(table, rows(100 + n), mode="append")

        with ThreadPoolExecutor(1) as pool:
            appended = pool.submit(ours)
            for n in range(APPENDS):
                delta_spark.execute(f"INSERT INTO delta.`{table}` VALUES ({200 + n})")
            appended.result()
        opened = DeltaTable(table)
        expected = [0, 2, 3, 5, *range(100, 100 + APPENDS), *range(200, 200 + APPENDS)]
        assert sorted(opened.to_pyarrow_table()["id"].to_pylist()) == expected
        assert sorted(delta_spark.read(table)["id"].to_pylist()) == expected
        assert opened.version() == 3 + 2 * APPENDS
