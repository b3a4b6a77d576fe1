"""A store that fails for a while costs no row: reads see all rows, writes are committed once, and
what stays open is an error that says so. Each case has a real server behind a proxy that fails."""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaplane import DeltaTable, GroupWriter, _native, write_deltalake
from deltaplane._native import RawStore
from deltaplane.copying import copy_into
from deltaplane.exceptions import DeltaError, InvalidArgumentError, StoreUnavailableError, TableNotFoundError
from stores.forwarding import Answer, Request, forwarding
from stores.servers import StoreServer, versitygw

COMMIT, DATA, LISTING = r"_delta_log/\d{20}\.json$", r"\.parquet$", r"list-type=2"
# Longest time between a commit's PUT and the command's end while the store fails: its limit of 5 s,
# a pause between two requests, and a busy machine's delays.
AFTER_COMMIT_SECONDS = 12
PART = r"\?part$"
Fail = Callable[[Callable[[], Answer]], Answer | None]


def refused(status: int, code: str) -> Fail:
    """An error answer; the request isn't passed on."""
    body = f"<Error><Code>{code}</Code><Message>by the test</Message></Error>".encode()
    return lambda ask: Answer(status, [], body)


def stored_and_failed(ask: Callable[[], Answer]) -> Answer | None:
    """The request is carried out, and its answer is a failure."""
    ask()
    return Answer(500, [], b"<Error><Code>InternalError</Code></Error>")


def stored_and_dropped(ask: Callable[[], Answer]) -> Answer | None:
    ask()
    return None


def dropped(ask: Callable[[], Answer]) -> Answer | None:
    return None


def broken_off(ask: Callable[[], Answer]) -> Answer | None:
    """Half of the body, then the connection breaks."""
    answer = ask()
    return replace(answer, sent=len(answer.body) // 2)


def cut_to(bytes_sent: int) -> Fail:
    """A body that ends early, with a length that agrees."""

    def cut(ask: Callable[[], Answer]) -> Answer | None:
        answer = ask()
        return replace(answer, body=answer.body[:bytes_sent])

    return cut


def first_line(ask: Callable[[], Answer]) -> Answer | None:
    """A body that ends after its first line, so that each line is valid."""
    answer = ask()
    return replace(answer, body=answer.body[: answer.body.index(b"\n") + 1])


@dataclass
class Rule:
    """Requests of a method whose path and query match fail a number of times, or for some time
    after the first one."""

    method: str
    pattern: str
    fail: Fail
    times: int = 1
    seconds: float = 0.0
    hits: int = 0
    began: float | None = None

    def applies(self, request: Request) -> bool:
        if self.method not in ("*", request.command) or not re.search(self.pattern, request.path):
            return False
        if self.seconds:
            self.began = self.began or time.monotonic()
            return time.monotonic() - self.began < self.seconds
        return self.hits < self.times


@dataclass
class AfterCommit(Rule):
    """Passes the commit of a version on; later requests that match fail."""

    version: int = 3
    committed: float | None = None

    def applies(self, request: Request) -> bool:
        if self.committed is not None:
            return super().applies(request)
        if request.command == "PUT" and request.path.endswith(f"_delta_log/{self.version:020}.json"):
            self.committed = time.monotonic()
        return False

    def seconds_since_commit(self) -> float:
        assert self.committed is not None
        return time.monotonic() - self.committed


UNAVAILABLE = refused(503, "SlowDown")


@dataclass
class Faults:
    """The rule of the current test."""

    rule: Rule | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def serve(self, request: Request, ask: Callable[[], Answer]) -> Answer | None:
        with self.lock:
            rule = self.rule
            hit = rule is not None and rule.applies(replace_path(request))
            if hit and rule is not None:
                rule.hits += 1
        return rule.fail(ask) if hit and rule is not None else ask()


def replace_path(request: Request) -> Request:
    """The request with its path alone, with its query if it is a listing, and marked if it puts a
    part of a large object."""
    path, _, query = request.path.partition("?")
    part = "?part" if "partNumber=" in query else ""
    return replace(request, path=query if "list-type" in query else path + part)


@dataclass(frozen=True)
class Remote:
    server: StoreServer
    options: dict[str, str]
    faults: Faults


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remote]:
    faults = Faults()
    with versitygw(tmp_path_factory.mktemp("versitygw")) as server:
        server.make_bucket("faults")
        with forwarding(server.options["AWS_ENDPOINT_URL"], faults.serve) as endpoint:
            options = {**server.options, "AWS_ENDPOINT_URL": endpoint, "max_backoff": "500ms"}
            yield Remote(server, options, faults)


