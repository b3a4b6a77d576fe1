"""Bounds of a table's columns with numbers, from the statistics in its log.

They may be wider than the rows: a file's statistics also count rows that its deletion vector
deletes.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from deltaplane.expr.typed import Bounds

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaplane.table.delta_table import DeltaTable

__all__ = ["column_bounds"]

# Tables with more files have no bounds here, since reading all of their statistics takes longer
# than what the bounds save.
_MOST_FILES = 20_000
# The known bounds by column; None for a column without numbers.
_ByColumn = dict[str, Bounds | None]


def column_bounds(table: DeltaTable) -> dict[str, Bounds]:
    """Least and greatest number by column; without columns of which a file has no statistics, or no
    numbers. Cost: a read of all statistics of tables of up to 20,000 files."""
    keys = {name.lower() for name in table.metadata().partition_columns}
    by_column: _ByColumn | None = None
    files = 0
    for batch in table.plan():
        files += batch.num_rows
        if not batch.num_rows:
            continue
        if files > _MOST_FILES:
            return {}
        known = {**_of_statistics(batch, keys), **_of_partitions(batch)}
        by_column = known if by_column is None else _joined(by_column, known)
    return {name: bounds for name, bounds in (by_column or {}).items() if bounds is not None}


def _joined(a: _ByColumn, b: _ByColumn) -> _ByColumn:
    """What is known of the columns of which both know something."""
    return {name: _both(a[name], b[name]) for name in a.keys() & b.keys()}


def _both(a: Bounds | None, b: Bounds | None) -> Bounds | None:
    if a is None or b is None:
        return b if a is None else a
    return min(a[0], b[0]), max(a[1], b[1])


def _of_statistics(batch: pa.RecordBatch, keys: set[str]) -> _ByColumn:
    import pyarrow.compute as pc

    names = batch.schema.names
    if "min" not in names or "max" not in names:
        return {}
    by_column: _ByColumn = {}
    high_type = batch.schema.field("max").type
    for field in batch.schema.field("min").type:
        if not _is_exact(field.type) or high_type.get_field_index(field.name) < 0 or field.name.lower() in keys:
            continue
        low, high = pc.struct_field(batch["min"], [field.name]), pc.struct_field(batch["max"], [field.name])
        unknown = pc.or_(pc.is_null(low), pc.is_null(high))
        if not pc.any(pc.and_(unknown, pc.invert(_only_nulls(batch, field.name)))).as_py():
            by_column[field.name] = _bounds(low, high)
    return by_column


def _only_nulls(batch: pa.RecordBatch, column: str) -> pa.Array:
    """For each file, whether its statistics tell that a column has no number."""
    import pyarrow as pa
    import pyarrow.compute as pc

    nulls = batch["null_count"] if "null_count" in batch.schema.names else None
    if nulls is None or nulls.type.get_field_index(column) < 0:
        return pa.array([False] * batch.num_rows)
    return pc.fill_null(pc.equal(pc.struct_field(nulls, [column]), batch["num_records"]), False)


def _of_partitions(batch: pa.RecordBatch) -> _ByColumn:
    import pyarrow.compute as pc

    by_column: _ByColumn = {}
    fields = batch.schema.field("partition").type if "partition" in batch.schema.names else ()
    for field in fields:
        values = pc.struct_field(batch["partition"], [field.name])
        if _is_exact(field.type):
            by_column[field.name] = _bounds(values, values)
    return by_column


def _is_exact(data_type: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(data_type) or pa.types.is_decimal(data_type))


def _bounds(low: pa.Array, high: pa.Array) -> Bounds | None:
    """The bounds of all files; None if they have no numbers."""
    import pyarrow.compute as pc

    least, greatest = pc.min(low).as_py(), pc.max(high).as_py()
    return None if least is None or greatest is None else (Fraction(least), Fraction(greatest))
