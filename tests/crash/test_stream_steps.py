"""A query that copies a table dies at counted steps of its source and its sink: after its restarts
every row is in the copy once.

An error in a step leaves the files, the log and Spark's checkpoint in the state of a process killed
there; no further step of the query runs. `test_stream_kill.py` kills processes.
DELTAPLANE_STREAM_CRASHES sets the number of crashes (default 12).
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from crash.copying import append, batches, copied, started
from deltaplane import spark as dp
from deltaplane.spark.stream import read as _stream_read
from deltaplane.spark.stream import write as _stream_write
from deltaplane.spark.writing import frame_writer as _write
from following import READS, WRITES
from sparks import is_at_least

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CRASHES = int(os.environ.get("DELTAPLANE_STREAM_CRASHES", "12"))
# Number of crashes per query; the next query uses other ways to read and write.
CRASHES_PER_QUERY = 6
FILES_PER_RUN = 3
MOST_STEPS = 24
SECONDS = 240
WAYS = (("native", "native"), (READS[-1], "native"), ("native", WRITES[-1]))
DIED = "the process died at this step"


@dataclass
class Life:
    """The number of steps that a process completes before it dies; a step is the beginning or the
    end of a call."""

    left: int | None = None

    def step(self) -> None:
        if self.left is None:
            return
        self.left -= 1
        if self.left <= 0:
            raise RuntimeError(DIED)

    def counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def steps(*arguments: Any, **named: Any) -> Any:
            self.step()
            done = call(*arguments, **named)
            self.step()
            return done

        return steps


@pytest.fixture
def life(monkeypatch: pytest.MonkeyPatch) -> Life:
    """Counts the driver's steps for a query between two persistent changes of Spark or the
    table."""
    life = Life()
    places: list[tuple[Any, str]] = [
        (_stream_read.TableSource, "latestOffset"),
        (_stream_read.TableSource, "getBatch"),
        (_stream_write, "write"),
        (_write, "_run"),
        (_write, "commit_files"),
    ]
    for owner, name in places:
        monkeypatch.setattr(owner, name, life.counted(getattr(owner, name)))
    return life


def copy(spark: SparkSession, source: str, target: str, reads: str, writes: str) -> None:
    """One run of the query over all present rows."""
    query = started(spark, source, target, reads, writes)
    try:
        assert query.awaitTermination(SECONDS)
    finally:
        query.stop()


@pytest.mark.spark
@pytest.mark.timeout(120 + 60 * CRASHES)
def test_every_row_is_there_once(spark: SparkSession, tmp_path: Path, life: Life) -> None:
    # P076
    if is_at_least("4.0"):
        dp.register(spark)
    choose = random.Random(20261123)
    crashed = inside = query = 0
    while crashed < CRASHES:
        reads, writes = WAYS[query % len(WAYS)]
        source, target = str(tmp_path / f"from-{query}"), str(tmp_path / f"to-{query}")
        query += 1
        rows, here = append(source, 0, FILES_PER_RUN), 0
        while here < CRASHES_PER_QUERY and crashed < CRASHES:
            life.left, before = choose.randint(1, MOST_STEPS), batches(target)
            try:
                copy(spark, source, target, reads, writes)
            except StreamingQueryException as e:
                if DIED not in str(e):
                    raise
                here, crashed = here + 1, crashed + 1
                inside += batches(target) > before
            assert copied(target) <= Counter(range(rows)), f"after crash {crashed}"
            rows = append(source, rows, FILES_PER_RUN)
        life.left = None
        copy(spark, source, target, reads, writes)
        assert copied(target) == Counter(range(rows))
    assert inside, "no crash met a batch that was begun: the test shows nothing"
    print(f"{crashed} crashes of {query} queries, {inside} after batches of the same run: 0 rows lost, 0 doubled")