def rows(first: int, count: int = 100) -> pa.Table:
    return pa.table({"id": pa.array(range(first, first + count), pa.int64())})


@pytest.fixture
def table(remote: Remote) -> str:
    """A table of three commits with 100 rows each."""
    remote.faults.rule = None
    location = f"s3://faults/t{time.monotonic_ns()}"
    for commit in range(3):
        write_deltalake(location, rows(commit * 100), mode="append", storage_options=remote.server.options)
    # The commits' checksums are put after them.
    _native.finish_background(60)
    return location


def ids(location: str, options: dict[str, str]) -> list[int]:
    rows = DeltaTable(location, storage_options=options).to_pyarrow_table()
    return sorted(int(value.as_py()) for value in rows["id"])


READS = {
    "listing broken off": Rule("GET", LISTING, broken_off, 2),
    "listing refused under status 200": Rule("GET", LISTING, refused(200, "InternalError")),
    "listing throttled": Rule("GET", LISTING, refused(503, "SlowDown"), 12),
    "everything throttled for 4 s": Rule("*", "", refused(503, "SlowDown"), seconds=4),
    "everything dropped for 2 s": Rule("*", "", dropped, seconds=2),
    "too many requests": Rule("GET", DATA, refused(429, "TooManyRequests"), 12),
    "data file too slow": Rule("GET", DATA, refused(400, "RequestTimeout")),
    "clock differs": Rule("GET", DATA, refused(403, "RequestTimeTooSkewed")),
    "commit cut at a line": Rule("GET", r"0002\.json$", first_line, 2),
    "commit cut within a line": Rule("GET", r"0002\.json$", cut_to(100), 2),
    "commit empty": Rule("GET", r"0002\.json$", cut_to(0), 2),
    "commit broken off": Rule("GET", COMMIT, broken_off, 2),
    "data file cut": Rule("GET", DATA, cut_to(50), 2),
    "data file broken off": Rule("GET", DATA, broken_off, 2),
    "data file missing once": Rule("GET", DATA, refused(404, "NoSuchKey")),
}


@pytest.mark.parametrize("fault", READS)
def test_reads_see_every_row(remote: Remote, table: str, fault: str) -> None:
    rule = remote.faults.rule = replace(READS[fault])
    # No bytes of another read in memory.
    options = {**remote.options, "cache_memory_bytes": "0"}
    assert ids(table, options) == list(range(300))
    assert rule.hits, "the fault hit nothing: the test shows nothing"


APPENDS = {
    "commit stored, then a failure": Rule("PUT", COMMIT, stored_and_failed),
    "commit stored, then no answer": Rule("PUT", COMMIT, stored_and_dropped),
    "commit lost": Rule("PUT", COMMIT, dropped),
    "commit too slow": Rule("PUT", COMMIT, refused(400, "RequestTimeout"), 2),
    "commit throttled": Rule("PUT", COMMIT, refused(503, "SlowDown"), 12),
    "commit in conflict": Rule("PUT", COMMIT, refused(409, "ConditionalRequestConflict"), 2),
    "commit said to exist": Rule("PUT", COMMIT, refused(412, "PreconditionFailed")),
    "data file too slow": Rule("PUT", DATA, refused(400, "RequestTimeout"), 2),
    "data file throttled": Rule("PUT", DATA, refused(503, "SlowDown"), 12),
    "data file lost": Rule("PUT", DATA, dropped),
    "checksum of the base cut": Rule("GET", r"\.crc$", cut_to(30), 2),
    "checksum fails": Rule("PUT", r"\.crc$", refused(403, "AccessDenied"), 99),
    "own commit can't be looked at": Rule("HEAD", COMMIT, refused(403, "AccessDenied"), 99),
    "everything throttled for 4 s": Rule("*", "", refused(503, "SlowDown"), seconds=4),
}


