"""The admitted functions and operators, one module for each family; importing this fills `registry.ENTRIES`."""

from deltaplane.expr.functions import (
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
    text,
    times,
)

__all__ = [
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
    "text",
    "times",
]
