"""The admitted functions and operators, one module per family; importing this fills
`registry.ENTRIES`."""

from deltaplane.expr.functions import (
    arrays,
    bits,
    casting,
    collections,
    comparisons,
    conditional,
    dates,
    hashes,
    higher,
    intervals,
    logic,
    numbers,
    patterns,
    rendering,
    text,
    times,
)

__all__ = [
    "arrays",
    "bits",
    "casting",
    "collections",
    "comparisons",
    "conditional",
    "dates",
    "hashes",
    "higher",
    "intervals",
    "logic",
    "numbers",
    "patterns",
    "rendering",
    "text",
    "times",
]