@pytest.mark.parametrize("fault", APPENDS)
def test_appends_are_committed_once(remote: Remote, table: str, fault: str) -> None:
    rule = remote.faults.rule = replace(APPENDS[fault])
    assert write_deltalake(table, rows(300), mode="append", storage_options=remote.options).version == 3
    # The commit's checksum is put, and its tag read, after the append.
    _native.finish_background(60)
    assert rule.hits, "the fault hit nothing: the test shows nothing"
    remote.faults.rule = None
    assert ids(table, remote.server.options) == list(range(400))
    # The next writer builds on it.
    assert write_deltalake(table, rows(400), mode="append", storage_options=remote.options).version == 4


def test_a_refused_head_is_repeated_although_it_has_no_body(remote: Remote, table: str) -> None:
    store = RawStore.open(table, remote.options)
    key = "_delta_log/00000000000000000002.json"
    rule = remote.faults.rule = Rule("HEAD", COMMIT, refused(400, "RequestTimeout"), 2)
    assert store.head(key)[0] == key
    assert rule.hits == 2
    remote.faults.rule = Rule("HEAD", COMMIT, refused(400, "InvalidRequest"), 99)
    with pytest.raises(InvalidArgumentError, match="malformed"):
        store.head(key)


def test_a_cut_that_stays_is_refused(remote: Remote, table: str) -> None:
    options = {**remote.options, "cache_memory_bytes": "0"}
    for pattern, fail in ((r"0002\.json$", first_line), (DATA, cut_to(50))):
        remote.faults.rule = Rule("GET", pattern, fail, 99)
        with pytest.raises(DeltaError, match="sent"):
            ids(table, options)


def test_an_open_outcome_names_the_transaction(remote: Remote, table: str) -> None:
    remote.faults.rule = Rule("*", r"0003\.json$", refused(503, "SlowDown"), seconds=60)
    options = {**remote.options, "retry_timeout": "500ms"}
    with pytest.raises(StoreUnavailableError, match="transaction id") as raised:
        write_deltalake(table, rows(300), mode="append", storage_options=options)
    assert "try again" not in str(raised.value)
    remote.faults.rule = None
    assert ids(table, remote.server.options) == list(range(300))


@pytest.mark.parametrize("command", ["append", "delete", "alter"])
def test_a_commit_is_no_error_if_the_table_cannot_be_read_after_it(remote: Remote, table: str, command: str) -> None:
    opened = DeltaTable(table, storage_options={**remote.options, "retry_timeout": "300ms"})
    committed = threading.Event()

    def fail(ask: Callable[[], Answer]) -> Answer | None:
        committed.set()
        return ask()

    class AfterCommit(Rule):
        """Passes the commit on; every later request fails."""

        def applies(self, request: Request) -> bool:
            if committed.is_set():
                self.fail = refused(503, "SlowDown")
                return True
            return request.command == "PUT" and re.search(r"0003\.json$", request.path) is not None

    remote.faults.rule = AfterCommit("*", "", fail)
    if command == "append":
        assert write_deltalake(opened, rows(300), mode="append").version == 3
    elif command == "delete":
        assert opened.delete("id < 10")["num_deleted_rows"] == 10
    else:
        opened.alter.set_table_properties({"delta.appendOnly": "false"})
    remote.faults.rule = None
    assert DeltaTable(table, storage_options=remote.server.options).version() == 3
    opened.update_incremental()
    assert opened.version() == 3


def _append(table: DeltaTable) -> object:
    return write_deltalake(table, rows(300), mode="append")


