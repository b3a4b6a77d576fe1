"""HDFS beyond the suite of every store: killed writers, files of several blocks, concurrent Spark,
unreachable NameNodes."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane import spark as dp
from deltaplane._native import RawStore
from deltaplane.exceptions import DeltaError, InvalidArgumentError, StoreUnavailableError
from deltaplane.io.log_store_check import check_log_store
from stores import proofs
from stores.numbers import ids, rows
from stores.servers import SERVERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KILLED = 8
# More than one block of the server's, which has 4 MiB.
BIG_BYTES = 9_000_001


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The location of an empty HDFS."""
    with SERVERS["hdfs"](tmp_path_factory.mktemp("hdfs")) as server:
        yield server.endpoint


_APPENDING = """
import sys, pyarrow as pa
from deltaplane import write_deltalake
n = int(sys.argv[2])
print("ready", flush=True)
while True:
    write_deltalake(sys.argv[1], pa.table({"id": pa.array([n], pa.int64())}), mode="append")
    print(n, flush=True)
    n += 1
"""


def test_a_killed_writer_leaves_no_half_commit(hdfs: str) -> None:
    """P070: acknowledged commits exist, existing ones are complete, and the next writer
    continues."""
    table = f"{hdfs}/killed"
    write_deltalake(table, rows(0, 0))
    acknowledged: list[int] = []
    for run in range(KILLED):
        command = [sys.executable, "-c", _APPENDING, table, str(run * 1000)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            # During one of its first commits, at varying positions.
            acknowledged += [int(process.stdout.readline()) for _ in range(run % 3)]
            time.sleep(0.02 * run)
            process.kill()
            acknowledged += [int(line) for line in process.stdout.read().split()]
        ids_read = ids(DeltaTable(table))
        assert set(acknowledged) <= set(ids_read)
        # At most the one commit whose answer each killed writer couldn't print.
        assert len(ids_read) == len(set(ids_read)) <= len(acknowledged) + run + 1
    assert write_deltalake(table, rows(-1), mode="append").version == len(ids(DeltaTable(table)))
    tried = check_log_store(f"{hdfs}/check")
    proofs.tell(
        "hdfs",
        title="HDFS",
        claims=[
            "A commit is a rename that the NameNode does for one caller only, of a file whose bytes were synced before: "
            "a writer that is killed leaves no half commit, and nothing that was acknowledged is lost."
        ],
        figures={"writers killed": KILLED, "their acknowledged commits": len(acknowledged), "commits lost": 0, **tried},
        how="DELTAPLANE_PROOFS=1 .venv/bin/python -m pytest tests/stores/test_hdfs.py",
    )


def test_a_file_of_several_blocks(hdfs: str) -> None:
    store = RawStore.open(f"{hdfs}/blocks")
    content = bytes(range(251)) * (BIG_BYTES // 251 + 1)
    store.put("big", content)
    assert store.read("big") == content
    for start, end in ((0, 10), (4_194_300, 4_194_310), (8_388_000, 9_000_000), (len(content) - 3, len(content) + 9)):
        assert store.read_range("big", start, end) == content[start:end]


def test_unfinished_files_are_nobody_s(hdfs: str) -> None:
    RawStore.open(f"{hdfs}/under/way/_delta_log").put(".00000000000000000000.json.left.tmp", b"{")
    assert not DeltaTable.is_deltatable(f"{hdfs}/under/way")
    write_deltalake(f"{hdfs}/under/way", rows(0, 2))
    assert ids(DeltaTable(f"{hdfs}/under/way")) == [0, 1]


def test_names_that_hadoop_has_not_are_refused(hdfs: str) -> None:
    """A colon in a partition value is escaped in a directory's name (P171); in a location it can't
    be."""
    data = pa.table({"p": pa.array(["x:y/z"]), "id": pa.array([1])})
    write_deltalake(f"{hdfs}/colon", data, partition_by="p")
    assert DeltaTable(f"{hdfs}/colon").to_pyarrow_table()["p"].to_pylist() == ["x:y/z"]
    with pytest.raises(InvalidArgumentError, match="colon"):
        write_deltalake(f"{hdfs}/a:b/t", data)


def test_our_spark_reads_and_writes_it(hdfs: str, spark: SparkSession) -> None:
    table = f"{hdfs}/spark/a table"
    dp.write(spark.range(4).repartition(2), table)
    write_deltalake(table, rows(4, 2), mode="append")
    dp.write(spark.range(6, 8), table, mode="append")
    DeltaTable(table).delete("id = 1")
    assert sorted(row.id for row in dp.read(spark, table).collect()) == [0, 2, 3, 4, 5, 6, 7]
    assert ids(DeltaTable(table)) == [0, 2, 3, 4, 5, 6, 7]


def test_a_name_node_that_nobody_serves() -> None:
    options = {"dfs.client.failover.max.attempts": "1", "dfs.client.failover.sleep.base.millis": "10"}
    with pytest.raises(StoreUnavailableError, match="check the NameNode's") as refused:
        DeltaTable("hdfs://127.0.0.1:9/t", storage_options=options)
    assert refused.value.table == "hdfs://127.0.0.1:9/t"


def test_a_name_node_that_is_silent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        location = f"hdfs://127.0.0.1:{silent.getsockname()[1]}/t"
        with pytest.raises(StoreUnavailableError, match="no answer within 300ms"):
            DeltaTable(location, storage_options={"timeout": "300ms"})


@pytest.mark.parametrize(
    ("location", "options", "message"),
    [
        ("viewfs://cluster/t", {}, "no store for locations that begin with viewfs://"),
        ("hdfs:///t", {}, "names no bucket, container or server"),
        ("hdfs://cluster/t", {"hadoop_conf_dir": "/nowhere"}, "No NameNode hosts found"),
        ("hdfs://somebody@cluster:1/t", {}, "user name"),
        ("hdfs://cluster:1/t", {"dfs_user": "me"}, "did you mean hdfs_user?"),
        ("hdfs://cluster:1/t", {"timeout": "soon"}, "timeout"),
    ],
)
def test_what_makes_no_file_system_is_refused(location: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(DeltaError) as refused:
        DeltaTable(location, storage_options=options)
    assert (type(refused.value), message in str(refused.value)) == (InvalidArgumentError, True), refused.value
