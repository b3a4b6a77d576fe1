"""Records the operations of engines that race on one table, and has them judged by porcupine, a
checker of linearizability (`checker/main.go` has the model of a table).
"""

from __future__ import annotations

import json
import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from interop.histories.engines import Engine
from stores.servers import program

# An operation as the checker reads it.
Operation = dict[str, Any]
# Operations that each of the other clients may do beside one of a leader.
BESIDE = 3
JUDGE_SECONDS = 90


class Recorder:
    """The operations of one race. Its clock is this process's, so all clients are threads."""

    def __init__(self, seed: int) -> None:
        self.operations: list[Operation] = []
        self.seed = seed
        self._lock = threading.Lock()
        self._keys: list[int] = []

    def race(self, leaders: Sequence[Engine], others: Sequence[Engine], count: int) -> None:
        """Each leader does a number of operations; the others do some beside each of them. At the
        end each engine reads the table, so that every row is judged."""
        clients = [*leaders, *others]
        permits, done = threading.Semaphore(0), threading.Event()

        def lead(number: int, engine: Engine) -> None:
            for n, chance in self._turns(number, count):
                for _ in range(len(others) * BESIDE):
                    permits.release()
                self._operate(number, engine, n, chance)

        def accompany(number: int, engine: Engine) -> None:
            for n, chance in self._turns(number, count * len(leaders) * BESIDE):
                permits.acquire()
                if done.is_set():
                    return
                self._operate(number, engine, n, chance)

        with ThreadPoolExecutor(len(clients)) as pool:
            leading = [pool.submit(lead, *client) for client in enumerate(leaders)]
            beside = [pool.submit(accompany, *client) for client in enumerate(others, start=len(leaders))]
            wait(leading)
            done.set()
            for _ in others:
                permits.release()
            for client in (*leading, *beside):
                client.result()
        for number, engine in enumerate(clients):
            self.read(number, engine)

    def _turns(self, client: int, count: int) -> Iterator[tuple[int, random.Random]]:
        chance = random.Random(self.seed * 1000 + client)
        return ((n, chance) for n in range(count))

    def _operate(self, client: int, engine: Engine, turn: int, chance: random.Random) -> None:
        """A random operation; a deletion is of a row that some client began to append."""
        kind = chance.choices(("append", "delete", "read"), (4, 2, 3))[0]
        with self._lock:
            known = chance.choice(self._keys) if self._keys else None
        if kind == "read":
            self.read(client, engine)
        elif kind == "delete" and known is not None:
            self.delete(client, engine, known)
        else:
            self.append(client, engine, client * 1_000_000 + turn)

    def append(self, client: int, engine: Engine, key: int) -> None:
        with self._lock:
            self._keys.append(key)
        self._record(client, engine, "append", key, lambda: {"version": engine.append(key)})

    def delete(self, client: int, engine: Engine, key: int) -> None:
        self._record(client, engine, "delete", key, lambda: {"found": engine.delete(key)})

    def read(self, client: int, engine: Engine) -> None:
        def read() -> Operation:
            rows, version = engine.read()
            return {"rows": rows, "version": version}

        self._record(client, engine, "read", 0, read)

    def _record(self, number: int, engine: Engine, kind: str, key: int, run: Callable[[], Operation]) -> None:
        operation: Operation = {"client": number, "engine": engine.name, "kind": kind, "key": key}
        operation["call"] = time.monotonic_ns()
        try:
            result = run()
        except engine.without_effect as e:
            # Nothing happened: there is nothing to judge.
            operation |= {"refused": type(e).__name__}
        except Exception as e:  # noqa: BLE001 - whatever an engine raises, its outcome is unknown
            operation |= {"return": None, "error": f"{type(e).__name__}: {e}"[:300]}
        else:
            operation |= result | {"return": time.monotonic_ns()}
        with self._lock:
            self.operations.append(operation)

    @property
    def judged(self) -> list[Operation]:
        """The operations that may have had an effect."""
        return [operation for operation in self.operations if "refused" not in operation]


def narrowed(operations: Sequence[Operation]) -> list[Operation]:
    """The same history, with what its readings tell of unknown outcomes: a row that was seen was
    appended before the first reading of it returned, and one that was never seen needn't have been;
    the same of deletions. Otherwise each of them could be at any place of the order, and the
    checker's search would not end. Keys are appended once.

    It hides no fault, since an order that explains the narrowed history explains the whole one:
    what is left out goes to its end, where nothing reads it, and what got an end is an operation of
    both. A row that vanished is explained by a deletion of unknown outcome only if that one began
    before the row was missed. It accuses nobody either: `test_narrowing_changes_no_verdict`
    compares verdicts.
    """
    readings = [o for o in operations if o["kind"] == "read" and o["return"] is not None]
    appended = {o["key"]: o for o in operations if o["kind"] == "append"}
    deleted = {o["key"] for o in operations if o["kind"] == "delete" and o.get("found")}
    open_ones = [o["key"] for o in operations if o["kind"] == "delete" and o["return"] is None]
    unknown_deletions = Counter(open_ones)
    result = []
    for operation in operations:
        key = operation["key"]
        if operation["return"] is not None:
            result.append(operation)
        elif operation["kind"] == "append":
            seen = [o["return"] for o in readings if key in o["rows"]]
            if seen:
                result.append({**operation, "return": max(operation["call"] + 1, min(seen))})
            elif key in deleted:
                result.append(operation)
        elif operation["kind"] == "delete" and unknown_deletions[key] > 1:
            # Several deletions may have deleted the row, so none of them is bounded.
            result.append(operation)
        elif operation["kind"] == "delete" and key not in deleted:
            # The row is there from the end of its append on, or of the first reading of it.
            ends = [appended[key]["return"]] if key in appended else []
            ends += [o["return"] for o in readings if key in o["rows"]]
            added = min((end for end in ends if end is not None), default=None)
            gone = [o["return"] for o in readings if added is not None and o["call"] > added and key not in o["rows"]]
            if added is None:
                result.append(operation)
            elif gone:
                ended = max(operation["call"] + 1, min(gone))
                result.append({**operation, "return": ended, "found": True})
    return result


def judge(operations: Sequence[Operation]) -> str:
    """The checker's verdict: `Ok`, `Illegal`, or `Unknown` if it took too long."""
    return verdict(narrowed(operations))


def verdict(operations: Sequence[Operation]) -> str:
    """As `judge`, of the history as it is: the search is long with many unknown outcomes."""
    lines = "".join(json.dumps(operation) + "\n" for operation in operations)
    command = [program("bin/check-history")]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=JUDGE_SECONDS, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.strip()


def figures(operations: Sequence[Operation]) -> dict[str, int]:
    """How many operations of each kind a history has, and how many of them overlap in time."""
    spans = [(o["call"], o["return"]) for o in operations if o.get("return")]
    overlapping = sum(
        any(other is not span and other[0] < span[1] and span[0] < other[1] for other in spans) for span in spans
    )
    kinds = {f"{kind}s": sum(o["kind"] == kind for o in operations) for kind in ("append", "delete", "read")}
    unknown = sum(o.get("return", 0) is None for o in operations)
    return {**kinds, "operations beside others": overlapping, "unknown outcomes": unknown}
