"""Writers, a merger, readers and a streaming reader on one table behind a store that fails at
random, and killed processes; `soak` says what is judged. `python -m stores.faults.soak
[--overwriting|--spark] SECONDS SEED [LIBRARY]`, in the directory `tests`, runs one; `--proof`
writes docs/reliability/soak.json. `--overwriting` plants a store that overwrites commits;
`--spark` adds a streaming query of Spark, whose second table must have every row once.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from stores import proofs
from stores.faults import spark_query
from stores.forwarding import Answer, Request, forwarding
from stores.servers import StoreServer, versitygw

TESTS = Path(__file__).resolve().parents[2]
# A batch is this number of rows: a batch with fewer ones is torn.
BATCH = 50
SHARE_OF_FAULTS = 0.06
# Roles of the processes of one soak; deltalake has no reader of a table's new rows.
ROLES = {
    "deltaplane": ("append", "append", "merge", "read", "update", "stream"),
    "deltalake": ("append", "append", "merge", "read", "update"),
}
# Roles whose process may be killed.
KILLED = {"append", "merge", "update", "stream", "query"}
# Items that the stream reads before it begins again from its last offset.
ITEMS_PER_START = 20
# The runs of a proof: library, seconds, seed, whether Spark takes part.
PROOF = (("deltaplane", 600.0, 1, True), ("deltaplane", 120.0, 2, False), ("deltalake", 120.0, 1, False))


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


def overwriting(server: StoreServer, serve: Callable[..., Answer | None]) -> Callable[..., Answer | None]:
    """The planted fault: the store ignores `If-None-Match` of commits, so that a commit replaces
    another writer's of the same version. The header is signed, so the object is put by a request of
    this process."""
    import boto3

    client = boto3.client(
        "s3",
        endpoint_url=server.options["AWS_ENDPOINT_URL"],
        region_name=server.options["AWS_REGION"],
        aws_access_key_id=server.options["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=server.options["AWS_SECRET_ACCESS_KEY"],
    )

    def put(request: Request) -> Answer:
        bucket, _, key = request.path.partition("?")[0].lstrip("/").partition("/")
        tag = client.put_object(Bucket=bucket, Key=key, Body=request.body)["ETag"]
        return Answer(200, [("ETag", tag)], b"")

    def overwrite(request: Request, ask: Callable[[], Answer]) -> Answer | None:
        is_commit = request.command == "PUT" and re.search(r"_delta_log/\d{20}\.json$", request.path)
        return serve(request, (lambda: put(request)) if is_commit else ask)

    return overwrite


_FAULTS = ("throttle", "timeout", "drop before", "drop after", "fail after", "late", "break body", "cut body")


def _batch(number: int) -> pa.Table:
    first = number * BATCH
    return pa.table({"id": pa.array(range(first, first + BATCH), pa.int64()), "batch": [number] * BATCH})


@dataclass(frozen=True)
class Worker:
    """The arguments of one process."""

    role: str
    library: str
    table: str
    options: dict[str, str]
    first: int
    until: float
    journal: str


def work(worker: Worker) -> None:
    """One process: repeats its operation until the time, and prints what it begins and ends."""
    import deltaplane

    role, library, options = worker.role, worker.library, worker.options

    if library == "deltalake":
        import deltalake as module
    else:
        module = deltaplane  # type: ignore[misc]

    def tell(**what: Any) -> None:
        print(json.dumps(what), flush=True)

    number, place = worker.first, Path(worker.journal).parent
    with contextlib.ExitStack() as stack:
        spark = stack.enter_context(spark_query.session(options, place)) if role == "query" else None
        while time.time() < worker.until:
            number += 1
            tell(begun=number, role=role)
            try:
                if role == "query":
                    spark_query.follow(spark, worker.table, place, worker.until)
                elif role == "stream":
                    stream(worker.table, options, Path(worker.journal), most_items=ITEMS_PER_START)
                else:
                    _OPERATIONS[role](module, worker.table, options, number)
                tell(done=number, role=role)
            except Exception as e:  # noqa: BLE001 - each error is judged by the parent
                # Hadoop's readers have errors of their own, which end a query as ours do.
                typed = library == "deltalake" or role == "query" or isinstance(e, deltaplane.exceptions.DeltaError)
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


def _update(module: Any, table: str, options: dict[str, str], number: int) -> None:
    """Opens the table, then takes over newer versions, which never go back."""
    opened = module.DeltaTable(table, storage_options=options)
    before = opened.version()
    opened.update_incremental()
    if opened.version() < before:
        raise AssertionError(f"version {opened.version()} after version {before}")
    _read(module, table, options, number)


def _deltalake_rows(opened: Any) -> pa.Table:
    from deltalake import QueryBuilder

    return pa.table(QueryBuilder().register("t", opened).execute("select * from t").read_all())


_OPERATIONS = {"append": _append, "merge": _merge, "read": _read, "update": _update}


def stream(table: str, options: dict[str, str], journal: Path, most_items: int | None = None) -> None:
    """Delivers new rows from the last offset on: appends a line to the journal for each item, with
    its batches and its offset, as an application does which stores both in one transaction."""
    from deltaplane import DeltaTable

    done = delivered(journal)
    since = done[-1]["offset"] if done else -1
    with journal.open("a") as lines:
        for count, item in enumerate(DeltaTable(table, storage_options=options).tail(since), start=1):
            batches = item.to_arrow()["batch"].to_pylist()
            # Written at once: a killed process leaves a whole line, or a beginning that is cut off.
            lines.write(json.dumps({"batches": batches, "offset": item.offset}) + "\n")
            lines.flush()
            if count == most_items:
                return


def delivered(journal: Path) -> list[dict[str, Any]]:
    """The items of the journal, without a last line that was cut off, which is removed."""
    text = journal.read_text() if journal.exists() else ""
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        journal.write_text(whole)
    return [json.loads(line) for line in whole.splitlines()]


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
    # Rows that the streaming reader delivered, and batches that it delivered wrongly.
    streamed: int = 0
    not_streamed: list[int] = field(default_factory=list)
    streamed_wrongly: list[int] = field(default_factory=list)
    # The same of the second table, which Spark's query writes.
    queried: int = 0
    not_queried: list[int] = field(default_factory=list)
    queried_wrongly: list[int] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    doubled: list[int] = field(default_factory=list)
    torn: list[int] = field(default_factory=list)
    untyped: list[str] = field(default_factory=list)
    wrong_reads: list[str] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)


def soak(
    scratch: Path,
    seconds: float,
    seed: int,
    library: str = "deltaplane",
    *,
    overwrites: bool = False,
    with_spark: bool = False,
) -> Score:
    """Runs all roles for a time, kills a writer now and then, and judges the table without faults:
    acknowledged rows are there once, no row twice, failed writes as a whole or not at all, and the
    stream has delivered every row once. With `overwrites` the store has the planted fault;
    `with_spark` adds a query of Spark."""
    from deltaplane import DeltaTable, write_deltalake

    roles = (*ROLES[library], *(["query"] if with_spark else []))
    chance, lock, score = random.Random(seed), threading.Lock(), Score()
    with versitygw(scratch) as server:
        server.make_bucket("soak")
        table = f"s3://soak/{library}"
        empty = _batch(0).slice(0, 0)
        write_deltalake(table, empty, storage_options=server.options)
        serve = faulty(random.Random(seed), lock, score.faults)
        serve = overwriting(server, serve) if overwrites else serve
        with forwarding(server.options["AWS_ENDPOINT_URL"], serve) as proxy:
            options = {**server.options, "AWS_ENDPOINT_URL": proxy, "timeout": "1s", "retry_timeout": "20s"}
            lines = _run(library, roles, table, options, seconds, chance, score, scratch)
        rows = DeltaTable(table, storage_options=server.options).to_pyarrow_table()
        if "stream" in ROLES[library]:
            # The stream's last start, without faults, reads what is left.
            stream(table, server.options, scratch / "journal")
        copied = None
        if with_spark:
            spark_query.finish(table, server.options, scratch)
            copied = DeltaTable(spark_query.sink_of(table), storage_options=server.options).to_pyarrow_table()
    _judge(score, lines, rows)
    if "stream" in ROLES[library]:
        _judge_stream(score, delivered(scratch / "journal"), rows)
    if copied is not None:
        counts = Counter(copied["batch"].to_pylist())
        score.queried = len(copied)
        score.not_queried, score.queried_wrongly = _differences(counts, rows)
    return score


def _run(
    library: str,
    roles: Sequence[str],
    table: str,
    options: dict[str, str],
    seconds: float,
    chance: random.Random,
    score: Score,
    scratch: Path,
) -> list[dict[str, Any]]:
    until, outputs, number = time.time() + seconds, [], 0
    workers: dict[subprocess.Popen[bytes], tuple[str, Path]] = {}

    def start(role: str) -> None:
        nonlocal number
        number += 1
        outputs.append(scratch / f"worker-{number}")
        worker = Worker(role, library, table, options, number * 100_000, until, str(scratch / "journal"))
        command = [sys.executable, "-m", "stores.faults.soak", "--worker", json.dumps(asdict(worker))]
        with outputs[-1].open("wb") as output:
            process = subprocess.Popen(command, stdout=output, cwd=TESTS)
        workers[process] = (role, outputs[-1])

    for role in roles:
        start(role)
    while time.time() < until:
        time.sleep(chance.uniform(1.5, 4))
        # A process that is still starting up has nothing to lose.
        at_work = [p for p, (role, output) in workers.items() if role in KILLED and output.stat().st_size]
        if at_work and time.time() < until - 2:
            victim = chance.choice(at_work)
            victim.kill()
            victim.wait()
            score.kills += 1
            start(workers.pop(victim)[0])
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
        elif "done" in line and line["role"] != "query":
            score.reads += 1
    score.torn = [batch for batch, count in per_batch.items() if 0 < count < BATCH]
    score.doubled = [batch for batch, count in per_batch.items() if count > BATCH]


def _judge_stream(score: Score, items: list[dict[str, Any]], rows: pa.Table) -> None:
    counts = Counter(batch for item in items for batch in item["batches"])
    score.streamed = sum(counts.values())
    score.not_streamed, score.streamed_wrongly = _differences(counts, rows)


def _differences(counts: Mapping[int, int], rows: pa.Table) -> tuple[list[int], list[int]]:
    """Batches of the table that weren't delivered, and batches that weren't delivered once."""
    missing = sorted(set(rows["batch"].to_pylist()) - set(counts))
    return missing, sorted(batch for batch, count in counts.items() if count != BATCH)


def proof() -> None:
    """Runs the soaks of the proof and writes their figures."""
    scores = []
    for library, seconds, seed, with_spark in PROOF:
        with tempfile.TemporaryDirectory() as scratch:
            scores.append(soak(Path(scratch), seconds, seed, library, with_spark=with_spark))
        print(library, seconds, seed, scores[-1], flush=True)
    columns = [f"{library}, {seconds:.0f} s, seed {seed}" for library, seconds, seed, _ in PROOF]
    figures = [_figures(score) for score in scores]
    names = list(dict.fromkeys(name for figure in figures for name in figure))
    rows = [[name, *(figure.get(name, "") for figure in figures)] for name in names]
    errors = [
        [column, name, count]
        for column, score in zip(columns, scores, strict=True)
        for name, count in score.errors.most_common()
    ]
    proofs.write(
        "soak",
        title="A soak with faults and kills",
        claims=[
            "Two appenders, a merger, readers and a streaming reader work on one table on S3 (versitygw) behind a proxy that fails 6 % of all requests: it throttles them, drops them before or after they are carried out, delays them, answers 500 after storing them, and breaks off or cuts bodies. Every 1.5 to 4 seconds a random process is killed and started again.",
            "No row of an acknowledged write is missing, none is there twice, no write is there in part, and the streaming reader, which is killed too, delivers each row once. Every error of deltaplane is one of its own types.",
            "In the longest soak a streaming query of Spark, with S3A's settings alone, writes the rows into a second table. It is killed too, and the JVM of a killed query may go on for a while beside the next one. The second table has each row once. Errors end a query, which is started again; some are S3A's own.",
            "deltalake runs the same soak, without a streaming reader, which it doesn't have, to compare.",
        ],
        figures={},
        tables=[
            {"title": "What was done, and what went wrong", "head": ["figure", *columns], "rows": rows},
            {"title": "Errors by their type", "head": ["soak", "error", "number"], "rows": errors},
        ],
        how="cd tests && ../.venv/bin/python -m stores.faults.soak --proof",
    )


def _figures(score: Score) -> dict[str, int]:
    figures = {
        "requests": sum(score.faults.values()),
        "of these failed by the proxy": sum(score.faults.values()) - score.faults["none"],
        "processes killed": score.kills,
        "writes acknowledged": score.acknowledged,
        "reads that saw whole batches": score.reads,
        "operations that ended in an error": score.failed,
        "acknowledged writes lost": len(score.lost),
        "writes doubled": len(score.doubled),
        "writes torn": len(score.torn),
        "reads that saw torn or doubled batches": len(score.wrong_reads),
        "errors without a type": len(score.untyped),
    }
    if score.streamed:
        figures |= {
            "rows delivered by the stream": score.streamed,
            "batches not delivered by it": len(score.not_streamed),
            "batches delivered in part or twice": len(score.streamed_wrongly),
        }
    if score.queried:
        figures |= {
            "rows written by the query of Spark": score.queried,
            "batches not written by it": len(score.not_queried),
            "batches written by it in part or twice": len(score.queried_wrongly),
        }
    return figures


def main(arguments: list[str]) -> None:
    if arguments[0] == "--worker":
        work(Worker(**json.loads(arguments[1])))
    elif arguments[0] == "--proof":
        proof()
    else:
        flags = {argument for argument in arguments if argument.startswith("--")}
        seconds, seed, *libraries = [argument for argument in arguments if argument not in flags]
        library = libraries[0] if libraries else "deltaplane"
        added = {"overwrites": "--overwriting" in flags, "with_spark": "--spark" in flags}
        with tempfile.TemporaryDirectory() as scratch:
            print(soak(Path(scratch), float(seconds), int(seed), library, **added))


if __name__ == "__main__":
    os.environ.setdefault("RUST_BACKTRACE", "0")
    main(sys.argv[1:])