def _append_to_location(table: DeltaTable) -> object:
    return write_deltalake(table.table_uri, rows(300), mode="append", storage_options=table._options)


def _merge(table: DeltaTable) -> object:
    merger = table.merge(rows(250), "t.id = s.id", source_alias="s", target_alias="t")
    return merger.when_matched_update_all().when_not_matched_insert_all().execute()


COMMANDS: dict[str, Callable[[DeltaTable], object]] = {
    "append": _append,
    "append to a location": _append_to_location,
    "delete": lambda table: table.delete("id < 10"),
    "merge": _merge,
    "optimize": lambda table: table.optimize.compact(),
    "alter": lambda table: table.alter.set_table_properties({"delta.appendOnly": "false"}),
}


@pytest.mark.parametrize("checkpoint", ["no checkpoint due", "checkpoint due"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_commit_returns_soon_if_the_store_fails_after_it(
    remote: Remote, table: str, command: str, checkpoint: str
) -> None:
    """With the default `retry_timeout` of a minute."""
    if checkpoint == "checkpoint due":
        opened = DeltaTable(table, storage_options=remote.server.options)
        opened.alter.set_table_properties({"delta.checkpointInterval": "4"})
        last = 4
    else:
        last = 3
    opened = DeltaTable(table, storage_options=remote.options)
    remote.faults.rule = rule = AfterCommit("*", "", UNAVAILABLE, times=10**9, version=last)
    COMMANDS[command](opened)
    seconds = rule.seconds_since_commit()
    remote.faults.rule = None
    assert seconds < AFTER_COMMIT_SECONDS, seconds
    assert DeltaTable(table, storage_options=remote.server.options).version() == last


def many_files(remote: Remote) -> DeltaTable:
    """A table of 60 files whose next commit is followed by compaction."""
    location = f"s3://faults/t{time.monotonic_ns()}"
    options = remote.server.options
    write_deltalake(
        location,
        rows(0, 1),
        storage_options=options,
        configuration={"delta.autoOptimize.autoCompact": "auto", "delta.checkpointInterval": "1000"},
    )
    with GroupWriter(location, storage_options=options, max_appends=59, max_delay_seconds=60) as writer:
        with ThreadPoolExecutor(59) as pool:
            done = list(pool.map(writer.append, [rows(number, 1) for number in range(1, 60)]))
    assert {result.version for result in done} == {1}
    return DeltaTable(location, storage_options=remote.options)


@pytest.mark.parametrize(
    ("command", "method", "pattern"),
    [
        ("append", "*", ""),
        ("append", "GET", DATA),
        ("append", "PUT", DATA),
        ("append", "PUT", COMMIT),
        ("merge", "*", ""),
        ("merge", "PUT", COMMIT),
    ],
)
def test_compaction_after_a_commit_ends_soon_if_the_store_fails(
    remote: Remote, command: str, method: str, pattern: str
) -> None:
    remote.faults.rule = None
    opened = many_files(remote)
    _native.finish_background(60)
    remote.faults.rule = rule = AfterCommit(method, pattern, UNAVAILABLE, times=10**9, version=2)
    if command == "append":
        assert write_deltalake(opened, rows(60, 1), mode="append").version == 2
    else:
        merger = opened.merge(rows(59, 2), "t.id = s.id", source_alias="s", target_alias="t")
        merger.when_matched_update_all().when_not_matched_insert_all().execute()
    seconds = rule.seconds_since_commit()
    assert rule.hits > 1
    remote.faults.rule = None
    assert seconds < AFTER_COMMIT_SECONDS, seconds
    assert ids(opened.table_uri, remote.server.options) == list(range(61))


def test_copy_into_returns_soon_if_the_store_fails_after_its_commit(remote: Remote, table: str, tmp_path: Path) -> None:
    pq.write_table(rows(300), tmp_path / "new.parquet")
    opened = DeltaTable(table, storage_options=remote.options)
    remote.faults.rule = rule = AfterCommit("*", "", UNAVAILABLE, times=10**9)
    assert copy_into(opened, str(tmp_path), "parquet").version == 3
    seconds = rule.seconds_since_commit()
    assert rule.hits > 1
    remote.faults.rule = None
    assert seconds < AFTER_COMMIT_SECONDS, seconds
    assert ids(table, remote.server.options) == list(range(400))
    assert copy_into(opened, str(tmp_path), "parquet").version is None


def test_a_commit_returns_soon_if_parts_of_its_checkpoint_fail(remote: Remote, tmp_path: Path) -> None:
    """A checkpoint of more than 8 MiB is put in parts, by tasks of the HTTP library."""
    local = tmp_path / "t"
    write_deltalake(local, rows(0), configuration={"delta.checkpointInterval": "2"})
    log = local / "_delta_log"
    first = [json.loads(line) for line in (log / f"{0:020}.json").read_text().splitlines()]
    add = next(line["add"] for line in first if "add" in line)
    drawn = random.Random(5)
    adds = [
        {"add": {**add, "path": f"{number}.parquet", "tags": {"text": drawn.randbytes(75_000).hex()}}}
        for number in range(400)
    ]
    location = f"s3://faults/t{time.monotonic_ns()}"
    store = RawStore.open(location, remote.server.options)
    info = next(line for line in first if "commitInfo" in line)
    second = [{"commitInfo": {**info["commitInfo"], "txnId": "second"}}, *adds]
    for file in local.rglob("*"):
        if file.is_file() and file.suffix != ".crc":
            store.put(file.relative_to(local).as_posix(), file.read_bytes())
    store.put("_delta_log/" + f"{1:020}.json", "\n".join(map(json.dumps, second)).encode())
    remote.faults.rule = rule = AfterCommit("PUT", PART, UNAVAILABLE, times=10**9, version=2)
    assert write_deltalake(location, rows(100), mode="append", storage_options=remote.options).version == 2
    seconds = rule.seconds_since_commit()
    assert rule.hits > 1
    remote.faults.rule = None
    # The checkpoint is sorted and encoded before its first part fails.
    assert seconds < AFTER_COMMIT_SECONDS + 3, seconds
    assert DeltaTable(location, storage_options=remote.server.options).version() == 2
    assert not [name for name, *_ in store.list_all("_delta_log") if ".checkpoint" in name]


def test_a_commit_returns_soon_if_the_store_is_silent_after_it(remote: Remote, table: str) -> None:
    opened = DeltaTable(table, storage_options=remote.options)
    release, committed = threading.Event(), threading.Event()

    class AfterCommit(Rule):
        def applies(self, request: Request) -> bool:
            return committed.is_set() or (request.command == "PUT" and request.path.endswith("0003.json"))

    def fail(ask: Callable[[], Answer]) -> Answer | None:
        if committed.is_set():
            release.wait(60)
            return None
        committed.set()
        return ask()

    remote.faults.rule = AfterCommit("*", "", fail)
    began = time.monotonic()
    try:
        assert write_deltalake(opened, rows(300), mode="append").version == 3
        assert time.monotonic() - began < AFTER_COMMIT_SECONDS
    finally:
        release.set()
        remote.faults.rule = None
    assert ids(table, remote.server.options) == list(range(400))


def test_a_missing_bucket_is_reported_before_rows_are_read(remote: Remote) -> None:
    remote.faults.rule = None
    read = []

    def batches() -> Iterator[pa.RecordBatch]:
        read.append(1)
        yield from rows(0).to_batches()

    data = pa.RecordBatchReader.from_batches(rows(0).schema, batches())
    with pytest.raises(TableNotFoundError, match="no-such-bucket"):
        write_deltalake("s3://no-such-bucket-here/t", data, storage_options=remote.options)
    assert not read


def test_virtual_hosted_requests_need_a_host_name(remote: Remote, table: str) -> None:
    options = {**remote.options, "aws_virtual_hosted_style_request": "true"}
    with pytest.raises(InvalidArgumentError, match=r"virtual_hosted.*IP address"):
        DeltaTable(table, storage_options=options)
