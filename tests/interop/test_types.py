"""Every type and every partition type, written by one engine and read by another: rows, widths and
zones equal."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from interop import datasets
from interop.delta_spark import DeltaSpark
from interop.engines import CANNOT, engine
from interop.same import assert_same
from interop.verifier import verify

DATASETS: dict[str, tuple[Callable[[], pa.Table], list[str]]] = {
    "primitives": (datasets.primitives, []),
    "nested": (datasets.nested, []),
    "awkward": (datasets.awkward_partitions, ["p", "q"]),
    **{f"p:{c}": ((lambda c=c: datasets.partitioned_by(c)), ["p"]) for c in datasets.PARTITION_TYPES},
}


@pytest.mark.parametrize("dataset", DATASETS)
def test_ours_read_by_others(dataset: str, delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    make, partition_by = DATASETS[dataset]
    rows, table = make(), tmp_table()
    engine("deltaplane", delta_spark).write(table, rows, "error", partition_by)
    for reader in ("deltaplane", "delta-spark", "deltalake"):
        if (reader, "read", dataset) in CANNOT:
            continue
        assert_same(engine(reader, delta_spark).read(table), rows)
    verify(table)


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("writer", ["delta-spark", "deltalake"])
def test_theirs_read_by_ours(writer: str, dataset: str, delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    if reason := CANNOT.get((writer, "write", dataset)):
        pytest.skip(f"{writer} {reason}")
    make, partition_by = DATASETS[dataset]
    rows, table = make(), tmp_table()
    peer = engine(writer, delta_spark)
    peer.write(table, rows, "error", partition_by)
    ours = engine("deltaplane", delta_spark)
    assert_same(ours.read(table), rows)
    # The engine that created the table reads deltaplane's added rows.
    ours.write(table, rows)
    twice = pa.concat_tables([rows, rows])
    assert_same(ours.read(table), twice)
    assert_same(delta_spark.read(table), twice)
    if (writer, "bounds", dataset) not in CANNOT:
        verify(table)


def test_escaped_binary_partition_values(tmp_table: Callable[[], str]) -> None:
    """deltalake writes them with the protocol's escapes; delta-spark writes the bytes as text.
    deltaplane reads both."""
    import deltalake

    from deltaplane import DeltaTable

    rows, table = datasets.partitioned_by("bytes"), tmp_table()
    deltalake.write_deltalake(table, rows, partition_by=["p"])
    assert_same(DeltaTable(table).to_pyarrow_table(), rows)


@pytest.mark.parametrize("batch_rows", [1, 4])
def test_any_split_into_batches_and_files(
    batch_rows: int, delta_spark: DeltaSpark, tmp_table: Callable[[], str]
) -> None:
    from deltaplane import write_deltalake

    rows, table = datasets.primitives(), tmp_table()
    for start in range(0, rows.num_rows, 5):
        part = rows.slice(start, 5)
        batches = part.to_batches(max_chunksize=batch_rows)
        write_deltalake(table, pa.RecordBatchReader.from_batches(rows.schema, batches), mode="append")
    assert_same(delta_spark.read(table), rows)
    verify(table)


def test_no_rows_and_only_nulls(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    from deltaplane import write_deltalake

    rows, table = datasets.primitives(), tmp_table()
    nulls = pa.table([pa.nulls(3, f.type) for f in rows.schema], schema=rows.schema)
    write_deltalake(table, rows.slice(0, 0))
    write_deltalake(table, nulls, mode="append")
    assert_same(delta_spark.read(table, 0), rows.slice(0, 0))
    assert_same(delta_spark.read(table), nulls)
    assert_same(engine("deltalake", delta_spark).read(table), nulls)
    verify(table)


def test_odd_column_names(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    from deltaplane import write_deltalake

    rows = pa.table(
        {"a.b": [1], "back`tick": [2], "ünï": ["x"], "CamelCase": [True], "_metadata2": [1.5], "a-b/c%d": ["y"]}
    )
    table = tmp_table()
    write_deltalake(table, rows)
    assert_same(delta_spark.read(table), rows)
    delta_spark.write(table, rows)
    assert_same(engine("deltaplane", delta_spark).read(table), pa.concat_tables([rows, rows]))
    verify(table)
