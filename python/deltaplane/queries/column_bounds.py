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

__all__ = ["ColumnBounds"]

# Tables with more files have no bounds here, since reading all of their statistics takes longer
# than what the bounds save.
_MOST_FILES = 20_000


class ColumnBounds:
    """The bounds of the columns of one version of a table, each computed at its first use."""

    def __init__(self, table: DeltaTable) -> None:
        self._keys = {name.lower() for name in table.metadata().partition_columns}
        # The statistics of all files; None if there are too many.
        self._files: list[pa.RecordBatch] | None = []
        self._known: dict[str, Bounds | None] = {}
        files = 0
        for batch in table.plan():
            files += batch.num_rows
            if files > _MOST_FILES:
                self._files = None
                break
            if batch.num_rows:
                self._files.append(batch)

    def of(self, column: str) -> Bounds | None:
        """Least and greatest number of a column; None for a column of other values, without
        numbers, or without statistics of a file."""
        if column not in self._known:
            self._known[column] = self._computed(column)
        return self._known[column]

    def _computed(self, column: str) -> Bounds | None:
        least: Fraction | None = None
        greatest: Fraction | None = None
        is_key = column.lower() in self._keys
        for batch in self._files or ():
            values = _of_partitions(batch, column) if is_key else _of_statistics(batch, column)
            if values is None:
                return None
            low, high = values
            if low is not None and high is not None:
                least = low if least is None else min(least, low)
                greatest = high if greatest is None else max(greatest, high)
        return None if least is None or greatest is None else (least, greatest)


# Least and greatest number, each None where there are no numbers.
_Ends = tuple[Fraction | None, Fraction | None]


def _of_statistics(batch: pa.RecordBatch, column: str) -> _Ends | None:
    """The bounds of a column in these files; None if they aren't known."""
    import pyarrow.compute as pc

    low, high = _values(batch, "min", column), _values(batch, "max", column)
    if low is None or high is None or not _is_exact(low.type):
        return None
    unknown = pc.or_(pc.is_null(low), pc.is_null(high))
    nulls = _values(batch, "null_count", column)
    if nulls is not None:
        # A column without a number has no bounds to know.
        unknown = pc.and_not_kleene(unknown, pc.equal(nulls, batch["num_records"]))
    if pc.any(unknown, skip_nulls=False).as_py() is not False:
        return None
    return _ends(low, high)


def _of_partitions(batch: pa.RecordBatch, column: str) -> _Ends | None:
    values = _values(batch, "partition", column)
    return None if values is None or not _is_exact(values.type) else _ends(values, values)


def _values(batch: pa.RecordBatch, kind: str, column: str) -> pa.Array | None:
    """A column's values of a kind, one for each file; None if the batch has none."""
    import pyarrow.compute as pc

    if kind not in batch.schema.names:
        return None
    values = batch[kind]
    return None if values.type.get_field_index(column) < 0 else pc.struct_field(values, [column])


def _ends(low: pa.Array, high: pa.Array) -> _Ends:
    import pyarrow.compute as pc

    least, greatest = pc.min(low).as_py(), pc.max(high).as_py()
    return None if least is None else Fraction(least), None if greatest is None else Fraction(greatest)


def _is_exact(data_type: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(data_type) or pa.types.is_decimal(data_type))
