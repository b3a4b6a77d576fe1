"""The offsets of a stream as Spark keeps them: the core's, and in that of a first batch also where the batch began.

After a crash Spark asks for a first batch again without saying so, and a newer version may be the newest one by then.
Called by both sources.
"""

from __future__ import annotations

__all__ = ["between", "initial", "moved", "place"]

Offset = dict[str, str]


def initial(start: str) -> Offset:
    """Where a new query begins, before its first batch.

    >>> moved(initial("a"), "b"), moved({"end": "b"}, "c"), moved({"end": "c"}, "c")
    ({'end': 'b', 'start': 'a'}, {'end': 'c'}, {'end': 'c'})
    """
    return {"start": start}


def place(offset: Offset) -> str:
    """The core's offset of a reader that is there."""
    return offset["end"] if "end" in offset else offset["start"]


def moved(offset: Offset, end: str) -> Offset:
    """The offset at the end of a batch that begins at this one; itself where the batch is empty."""
    if end == place(offset):
        return offset
    return {"end": end} if "end" in offset else {"end": end, "start": offset["start"]}


def between(start: Offset | None, end: Offset) -> tuple[str, str]:
    """Where a batch begins and ends, in the core's offsets. A first batch begins where its end says.

    >>> between({"start": "newer"}, {"end": "b", "start": "a"}), between({"end": "b", "start": "a"}, {"end": "c"})
    (('a', 'b'), ('b', 'c'))
    """
    begins = place(end) if start == end else end.get("start") or place(start or end)
    return begins, place(end)
