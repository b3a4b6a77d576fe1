"""How far a command has come that looks at many files or copies them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["CareProgress", "Told", "telling"]


@dataclass(frozen=True)
class CareProgress:
    """So much of a part of a command is done: files, or bytes while they are copied. `total` is
    None where that isn't known."""

    phase: str
    done: int
    total: int | None


Told = Callable[[CareProgress], object]


def telling(progress: Told | None) -> Callable[[str, int, int | None], object] | None:
    """What the core calls: its words as one object.

    >>> telling(print)("copying", 1, None)
    CareProgress(phase='copying', done=1, total=None)
    """
    return None if progress is None else lambda phase, done, total: progress(CareProgress(phase, done, total))
