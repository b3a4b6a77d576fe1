"""Commits on S3 through a DynamoDB lock table: layout, races, recovery from every crash, foreign
writers."""

from __future__ import annotations

import os
import re
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import deltalake
import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import DeltaError, InvalidArgumentError, StoreDeniedError, StoreUnavailableError
from stores import proofs
from stores.dynamo_server import Cut, LockTable, proxy
from stores.numbers import ids, rows

if TYPE_CHECKING:
    from tests.conftest import S3Server

ROOT = Path(__file__).resolve().parents[2]
WRITERS, APPENDS = 4, 6
DAY_SECONDS = 86_400


def commit(version: int) -> str:
    return f"{version:020}.json"


def append(table: str, first: int, options: dict[str, str]) -> int | None:
    return write_deltalake(table, rows(first), mode="append", storage_options=options).version


def test_the_items_of_a_table_s_life(locks: LockTable) -> None:
    """Names, types and values as S3DynamoDBLogStore and delta-rs write them."""
    table, options = f"{locks.server.new_bucket()}/a b/t", locks.options
    for n in range(3):
        assert append(table, n, options) == n
    opened = DeltaTable(table, storage_options=options)
    opened.create_checkpoint()
    assert ids(opened) == [0, 1, 2]
    items = locks.items()
    assert [item["fileName"] for item in items] == [{"S": commit(v)} for v in range(3)]
    for item in items:
        assert set(item) == {"tablePath", "fileName", "tempPath", "complete", "expireTime"}
        assert item["tablePath"] == {"S": table}
        assert item["complete"] == {"S": "true"}
        assert re.fullmatch(rf"\.tmp/{item['fileName']['S']}\.[0-9a-f-]{{36}}", item["tempPath"]["S"])
        assert abs(int(item["expireTime"]["N"]) - time.time() - DAY_SECONDS) < 600
    # The temporary copies are deleted.
    assert locks.keys(table, "_delta_log/.tmp/") == []


def test_in_turn_with_a_writer_that_takes_no_lock(locks: LockTable) -> None:
    """deltalake no longer has the lock table and commits by S3's own condition, which deltaplane
    uses as well."""
    table, options = f"{locks.server.new_bucket()}/t", locks.options
    for n in range(0, 8, 2):
        append(table, n, options)
        deltalake.write_deltalake(table, rows(n + 1), mode="append", storage_options=options)
    assert ids(DeltaTable(table, storage_options=options)) == list(range(8))
    theirs = deltalake.DeltaTable(table, storage_options=options)
    assert sorted(theirs.to_pyarrow_table()["id"].to_pylist()) == list(range(8))
    items = locks.items()
    assert [item["fileName"]["S"] for item in items] == [commit(v) for v in range(0, 8, 2)]


@pytest.mark.parametrize("conditional_put", ["etag", "disabled"])
def test_racing_writers_lose_nothing(conditional_put: str, locks: LockTable) -> None:
    """Without conditional puts only the lock table decides."""
    table = f"{locks.server.new_bucket()}/t"
    options = {**locks.options, "aws_conditional_put": conditional_put}
    write_deltalake(table, rows(0, 0), storage_options=options)

    def appends(writer: int) -> list[int | None]:
        return [append(table, writer * APPENDS + n, options) for n in range(APPENDS)]

    with ThreadPoolExecutor(WRITERS) as pool:
        versions = [version for made in pool.map(appends, range(WRITERS)) for version in made]
    assert sorted(v for v in versions if v is not None) == list(range(1, WRITERS * APPENDS + 1))
    assert ids(DeltaTable(table, storage_options=options)) == list(range(WRITERS * APPENDS))
    assert [item["complete"]["S"] for item in locks.items()] == ["true"] * (WRITERS * APPENDS + 1)


def test_racing_with_writers_that_take_no_lock(locks: LockTable) -> None:
    table, options = f"{locks.server.new_bucket()}/t", locks.options
    write_deltalake(table, rows(0, 0), storage_options=options)

    def theirs(n: int) -> None:
        # deltalake gives up after 15 lost races by default.
        patient = deltalake.CommitProperties(max_commit_retries=100)
        deltalake.write_deltalake(table, rows(n), mode="append", storage_options=options, commit_properties=patient)

    with ThreadPoolExecutor(4) as pool:
        done = [pool.submit(append, table, n, options) for n in range(12)]
        done += [pool.submit(theirs, n) for n in range(12, 20)]  # type: ignore[arg-type]
        for future in done:
            future.result(timeout=120)
    assert ids(DeltaTable(table, storage_options=options)) == list(range(20))


