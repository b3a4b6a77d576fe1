"""The local cache with killed readers, a bound smaller than its content, and a disk that changes
bytes: every answer is right, the bound holds, and no partial file stays for ever.

DELTAPLANE_CRASH_ROUNDS sets the number of kills (default 10).
"""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from crash import cache_reader
from crash.cache_reader import ROWS
from crash.memory_s3 import memory_s3
from deltaplane import write_deltalake
from deltaplane.io.cache import cache_info

ROUNDS = int(os.environ.get("DELTAPLANE_CRASH_ROUNDS", "10"))
READERS = 3
TABLES, VERSIONS = 4, 24
BOUND = 4 << 20
# Long enough for the answer of a new process on a busy machine.
ANSWER_SECONDS = 60
_FORKED = multiprocessing.get_context("forkserver")
_FORKED.set_forkserver_preload(["crash.cache_reader"])


def _damage(cache: Path, choose: random.Random) -> int:
    """Changes a byte of some files and truncates others."""
    files = [path for path in cache.rglob("*") if path.is_file()]
    chosen = choose.sample(files, min(len(files), 5))
    for path in chosen:
        try:
            content = bytearray(path.read_bytes())
            offset = choose.randrange(len(content))
            content[offset] ^= 0xFF
            path.write_bytes(content[:offset] if choose.random() < 0.5 else content)
        except (FileNotFoundError, ValueError):
            continue  # The file was deleted meanwhile, or is empty.
    return len(chosen)


def _lines(journal: Path) -> list[str]:
    # The kill may truncate the last line.
    return [line for line in journal.read_text().splitlines(keepends=True) if line.endswith("\n")]


@pytest.mark.slow
@pytest.mark.timeout(120 + 30 * ROUNDS)
def test_killed_readers_and_damaged_files_never_make_a_wrong_answer(tmp_path: Path) -> None:
    choose, cache, journal = random.Random(20261126), tmp_path / "cache", tmp_path / "journal"
    journal.touch()
    with memory_s3() as server:
        bucket = server.bucket({})
        _, plain = server.client()
        paths = [f"s3://{bucket}/table-{n}" for n in range(TABLES)]
        for path in paths:
            for version in range(VERSIONS):
                rows = range(version * ROWS, (version + 1) * ROWS)
                # Incompressible texts, which together exceed the cache's bound.
                texts = [choose.randbytes(32).hex() for _ in rows]
                write_deltalake(path, pa.table({"x": rows, "text": texts}), mode="append", storage_options=plain)
        _, connection = server.client()
        options = {**connection, "cache_dir": str(cache), "cache_bytes": str(BOUND), "cache_data": "true"}
        readers: list[Any] = []
        damaged = 0
        for seed in range(READERS + ROUNDS):
            arguments = (paths, VERSIONS, options, str(journal), seed)
            reader = _FORKED.Process(target=cache_reader.main, args=arguments, daemon=True)
            reader.start()
            readers.append(reader)
            answers, deadline = len(_lines(journal)), time.monotonic() + ANSWER_SECONDS
            while len(_lines(journal)) == answers:
                assert time.monotonic() < deadline, f"no answer in {ANSWER_SECONDS} s"
                time.sleep(0.01)
            time.sleep(choose.uniform(0, 0.5))
            if len(readers) > READERS:
                killed = readers.pop(choose.randrange(READERS))
                assert killed.is_alive(), _lines(journal)[-READERS:]
                killed.kill()
                killed.join()
                damaged += _damage(cache, choose)
        for reader in readers:
            reader.kill()
            reader.join()
        answers = _lines(journal)
        wrong = [line for line in answers if not line.endswith(": right\n")]
        assert not wrong, wrong[:3]
        assert damaged, "no file of the cache was damaged: the test shows less than it says"
        info = cache_info(cache)
        # A process killed while writing leaves one draft, and each reader may exceed the bound by
        # one file.
        assert info.drafts <= ROUNDS + READERS
        assert BOUND / 2 < info.size_bytes <= BOUND * (64 + READERS) / 64, info
