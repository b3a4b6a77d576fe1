"""Queries reuse DuckDB's databases, and nothing of a query reaches the next one."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import deltaplane
from deltaplane import write_deltalake
from deltaplane.exceptions import InvalidArgumentError, QueryCancelledError
from deltaplane.queries import engines

# Longer than a forked child needs on a busy machine.
CHILD_SECONDS = 60


@pytest.fixture(autouse=True)
def _no_idle(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    engines.close_idle()
    # On a busy machine a small query may take long.
    monkeypatch.setattr(engines, "_SECONDS", 60.0)
    yield
    engines.close_idle()


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"x": pa.array([1, 2, 3], pa.int64()), "p": ["a", "b", "b"]}), partition_by=["p"])
    return path


def count(path: str) -> int:
    (row,) = deltaplane.sql(f"SELECT sum(x) AS n FROM delta.`{path}` WHERE p = 'b'").fetchall()
    return int(row[0])


def databases_made(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """The settings of the databases that are made from now on."""
    made: list[dict[str, object]] = []
    before = engines.connect

    def noted(**config: str | bool | int) -> object:
        made.append(config)
        return before(**config)

    monkeypatch.setattr(engines, "connect", noted)
    return made


def test_queries_one_after_the_other_use_one_database(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = databases_made(monkeypatch)
    assert [count(path) for _ in range(3)] == [5, 5, 5]
    assert (len(made), engines.idle_databases()) == (1, 1)


def test_relations_variables_and_rules_are_those_of_each_query(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = databases_made(monkeypatch)
    others = str(Path(path).with_name("others"))
    write_deltalake(others, pa.table({"x": pa.array([10, 20], pa.int64()), "p": ["b", "c"]}), partition_by=["p"])
    # A condition that can fail switches rules off, which the next query needs.
    assert deltaplane.sql(f"SELECT x FROM delta.`{path}` WHERE 6 / x = 3 AND x > 0").fetchall() == [(2,)]
    # Both call their table s0, and have the partition's values in a variable of one name.
    assert (count(path), count(others), count(path)) == (5, 10, 5)
    rows = pa.table({"x": pa.array([7], pa.int64())})
    assert deltaplane.sql("SELECT x FROM t", tables={"t": rows}).fetchall() == [(7,)]
    assert count(path) == 5
    assert len(made) == 1


def test_each_limit_has_databases_of_its_own(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = databases_made(monkeypatch)
    for limit in ("200MB", None, "200MB", "300MB"):
        deltaplane.sql(f"SELECT x FROM delta.`{path}`", memory_limit=limit).fetchall()
    assert len({str(config.get("memory_limit")) for config in made}) == len(made) == 3


def test_few_databases_are_kept(path: str) -> None:
    for limit in range(200, 206):
        deltaplane.sql(f"SELECT x FROM delta.`{path}`", memory_limit=f"{limit}MB").fetchall()
    assert engines.idle_databases() == 4


def test_directories_for_rows_are_those_of_each_query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that wrote to one directory can't write to another one: it isn't used again."""
    made = databases_made(monkeypatch)
    rows = pa.table({"x": pa.array(range(400_000), pa.int64())})
    for name in ("first", "second", "third"):
        (tmp_path / name).mkdir()
        result = deltaplane.sql(
            "SELECT a.x, b.x AS y FROM t a JOIN t b ON a.x = b.x ORDER BY a.x * 7 % 100003",
            tables={"t": rows},
            memory_limit="64MB",
            temp_directory=str(tmp_path / name),
        )
        assert result.num_rows == 400_000
        assert list((tmp_path / name).iterdir()) == []
    assert 1 <= len(made) <= 3


