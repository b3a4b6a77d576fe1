"""Tests whether a store provides what atomic commits need: the contract of `LogStore`, over any
location.

Uses the contract only.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from deltaplane._native import RawStore
from deltaplane.exceptions import DeltaError, InvalidArgumentError
from deltaplane.io.storage_options import StorageOptions, storage_options_text

__all__ = ["LogStoreContractError", "check_log_store"]

WRITERS, NAMES, OVERWRITES = 16, 20, 40
RACE_SECONDS = 120
# In byte order.
ORDERED = ("0009.json", "0010.crc", "0010.json", "0019.json", "A", "_last", "a", "é")
STARTS = ("", "0010", "0010.json", "0020", "_", "b", "é")
ODD = ("a b", "a%20b", "100%", "p=1", "x#1", "q?v=1", "é/ü", "plus+and&", "UPPER", "upper")


class LogStoreContractError(DeltaError):
    """A store breaks the contract of `LogStore`. Attribute: `failures`, one sentence per broken
    promise.

    >>> LogStoreContractError("corp://t", ["a taken name is told: True instead of False"]).failures
    ['a taken name is told: True instead of False']
    """

    def __init__(self, location: str, failures: list[str]) -> None:
        lines = "".join(f"\n- {failure}" for failure in failures)
        super().__init__(f"the store of {location} doesn't keep the contract of LogStore:{lines}", table=location)
        self.failures = failures


def check_log_store(location: str, storage_options: StorageOptions | None = None) -> dict[str, int]:
    """Tests a store at an empty location: reads after writes, listings, overwriting, refusals,
    names, racing writers (P070).

    Deletes the objects that it writes. Also tests locations of built-in stores, such as a service
    that claims to support S3.

    Args:
        location: an empty location.
        storage_options: the options of the store.

    Returns:
        The number of tested promises, and the numbers of contested names and of racing writers.

    Raises:
        InvalidArgumentError: the location isn't empty, or isn't a location.
        LogStoreContractError: all broken promises.

    >>> check_log_store("memory://doc/check-log-store")["names raced for"]
    20
    """
    options = storage_options_text(storage_options) or {}
    stores = (RawStore.open(location, options), RawStore.open(location, options))
    if objects := stores[0].list_all(""):
        raise InvalidArgumentError(f"{location} isn't empty: it holds {objects[0][0]}; give a place that holds nothing")
    trial = _Trial()
    try:
        for part in (_objects, _ranges, _listings, _names, _overwriting, _races):
            trial.run(part, stores)
    finally:
        _clear(stores[0])
    if trial.failures:
        raise LogStoreContractError(location, trial.failures)
    return {"promises tried": trial.tried, "names raced for": NAMES, "writers of each name": WRITERS}


def _clear(store: RawStore) -> None:
    """Deletes the written objects, as far as the store permits."""
    with contextlib.suppress(DeltaError):
        for stored in store.list_all(""):
            with contextlib.suppress(DeltaError):
                store.delete(stored[0])


class _Trial:
    """The tested promises, and the failures."""

    def __init__(self) -> None:
        self.tried = 0
        self.failures: list[str] = []

    def run(self, part: Callable[..., None], stores: tuple[RawStore, RawStore]) -> None:
        """Runs a part of the contract. A failing preparation counts as a failure, and ends the
        part."""
        try:
            part(self, *stores)
        except DeltaError as e:
            self.failures.append(str(e))

    def expect(self, what: str, expected: object, call: Callable[[], object]) -> None:
        self.tried += 1
        try:
            actual = call()
        except DeltaError as e:
            self.failures.append(f"{what}: {e}")
            return
        if actual != expected:
            self.failures.append(f"{what}: {_short(actual)} instead of {_short(expected)}")

    def expect_missing(self, what: str, call: Callable[[], object]) -> None:
        def kind() -> str:
            try:
                call()
            except FileNotFoundError:
                return "FileNotFoundError"
            return "an answer"

        self.expect(what, "FileNotFoundError", kind)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _objects(trial: _Trial, store: RawStore, other: RawStore) -> None:
    trial.expect("put answers", None, lambda: store.put("a/b.json", b"one"))
    trial.expect("a put object is read", b"one", lambda: other.read("a/b.json"))
    trial.expect("a put object has its path and size", ("a/b.json", 3), lambda: other.head("a/b.json")[:2])
    trial.expect("put_if_absent of a taken name says False", False, lambda: other.put_if_absent("a/b.json", b"two"))
    trial.expect("what has a taken name stays", b"one", lambda: store.read("a/b.json"))
    trial.expect("put over an object answers", None, lambda: store.put("a/b.json", b"three"))
    trial.expect("put overwrites", b"three", lambda: other.read("a/b.json"))
    trial.expect("put_if_absent of an empty object says True", True, lambda: store.put_if_absent("empty", b""))
    trial.expect("an empty object is read", b"", lambda: other.read("empty"))
    for path in ("a/b.json", "a/b.json", "empty", "no/such/file"):
        trial.expect(f"delete of {path}, be it there or not", None, partial(store.delete, path))
    trial.expect_missing("a deleted object is missing", lambda: other.read("a/b.json"))
    trial.expect_missing("head of an object that never was", lambda: other.head("absent/file"))
    trial.expect("put_if_absent of a freed name says True", True, lambda: store.put_if_absent("a/b.json", b"four"))
    store.delete("a/b.json")


def _ranges(trial: _Trial, store: RawStore, other: RawStore) -> None:
    trial.expect("put answers", None, lambda: store.put("f", b"0123456789"))
    for start, end, expected in ((2, 5, b"234"), (8, 50, b"89"), (0, 10, b"0123456789")):
        trial.expect(f"the bytes from {start} to {end} of 10", expected, partial(other.read_range, "f", start, end))
    trial.expect_missing("a part of an object that isn't there", lambda: other.read_range("absent", 0, 1))
    store.delete("f")


def _listings(trial: _Trial, store: RawStore, other: RawStore) -> None:
    def paths(directory: str, name: str) -> list[str]:
        return [stored[0] for stored in other.list_from(directory, name)]

    trial.expect("a directory that isn't there lists nothing", [], lambda: paths("log", ""))
    below = sorted(f"log/{name}" for name in ("below/x", *ORDERED))
    for path in ("logs", *reversed(below)):
        trial.expect("put answers", None, partial(store.put, path, b"x"))
    for name in STARTS:
        expected = [f"log/{listed}" for listed in ORDERED if listed.encode() >= name.encode()]
        trial.expect(f"list_from gives the files from {name!r} on, in order", expected, partial(paths, "log", name))
    trial.expect("list_all gives all files below", below, lambda: sorted(s[0] for s in other.list_all("log")))
    trial.expect("a listing has sizes", {1}, lambda: {stored[1] for stored in other.list_from("log", "")})
    for path in ("logs", *below):
        store.delete(path)
    trial.expect("deleted objects aren't listed", [], lambda: other.list_all(""))


def _names(trial: _Trial, store: RawStore, other: RawStore) -> None:
    for name in ODD:
        path = f"p=a b/{name}.parquet"
        trial.expect(f"put of {path!r}", None, partial(store.put, path, path.encode()))
        trial.expect(f"read of {path!r}", path.encode(), partial(other.read, path))
    listed = sorted(f"p=a b/{name}.parquet" for name in ODD)
    trial.expect("odd names are listed as they are", listed, lambda: sorted(s[0] for s in other.list_all("")))
    for path in listed:
        store.delete(path)


def _overwriting(trial: _Trial, store: RawStore, other: RawStore) -> None:
    """A reader beside an overwriting writer: it sees one object or the other, never a mixture or a
    part."""
    contents = [character * 200_000 for character in (b"1", b"2")]
    trial.expect("put answers", None, lambda: store.put("_last", contents[0]))
    done = threading.Event()

    def overwrite() -> None:
        try:
            for turn in range(OVERWRITES):
                store.put("_last", contents[turn % 2])
        finally:
            done.set()

    def read() -> set[bytes]:
        seen = {other.read("_last")}
        while not done.is_set():
            seen.add(other.read("_last"))
        return {content[:20] for content in seen - set(contents)}

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(overwrite)
        trial.expect("a reader sees an overwritten object whole, the old or the new one", set(), read)
        trial.expect("put beside a reader answers", None, writing.result)
    store.delete("_last")


def _races(trial: _Trial, *stores: RawStore) -> None:
    """For each name all writers start at once, half of them with a store of their own."""
    with ThreadPoolExecutor(WRITERS) as pool:
        for number in range(NAMES):
            _race(trial, stores, pool, f"{number:020}.json")


def _race(trial: _Trial, stores: tuple[RawStore, ...], pool: ThreadPoolExecutor, name: str) -> None:
    path, gate = f"_delta_log/{name}", threading.Barrier(WRITERS)
    contents = [f"{writer} ".encode() * (5000 + writer) for writer in range(WRITERS)]

    def put(writer: int) -> tuple[bool, bool, bytes]:
        own, other = stores[writer % 2], stores[1 - writer % 2]
        gate.wait(RACE_SECONDS)
        created = own.put_if_absent(path, contents[writer])
        listed = path in [stored[0] for stored in other.list_from("_delta_log", "")]
        return created, listed, other.read(path)

    outcomes: list[tuple[bool, bool, bytes]] = []
    trial.expect(
        f"the {WRITERS} racing writers of {name} have answers",
        None,
        lambda: outcomes.extend(pool.map(put, range(WRITERS))),
    )
    if not outcomes:
        return
    winners = [writer for writer, outcome in enumerate(outcomes) if outcome[0]]
    trial.expect(f"of {WRITERS} racing writers exactly one creates {name}", 1, lambda: len(winners))
    trial.expect(
        f"whoever has an answer finds {name} listed, by another instance of the store",
        WRITERS,
        lambda: sum(o[1] for o in outcomes),
    )
    content = contents[winners[0]] if winners else None
    whole = sum(outcome[2] == content for outcome in outcomes)
    trial.expect(f"whoever has an answer reads {name} whole, as the winner wrote it", WRITERS, lambda: whole)
