"""Rounds and requests of operations on an object store, each within a budget.

A round is a request that begins after another one ended: with 10 to 100 ms for each request, the
rounds of an operation are its time. A change that adds a round fails here.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deltaplane import (
    Catalog,
    CommitProperties,
    DeltaTable,
    GroupWriter,
    Transaction,
    _native,
    transaction,
    write_deltalake,
)
from deltaplane.exceptions import ConstraintViolationError, MetadataChangedException
from deltaplane.io import records
from deltaplane.table.follow import limits, tail_request
from stores.forwarding import Answer, Request, forwarding
from stores.servers import StoreServer, versitygw

# An answer waits so long, and then until no thread of the client runs: requests that don't wait for
# each other have begun by then, however busy the machine is.
DELAY_SECONDS = 0.5
# A client that never comes to rest is answered after this time, so that no test hangs.
LONGEST_DELAY_SECONDS = 10.0


def threads_run(others: Set[int]) -> bool:
    """Whether a thread of this process, other than those with these native identifiers, runs, waits
    for a processor or for a disk."""
    for task in Path("/proc/self/task").iterdir():
        if int(task.name) in others:
            continue
        try:
            state = (task / "stat").read_text().rpartition(") ")[2][0]
        except (FileNotFoundError, ProcessLookupError):  # The thread ended.
            continue
        if state in "RD":
            return True
    return False


@dataclass
class Requests:
    """The requests of one operation: method and the times of begin and end, and as text; and the
    connections that it opened."""

    spans: list[tuple[str, float, float]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    # Which operation is recorded, if one is.
    recorded: object | None = None
    # The proxy serves each connection in a thread of its own.
    connections: set[threading.Thread] = field(default_factory=set)
    looking: threading.Lock = field(default_factory=threading.Lock)
    new_connections: int = 0

    def serve(self, request: Request, ask: Callable[[], Answer]) -> Answer:
        begin = time.monotonic()
        with self.lock:
            self.new_connections += threading.current_thread() not in self.connections
            self.connections.add(threading.current_thread())
        operation = self.recorded
        if operation is not None:
            self.wait_for_rest()
        answer = ask()
        # The client leaves some requests behind, whose answers come while the next operation runs.
        if operation is not None and operation is self.recorded:
            kind = "LIST" if request.command == "GET" and "list-type" in request.path else request.command
            end = time.monotonic()
            with self.lock:
                self.lines.append(f"{begin:.2f} {end:.2f} {request.command} {request.path} {answer.status}")
                # The client repeats what the server failed to do: no request of the operation.
                if answer.status < 500:
                    self.spans.append((kind, begin, end))
        return answer

    def wait_for_rest(self) -> None:
        """Waits for some time, then until the client's threads rest."""
        end = time.monotonic() + LONGEST_DELAY_SECONDS
        time.sleep(DELAY_SECONDS)
        resting = 0
        # One look alone may fall between two threads that wake each other.
        while resting < 3 and time.monotonic() < end:
            # One thread looks for all that wait: hundreds of them would be what runs.
            with self.looking:
                serving = {thread.native_id or 0 for thread in self.connections.copy()}
                resting = 0 if threads_run(serving) else resting + 1
            time.sleep(0.01)

    @property
    def rounds(self) -> int:
        """The longest chain of requests that each begin after the one before ended."""
        count, until = 0, -1.0
        for _, begin, end in sorted(self.spans, key=lambda span: span[2]):
            if begin >= until:
                count, until = count + 1, end
        return count

    @contextmanager
    def of(self) -> Iterator[Requests]:
        """Records the requests of a block, and no others."""
        self.spans, self.lines, self.new_connections, self.recorded = [], [], 0, object()
        try:
            yield self
        finally:
            self.recorded = None


