"""Leader and followers: which thread handles which item, admission, the delay, closing, and an
interrupted leader."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from deltaplane.exceptions import InternalError, InvalidArgumentError
from deltaplane.write.leader_batcher import LeaderBatcher
from waiting import until

HOUR = 3600.0


class Handler:
    """Doubles numbers, group by group. While `open` is not set, a started group waits; `fails`
    makes the next group fail."""

    def __init__(self) -> None:
        self.open, self.began = threading.Event(), threading.Semaphore(0)
        self.groups: list[list[int]] = []
        self.fails: BaseException | None = None

    def __call__(self, group: Sequence[int]) -> list[int]:
        self.groups.append(list(group))
        self.began.release()
        assert self.open.wait(HOUR)
        fails, self.fails = self.fails, None
        if fails is not None:
            raise fails
        return [n * 2 for n in group]


def everything(waiting: Sequence[int]) -> list[int]:
    return list(range(len(waiting)))


def gathering(handler: Handler, full: int = 1, most_inside: int = 100, delay: float = 0.0) -> LeaderBatcher[int, int]:
    return LeaderBatcher(handler, everything, lambda waiting: len(waiting) >= full, most_inside, delay)


def bring(to: LeaderBatcher[int, int], item: int) -> int:
    with to.admit():
        return to.submit(item)


@contextmanager
def one_under_way(
    to: LeaderBatcher[int, int], handler: Handler, others: Sequence[int]
) -> Iterator[tuple[Future[int], list[Future[int]]]]:
    """The item 0 is being handled, the others wait in order."""
    with ThreadPoolExecutor(len(others) + 1) as pool:
        try:
            first = pool.submit(bring, to, 0)
            assert handler.began.acquire(timeout=HOUR)
            waiting = []
            for n, item in enumerate(others, 1):
                waiting.append(pool.submit(bring, to, item))
                until(lambda n=n: to.waiting == n)  # type: ignore[misc]
            yield first, waiting
        finally:
            handler.open.set()


def test_the_next_group_gathers_while_one_is_handled() -> None:
    handler = Handler()
    with one_under_way(gathering(handler), handler, [1, 2, 3]) as (first, others):
        handler.open.set()
        assert (first.result(), [future.result() for future in others]) == (0, [2, 4, 6])
    assert handler.groups == [[0], [1, 2, 3]]


def test_who_is_not_chosen_leads_the_next_group() -> None:
    handler = Handler()
    odd_ones_later = LeaderBatcher[int, int](
        handler,
        lambda waiting: [place for place, n in enumerate(waiting) if n % 2 == 0] or [0],
        lambda waiting: True,
        100,
        0.0,
    )
    with one_under_way(odd_ones_later, handler, [1, 2, 3, 4]) as (_, others):
        handler.open.set()
        assert [future.result() for future in others] == [2, 4, 6, 8]
    assert handler.groups == [[0], [2, 4], [1], [3]]


def test_a_group_waits_for_company_until_it_is_full() -> None:
    handler = Handler()
    handler.open.set()
    to = gathering(handler, full=4, delay=HOUR)
    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(lambda n: bring(to, n), range(4))) == [0, 2, 4, 6]
    assert [sorted(group) for group in handler.groups] == [[0, 1, 2, 3]]


def test_nobody_waits_for_those_who_cannot_come() -> None:
    handler = Handler()
    handler.open.set()
    to = gathering(handler, full=100, most_inside=2, delay=HOUR)
    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(lambda n: bring(to, n), range(2))) == [0, 2]
    assert len(handler.groups) == 1


def test_closing_ends_the_delay_and_waits_for_those_inside() -> None:
    handler = Handler()
    to = gathering(handler, full=100, delay=HOUR)
    with ThreadPoolExecutor(2) as pool:
        lonely = pool.submit(bring, to, 1)
        until(lambda: to.waiting == 1)
        closing = pool.submit(to.close)
        assert handler.began.acquire(timeout=HOUR)
        assert not closing.done()
        handler.open.set()
        assert lonely.result() == 2
        closing.result()
    with pytest.raises(InvalidArgumentError, match="closed"):
        bring(to, 2)
    to.close()


def test_the_door_holds_back_what_is_too_many_and_closing_sends_it_away() -> None:
    handler = Handler()
    to = gathering(handler, most_inside=1)
    entered: list[int] = []

    def enter(item: int) -> int:
        with to.admit():
            entered.append(item)
            return to.submit(item)

    with ThreadPoolExecutor(3) as pool:
        inside = pool.submit(enter, 1)
        assert handler.began.acquire(timeout=HOUR)
        outside = pool.submit(enter, 2)
        until(lambda: outside.running())
        closing = pool.submit(to.close)
        with pytest.raises(InvalidArgumentError, match="closed"):
            outside.result()
        assert (entered, closing.done()) == ([1], False)
        handler.open.set()
        assert inside.result() == 2
        closing.result()


def test_the_door_opens_when_somebody_leaves() -> None:
    handler = Handler()
    handler.open.set()
    to = gathering(handler, most_inside=1)
    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(lambda n: bring(to, n), range(40))) == [n * 2 for n in range(40)]
    assert sorted(handler.groups) == [[n] for n in range(40)]


def test_a_thread_does_not_wait_for_itself() -> None:
    to = gathering(Handler())
    with to.admit():
        with pytest.raises(InvalidArgumentError, match="in the middle of an append"):
            to.close()
        with pytest.raises(InvalidArgumentError, match="in the middle of an append"), to.admit():
            raise AssertionError("inside twice")
    to.close()


def test_an_interrupted_leader_leaves_nobody_waiting() -> None:
    handler = Handler()
    to = gathering(handler)
    with one_under_way(to, handler, [1, 2]) as (first, others):
        handler.fails = KeyboardInterrupt()
        handler.open.set()
        with pytest.raises(KeyboardInterrupt):
            first.result()
        assert [future.result() for future in others] == [2, 4]
    assert bring(to, 6) == 12


def test_the_others_of_an_interrupted_group_are_told_that_it_is_open() -> None:
    handler = Handler()
    handler.open.set()
    to = gathering(handler, full=3, delay=HOUR)
    handler.fails = KeyboardInterrupt()
    with ThreadPoolExecutor(3) as pool:
        brought = [pool.submit(bring, to, n) for n in range(3)]
        errors = [future.exception() for future in brought]
    (interrupt,) = [e for e in errors if isinstance(e, KeyboardInterrupt)]
    interrupted = [e for e in errors if isinstance(e, InternalError)]
    assert (len(errors), len(interrupted), {id(e.__cause__) for e in interrupted}) == (3, 2, {id(interrupt)})
    with ThreadPoolExecutor(3) as pool:
        assert sorted(pool.map(lambda n: bring(to, n), range(3))) == [0, 2, 4]


def test_an_interrupted_leader_s_own_item_is_taken_back_while_it_gathers(monkeypatch: pytest.MonkeyPatch) -> None:
    handler = Handler()
    handler.open.set()

    def is_full(waiting: Sequence[int]) -> bool:
        if 13 in waiting:
            raise KeyboardInterrupt
        return True

    to = LeaderBatcher[int, int](handler, everything, is_full, 100, HOUR)
    with pytest.raises(KeyboardInterrupt):
        bring(to, 13)
    assert (to.waiting, bring(to, 1), handler.groups) == (0, 2, [[1]])
