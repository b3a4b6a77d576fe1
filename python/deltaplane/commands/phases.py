"""The phases of a command, as events of the logger `deltaplane.commands`: DEBUG at the start, INFO
with the duration at the end.

Records have `operation`, `table` and `phase`; those at the end also have `ms`. In traces a phase is
a span.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from deltaplane.io.tracing import phase_of

__all__ = ["LOGGER", "PHASES", "phase"]

LOGGER = "deltaplane.commands"
# All phases in their order. `find` and `join`: finding rows; `unmatched`: finding rows without a
# source row; `change`: computing new values; `copy`: moving unchanged rows to other files; `files`:
# closing the last files.
PHASES = ("source", "find", "join", "unmatched", "change", "copy", "insert", "files", "commit")

_log = logging.getLogger(LOGGER)


@contextmanager
def phase(operation: str, table: str, name: str) -> Iterator[None]:
    """Logs the start and the end of a phase; a phase that fails logs no end.

    >>> with phase("DELETE", "memory://doc-phases/t", "find"):
    ...     pass
    """
    about = {"operation": operation, "table": table, "phase": name}
    _log.debug("%s: %s begins (%s)", table, name, operation, extra=about)
    began = time.monotonic()
    with phase_of(operation, table, name):
        yield
    ms = round((time.monotonic() - began) * 1000)
    _log.info("%s: %s took %d ms (%s)", table, name, ms, operation, extra={**about, "ms": ms})