@dataclass(frozen=True)
class Remote:
    """A bucket behind a proxy that records requests."""

    server: StoreServer
    options: dict[str, str]
    requests: Requests

    def upload(self, local: str, without: str = "never") -> str:
        """Copies a local table to a new place; leaves out files with this ending."""
        import boto3

        # The checksums of its commits are put after them.
        _native.finish_background(60)
        options = self.server.options
        client = boto3.client(
            "s3",
            endpoint_url=options["AWS_ENDPOINT_URL"],
            region_name="us-east-1",
            aws_access_key_id=options["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=options["AWS_SECRET_ACCESS_KEY"],
        )
        place = f"{Path(local).name}-{time.monotonic_ns()}"
        for file in sorted(Path(local).rglob("*")):
            if file.is_file() and not file.name.endswith(without):
                client.put_object(
                    Bucket="rounds", Key=f"{place}/{file.relative_to(local).as_posix()}", Body=file.read_bytes()
                )
        return f"s3://rounds/{place}"

    def open(self, location: str) -> DeltaTable:
        return DeltaTable(location, storage_options=self.options)


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remote]:
    requests = Requests()
    with versitygw(tmp_path_factory.mktemp("versitygw")) as server:
        server.make_bucket("rounds")
        with forwarding(server.options["AWS_ENDPOINT_URL"], requests.serve) as endpoint:
            yield Remote(server, {**server.options, "AWS_ENDPOINT_URL": endpoint}, requests)


def rows(first: int, count: int) -> pa.Table:
    generator = np.random.default_rng(first)
    return pa.table(
        {
            "id": pa.array(range(first, first + count), pa.int64()),
            "x": pa.array(generator.random(count)),
            "s": pa.array([f"{value:032x}" for value in generator.integers(0, 1 << 62, count)]),
        }
    )


