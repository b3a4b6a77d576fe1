"""The time until a commit is visible to a running stream, at the low rates of the paper's
pipelines: each call is one row.

deltaplane commits rows for all contestants, at times independent of the query's. A row is visible
when the sink has its number. The portable source is the one for Spark Connect; the last column of a
line's JSON, `tail_s`, is the 99th percentile.
"""

from __future__ import annotations

import argparse
import functools
import random
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from support.harness import Case, Contestant, Task, main, scale_of
from support.rows import SEED
from support.sparks import ENGINES, is_there, session, task

CALLS = {"quick": 3, "small": 30, "full": 200}
# Maximum time between commits; a query that waits longer than the limit hangs.
MOST_SECONDS_BETWEEN = 0.5
LOST_SECONDS = 120.0


class Seen:
    """The sink: stores the largest received number, and waits for one."""

    def __init__(self) -> None:
        self._last = -1
        self._changed = threading.Condition()

    def take(self, batch: Any, _: int) -> None:
        numbers = [row[0] for row in batch.select("n").collect()]
        with self._changed:
            self._last = max([self._last, *numbers])
            self._changed.notify_all()

    def wait(self, number: int, query: Any) -> int:
        until = time.monotonic() + LOST_SECONDS
        with self._changed:
            while self._last < number:
                if not query.isActive or time.monotonic() > until:
                    raise RuntimeError(f"row {number} never came: {query.exception()}")
                self._changed.wait(1.0)
        return number


def _native(spark: Any, path: str) -> Any:
    from deltaplane import spark as dp

    return dp.read_stream(spark, path)


def _portable(spark: Any, path: str) -> Any:
    from deltaplane import spark as dp

    dp.register(spark)
    return spark.readStream.format("deltaplane").load(path)


def _peer(spark: Any, path: str) -> Any:
    return spark.readStream.format("delta").load(path)


STREAMS = {
    "deltaplane": ("deltaplane", _native),
    "deltaplane, portable source": ("deltaplane", _portable),
    "delta-spark": ("delta-spark", _peer),
}


def contestant(name: str, case: Mapping[str, Any], scratch: Path) -> Task:
    from deltaplane import write_deltalake

    engine, stream = STREAMS[name]
    spark = session(scratch, ENGINES[engine].settings())
    path = str(scratch / "table")
    moments, seen, number = random.Random(SEED), Seen(), [0]

    def commit() -> None:
        write_deltalake(path, pa.table({"n": [number[0]]}), mode="append")

    commit()
    writer = stream(spark, path).writeStream.foreachBatch(seen.take)
    query = writer.option("checkpointLocation", str(scratch / "query")).start()
    seen.wait(0, query)

    def prepare() -> None:
        time.sleep(moments.random() * MOST_SECONDS_BETWEEN)
        number[0] += 1
        commit()

    def answer(last: int) -> int:
        query.stop()
        return last

    return task(lambda: seen.wait(number[0], query), answer, prepare)


CONTESTANTS: dict[str, Contestant] = {
    name: functools.partial(contestant, name) for name, (engine, _) in STREAMS.items() if is_there(engine)
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--commits", type=int, help="commits that are waited for, instead of the scale's number")


def cases(options: argparse.Namespace) -> list[Case]:
    calls = options.commits or CALLS[scale_of(options)]
    return [Case("commit to visible", list(STREAMS), {}, calls=calls, target="stream latency")]


if __name__ == "__main__":
    main("stream latency", CONTESTANTS, cases, arguments)
