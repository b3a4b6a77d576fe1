"""The local cache for users: the requests to an S3 server with a cache, user-defined stores, and
changes that it must never hide."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from crash.memory_s3 import Client, MemoryS3, memory_s3
from deltaplane import DeltaTable, LogStore, register_log_store, write_deltalake
from deltaplane.exceptions import InvalidArgumentError
from deltaplane.io.cache import CachedTable, cache_info, clear_cache
from waiting import until

ROWS = 20_000


@pytest.fixture(scope="module")
def server() -> Iterator[MemoryS3]:
    with memory_s3() as running:
        yield running


@pytest.fixture
def s3(server: MemoryS3, tmp_path: Path) -> S3:
    return S3(server, tmp_path / "cache")


class S3:
    """A table of some commits and a checkpoint, and new clients that read it."""

    def __init__(self, server: MemoryS3, cache: Path) -> None:
        self.server, self.cache = server, cache
        self.bucket = server.bucket({})
        self.path = f"s3://{self.bucket}/table"
        _, self.plain = server.client()
        self.grow(0)

    def grow(self, seed: int) -> None:
        for n in range(12):
            rows = pa.table({"x": range(seed + n * ROWS, seed + (n + 1) * ROWS), "text": [f"row {n}"] * ROWS})
            write_deltalake(self.path, rows, mode="append", storage_options=self.plain)
        # A commit to an object store returns before its checksum is stored. A client that opened
        # the table in between would read other files than the next one.
        newest = sorted(key for key in self.server.buckets[self.bucket] if key.endswith(".json"))[-1]
        until(lambda: newest.replace(".json", ".crc") in self.server.buckets[self.bucket])

    def client(self, **options: object) -> tuple[Client, dict[str, str]]:
        client, server_options = self.server.client()
        return client, {**server_options, "cache_dir": str(self.cache), **{k: str(v) for k, v in options.items()}}


def requests(client: Client) -> list[str]:
    """A client's requests, without the listings' parameters."""
    asked = [call.partition("?")[0] for call in client.calls]
    client.calls.clear()
    return asked


def without_hint(asked: list[str]) -> list[str]:
    """The requests but the one for the hint, which an opening makes beside the listing and gives up
    if the listing is answered first: then the server may not receive it."""
    hints = [call for call in asked if call.endswith("_last_checkpoint")]
    assert len(hints) <= 1
    return [call for call in asked if call not in hints]


def test_a_second_process_asks_for_the_hint_and_the_listing(s3: S3) -> None:
    cold, options = s3.client()
    table = DeltaTable(s3.path, storage_options=options)
    assert len(table.files("x >= 100000")) == 7
    assert len(requests(cold)) > 3
    warm, options = s3.client()
    again = DeltaTable(s3.path, storage_options=options)
    assert again.files("x >= 100000") == table.files("x >= 100000")
    assert without_hint(requests(warm)) == [f"GET /{s3.bucket}"]


def test_data_files_are_kept_where_that_is_asked_for(s3: S3) -> None:
    def read(options: dict[str, str]) -> int:
        return DeltaTable(s3.path, storage_options=options).to_pyarrow_table().num_rows

    without, options = s3.client()
    assert [read(options), read(options)] == [12 * ROWS] * 2
    asked = requests(without)
    assert not any(call.startswith("HEAD") for call in asked)
    assert sum(".parquet" in call and "_delta_log" not in call for call in asked) >= 2 * 12
    client, options = s3.client(cache_data=True)
    assert read(options) == 12 * ROWS
    requests(client)
    assert read(options) == 12 * ROWS
    asked = requests(client)
    assert sorted({call.split()[0] for call in asked if "part-" in call or ".parquet" in call}) == ["HEAD"]
    assert len(without_hint(asked)) == 1 + 12


def test_a_table_made_anew_is_seen_with_its_own_rows(s3: S3) -> None:
    def most(options: dict[str, str]) -> int:
        rows = DeltaTable(s3.path, storage_options=options).to_pyarrow_table(columns=["x"])
        return max(rows["x"].to_pylist())

    _, options = s3.client(cache_data=True)
    assert most(options) == 12 * ROWS - 1
    s3.server.buckets[s3.bucket].clear()
    s3.grow(1_000_000)
    assert most(options) == 1_000_000 + 12 * ROWS - 1


def test_the_environment_switches_it_on_and_options_switch_it_off(s3: S3) -> None:
    script = """
import json, sys
from deltaplane import DeltaTable
print(DeltaTable(sys.argv[1], storage_options=json.loads(sys.argv[2])).version())
"""
    import json

    def run(options: dict[str, str]) -> int:
        environment = os.environ | {"DELTAPLANE_CACHE_DIR": str(s3.cache)}
        command = [sys.executable, "-c", script, s3.path, json.dumps(options)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
        assert (done.stdout.strip(), done.returncode) == ("11", 0), done.stderr
        return cache_info(s3.cache).entries

    _, options = s3.server.client()
    assert run({**options, "cache_dir": ""}) == 0
    assert run(options) > 0


def test_what_is_there_is_told_and_thrown_away(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    # The cache in memory would answer the last open without files.
    _, options = s3.client(cache_memory_bytes=0)
    DeltaTable(s3.path, storage_options=options)
    stranger = s3.cache / "notes.txt"
    stranger.write_text("not the cache's")
    info = cache_info(s3.cache)
    assert info.path == s3.cache
    assert info.tables == {s3.path: CachedTable(info.entries, info.size_bytes)}
    assert info.oldest_use_ms is not None
    on_disk = [path for path in s3.cache.rglob("*") if path.is_file() and path != stranger]
    assert (info.entries, info.drafts) == (len(on_disk), 0)
    assert info.size_bytes >= sum(path.stat().st_size for path in on_disk)
    monkeypatch.setenv("DELTAPLANE_CACHE_DIR", str(s3.cache))
    assert clear_cache() == info.size_bytes
    assert cache_info().entries == 0
    assert [path for path in s3.cache.rglob("*") if path.is_file()] == [stranger]
    # Processes that use the cache continue.
    assert DeltaTable(s3.path, storage_options=options).version() == 11
    assert cache_info().entries > 0
    monkeypatch.delenv("DELTAPLANE_CACHE_DIR")
    with pytest.raises(InvalidArgumentError, match="DELTAPLANE_CACHE_DIR"):
        cache_info()


def test_a_mistyped_or_senseless_option_is_refused(s3: S3) -> None:
    for key, value, said in [
        ("cache_bites", "1GiB", "did you mean cache_bytes"),
        ("cache_bytes", "lots", "1GiB"),
        ("cache_bytes", "1000", "at least"),
        ("cache_data", "some", "neither true nor false"),
    ]:
        with pytest.raises(InvalidArgumentError, match=said):
            DeltaTable(s3.path, storage_options={**s3.plain, key: value})


class Committing(LogStore):
    """A commit service over the table's bucket."""

    def __init__(self, base: str, options: dict[str, str]) -> None:
        self.base, self.base_options = base, options


def test_a_store_in_python_is_kept_once_and_not_its_base_too(s3: S3) -> None:
    register_log_store("cachedservice", lambda _, options: Committing(s3.path, options))
    client, options = s3.client()
    counts = []
    for _ in range(2):
        # The base's store refuses unknown options.
        table = DeltaTable("cachedservice://any/table", storage_options=options)
        assert len(table.files()) == 12
        counts.append(len(without_hint(requests(client))))
    assert counts[1] == 1 < counts[0]
    assert list(cache_info(s3.cache).tables) == ["cachedservice://any/table"]
