"""The offsets of a stream as Spark stores them: the core's offset, and for the first batch also its
start.

After a crash Spark repeats the first batch without marking it as repeated, and by then the table
may have a newer version; therefore the start is stored, too. The offsets also contain the keys of
Spark's Delta source, for scripts that monitor a query's progress; deltaplane doesn't read these.
"""

from __future__ import annotations

from typing import Any

from deltaplane import _native

__all__ = ["between", "initial", "moved", "place"]

Offset = dict[str, Any]


def initial(start: str) -> Offset:
    """The offset of a new query, before its first batch.

    >>> moved(initial("a"), "a"), moved({"end": "c"}, "c")
    ({'start': 'a'}, {'end': 'c'})
    """
    return {"start": start}


def place(offset: Offset) -> str:
    """The core's offset within a stored one."""
    offset_text: str = offset["end"] if "end" in offset else offset["start"]
    return offset_text


def moved(offset: Offset, end: str) -> Offset:
    """The offset at the end of a batch that begins at this one; unchanged if the batch is empty."""
    if end == place(offset):
        return offset
    begun = {} if "end" in offset else {"start": offset["start"]}
    return {"end": end, **begun, **_as_delta_source(end)}


def _as_delta_source(end: str) -> Offset:
    """An offset with the keys of Spark's Delta source; the index is that of the last read file, -1
    without one.

    >>> _as_delta_source('{"index": 1, "isStartingVersion": true, "tableId": "t", "version": 3}')
    {'sourceVersion': 1, 'reservoirId': 't', 'reservoirVersion': 3, 'index': 0, 'isStartingVersion': True}
    """
    core = _native.TailOffset(end)
    return {
        "sourceVersion": 1,
        "reservoirId": core.table_id,
        "reservoirVersion": core.version,
        "index": core.index - 1,
        "isStartingVersion": core.is_starting_version,
    }


def between(start: Offset | None, end: Offset) -> tuple[str, str]:
    """Start and end of a batch as core offsets. The start of the first batch is stored in its end.

    >>> between({"start": "newer"}, {"end": "b", "start": "a"}), between({"end": "b", "start": "a"}, {"end": "c"})
    (('a', 'b'), ('b', 'c'))
    """
    begins: str = place(end) if start == end else end.get("start") or place(start or end)
    return begins, place(end)
