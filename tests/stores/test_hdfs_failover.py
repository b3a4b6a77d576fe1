"""A name service of two NameNodes: commits continue when the active one hands over, and when it
dies; none is lost or duplicated."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import DeltaError, InvalidArgumentError, StoreUnavailableError
from stores import hdfs_server, proofs
from stores.numbers import ids, rows
from stores.servers import running

SERVICE = "tables"
# Number of commits before, during and after the failover.
AROUND = 3
PATIENCE_SECONDS = 240


@dataclass(frozen=True)
class NameService:
    """Two NameNodes, and the client's settings."""

    options: dict[str, str]
    # Makes the other NameNode active: "switch" or "kill".
    tell: Callable[[str], None]


@contextmanager
def name_service(scratch: Path) -> Iterator[NameService]:
    with running(hdfs_server.command(scratch / "dfs", name_nodes=2), scratch / "hdfs.log") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        ports = process.stdout.readline().split()
        assert len(ports) == 2, (scratch / "hdfs.log").read_text()[-4000:]

        def tell(what: str) -> None:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{what}\n")
            process.stdin.flush()
            assert process.stdout.readline() == "done\n", (scratch / "hdfs.log").read_text()[-4000:]

        named = {
            "dfs.nameservices": SERVICE,
            f"dfs.ha.namenodes.{SERVICE}": "one,two",
            f"dfs.namenode.rpc-address.{SERVICE}.one": f"127.0.0.1:{ports[0]}",
            f"dfs.namenode.rpc-address.{SERVICE}.two": f"127.0.0.1:{ports[1]}",
            "dfs.client.failover.sleep.base.millis": "20",
        }
        yield NameService(named, tell)


def appending(table: str, options: dict[str, str], first: int, change: Callable[[], None]) -> tuple[set[int], set[int]]:
    """Appends during a failover: acknowledged numbers, and those with an unknown outcome."""
    acknowledged: set[int] = set()
    left_open: set[int] = set()
    changed = threading.Event()

    def run() -> None:
        change()
        changed.set()

    changing = threading.Thread(target=run)
    n, after = first, 0
    try:
        while after < AROUND:
            if n == first + AROUND:
                changing.start()
            after += changed.is_set()
            try:
                write_deltalake(table, rows(n), mode="append", storage_options=options)
                acknowledged.add(n)
            except StoreUnavailableError:
                left_open.add(n)
            n += 1
    finally:
        changing.join(PATIENCE_SECONDS)
    return acknowledged, left_open


# Takes minutes, and a client's errors after a NameNode's death depend on the machine's load.
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not proofs.asked(), reason="a proof by itself: DELTAPLANE_PROOFS=1")
def test_the_other_name_node_takes_over(tmp_path: Path) -> None:
    """P070: by the service's name the client finds the active one; commits acknowledged by either
    exist."""
    with name_service(tmp_path) as service:
        table, options = f"hdfs://{SERVICE}/warehouse/t", service.options
        write_deltalake(table, rows(0, 0), storage_options=options)
        figures: dict[str, object] = {}
        acknowledged: set[int] = set()
        left_open: set[int] = set()
        for n, what in enumerate(("switch", "kill")):

            def change(what: str = what) -> None:
                service.tell(what)

            done, unclear = appending(table, options, 1000 * (n + 1), change)
            acknowledged |= done
            left_open |= unclear
            ids_read = ids(DeltaTable(table, storage_options=options))
            assert len(ids_read) == len(set(ids_read))
            assert acknowledged <= set(ids_read) <= acknowledged | left_open
        history = DeltaTable(table, storage_options=options).history()
        assert [entry["version"] for entry in history] == list(range(len(history) - 1, -1, -1))
        figures |= {
            "handovers": 1,
            "active NameNodes that died": 1,
            "acknowledged commits": len(acknowledged),
            "commits whose outcome was left open": len(left_open),
            "commits lost or doubled": 0,
        }
        # A name without a setting is refused before any request.
        with pytest.raises(DeltaError) as caught:
            DeltaTable("hdfs://nobody/warehouse/t", storage_options=options)
        assert isinstance(caught.value, (InvalidArgumentError, StoreUnavailableError))
    proofs.tell(
        "hdfs_failover",
        title="HDFS with two NameNodes",
        claims=[
            "Writers who name the service go on when the active NameNode hands over to the other one, and when it dies: no acknowledged"
            " commit is lost, none is there twice.",
            "A commit whose answer went with its NameNode is looked up by its own id; where that can't be, its caller is told that the"
            " outcome is open.",
        ],
        figures=figures,
        how="DELTAPLANE_PROOFS=1 .venv/bin/python -m pytest tests/stores/test_hdfs_failover.py",
    )
