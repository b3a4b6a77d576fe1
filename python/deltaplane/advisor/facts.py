"""Totals of a version's live files: one pass over the plan, column by column, without an object for
each file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltaplane.io.arrow import Scan

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaplane import _native

__all__ = ["Facts", "facts_of"]


@dataclass
class Facts:
    """Totals of the live files. `rows` counts those of files with statistics. `dead_bytes` is the
    share of deleted rows times the size, summed over files with deletion vectors.

    `measured` are the paths of the columns for which new files get statistics.
    """

    files: int = 0
    rows: int = 0
    bytes: int = 0
    partitions: int = 0
    without_statistics: int = 0
    vectors: int = 0
    vector_bytes: int = 0
    deleted_rows: int = 0
    dead_bytes: int = 0
    measured: frozenset[tuple[str, ...]] = frozenset()


def facts_of(snapshot: _native.Snapshot) -> Facts:
    """Computes the totals of all live files of a version."""
    import pyarrow as pa

    scan = Scan(snapshot.plan(None))
    facts, partitions = Facts(), None
    if "min" in scan.schema.names:
        facts.measured = frozenset(_paths(scan.schema.field("min").type, ()))
    for batch in scan.batches():
        _add(facts, batch)
        if "partition" in batch.schema.names:
            seen = pa.Table.from_batches([batch]).select(["partition"]).flatten()
            seen = seen if partitions is None else pa.concat_tables([partitions, seen])
            partitions = seen.group_by(seen.column_names).aggregate([])
    facts.partitions = min(facts.files, 1) if partitions is None else partitions.num_rows
    return facts


def _add(facts: Facts, batch: pa.RecordBatch) -> None:
    import pyarrow.compute as pc

    sizes, records = batch["size_bytes"], batch["num_records"]
    facts.files += batch.num_rows
    facts.bytes += pc.sum(sizes).as_py() or 0
    facts.rows += pc.sum(records).as_py() or 0
    facts.without_statistics += records.null_count
    vector = batch["deletion_vector"]
    if vector.null_count == batch.num_rows:
        return
    marked = pc.fill_null(pc.struct_field(vector, "cardinality"), 0)
    has = pc.greater(marked, 0)
    facts.vectors += pc.sum(has).as_py() or 0
    facts.vector_bytes += pc.sum(pc.if_else(has, sizes, 0)).as_py() or 0
    facts.deleted_rows += pc.sum(marked).as_py() or 0
    # A file with an unknown number of rows counts as live entirely.
    share = pc.divide(pc.cast(marked, "float64"), pc.max_element_wise(pc.fill_null(records, 1 << 62), 1))
    facts.dead_bytes += int(
        pc.sum(pc.multiply(pc.cast(sizes, "float64"), pc.min_element_wise(share, 1.0))).as_py() or 0
    )


def _paths(data_type: pa.DataType, above: tuple[str, ...]) -> list[tuple[str, ...]]:
    import pyarrow as pa

    paths: list[tuple[str, ...]] = []
    for field in data_type:
        path = (*above, field.name)
        paths += _paths(field.type, path) if pa.types.is_struct(field.type) else [path]
    return paths
