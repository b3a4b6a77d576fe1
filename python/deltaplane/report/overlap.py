"""How many files may hold a value: a sweep over their bounds, columns in, a few numbers out.

Knows columns of bounds, no table.
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
    """Of `files` files, how many have bounds that hold a value: on `average` over their bounds, at
    `most`, and how often how many (`bins`, which count bounds, two for each file)."""

    files: int
    average: float
    most: int
    bins: tuple[Bin, ...]


def sound(lows: pa.ChunkedArray, highs: pa.ChunkedArray) -> pa.ChunkedArray:
    """Which files have bounds at all: both, no NaN, the least not above the greatest."""
    import pyarrow as pa
    import pyarrow.compute as pc

    # A comparison with NaN is false, one with null null.
    mask = pc.fill_null(pc.less_equal(lows, highs), False)
    return mask if isinstance(mask, pa.ChunkedArray) else pa.chunked_array([mask])


def depth(lows: pa.ChunkedArray, highs: pa.ChunkedArray, groups: pa.ChunkedArray | None = None) -> Depth:
    """The depth at each bound of each file; with `groups` (numbers from 0 on) only files of one
    group meet, as those of one partition do. Bounds are sound (`sound`).

    >>> import pyarrow as pa
    >>> found = depth(pa.chunked_array([[1, 2, 9]]), pa.chunked_array([[3, 5, 9]]))
    >>> found.average, found.most
    (1.3333333333333333, 2)
    """
    return Bounds(lows, highs).depth(groups)


class Bounds:
    """Sound bounds as places in their common order, of which the values themselves are no part any
    more.

    Cost: the values once, then 8 bytes for each bound, some more while a depth is computed, and the
    sorting of all.
    """

    def __init__(self, lows: pa.ChunkedArray, highs: pa.ChunkedArray) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        self._files = len(lows)
        values = pa.chunked_array([*lows.chunks, *highs.chunks], lows.type)
        if pa.types.is_floating(values.type):
            # -0.0 becomes 0.0: bounds that are equal have one place.
            values = pc.add(values, pa.scalar(0.0, values.type))
        order = pc.sort_indices(values)
        ordered = values.take(order).combine_chunks()
        new = pc.cast(pc.not_equal(ordered[1:], ordered[:-1]), pa.int64())
        first = pa.nulls(min(1, len(ordered)), pa.int64()).fill_null(0)
        places = pc.cumulative_sum(pa.chunked_array([first, new], pa.int64()).combine_chunks())
        self._places = places.take(pc.sort_indices(order))

    def depth(self, groups: pa.ChunkedArray | None = None) -> Depth:
        """At a value it is the number of files that begin at or below it without those that end
        below it: two sums over the bounds in order. What begins in a group also ends there, so that
        one pass serves all groups, one after the other.
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
        # The bounds of the first half are those at which files begin.
        begun = pc.cumulative_sum(pc.cast(pc.less(order, pa.scalar(n, pa.uint64())), pa.int64()))
        last = pa.concat_arrays([pc.not_equal(ordered[1:], ordered[:-1]), pa.array([True])])
        # One place for each value: how many bounds there are up to it, and how many of them begin a
        # file.
        passed = pc.add(pc.cast(pc.indices_nonzero(last), pa.int64()), 1)
        begun = begun.filter(last)
        before = pa.concat_arrays([pa.array([0], pa.int64()), passed[:-1]])
        ended_below = pc.subtract(before, pa.concat_arrays([pa.array([0], pa.int64()), begun[:-1]]))
        depths, weights = pc.subtract(begun, ended_below), pc.subtract(passed, before)
        total = pc.sum(pc.multiply(depths, weights)).as_py()
        bins = by_powers(pa.chunked_array([depths]), pa.chunked_array([weights]))
        return Depth(n, total / (2 * n), pc.max(depths).as_py(), bins)
