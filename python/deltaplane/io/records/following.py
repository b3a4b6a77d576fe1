"""Owns what a follower of a table asks for: what it reads, how much at once, and from where."""

from __future__ import annotations

from deltaplane.io.records.record import Record


class TailLimits(Record):
    """How much is taken in one go; None is no bound."""

    files: int | None = None
    bytes: int | None = None
    versions: int | None = None
