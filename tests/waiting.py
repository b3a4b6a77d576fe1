"""Waiting for what other threads and processes do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

# Longer than any awaited work takes on a loaded machine.
LONGEST_SECONDS = 120.0


def until(holds: Callable[[], bool]) -> None:
    """Runs other threads until a condition is true; fails after `LONGEST_SECONDS`."""
    pause, end = threading.Event(), time.monotonic() + LONGEST_SECONDS
    while not holds():
        assert time.monotonic() < end, "the condition never became true"
        pause.wait(0.001)
