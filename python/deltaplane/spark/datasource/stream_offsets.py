"""The offsets of a stream as Spark stores them: the text of the core's offset, and for the first
batch also that of its start.

After a crash Spark repeats the first batch without marking it as repeated, and by then the table
may have a newer version; therefore the start is stored, too. The offsets also contain the keys of
Spark's Delta source, for scripts that monitor a query's progress; deltaplane doesn't read these.
"""

from __future__ import annotations

from typing import Any

from deltaplane._native import TailOffset

__all__ = ["between", "initial", "moved", "place"]

Offset = dict[str, Any]


def initial(start: TailOffset) -> Offset:
    """The offset of a new query, before its first batch.

    >>> a, c = (TailOffset(f'{{"tableId": "t", "version": {v}, "index": 0, "isStartingVersion": false}}') for v in (0, 2))
    >>> moved(initial(a), a) == initial(a), moved({"end": str(a)}, c)["reservoirVersion"]
    (True, 2)
    """
    return {"start": str(start)}


def place(offset: Offset) -> TailOffset:
    """The core's offset within a stored one."""
    return TailOffset(offset["end"] if "end" in offset else offset["start"])


def moved(offset: Offset, end: TailOffset) -> Offset:
    """The offset at the end of a batch that begins at this one; unchanged if the batch is empty."""
    if end == place(offset):
        return offset
    begun = {} if "end" in offset else {"start": offset["start"]}
    return {"end": str(end), **begun, **_as_delta_source(end)}


def _as_delta_source(end: TailOffset) -> Offset:
    """An offset with the keys of Spark's Delta source; the index is that of the last read file, -1
    without one.

    >>> _as_delta_source(TailOffset('{"index": 1, "isStartingVersion": true, "tableId": "t", "version": 3}'))
    {'sourceVersion': 1, 'reservoirId': 't', 'reservoirVersion': 3, 'index': 0, 'isStartingVersion': True}
    """
    return {
        "sourceVersion": 1,
        "reservoirId": end.table_id,
        "reservoirVersion": end.version,
        "index": end.index - 1,
        "isStartingVersion": end.is_starting_version,
    }


def between(start: Offset | None, end: Offset) -> tuple[TailOffset, TailOffset]:
    """Start and end of a batch as core offsets. The start of the first batch is stored in its end.

    >>> a, b, c = (
    ...     f'{{"tableId": "t", "version": {v}, "index": 0, "isStartingVersion": false}}' for v in range(3))
    >>> newer = c
    >>> [offset.version for offset in between({"start": newer}, {"end": b, "start": a})]
    [0, 1]
    >>> [offset.version for offset in between({"end": b, "start": a}, {"end": c})]
    [1, 2]
    """
    if start == end:
        return place(end), place(end)
    begins = TailOffset(end["start"]) if end.get("start") else place(start or end)
    return begins, place(end)
