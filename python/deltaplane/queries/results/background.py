"""Batches that a thread computes while another one reads them, a few at a time.

The reader waits without holding the engine, so that an interrupt from the keyboard or a call of
`cancel` stops the computation at once.
"""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from deltaplane.exceptions import InternalError, QueryCancelledError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BackgroundBatches", "Channel"]

# Computed batches that wait for the reader.
_WAITING = 2
# Seconds between two looks at what only another thread can change.
_STEP = 0.05
_JOIN_SECONDS = 5.0


class Channel:
    """Passes batches from the computing thread to the reader, and a stop in the other direction."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._batches: deque[pa.RecordBatch] = deque()
        self._error: Exception | None = None
        self._interrupt: Callable[[], None] | None = None
        self.stopped = self._ended = False

    @contextmanager
    def interruptible(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """Within the block, stopping calls `interrupt`.

        Raises:
            QueryCancelledError: it was stopped before.
        """
        with self._changed:
            if self.stopped:
                raise _cancelled()
            self._interrupt = interrupt
        try:
            yield
        finally:
            with self._changed:
                self._interrupt = None

    def put(self, batch: pa.RecordBatch) -> None:
        """Waits until the reader has room for a batch.

        Raises:
            QueryCancelledError: nobody reads any more.
        """
        with self._changed:
            while len(self._batches) >= _WAITING and not self.stopped:
                self._changed.wait()
            if self.stopped:
                raise _cancelled()
            self._batches.append(batch)
            self._changed.notify_all()

    def end(self, error: Exception | None) -> None:
        """Tells the reader that no batch follows, or which error ended them."""
        with self._changed:
            self._ended, self._error = True, error
            self._changed.notify_all()

    def next(self) -> pa.RecordBatch | None:
        """The next batch; None behind the last one.

        Raises:
            QueryCancelledError: another thread stopped the query.
            DeltaError: what the computing thread raised.
        """
        with self._changed:
            while not self._batches and not self._ended and not self.stopped:
                self._changed.wait()
            if self.stopped:
                raise _cancelled()
            if self._batches:
                batch = self._batches.popleft()
                self._changed.notify_all()
                return batch
            if self._error is not None:
                raise self._error
            return None

    def stop(self) -> None:
        """Ends the computation; may be called from any thread."""
        with self._changed:
            self.stopped = True
            self._batches.clear()
            if self._interrupt is not None and not self._ended:
                self._interrupt()
            self._changed.notify_all()


def _cancelled() -> QueryCancelledError:
    return QueryCancelledError("the query was cancelled")


class BackgroundBatches:
    """Runs `produce` in a thread, which puts batches into the channel that it receives.

    The thread ends with the last batch, with an error, or when this object is closed or collected.
    """

    def __init__(self, produce: Callable[[Channel], None]) -> None:
        self._channel = Channel()
        self._thread = threading.Thread(
            target=_run, args=(produce, self._channel), name="deltaplane-query", daemon=True
        )
        _stop_at_exit(self)
        # The thread doesn't refer to this object, so that an unread result ends its thread.
        weakref.finalize(self, self._channel.stop).atexit = False
        self._thread.start()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            while (batch := self._channel.next()) is not None:
                yield batch
        finally:
            # Also after an interrupt from the keyboard, and where the reader leaves early.
            self.close()

    def cancel(self) -> None:
        """Ends the computation; a thread that reads gets `QueryCancelledError`."""
        self._channel.stop()

    def close(self) -> None:
        """Ends the computation and waits for the thread, for some seconds at most: the collector of
        garbage may call this in a thread that works for the engine."""
        self._channel.stop()
        end = time.monotonic() + _JOIN_SECONDS
        while self._thread.is_alive() and threading.current_thread() is not self._thread and time.monotonic() < end:
            self._thread.join(_STEP)
            # An interrupt that arrives between two statements of the engine has no effect.
            self._channel.stop()


def _run(produce: Callable[[Channel], None], channel: Channel) -> None:
    error: Exception | None = InternalError("the thread of a query ended early")
    try:
        produce(channel)
        error = None
    except Exception as e:  # noqa: BLE001  (the reading thread raises it)
        error = e
    finally:
        # A reader without this would wait for ever.
        channel.end(error)


_running: weakref.WeakSet[Any] = weakref.WeakSet()


def _stop_at_exit(batches: BackgroundBatches) -> None:
    if not _running:
        atexit.register(_stop_all)
    _running.add(batches)


def _stop_all() -> None:
    # The interpreter must not be taken away from a thread that runs the engine.
    for batches in list(_running):
        batches._channel.stop()
        if batches._thread.is_alive():
            batches._thread.join(_JOIN_SECONDS)
