"""Computes how many files may hold a value, by a sweep over the files' bounds.

Uses columns of bounds; doesn't access a table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltaplane.report.bins import Bin, by_powers

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Bounds", "Depth", "depth", "sound"]


@dataclass(frozen=True)
class Depth:
    """Of `files` files, the number whose bounds hold a value: `average` over their bounds, maximum
    (`most`), and a histogram (`bins`, which counts bounds, two for each file)."""

    files: int
    average: float
    most: int
    bins: tuple[Bin, ...]


def sound(lows: pa.ChunkedArray, highs: pa.ChunkedArray) -> pa.ChunkedArray:
    """True for each file with usable bounds: both present, not NaN, and minimum ≤ maximum."""
    import pyarrow as pa
    import pyarrow.compute as pc

    # A comparison with NaN is false, a comparison with null is null.
    mask = pc.fill_null(pc.less_equal(lows, highs), False)
    return mask if isinstance(mask, pa.ChunkedArray) else pa.chunked_array([mask])


def depth(lows: pa.ChunkedArray, highs: pa.ChunkedArray, groups: pa.ChunkedArray | None = None) -> Depth:
    """The depth at each bound of each file. With `groups` (numbers from 0 on), only files of one
    group overlap, such as the files of one partition. All bounds must be `sound`.

    >>> import pyarrow as pa
    >>> found = depth(pa.chunked_array([[1, 2, 9]]), pa.chunked_array([[3, 5, 9]]))
    >>> found.average, found.most
    (1.3333333333333333, 2)
    """
    return Bounds(lows, highs).depth(groups)


class Bounds:
    """Ranks of sound bounds in their common order; the values themselves aren't retained.

    Cost: sorts all bounds; memory holds the values once, then 8 bytes for each bound, and more
    while a depth is computed.
    """

    def __init__(self, lows: pa.ChunkedArray, highs: pa.ChunkedArray) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        self._files = len(lows)
        values = pa.chunked_array([*lows.chunks, *highs.chunks], lows.type)
        if pa.types.is_floating(values.type):
            # Turns -0.0 into 0.0, so that equal bounds have equal ranks.
            values = pc.add(values, pa.scalar(0.0, values.type))
        order = pc.sort_indices(values)
        ordered = values.take(order).combine_chunks()
        new = pc.cast(pc.not_equal(ordered[1:], ordered[:-1]), pa.int64())
        first = pa.nulls(min(1, len(ordered)), pa.int64()).fill_null(0)
        places = pc.cumulative_sum(pa.chunked_array([first, new], pa.int64()).combine_chunks())
        self._places = places.take(pc.sort_indices(order))

    def depth(self, groups: pa.ChunkedArray | None = None) -> Depth:
        """The depth at a value is the number of files that begin at or below it minus the number
        that end below it: two running sums over the sorted bounds. A group's files begin and end
        within the group, so one pass handles all groups one after the other.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        n = self._files
        if n == 0:
            return Depth(0, 0.0, 0, ())
        keys = self._places
        if groups is not None:
            twice = pc.cast(pa.chunked_array([*groups.chunks, *groups.chunks], groups.type), pa.int64())
            keys = pc.add(pc.multiply(twice, 2 * n), keys).combine_chunks()
        order = pc.sort_indices(keys)
        ordered = keys.take(order)
        # The first half of the bounds are the minimums, at which files begin.
        begun = pc.cumulative_sum(pc.cast(pc.less(order, pa.scalar(n, pa.uint64())), pa.int64()))
        last = pa.concat_arrays([pc.not_equal(ordered[1:], ordered[:-1]), pa.array([True])])
        # Keeps one position for each distinct value: the number of bounds up to it, and the number
        # of minimums among them.
        passed = pc.add(pc.cast(pc.indices_nonzero(last), pa.int64()), 1)
        begun = begun.filter(last)
        before = pa.concat_arrays([pa.array([0], pa.int64()), passed[:-1]])
        ended_below = pc.subtract(before, pa.concat_arrays([pa.array([0], pa.int64()), begun[:-1]]))
        depths, weights = pc.subtract(begun, ended_below), pc.subtract(passed, before)
        total = pc.sum(pc.multiply(depths, weights)).as_py()
        bins = by_powers(pa.chunked_array([depths]), pa.chunked_array([weights]))
        return Depth(n, total / (2 * n), pc.max(depths).as_py(), bins)
