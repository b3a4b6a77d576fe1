"""Histograms of whole columns, with bins between powers of two or of equal width.

Uses numbers only; accesses no table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Bin", "by_powers", "by_share"]


@dataclass(frozen=True)
class Bin:
    """The number of values with `low <= value < high`, and their sum."""

    low: float
    high: float
    count: int
    total: float


def by_powers(values: pa.ChunkedArray, weights: pa.ChunkedArray | None = None) -> tuple[Bin, ...]:
    """Makes bins that each are twice as wide as the one before, from the minimum to the maximum,
    including empty ones. The first bin is below 1. `weights` gives the multiplicity of each value.
    Values are at least 0 and not null.

    >>> import pyarrow as pa
    >>> [(b.low, b.high, b.count) for b in by_powers(pa.chunked_array([[0, 1, 5, 7]]))]
    [(0, 1, 1), (1, 2, 1), (2, 4, 0), (4, 8, 2)]
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if len(values) == 0:
        return ()
    # For integers below 2^48, log2 never rounds up to the next whole number.
    power = pc.floor(pc.log2(pc.max_element_wise(pc.cast(values, pa.float64()), 0.5)))
    once = pa.chunked_array([pa.repeat(pa.scalar(1, pa.int64()), len(values))]) if weights is None else weights
    table = pa.table({"power": power, "count": once, "total": pc.multiply(pc.cast(values, pa.float64()), once)})
    sums = table.group_by("power").aggregate([("count", "sum"), ("total", "sum")]).to_pydict()
    by_power = {int(p): (n, t) for p, n, t in zip(sums["power"], sums["count_sum"], sums["total_sum"], strict=True)}
    shown = range(min(by_power), max(by_power) + 1)
    return tuple(Bin(0 if p < 0 else 2**p, 2 ** (p + 1), *by_power.get(p, (0, 0.0))) for p in shown)


def by_share(values: pa.ChunkedArray, steps: int) -> tuple[Bin, ...]:
    """Makes bins of equal width from 0 to 1; the last bin includes 1.

    >>> import pyarrow as pa
    >>> [b.count for b in by_share(pa.chunked_array([[0.1, 0.2, 1.0]]), 4)]
    [2, 0, 0, 1]
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if len(values) == 0:
        return ()
    step = pc.min_element_wise(pc.floor(pc.multiply(values, float(steps))), float(steps - 1))
    sums = pa.table({"step": step, "value": values}).group_by("step").aggregate([("value", "count"), ("value", "sum")])
    rows = sums.to_pydict()
    by_step = {int(s): (n, t) for s, n, t in zip(rows["step"], rows["value_count"], rows["value_sum"], strict=True)}
    return tuple(Bin(s / steps, (s + 1) / steps, *by_step.get(s, (0, 0.0))) for s in range(steps))
