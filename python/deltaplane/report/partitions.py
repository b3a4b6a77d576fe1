"""Measures how evenly a table's partitions are filled.

Uses columns of the file list; doesn't access the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltaplane.report.bins import Bin, by_powers
from deltaplane.report.columns import partition_values

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Partition", "Partitions", "partitions"]


@dataclass(frozen=True)
class Partition:
    """One partition; `rows` is None if a file has no statistics."""

    values: tuple[str | None, ...]
    files: int
    size_bytes: int
    rows: int | None


@dataclass(frozen=True)
class Partitions:
    """All partitions: the largest by bytes, and the distribution of bytes. `gini` is 0 for
    partitions of equal size and approaches 1 if one partition has all bytes. `files_around` is the
    mean, over all files, of the number of files in the same partition."""

    columns: tuple[str, ...]
    count: int
    median_bytes: float
    median_files: float
    files_around: float
    gini: float
    bins: tuple[Bin, ...]
    largest: tuple[Partition, ...]


def partitions(
    columns: tuple[str, ...], keys: pa.ChunkedArray, sizes: pa.ChunkedArray, rows: pa.ChunkedArray, most: int
) -> Partitions:
    """Totals the files of each partition key. `rows` counts live rows; at most `most` partitions
    are listed."""
    import pyarrow as pa
    import pyarrow.compute as pc

    sums = (
        pa.table({"key": keys, "size": sizes, "rows": rows})
        .group_by("key")
        .aggregate([("size", "sum"), ("size", "count"), ("rows", "sum"), ("rows", "count")])
    )
    # Repeated values may be dictionary-encoded, and dictionaries have no order.
    sums = sums.set_column(sums.column_names.index("key"), "key", sums["key"].cast(pa.string()))
    sums = sums.sort_by([("size_sum", "descending"), ("key", "ascending")])
    if sums.num_rows == 0:
        return Partitions(columns, 0, 0.0, 0.0, 0.0, 0.0, (), ())
    by_size, files = sums["size_sum"], sums["size_count"]
    top = sums.slice(0, most).to_pydict()
    named = zip(top["key"], top["size_count"], top["size_sum"], top["rows_sum"], top["rows_count"], strict=True)
    largest = tuple(
        Partition(partition_values(key), n, size, told_rows if files_with_rows == n else None)
        for key, n, size, told_rows, files_with_rows in named
    )
    around = pc.sum(pc.multiply(files, files)).as_py() / pc.sum(files).as_py()
    medians = _median(by_size), _median(files)
    return Partitions(columns, sums.num_rows, *medians, around, gini(by_size), by_powers(by_size), largest)


def gini(values: pa.ChunkedArray) -> float:
    """The Gini coefficient: 0 if all values are equal, (n - 1) / n if all but one are 0.

    >>> import pyarrow as pa
    >>> gini(pa.chunked_array([[5, 5]])), gini(pa.chunked_array([[0, 0, 0, 8]]))
    (0.0, 0.75)
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    n = len(values)
    ordered = pc.cast(values, pa.float64()).take(pc.sort_indices(values))
    total = pc.sum(ordered).as_py()
    if not total:
        return 0.0
    places = pc.cumulative_sum(pa.repeat(pa.scalar(1.0), n))
    weighted = pc.sum(pc.multiply(pa.chunked_array([places]), ordered)).as_py()
    return max(0.0, float(2 * weighted / (n * total) - (n + 1) / n))


def _median(values: pa.ChunkedArray) -> float:
    import pyarrow.compute as pc

    median: float = pc.quantile(values, 0.5)[0].as_py()
    return median
