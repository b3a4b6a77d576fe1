"""Writers, mergers, readers and a follower on one table behind a store that fails at random, and
processes that are killed. `python -m stores.faults.soak SECONDS SEED [LIBRARY]`, in the directory
`tests`, runs one.

At the end the table is read without faults: every acknowledged row is there once, no row twice, and
a failed write is there as a whole or not at all.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from stores.forwarding import Answer, Request, forwarding
from stores.servers import versitygw

TESTS = Path(__file__).resolve().parents[2]
# A batch is this number of rows: a batch with fewer ones is torn.
BATCH = 50
SHARE_OF_FAULTS = 0.06
# Roles of the processes of one soak.
ROLES = ("append", "append", "merge", "read", "follow")


def faulty(chance: random.Random, lock: threading.Lock, counts: Counter[str]) -> Callable[..., Answer | None]:
    """Serves requests, of which some fail before or after they are carried out."""

    def serve(request: Request, ask: Callable[[], Answer]) -> Answer | None:
        with lock:
            fault = chance.choice(_FAULTS) if chance.random() < SHARE_OF_FAULTS else "none"
            counts[fault] += 1
        if fault == "throttle":
            return Answer(503, [], b"<Error><Code>SlowDown</Code></Error>")
        if fault == "timeout":
            return Answer(400, [], b"<Error><Code>RequestTimeout</Code></Error>")
        if fault == "drop before":
            return None
        if fault == "late":
            time.sleep(chance.choice([0.2, 1.5]))
        answer = ask()
        if fault == "drop after":
            return None
        if fault == "fail after":
            return Answer(500, [], b"<Error><Code>InternalError</Code></Error>")
        if fault == "break body" and request.command == "GET":
            return replace(answer, sent=len(answer.body) // 2)
        if fault == "cut body" and request.command == "GET" and "_delta_log/0" in request.path:
            return replace(answer, body=answer.body[: answer.body.rfind(b"\n", 0, -1) + 1])
        return answer

    return serve


_FAULTS = ("throttle", "timeout", "drop before", "drop after", "fail after", "late", "break body", "cut body")


def _batch(number: int) -> pa.Table:
    first = number * BATCH
    return pa.table({"id": pa.array(range(first, first + BATCH), pa.int64()), "batch": [number] * BATCH})


def work(role: str, library: str, table: str, options: dict[str, str], first: int, until: float) -> None:
    """One process: repeats its operation until the time, and prints what it begins and ends."""
    import deltaplane

    if library == "deltalake":
        import deltalake as module
    else:
        module = deltaplane  # type: ignore[misc]

    def tell(**what: Any) -> None:
        print(json.dumps(what), flush=True)

    number = first
    while time.time() < until:
        number += 1
        tell(begun=number, role=role)
        try:
            _OPERATIONS[role](module, table, options, number)
            tell(done=number, role=role)
        except Exception as e:  # noqa: BLE001 - each error is judged by the parent
            typed = library == "deltalake" or isinstance(e, deltaplane.exceptions.DeltaError)
            tell(failed=number, role=role, typed=typed, error=f"{type(e).__name__}: {e}"[:500])


def _append(module: Any, table: str, options: dict[str, str], number: int) -> None:
    module.write_deltalake(table, _batch(number), mode="append", storage_options=options)


def _merge(module: Any, table: str, options: dict[str, str], number: int) -> None:
    merger = module.DeltaTable(table, storage_options=options).merge(
        _batch(number), "t.id = s.id", source_alias="s", target_alias="t"
    )
    merger.when_matched_update_all().when_not_matched_insert_all().execute()


def _read(module: Any, table: str, options: dict[str, str], number: int) -> None:
    opened = module.DeltaTable(table, storage_options=options)
    rows = opened.to_pyarrow_table() if module.__name__ == "deltaplane" else _deltalake_rows(opened)
    check(rows)


def _follow(module: Any, table: str, options: dict[str, str], number: int) -> None:
    """Reads the appended rows of every commit since the first one, as a new follower."""
    opened = module.DeltaTable(table, storage_options=options)
    before = opened.version()
    opened.update_incremental()
    if opened.version() < before:
        raise AssertionError(f"version {opened.version()} after version {before}")
    _read(module, table, options, number)


def _deltalake_rows(opened: Any) -> pa.Table:
    from deltalake import QueryBuilder

    return pa.table(QueryBuilder().register("t", opened).execute("select * from t").read_all())


_OPERATIONS = {"append": _append, "merge": _merge, "read": _read, "follow": _follow}


def check(rows: pa.Table) -> set[int]:
    """The batches of the table's rows; fails for a batch that isn't there as a whole, once."""
    counts = Counter(rows["batch"].to_pylist())
    torn = {batch: count for batch, count in counts.items() if count != BATCH}
    if torn or len(set(rows["id"].to_pylist())) != len(rows):
        raise AssertionError(f"torn or doubled batches: {torn}")
    return set(counts)


@dataclass
class Score:
    """The observations of one soak."""

    acknowledged: int = 0
    failed: int = 0
    kills: int = 0
    reads: int = 0
    lost: list[int] = field(default_factory=list)
    doubled: list[int] = field(default_factory=list)
    torn: list[int] = field(default_factory=list)
    untyped: list[str] = field(default_factory=list)
    wrong_reads: list[str] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)


def soak(scratch: Path, seconds: float, seed: int, library: str = "deltaplane") -> Score:
    """Runs all roles for a time, kills a writer now and then, and judges the table."""
    from deltaplane import DeltaTable, write_deltalake

    chance, lock, score = random.Random(seed), threading.Lock(), Score()
    with versitygw(scratch) as server:
        server.make_bucket("soak")
        table = f"s3://soak/{library}"
        empty = _batch(0).slice(0, 0)
        write_deltalake(table, empty, storage_options=server.options)
        with forwarding(server.options["AWS_ENDPOINT_URL"], faulty(random.Random(seed), lock, score.faults)) as proxy:
            options = {**server.options, "AWS_ENDPOINT_URL": proxy, "timeout": "1s", "retry_timeout": "20s"}
            lines = _run(library, table, options, seconds, chance, score, scratch)
        rows = DeltaTable(table, storage_options=server.options).to_pyarrow_table()
    _judge(score, lines, rows)
    return score


def _run(
    library: str,
    table: str,
    options: dict[str, str],
    seconds: float,
    chance: random.Random,
    score: Score,
    scratch: Path,
) -> list[dict[str, Any]]:
    until, outputs, number = time.time() + seconds, [], 0
    workers: dict[subprocess.Popen[bytes], str] = {}

    def start(role: str) -> None:
        nonlocal number
        number += 1
        outputs.append(scratch / f"worker-{number}")
        command = [sys.executable, "-m", "stores.faults.soak", "--worker", role, library, table, json.dumps(options)]
        with outputs[-1].open("wb") as output:
            process = subprocess.Popen([*command, str(number * 100_000), str(until)], stdout=output, cwd=TESTS)
        workers[process] = role

    for role in ROLES:
        start(role)
    while time.time() < until:
        time.sleep(chance.uniform(1.5, 4))
        victim = chance.choice([process for process, role in workers.items() if role != "read"])
        if time.time() < until - 2:
            victim.kill()
            victim.wait()
            score.kills += 1
            start(workers.pop(victim))
    for process in workers:
        process.wait(timeout=300)
    # A killed process may have ended within a line.
    texts = [line for output in outputs for line in output.read_text().splitlines() if line.endswith("}")]
    return [json.loads(line) for line in texts]


def _judge(score: Score, lines: list[dict[str, Any]], rows: pa.Table) -> None:
    per_batch = Counter(rows["batch"].to_pylist())
    for line in lines:
        if "failed" in line:
            score.failed += 1
            score.errors[line["error"].split(":")[0]] += 1
            if line["error"].startswith("AssertionError"):
                score.wrong_reads.append(line["error"])
            elif not line["typed"]:
                score.untyped.append(line["error"])
        elif "done" in line and line["role"] in ("append", "merge"):
            score.acknowledged += 1
            if per_batch[line["done"]] == 0:
                score.lost.append(line["done"])
        elif "done" in line:
            score.reads += 1
    score.torn = [batch for batch, count in per_batch.items() if 0 < count < BATCH]
    score.doubled = [batch for batch, count in per_batch.items() if count > BATCH]


def main(arguments: list[str]) -> None:
    if arguments[0] == "--worker":
        role, library, table, options, first, until = arguments[1:]
        work(role, library, table, json.loads(options), int(first), float(until))
        return
    seconds, seed = float(arguments[0]), int(arguments[1])
    library = arguments[2] if len(arguments) > 2 else "deltaplane"
    with tempfile.TemporaryDirectory() as scratch:
        print(soak(Path(scratch), seconds, seed, library))


if __name__ == "__main__":
    os.environ.setdefault("RUST_BACKTRACE", "0")
    main(sys.argv[1:])