def test_queries_side_by_side_use_databases_of_their_own(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = databases_made(monkeypatch)
    counts: list[int] = []
    threads = [threading.Thread(target=lambda: counts.extend(count(path) for _ in range(5))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [5] * 30
    assert 1 <= len(made) <= 30
    assert engines.idle_databases() <= 4


def test_a_database_ends_with_a_query_that_fails(path: str) -> None:
    with pytest.raises(InvalidArgumentError, match="DIVIDE_BY_ZERO"):
        deltaplane.sql(f"SELECT x / (x - 1) FROM delta.`{path}`").fetchall()
    assert engines.idle_databases() == 0


def test_a_database_ends_with_a_query_that_is_cancelled(path: str) -> None:
    rows = pa.table({"x": pa.array(range(300_000), pa.int64())})
    result = deltaplane.sql("SELECT a.x FROM t a JOIN t b ON a.x < b.x", tables={"t": rows})
    threading.Timer(0.2, result.cancel).start()
    with pytest.raises(QueryCancelledError):
        for _ in result:
            pass
    end = time.monotonic() + CHILD_SECONDS
    while any(thread.name == "deltaplane-query" for thread in threading.enumerate()) and time.monotonic() < end:
        time.sleep(0.01)
    assert engines.idle_databases() == 0


def test_functions_of_a_query_are_known_to_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    made = databases_made(monkeypatch)
    rows = pa.table({"x": pa.array([Decimal("1.5"), Decimal("2.5")], pa.decimal128(38, 10))})
    results = [
        [float(y) for (y,) in deltaplane.sql("SELECT x * x AS y FROM t", tables={"t": rows}).fetchall()]
        for _ in range(3)
    ]
    assert results == [[2.25, 6.25]] * 3
    others = deltaplane.sql("SELECT x / 3 AS y, x * x AS z FROM t", tables={"t": rows}).fetchall()
    assert [(round(float(y), 6), float(z)) for y, z in others] == [(0.5, 2.25), (0.833333, 6.25)]
    assert (len(made), engines.idle_databases()) == (1, 1)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the memory of a process is read as on Linux")
@pytest.mark.parametrize("limit", [None, "1GB"])
def test_an_idle_database_holds_no_memory_of_a_large_query(limit: str | None) -> None:
    program = f"""
        import resource, time
        import numpy as np, pyarrow as pa
        import deltaplane
        from deltaplane.queries import engines

        def megabytes():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * resource.getpagesize() / 1e6

        def run(rows):
            ids = pa.table({{"id": pa.array(np.arange(rows))}})
            text = "SELECT count(*) FROM (SELECT DISTINCT concat('a long text of a number: ', CAST(id AS STRING)) AS s FROM t)"
            assert deltaplane.sql(text, tables={{"t": ids}}, memory_limit={limit!r}).fetchall() == [(rows,)]

        engines._SECONDS, engines._IDLE_SECONDS = 0.0, 0.2
        run(10)
        before = megabytes()
        run(2_000_000)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        end = time.monotonic() + 20
        left = peak - before
        # The database isn't idle while it gives memory back.
        while (left > (peak - before) / 2 or engines.idle_databases() != 1) and time.monotonic() < end:
            time.sleep(0.05)
            left = megabytes() - before
        assert peak - before > 100 and left < (peak - before) / 2, (before, peak, left)
        assert engines.idle_databases() == 1
        run(300_000)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], timeout=CHILD_SECONDS, check=True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks on this system")
@pytest.mark.parametrize("ends", ["os._exit(0)", "sys.exit(0)"])
def test_a_forked_process_runs_queries_of_its_own(path: str, ends: str) -> None:
    """It neither waits for threads of its parent nor fails when it frees what the parent had."""
    program = f"""
        import gc, os, sys
        import numpy as np, pyarrow as pa
        import deltaplane
        from deltaplane.expr import duckdb_values

        text = "SELECT sum(x) FROM delta.`{path}` WHERE x > abs(-1)"
        assert deltaplane.sql(text).fetchall() == [(5,)]
        assert duckdb_values.constant_numbers("[1, 2]") == [1.0, 2.0]
        # A query that another thread has begun holds a database during the fork.
        many = pa.table({{"id": pa.array(np.arange(10_000_000))}})
        open_result = iter(deltaplane.sql("SELECT id FROM many", tables={{"many": many}}).to_reader(1000))
        next(open_result)
        child = os.fork()
        if child == 0:
            assert duckdb_values.constant_numbers("[1, 2]") == [1.0, 2.0]
            assert deltaplane.sql(text).fetchall() == [(5,)]
            gc.collect()
            {ends}
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0, status
        assert deltaplane.sql(text).fetchall() == [(5,)]
        del open_result
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=CHILD_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
