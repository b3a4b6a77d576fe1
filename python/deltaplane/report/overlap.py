"""How many files may hold a value: a sweep over their bounds, columns in, a few numbers out.

Knows columns of bounds, no table. Called by `deltaplane.report.health`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltaplane.report.bins import Bin, by_powers

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Depth", "depth", "sound"]


@dataclass(frozen=True)
class Depth:
    """Of `files` files, how many have bounds that hold a value: on `average` over their bounds, at `most`, and how often
    how many (`bins`, which count bounds, two for each file)."""

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
    """The depth at each bound of each file; with `groups` only files of one group meet, as those of one partition do.

    At a value it is the number of files that begin at or below it without those that end below it. So one pass over the
    sorted bounds gives all of them. Bounds are sound (`sound`). Cost: some 50 bytes and two comparisons for each file and
    each halving of their number.

    >>> import pyarrow as pa
    >>> found = depth(pa.chunked_array([[1, 2, 9]]), pa.chunked_array([[3, 5, 9]]))
    >>> found.average, found.most
    (1.3333333333333333, 2)
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    n = len(lows)
    if n == 0:
        return Depth(0, 0.0, 0, ())
    values = pa.chunked_array([*lows.chunks, *highs.chunks], lows.type)
    if pa.types.is_floating(values.type):
        # -0.0 becomes 0.0: as keys they differ, as bounds they don't.
        values = pc.add(values, pa.scalar(0.0, values.type))
    ones, none = (pa.repeat(pa.scalar(x, pa.int64()), n) for x in (1, 0))
    columns = {"value": values, "begin": pa.chunked_array([ones, none]), "end": pa.chunked_array([none, ones])}
    keys = ["value"]
    if groups is not None:
        # All that begins in a group also ends there, so that the sums go on with the next one.
        columns["group"] = pa.chunked_array([*groups.chunks, *groups.chunks], groups.type)
        keys = ["group", "value"]
    places = pa.table(columns).group_by(keys).aggregate([("begin", "sum"), ("end", "sum")])
    places = places.sort_by([(key, "ascending") for key in keys])
    begin, end = places["begin_sum"].combine_chunks(), places["end_sum"].combine_chunks()
    ended_below = pc.subtract(pc.cumulative_sum(end), end)
    depths = pc.subtract(pc.cumulative_sum(begin), ended_below)
    weights = pc.add(begin, end)
    total = pc.sum(pc.multiply(depths, weights)).as_py()
    bins = by_powers(pa.chunked_array([depths]), pa.chunked_array([weights]))
    return Depth(n, total / (2 * n), pc.max(depths).as_py(), bins)