@pytest.fixture(scope="module")
def ten(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Ten commits of one file each, without a checkpoint."""
    path = str(tmp_path_factory.mktemp("ten") / "t")
    for number in range(10):
        first = {"configuration": {"delta.enableDeletionVectors": "true"}} if number == 0 else {}
        write_deltalake(path, rows(number * 2000, 2000), mode="append", **first)  # type: ignore[call-overload]
    return path


@pytest.fixture(scope="module")
def hundred(tmp_path_factory: pytest.TempPathFactory) -> str:
    """105 commits of one small file each, with a checkpoint of the hundredth."""
    path = str(tmp_path_factory.mktemp("hundred") / "t")
    for number in range(105):
        first = {"configuration": {"delta.checkpointInterval": "100"}} if number == 0 else {}
        write_deltalake(path, rows(number * 100, 100), mode="append", **first)  # type: ignore[call-overload]
    return path


def measured(remote: Remote, operation: Callable[[], Any]) -> tuple[int, int]:
    """Rounds and requests of an operation."""
    _native.finish_background(60)
    with remote.requests.of() as requests:
        operation()
        # A commit's checksum is put, and its tag read, after the operation.
        _native.finish_background(60)
    return requests.rounds, len(requests.spans)


def assert_within(remote: Remote, rounds: int, requests: int, operation: Callable[[], Any]) -> None:
    """Fails if an operation takes more rounds or more requests."""
    actual = measured(remote, operation)
    within = actual[0] <= rounds and actual[1] <= requests
    assert within, "\n".join([str(actual), *remote.requests.lines])


@pytest.mark.parametrize(
    ("table", "without", "requests"),
    [("ten", "never", 12), ("hundred", "never", 7), ("hundred", ".crc", 7)],
)
def test_opening(remote: Remote, request: pytest.FixtureRequest, table: str, without: str, requests: int) -> None:
    location = remote.upload(request.getfixturevalue(table), without)
    # The hint beside the listing, then the commits beside the checksum or the checkpoint.
    assert_within(remote, 2, requests, lambda: remote.open(location))
    # The same files again, which are in memory.
    assert_within(remote, 1, 2, lambda: remote.open(location))


def test_refreshing(remote: Remote, ten: str) -> None:
    location = remote.upload(ten)
    table = remote.open(location)
    # The listing, and the next commit at the same time: whether there is one or not.
    assert measured(remote, table.update_incremental) == (1, 2)
    write_deltalake(location, rows(50_000, 10), mode="append", storage_options=remote.options)
    assert measured(remote, table.update_incremental) == (1, 2)
    assert table.version() == 10


@pytest.mark.parametrize(("table", "rounds"), [("ten", 5), ("hundred", 8)])
def test_reading(remote: Remote, request: pytest.FixtureRequest, table: str, rounds: int) -> None:
    location = remote.upload(request.getfixturevalue(table))

    def num_rows(opened: DeltaTable) -> int:
        reader = opened.to_reader(columns=["x"], predicate="id >= 310 and id < 320")
        return int(reader.read_all().num_rows)

    opened = remote.open(location)
    for _ in range(2):
        assert num_rows(opened) == 10
    assert_within(remote, 2, 2, lambda: num_rows(opened))
    # Of 105 files 64 are asked for at once, each of the others when one of these ended.
    assert_within(remote, rounds, 108, lambda: remote.open(location).to_reader().read_all())


def test_scanning_many_small_files(remote: Remote, hundred: str) -> None:
    opened = remote.open(remote.upload(hundred))
    # One request for each file, and one for the checkpoint.
    assert_within(remote, 6, 106, lambda: opened.to_reader().read_all())


@pytest.mark.parametrize(("table", "rounds"), [("ten", 4), ("hundred", 4)])
def test_looking_a_key_up_in_an_index(
    remote: Remote, request: pytest.FixtureRequest, tmp_path: Path, table: str, rounds: int
) -> None:
    local = tmp_path / f"indexed-{table}"
    shutil.copytree(request.getfixturevalue(table), local)
    DeltaTable(local).index.create(["s"])
    wanted = DeltaTable(local).scan(["s"]).to_arrow()["s"][777].as_py()
    location = remote.upload(str(local))

    def look_up(opened: DeltaTable) -> int:
        return opened.scan(["id"], f"s = '{wanted}'").to_arrow().num_rows

    opened = remote.open(location)
    # The copy of the manifest, the segment, then the file's footer and its pages.
    assert_within(remote, rounds, 12, lambda: look_up(opened))
    assert look_up(opened) == 1
    assert_within(remote, 2, 3, lambda: look_up(opened))
    # The file is read again, and nothing of the index.
    fresh = other_handle(remote, location)
    assert fresh.explain(f"s = '{wanted}'").selected == 1


@pytest.mark.parametrize(
    ("table", "rounds", "requests"),
    # The tenth commit writes a checkpoint: the file, its footer, then the hint beside clean-up.
    [("ten", 8, 21), ("hundred", 5, 11)],
)
def test_appending(remote: Remote, request: pytest.FixtureRequest, table: str, rounds: int, requests: int) -> None:
    local, options = request.getfixturevalue(table), remote.options
    opened = remote.open(remote.upload(local))
    write_deltalake(opened, rows_of := rows(60_000, 10), mode="append")
    # The listing beside the data file, the commit, then its tag beside the checksum.
    for _ in range(3):
        assert_within(remote, 3, 5, lambda: write_deltalake(opened, rows_of, mode="append"))
    # Rows that can be read only once are written when the listing has shown the newest version.
    assert_within(remote, 4, 5, lambda: write_deltalake(opened, rows_of.to_reader(), mode="append"))
    fresh = remote.upload(local)
    assert_within(
        remote, rounds, requests, lambda: write_deltalake(fresh, rows_of, mode="append", storage_options=options)
    )


def test_an_append_returns_before_its_checksum_is_stored(remote: Remote, hundred: str) -> None:
    opened = remote.open(remote.upload(hundred))
    write_deltalake(opened, rows(60_000, 10), mode="append")
    _native.finish_background(60)
    with remote.requests.of() as requests:
        write_deltalake(opened, rows(60_000, 10), mode="append")
        at_return = sorted(kind for kind, _, _ in requests.spans)
        _native.finish_background(60)
    assert at_return == ["LIST", "PUT", "PUT"]
    assert sorted(kind for kind, _, _ in requests.spans) == ["HEAD", "LIST", "PUT", "PUT", "PUT"]
    fresh = other_handle(remote, opened.location)
    assert (fresh.version(), fresh.count()) == (106, 105 * 100 + 20)


def shop(remote: Remote, tmp_path: Path, seconds: str) -> tuple[Catalog, list[str]]:
    """A catalog with two tables in the store, and their names. Publications are reported to it
    within `seconds`."""
    options = {**remote.options, "catalog_publication_report": seconds}
    catalog = Catalog(f"sqlite:///{tmp_path}/lake.db", storage_options=options)
    catalog.create_catalog("main", storage_root=f"s3://rounds/{tmp_path.name}")
    catalog.create_schema("main.shop")
    names = ["main.shop.a", "main.shop.b"]
    for name in names:
        catalog.create_table(name, rows(0, 1).schema)
    return catalog, names


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(("seconds", "is_published"), [("0", True), ("600", False)])
def test_a_commit_waits_for_its_publication_if_it_is_to_be_reported_at_once(
    remote: Remote, tmp_path: Path, seconds: str, is_published: bool, together: bool
) -> None:
    catalog, names = shop(remote, tmp_path, seconds)

    def write() -> None:
        if together:
            with transaction(catalog, names) as tx:
                for name in names:
                    tx.write(name, rows(0, 10))
        else:
            write_deltalake(
                catalog.location(names[0]), rows(0, 10), mode="append", storage_options=catalog.storage_options
            )

    write()
    _native.finish_background(60)
    with remote.requests.of() as requests:
        write()
        published = [
            line for line in requests.lines if " PUT " in line and "/_delta_log/00000000000000000002.json" in line
        ]
        assert len(published) == (1 + together if is_published else 0)
    _native.finish_background(60)


def test_a_transaction_over_tables_of_a_catalog(remote: Remote, tmp_path: Path) -> None:
    # Publications aren't reported to the catalog within this test, so it doesn't know them.
    catalog, names = shop(remote, tmp_path, "600")

    def both(first: int) -> None:
        with transaction(catalog, names) as tx:
            for name in names:
                tx.write(name, rows(first, 10))

    both(0)
    # A data file after the other; after the catalog's decision, each table's commit beside its
    # checksum.
    assert_within(remote, 3, 6, lambda: both(10))
    # What the one before published isn't published again.
    assert_within(remote, 6, 12, lambda: (both(20), both(30)))
    assert [catalog.table(name).count() for name in names] == [40, 40]


def other_handle(remote: Remote, location: str) -> DeltaTable:
    """A handle that shares no snapshot with those of the same process: its options differ."""
    return DeltaTable(location, storage_options={**remote.options, "timeout": "29s"})


def test_an_append_that_was_planned_ahead_obeys_a_change_of_another_writer(remote: Remote, ten: str) -> None:
    """The files of the outdated plan are deleted, and the rows are written for the new one."""
    location = remote.upload(ten)
    opened = remote.open(location)
    write_deltalake(opened, rows(60_000, 10), mode="append")
    other = other_handle(remote, location)
    other.alter.add_constraint({"small": "id < 100000"})
    with pytest.raises(ConstraintViolationError):
        write_deltalake(opened, rows(100_000, 10), mode="append")
    write_deltalake(opened, rows(70_000, 10), mode="append")
    assert (opened.version(), opened.count()) == (12, 10 * 2000 + 20)
    _native.finish_background(60)
    stored = _native.RawStore.open(location, remote.options).list_all("")
    assert sum(name.endswith(".zstd.parquet") for name, *_ in stored) == 12


def test_an_append_to_a_table_that_was_made_again_is_planned_on_the_new_one(remote: Remote, ten: str) -> None:
    location = remote.upload(ten)
    opened = remote.open(location)
    write_deltalake(opened, rows(60_000, 10), mode="append")
    _native.finish_background(60)
    store = _native.RawStore.open(location, remote.options)
    store.delete_all([name for name, *_ in store.list_all("")])
    write_deltalake(location, pa.table({"id": [1]}), storage_options={**remote.options, "timeout": "29s"})
    write_deltalake(opened, pa.table({"id": [2]}), mode="append")
    fresh = other_handle(remote, location)
    assert (fresh.version(), fresh.count()) == (1, 2)


def test_appending_by_a_group_writer(remote: Remote, hundred: str) -> None:
    location = remote.upload(hundred)
    with GroupWriter(location, storage_options=remote.options) as writer:
        # Applications' versions are in the checkpoint, which is read once.
        writer.append(rows(60_000, 10), ("a", 0))
        numbers = iter(range(1, 4))
        # The listing beside the data file, the commit, then its tag beside the checksum.
        for _ in range(3):
            assert_within(remote, 3, 5, lambda: writer.append(rows(70_000, 10), ("a", next(numbers))))
    assert remote.open(location).count() == 105 * 100 + 40


def test_a_group_that_asked_for_the_newest_version_early_obeys_other_writers(remote: Remote, ten: str) -> None:
    """Another writer's commits after the listing count: its application's version, its
    constraint."""
    location = remote.upload(ten)
    other = other_handle(remote, location)
    meanwhile: list[Callable[[], object]] = []

    def data(first: int) -> Iterator[pa.RecordBatch]:
        yield from rows(first, 10).to_batches()
        # The listing began before the first batch was asked for; it ends before this commit.
        time.sleep(1)
        meanwhile.pop()()

    def stream(first: int) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(rows(0, 1).schema, data(first))

    def loads_for_the_application() -> None:
        properties = CommitProperties(app_transactions=[Transaction("a", 5)])
        write_deltalake(other, rows(80_000, 1), mode="append", commit_properties=properties)

    with GroupWriter(location, storage_options=remote.options) as writer:
        writer.append(rows(60_000, 10))
        meanwhile.append(loads_for_the_application)
        assert writer.append(stream(70_000), ("a", 5)).skipped == "txn"
        assert writer.append(rows(70_000, 10), ("a", 6)).version == 12
        meanwhile.append(lambda: other.alter.add_constraint({"small": "id < 100000"}))
        with pytest.raises(MetadataChangedException):
            writer.append(stream(100_000))
        with pytest.raises(ConstraintViolationError):
            writer.append(rows(100_000, 10))
        assert writer.append(rows(90_000, 10)).version == 14
    assert remote.open(location).count() == 10 * 2000 + 10 + 1 + 10 + 10


def test_an_idle_stream_asks_for_the_next_commit_alone(remote: Remote, ten: str) -> None:
    location = remote.upload(ten)
    tail = _native.Tail.open(location, remote.options, tail_request())
    offset = tail.start(records.TailStart(latest=True))
    ends: list[str] = []
    with remote.requests.of() as requests:
        ends.append(tail.end(offset, limits()))
    assert (ends, [kind for kind, _, _ in requests.spans]) == ([offset], ["GET"])
    for number in range(2):
        write_deltalake(location, rows(50_000 + number, 1), mode="append", storage_options=remote.options)
    # The next commit, a listing, the commit after it, then a listing of the commits of the batch.
    assert_within(remote, 5, 5, lambda: ends.append(tail.end(offset, limits())))
    assert tail.rows(offset, ends[-1]).num_files == 2


def test_an_own_commit_is_not_read_again(remote: Remote, hundred: str) -> None:
    """A handle moves to the version that it committed without a request, and the next write finds a
    commit of another writer in between."""
    location = remote.upload(hundred)
    opened = remote.open(location)
    other = other_handle(remote, location)
    write_deltalake(opened, rows(60_000, 10), mode="append")
    assert measured(remote, lambda: opened.move_to_own_commit(105)) == (0, 0)
    other.update_incremental()
    other.delete("id = 60001")
    assert (opened.version(), other.version()) == (105, 106)
    write_deltalake(opened, rows(70_000, 10), mode="append")
    assert opened.version() == 107
    assert opened.to_reader(columns=["id"]).read_all().num_rows == 105 * 100 + 10 - 1 + 10


def test_deleting_and_merging(remote: Remote, hundred: str) -> None:
    opened = remote.open(remote.upload(hundred))
    # The checkpoint, the file's rows twice, the new file, the commit, its tag beside the checksum.
    assert_within(remote, 6, 7, lambda: opened.delete("id = 315"))
    merged = remote.open(remote.upload(hundred))

    def merge() -> None:
        merger = merged.merge(rows(310, 5), "t.id = s.id", source_alias="s", target_alias="t")
        merger.when_matched_update_all().when_not_matched_insert_all().execute()

    assert_within(remote, 6, 7, merge)
    assert (opened.version(), merged.version()) == (105, 105)


@pytest.mark.parametrize(
    ("table", "files", "rounds", "requests"),
    # The files, which are read once, the new file, the commit, its tag beside the checksum. The
    # tenth commit writes a checkpoint.
    [("ten", 10, 8, 20), ("hundred", 105, 12, 111)],
)
def test_compacting(
    remote: Remote, request: pytest.FixtureRequest, table: str, files: int, rounds: int, requests: int
) -> None:
    opened = remote.open(remote.upload(request.getfixturevalue(table)))
    removed: list[int] = []
    assert_within(remote, rounds, requests, lambda: removed.append(opened.optimize.compact()["numFilesRemoved"]))
    assert removed == [files]


@pytest.mark.parametrize("table", ["ten", "hundred"])
def test_history_and_vacuum(remote: Remote, request: pytest.FixtureRequest, table: str) -> None:
    location = remote.upload(request.getfixturevalue(table))
    # The hint beside a listing, the commits, then another listing beside commits before the
    # checkpoint.
    assert_within(remote, 3, 15, lambda: remote.open(location).history(10))
    assert_within(remote, 2, 9, lambda: remote.open(location).history(10))
    assert_within(remote, 2, 60, lambda: remote.open(location).history(60))
    opened = remote.open(location)
    # The listing of the directory beside that of the log, whose files are in memory.
    assert_within(remote, 2, 6, lambda: opened.vacuum(dry_run=True))


def test_a_history_is_what_the_log_lists(remote: Remote, ten: str) -> None:
    """Commits that are read before they are listed, or were read by opening the table, count only
    if the listing shows them unchanged."""
    location = remote.upload(ten)
    opened = remote.open(location)
    known = opened.history()
    assert [entry["version"] for entry in known] == list(range(9, -1, -1))
    opened.create_checkpoint()
    write_deltalake(opened, rows(60_000, 10), mode="append")
    fresh = other_handle(remote, location)
    assert [entry["version"] for entry in fresh.history(4)] == [10, 9, 8, 7]
    assert fresh.history()[1:] == known == DeltaTable.history_of(location, None, remote.options)[1:]
    store = _native.RawStore.open(location, remote.options)
    store.delete_all([f"_delta_log/{version:020}.json" for version in (0, 1)])
    assert [entry["version"] for entry in fresh.history()] == list(range(10, 1, -1))
    changed = store.read("_delta_log/00000000000000000010.json").replace(b'"WRITE"', b'"write"')
    store.put("_delta_log/00000000000000000010.json", changed)
    assert [entry["operation"] for entry in fresh.history(2)] == ["write", "WRITE"]


def test_a_second_table_opens_no_connection(remote: Remote, ten: str) -> None:
    first, second = remote.upload(ten), remote.upload(ten)
    remote.open(first)
    with remote.requests.of() as requests:
        remote.open(second)
    assert requests.new_connections == 0


def test_writing_a_checkpoint(remote: Remote, hundred: str) -> None:
    opened = remote.open(remote.upload(hundred))
    # The old checkpoint, a look for one of this version, the file, its footer, the hint.
    assert_within(remote, 5, 5, opened.create_checkpoint)
    assert remote.open(opened.location).to_reader(columns=["id"]).read_all().num_rows == 105 * 100
