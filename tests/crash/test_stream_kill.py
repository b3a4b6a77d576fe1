"""A query that copies a table is killed at random instants: after its restarts every row is in the
copy once.

Each kill costs a start of Spark, and each query one more, so the routine number is small;
`test_stream_steps.py` crashes at many more points, within one process. DELTAPLANE_STREAM_KILLS sets
the number of kills (default 2).
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from crash.copying import append, batches, copied
from following import READS, WRITES

KILLS = int(os.environ.get("DELTAPLANE_STREAM_KILLS", "2"))
# Number of kills per query; the next query uses other ways to read and write.
KILLS_PER_QUERY = min(3, KILLS)
FILES_PER_KILL = 4
SECONDS = 240
TESTS = Path(__file__).parents[1]


@contextmanager
def copier(source: str, target: str, reads: str, writes: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "crash.stream_copier", source, target, reads, writes]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment, start_new_session=True, cwd=TESTS)
        try:
            yield process
        finally:
            # Its JVM and its workers belong to its process group.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(2 * SECONDS + 60 * KILLS)
def test_every_row_is_there_once(tmp_path: Path) -> None:
    # P076
    choose = random.Random(20261122)
    killed_inside = 0
    for start in range(0, KILLS, KILLS_PER_QUERY):
        source, target, log = str(tmp_path / f"from-{start}"), str(tmp_path / f"to-{start}"), tmp_path / "log"
        reads = READS[start // KILLS_PER_QUERY % len(READS)]
        rows = append(source, 0, FILES_PER_KILL)
        for n in range(start, min(start + KILLS_PER_QUERY, KILLS)):
            writes = choose.choice(WRITES)
            before = batches(target)
            with copier(source, target, reads, writes, log) as process:
                wait_for(process, target, before + choose.randint(1, 3), log)
                time.sleep(choose.uniform(0, 1))
                killed_inside += process.poll() is None
            seen = copied(target)
            assert seen <= Counter(range(rows)), f"after kill {n}"
            rows = append(source, rows, FILES_PER_KILL)
        with copier(source, target, reads, "native", log) as process:
            assert process.wait(SECONDS) == 0, log.read_text()
        assert copied(target) == Counter(range(rows))
    assert killed_inside, "no kill met a running query: the test shows nothing"


def wait_for(process: subprocess.Popen[bytes], target: str, wanted: int, log: Path) -> None:
    """Waits until the query has planned this many batches, or has ended."""
    deadline = time.monotonic() + SECONDS
    while process.poll() is None and batches(target) < wanted:
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.01)
    assert process.poll() in (None, 0), log.read_text()
