"""Shows the progress of a running statement as a bar on a terminal; shows nothing elsewhere.

Uses the names of the commands' phases; doesn't access the table.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from deltaplane.commands.phases import LOGGER, PHASES

__all__ = ["shown"]


class _Bar(logging.Handler):
    """Moves the bar to the phase of an event."""

    def __init__(self, progress: Progress) -> None:
        super().__init__(logging.DEBUG)
        self._progress = progress
        self._task: TaskID | None = None

    def emit(self, record: logging.LogRecord) -> None:
        phase = getattr(record, "phase", None)
        if phase not in PHASES:
            return
        if self._task is None:
            self._task = self._progress.add_task("", total=len(PHASES))
        done = PHASES.index(phase) + hasattr(record, "ms")
        said = f"{getattr(record, 'operation', '')} {phase}"
        self._progress.update(self._task, description=said, completed=done)


@contextmanager
def shown(console: Console | None = None) -> Iterator[None]:
    """Shows a bar on standard error until the block ends, if standard error is a terminal."""
    console = console or Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    log = logging.getLogger(LOGGER)
    level = log.level
    with Progress(*columns, console=console, transient=True) as progress:
        bar = _Bar(progress)
        log.addHandler(bar)
        log.setLevel(logging.DEBUG)
        try:
            yield
        finally:
            log.removeHandler(bar)
            log.setLevel(level)
