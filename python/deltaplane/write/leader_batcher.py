"""Leader and followers: callers submit one item each, and one caller at a time processes all
waiting items.

Implements waiting, admission and closing, without a thread of its own; independent of tables and of
the kind of items.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

from deltaplane.exceptions import InternalError, InvalidArgumentError

__all__ = ["LeaderBatcher"]

Item = TypeVar("Item")
Result = TypeVar("Result")


class _Place(Generic[Item, Result]):
    """One caller's entry in the queue. Its results are a list, because a result may be None."""

    def __init__(self, item: Item) -> None:
        self.item = item
        self.arrived = time.monotonic()
        self.results: list[Result] = []
        self.failure: BaseException | None = None

    @property
    def done(self) -> bool:
        return bool(self.results) or self.failure is not None


class LeaderBatcher(Generic[Item, Result]):
    """Callers enter (`admit`), prepare an item at their own pace, `submit` it and get its result.

    While one group is processed, the next one collects; one of the waiting callers then processes
    it.

    Args:
        handle: returns a group's results, in the group's order. Runs in one caller's thread at a
            time.
        choose: selects the next group, as indexes of the waiting items in the order of their
            arrival; at least one.
        is_full: whether waiting for more items has no benefit.
        most_inside: maximum number of admitted callers; others wait for admission.
        delay_seconds: maximum time that the first item waits for others.

    >>> numbers = LeaderBatcher(lambda group: [n * 2 for n in group], lambda waiting: [0], lambda waiting: True, 8, 0.0)
    >>> with numbers.admit():
    ...     numbers.submit(21)
    42
    """

    def __init__(
        self,
        handle: Callable[[Sequence[Item]], Sequence[Result]],
        choose: Callable[[Sequence[Item]], Sequence[int]],
        is_full: Callable[[Sequence[Item]], bool],
        most_inside: int,
        delay_seconds: float,
    ) -> None:
        self._handle, self._choose, self._is_full = handle, choose, is_full
        self._most_inside, self._delay_seconds = most_inside, delay_seconds
        lock = threading.Lock()
        self._door = threading.Condition(lock)
        self._arrived = threading.Condition(lock)
        self._handled = threading.Condition(lock)
        self._inside: set[int] = set()
        self._queue: list[_Place[Item, Result]] = []
        self._leader: _Place[Item, Result] | None = None
        self._closed = False

    @property
    def waiting(self) -> int:
        """The number of items that wait for a group."""
        return len(self._queue)

    @property
    def is_processing(self) -> bool:
        """Whether a caller processes a group, or waits for more items of one."""
        return self._leader is not None

    @contextmanager
    def admit(self) -> Iterator[None]:
        """Admits the caller, which may then submit items; `close` waits until all callers have
        left.

        Raises:
            InvalidArgumentError: the batcher is closed, or is closed during this call; or this
                thread is already admitted.
        """
        me = threading.get_ident()
        self._refuse_nested(me)
        try:
            with self._door:
                while len(self._inside) >= self._most_inside and not self._closed:
                    self._door.wait()
                if self._closed:
                    raise InvalidArgumentError("this writer is closed: open another one")
                self._inside.add(me)
            yield
        finally:
            with self._door:
                self._inside.discard(me)
                # There are two kinds of waiters, callers and `close`; waking only one could wake
                # the wrong kind.
                self._door.notify_all()

    def submit(self, item: Item) -> Result:
        """Waits until this or another thread has processed a group with the item, and returns the
        item's result.

        Raises:
            InternalError: another thread was interrupted while it processed the group; the outcome
                is unknown.
        """
        mine: _Place[Item, Result] = _Place(item)
        with self._arrived:
            self._queue.append(mine)
            self._arrived.notify()
        try:
            while self._my_turn(mine):
                self._lead()
                self._step_down(mine)
        except BaseException:
            # If interrupted at any point: an item that isn't taken yet is withdrawn, and another
            # caller leads.
            with self._arrived:
                self._queue = [place for place in self._queue if place is not mine]
            self._step_down(mine)
            raise
        if mine.failure is not None:
            raise InternalError(
                "the thread that committed for others too was interrupted: whether its group is in the table is open; "
                "look at the table before trying again"
            ) from mine.failure
        return mine.results[0]

    def close(self) -> None:
        """Admits no more callers and waits until all have left.

        Raises:
            InvalidArgumentError: this thread is admitted itself, so it would wait for ever.
        """
        self._refuse_nested(threading.get_ident())
        with self._door:
            self._closed = True
            self._door.notify_all()
            self._arrived.notify_all()
            while self._inside:
                self._door.wait()

    def _refuse_nested(self, me: int) -> None:
        # Without the lock: only this thread adds or removes itself.
        if me in self._inside:
            raise InvalidArgumentError(
                "this thread is in the middle of an append to the same writer, maybe in the stream of its data: "
                "finish that one first"
            )

    def _my_turn(self, mine: _Place[Item, Result]) -> bool:
        """Waits for the item's result (False), or until this thread has to lead (True)."""
        with self._handled:
            while self._leader is not None and not mine.done:
                self._handled.wait()
            if mine.done:
                return False
            self._leader = mine
            return True

    def _step_down(self, mine: _Place[Item, Result]) -> None:
        with self._handled:
            if self._leader is mine:
                self._leader = None
                self._handled.notify_all()

    def _lead(self) -> None:
        """Processes one group, which may lack the leader's own item."""
        group: Sequence[_Place[Item, Result]] = ()
        try:
            with self._arrived:
                self._gather()
                chosen = set(self._choose([place.item for place in self._queue]))
                group = [place for index, place in enumerate(self._queue) if index in chosen]
                self._queue = [place for index, place in enumerate(self._queue) if index not in chosen]
            results = self._handle([place.item for place in group])
            for place, result in zip(group, results, strict=True):
                place.results.append(result)
        except BaseException as e:
            for place in group:
                if not place.done:
                    place.failure = e
            raise

    def _gather(self) -> None:
        """Waits for more items while the first item may wait and further callers can arrive."""
        until = self._queue[0].arrived + self._delay_seconds
        while not self._closed and len(self._queue) < self._most_inside:
            left = until - time.monotonic()
            if left <= 0 or self._is_full([place.item for place in self._queue]):
                return
            self._arrived.wait(left)
