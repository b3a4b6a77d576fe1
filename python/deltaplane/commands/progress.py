"""Progress of commands that examine or copy many files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["CareProgress", "OnProgress", "telling"]


@dataclass(frozen=True)
class CareProgress:
    """The completed part of a phase, in files, or in bytes for copies. `total` is None if it is
    unknown."""

    phase: str
    done: int
    total: int | None


OnProgress = Callable[[CareProgress], object]


def telling(progress: OnProgress | None) -> Callable[[str, int, int | None], object] | None:
    """The callback for the core: converts its arguments to one object.

    >>> telling(print)("copying", 1, None)
    CareProgress(phase='copying', done=1, total=None)
    """
    return None if progress is None else lambda phase, done, total: progress(CareProgress(phase, done, total))
