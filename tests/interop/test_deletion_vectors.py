"""deltaplane reads rows deleted by delta-spark's vectors, and its recorded changes; and the
reverse.

One table gets every kind of change, so that few statements of the other engine cover all of them.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from deltaplane import DeltaTable
from interop.delta_spark import DeltaSpark
from interop.same import assert_same
from interop.verifier import verify

PROPERTIES = "'delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' = 'true'"


def test_rows_and_changes_of_delta_spark(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    # P120, P124, P131, P132
    path = tmp_table()
    table = f"delta.`{path}`"
    for statement in (
        f"CREATE TABLE {table} (id BIGINT, name STRING, p INT) USING delta PARTITIONED BY (p) TBLPROPERTIES ({PROPERTIES})",
        f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ id, concat('n', id), int(id % 2) FROM range(4000)",
        f"DELETE FROM {table} WHERE id % 7 = 3 AND p = 1",
        f"DELETE FROM {table} WHERE id BETWEEN 100 AND 1500",
        f"UPDATE {table} SET name = 'changed' WHERE id % 500 = 1",
        f"MERGE INTO {table} t USING (SELECT id FROM range(3990, 4010)) s ON t.id = s.id "
        "WHEN MATCHED AND t.id < 3995 THEN DELETE WHEN MATCHED THEN UPDATE SET name = 'merged' "
        "WHEN NOT MATCHED THEN INSERT (id, name, p) VALUES (s.id, 'new', 0)",
        f"DELETE FROM {table} WHERE p = 1",
        f"RESTORE TABLE {table} TO VERSION AS OF 3",
    ):
        delta_spark.sql(statement)
    newest = DeltaTable(path)
    for version in range(newest.version() + 1):
        of_version = DeltaTable(path, version=version)
        expected = delta_spark.read(path, version)
        assert_same(of_version.to_pyarrow_table(), expected)
        assert of_version.count() == expected.num_rows
    for first, last in ((0, newest.version()), (3, 3), (5, 6)):
        theirs = delta_spark.sql(f"SELECT * FROM table_changes_by_path('{path}', {first}, {last})")
        ours = pa.table(newest.load_cdf(starting_version=first, ending_version=last))
        assert ours.num_rows > 0
        assert_same(ours, theirs)


def test_delta_spark_reads_our_vectors(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    # P121, P122, P123: new files, files with an existing vector, and one that loses its last rows
    path = tmp_table()
    table = f"delta.`{path}`"
    delta_spark.sql(f"CREATE TABLE {table} (id BIGINT) USING delta TBLPROPERTIES ({PROPERTIES})")
    for first in (0, 1000, 2000):
        delta_spark.sql(f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ id FROM range({first}, {first + 1000})")
    delta_spark.sql(f"DELETE FROM {table} WHERE id BETWEEN 1100 AND 1200")

    ours = DeltaTable(path)
    assert ours.delete("id < 2000 AND id % 3 = 0")["num_deletion_vectors_updated"] == 1
    assert ours.delete("id >= 2000 OR id = 1001")["num_removed_files"] == 1
    expected = [n for n in range(2000) if n % 3 and n != 1001 and not 1100 <= n <= 1200]
    assert sorted(delta_spark.read(path)["id"].to_pylist()) == expected
    newest = DeltaTable(path)
    assert (newest.count(), len(newest.files())) == (len(expected), 2)
    verify(path)
    for version in (newest.version() - 1, newest.version()):
        theirs = delta_spark.sql(f"SELECT * FROM table_changes_by_path('{path}', {version}, {version})")
        assert_same(pa.table(newest.load_cdf(version, version)), theirs)
    # delta-spark continues on deltaplane's vectors.
    delta_spark.sql(f"DELETE FROM {table} WHERE id < 100")
    assert sorted(DeltaTable(path).to_pyarrow_table()["id"].to_pylist()) == [n for n in expected if n >= 100]
