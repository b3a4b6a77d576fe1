"""A bound on waiting for a store that fails, for work after a commit. Knows no table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from deltaplane import _native

__all__ = ["bounded_after_commit"]


@contextmanager
def bounded_after_commit() -> Iterator[None]:
    """Bounds the requests of this thread: once the store has failed for 5 s without a success, they
    are errors instead of being repeated for `retry_timeout`."""
    _native.begin_after_commit()
    try:
        yield
    finally:
        _native.end_after_commit()
