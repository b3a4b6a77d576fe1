"""The offsets of a stream as Spark keeps them: the core's, and in that of a first batch also where
the batch began.

After a crash Spark asks for a first batch again without saying so, and a newer version may be the
newest one by then. Beside these stand the keys that Spark's Delta source has, for scripts that
watch a query's progress; nothing here reads them.
"""

from __future__ import annotations

from typing import Any

from deltaplane import _native

__all__ = ["between", "initial", "moved", "place"]

Offset = dict[str, Any]


def initial(start: str) -> Offset:
    """Where a new query begins, before its first batch.

    >>> moved(initial("a"), "a"), moved({"end": "c"}, "c")
    ({'start': 'a'}, {'end': 'c'})
    """
    return {"start": start}


def place(offset: Offset) -> str:
    """The core's offset of a reader that is there."""
    offset_text: str = offset["end"] if "end" in offset else offset["start"]
    return offset_text


def moved(offset: Offset, end: str) -> Offset:
    """The offset at the end of a batch that begins at this one; itself where the batch is empty."""
    if end == place(offset):
        return offset
    begun = {} if "end" in offset else {"start": offset["start"]}
    return {"end": end, **begun, **_as_delta_source(end)}


def _as_delta_source(end: str) -> Offset:
    """An offset in the keys of Spark's Delta source, whose index is that of the last file that was
    taken, -1 where there is none.

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
    """Where a batch begins and ends, in the core's offsets. A first batch begins where its end
    says.

    >>> between({"start": "newer"}, {"end": "b", "start": "a"}), between({"end": "b", "start": "a"}, {"end": "c"})
    (('a', 'b'), ('b', 'c'))
    """
    begins: str = place(end) if start == end else end.get("start") or place(start or end)
    return begins, place(end)
