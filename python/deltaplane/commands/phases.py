"""The phases of a command, as events in the log `deltaplane.commands`: DEBUG when one begins, INFO
with its time when it ends.

Records have `operation`, `table` and `phase`, the last ones also `ms`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["LOGGER", "PHASES", "phase"]

LOGGER = "deltaplane.commands"
# All that there are, in the order in which they come. `find` and `join`: which rows; `unmatched`:
# rows without a row of the source; `change`: their new values; `copy`: rows that move to other
# files with them; `files`: the last ones are ended.
PHASES = ("source", "find", "join", "unmatched", "change", "copy", "insert", "files", "commit")

_log = logging.getLogger(LOGGER)


@contextmanager
def phase(operation: str, table: str, name: str) -> Iterator[None]:
    """Says when a phase begins and ends; nothing of an end that it didn't come to.

    >>> with phase("DELETE", "memory://doc-phases/t", "find"):
    ...     pass
    """
    about = {"operation": operation, "table": table, "phase": name}
    _log.debug("%s: %s begins (%s)", table, name, operation, extra=about)
    began = time.monotonic()
    yield
    ms = round((time.monotonic() - began) * 1000)
    _log.info("%s: %s took %d ms (%s)", table, name, ms, operation, extra={**about, "ms": ms})
