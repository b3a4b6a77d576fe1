"""Work after a commit, which must not make the commit look failed or slow. Knows no store and no
command."""

from __future__ import annotations

import logging
from collections.abc import Callable

from deltaplane.exceptions import DeltaError
from deltaplane.io.retry_limit import bounded_after_commit

__all__ = ["refresh_after_commit"]

_log = logging.getLogger(__name__)


def refresh_after_commit(refresh: Callable[[], object]) -> None:
    """Calls `refresh`, which reads the table's newest version.

    The commit is durable: an error of the store here is logged, since an exception would make the
    commit look failed, and a caller that repeats it would write its rows twice. The object then
    stays at its earlier version until its next refresh. A failing store is waited for as long as
    after any commit.
    """
    try:
        with bounded_after_commit():
            refresh()
    except DeltaError as e:
        _log.warning("the commit is safe, but the table's newest version can't be read now: %s", e)