@pytest.mark.parametrize("by", ["reader", "writer"])
@pytest.mark.parametrize("step", ["temporary file", "item", "copy"])
def test_what_a_crashed_writer_left_is_finished_by_the_next(step: str, by: str, locks: LockTable) -> None:
    """delta-spark's states between two steps, made by hand from a completed commit."""
    table, options = f"{locks.server.new_bucket()}/t", locks.options
    for n in range(3):
        append(table, n, options)
    newest = _undone(locks, table, step)
    decided = step != "temporary file"
    expected = [0, 1, 2] if decided else [0, 1]
    if by == "writer":
        assert append(table, 9, options) == (3 if decided else 2)
        expected = [*expected, 9]
    assert ids(DeltaTable(table, storage_options=options)) == expected
    assert all(item["complete"]["S"] == "true" for item in locks.items())
    if decided:
        assert f"_delta_log/{newest}" in locks.keys(table, "_delta_log/")


def _undone(locks: LockTable, table: str, step: str) -> str:
    """Returns the newest commit to the state after `step`; returns its name."""
    bucket, _, path = table.removeprefix("s3://").partition("/")
    s3, dynamo = locks.client("s3"), locks.client("dynamodb")
    item = locks.items()[-1]
    name, key = item["fileName"]["S"], {"tablePath": item["tablePath"], "fileName": item["fileName"]}
    source = {"Bucket": bucket, "Key": f"{path}/_delta_log/{name}"}
    s3.copy_object(Bucket=bucket, Key=f"{path}/_delta_log/{item['tempPath']['S']}", CopySource=source)
    if step != "copy":
        s3.delete_object(**source)
        for checksum in [k for k in locks.keys(table, "_delta_log/") if k.endswith(name.replace("json", "crc"))]:
            s3.delete_object(Bucket=bucket, Key=f"{path}/{checksum}")
    if step == "temporary file":
        dynamo.delete_item(TableName=locks.name, Key=key)
    else:
        unfinished = {**key, "tempPath": item["tempPath"], "complete": {"S": "false"}}
        dynamo.put_item(TableName=locks.name, Item=unfinished)
    return str(name)


def test_a_crash_after_every_request(locks: LockTable) -> None:
    """The writer's connection breaks after its first, second, … request, executed or only sent: the
    next reader and writer find each commit completely or not at all, including all acknowledged
    ones."""
    table = f"{locks.server.new_bucket()}/t"
    append(table, 0, locks.options)
    calm = Cut(None)
    with proxy(locks.server, calm) as endpoint:
        append(table, 1, locks.behind(endpoint).options)
    assert calm.seen.count(f"PUT {commit(1)}") == 1
    assert any(what.startswith("UpdateItem") for what in calm.seen)
    acknowledged, left_open, finished = {0, 1}, set(), 0
    points = [(after, answered) for after in range(1, len(calm.seen) + 2) for answered in (False, True)]
    for n, (after, answered) in enumerate(points, 2):
        cut = Cut(after, answered=answered)
        with proxy(locks.server, cut) as endpoint:
            try:
                append(table, n, {**locks.behind(endpoint).options, "max_retries": "0", "retry_timeout": "1s"})
                acknowledged.add(n)
            except DeltaError:
                left_open.add(n)
        # Alternates between a reader, and a writer that hasn't read the table's newest version.
        if n % 2 == 0:
            append(table, 1000 + n, locks.options)
            acknowledged.add(1000 + n)
        ids_read = ids(DeltaTable(table, storage_options=locks.options))
        assert len(ids_read) == len(set(ids_read)), f"twice after {cut.seen}"
        assert acknowledged <= set(ids_read) <= acknowledged | left_open, cut.seen
        # A commit that was found must not disappear again.
        finished += len(set(ids_read) & left_open)
        acknowledged |= set(ids_read)
        left_open -= acknowledged
    history = DeltaTable(table, storage_options=locks.options).history()
    assert [entry["version"] for entry in history] == list(range(len(history) - 1, -1, -1))
    assert len(history) == len(acknowledged)
    assert left_open
    assert finished
    proofs.tell(
        "dynamo",
        title="S3 with a DynamoDB lock table",
        claims=[
            "A commit through the lock table is found whole or not at all after its writer crashed at any request.",
            "The next reader or writer finishes what a crashed writer had decided; an acknowledged commit never goes.",
        ],
        figures={
            "requests of one commit": len(calm.seen),
            "crash points": len(points),
            "versions afterwards": len(history),
            "appends that failed and left nothing": len(left_open),
            "appends that failed and were finished by the next reader or writer": finished,
            "commits lost": 0,
        },
        how="DELTAPLANE_PROOFS=1 pytest tests/stores/test_dynamo.py -k crash_after_every_request",
    )


