"""An independent decoder of a log's bounds inside variants (P169)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def decoded(text: str | None) -> dict[str, Any]:
    """The bounds of one section, by path."""
    from pyspark.sql.types import VariantVal

    if text is None:
        return {}
    data = bytearray()
    for offset in range(0, len(text), 5):
        value = 0
        for c in text[offset : offset + 5]:
            value = value * 85 + _DIGITS.index(c)
        data += value.to_bytes(4, "big")
    width = (data[0] >> 6) + 1
    count, *_ = ends = [int.from_bytes(data[i : i + width], "little") for i in range(1, len(data) - width, width)]
    size = 1 + (count + 2) * width + ends[count + 1]
    bounds: dict[str, Any] = VariantVal(bytes(data[size:]), bytes(data[:size])).toPython()
    return bounds


def bounds(table: str) -> list[tuple[int, dict[str, Any], dict[str, Any]]]:
    """The bounds of each added file in the log."""
    rows = []
    for commit in sorted(Path(table, "_delta_log").glob("*.json")):
        for line in commit.read_text().splitlines():
            if add := json.loads(line).get("add"):
                stats = json.loads(add["stats"])
                sections = (decoded(stats[part].get("v")) for part in ("minValues", "maxValues"))
                rows.append((stats["nullCount"]["v"], *sections))
    return rows
