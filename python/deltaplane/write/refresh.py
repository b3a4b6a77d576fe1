"""Moves an open table to the version that it has just committed. Knows no store and no command."""

from __future__ import annotations

import logging
from collections.abc import Callable

from deltaplane.exceptions import DeltaError

__all__ = ["refresh_after_commit"]

_log = logging.getLogger(__name__)


def refresh_after_commit(refresh: Callable[[], object]) -> None:
    """Calls `refresh`, which reads the table's newest version.

    The commit is durable: an error of the store here is logged, since an exception would make the
    commit look failed, and a caller that repeats it would write its rows twice. The object then
    stays at its earlier version until its next refresh.
    """
    try:
        refresh()
    except DeltaError as e:
        _log.warning("the commit is safe, but the table's newest version can't be read now: %s", e)