def test_another_table_s_old_entries_are_refused(locks: LockTable) -> None:
    """A table that was deleted only on S3 leaves its entries; delta-spark refuses this, too."""
    table, options = f"{locks.server.new_bucket()}/t", locks.options
    append(table, 0, options)
    bucket = table.split("/")[2]
    for key in locks.keys(table, ""):
        locks.client("s3").delete_object(Bucket=bucket, Key=f"t/{key}")
    with pytest.raises(InvalidArgumentError, match="earlier table"):
        append(table, 1, options)


def test_a_commit_whose_files_are_both_gone_is_damage(locks: LockTable) -> None:
    table, options = f"{locks.server.new_bucket()}/t", locks.options
    append(table, 0, options)
    append(table, 1, options)
    newest = _undone(locks, table, "item")
    temporary = locks.keys(table, "_delta_log/.tmp/")
    locks.client("s3").delete_object(Bucket=table.split("/")[2], Key=f"t/{temporary[0]}")
    with pytest.raises(DeltaError, match=newest):
        DeltaTable(table, storage_options=options)


def test_spellings_of_one_table_don_t_pass_each_other(locks: LockTable) -> None:
    """The key is the location with its scheme: `s3a` must be written, and another writer's spelling
    is detected."""
    table, options = f"{locks.server.new_bucket()}/t", locks.options
    s3a = {**options, "delta_dynamo_path_scheme": "s3a"}
    with pytest.raises(InvalidArgumentError, match="delta_dynamo_path_scheme"):
        append(table.replace("s3:", "s3a:"), 0, options)
    append(table.replace("s3:", "s3a:"), 0, s3a)
    append(table, 1, s3a)
    assert {item["tablePath"]["S"] for item in locks.items()} == {table.replace("s3:", "s3a:")}
    with pytest.raises(InvalidArgumentError, match="delta_dynamo_path_scheme=s3a"):
        append(table, 2, options)
    assert ids(DeltaTable(table, storage_options=s3a)) == [0, 1]


def test_wrong_settings(locks: LockTable, moto_server: S3Server) -> None:
    table, options = f"{locks.server.new_bucket()}/t", locks.options
    with pytest.raises(InvalidArgumentError, match="there is no lock table nowhere"):
        append(table, 0, {**options, "DELTA_DYNAMO_TABLE_NAME": "nowhere"})
    with pytest.raises(InvalidArgumentError, match="locking_provider is neither"):
        append(table, 0, {**options, "AWS_S3_LOCKING_PROVIDER": "zookeeper"})
    with pytest.raises(StoreUnavailableError, match="DynamoDB"):
        append(table, 0, {**options, "AWS_ENDPOINT_URL_DYNAMODB": "http://127.0.0.1:9", "max_retries": "1"})
    anonymous = {k: v for k, v in options.items() if "ACCESS_KEY" not in k}
    with pytest.raises(StoreDeniedError, match="anonymous"):
        append(table, 0, {**anonymous, "AWS_SKIP_SIGNATURE": "true"})
    assert not DeltaTable.is_deltatable(table, moto_server.options)


@pytest.mark.slow
def test_the_store_contract_in_rust(locks: LockTable) -> None:
    """Every store's suite, and racing commits that only the lock table decides."""
    environment = {
        **os.environ,
        "DELTAPLANE_TEST_S3_ENDPOINT": locks.server.endpoint,
        "DELTAPLANE_TEST_LOCK_TABLE": locks.name,
    }
    selection = ["--workspace", "--exclude", "deltaplane-python", "--locked"]
    command = ["cargo", "test", "--quiet", *selection, "--test", "dynamo", "--", "--ignored"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=580)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "1 passed" in done.stdout
