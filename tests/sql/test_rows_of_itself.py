"""Statements whose new rows are computed from the table's own: they read one version, and depend on
all of its rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, sql, write_deltalake
from deltaplane.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteReadException,
    DeltaConcurrentModificationException,
)
from deltaplane.statements import create, insert
from interop.verifier import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = pa.table({"p": ["a", "a", "b", "b"], "x": [1, 2, 3, 4]})
MORE = pa.table({"p": ["b"], "x": [9]})
# A statement and the resulting rows.
STATEMENTS = {
    "append": ("INSERT INTO t SELECT p, x + 10 FROM t", [1, 2, 3, 4, 11, 12, 13, 14]),
    "overwrite": ("INSERT OVERWRITE t SELECT p, x + 10 FROM t WHERE p = 'a'", [11, 12]),
    "partition": ("INSERT INTO t REPLACE WHERE p = 'a' SELECT 'a', x + 10 FROM t", [3, 4, 11, 12, 13, 14]),
    "rows": ("INSERT INTO t REPLACE WHERE x < 4 SELECT p, x - 3 FROM t", [-2, -1, 0, 1, 4]),
    "using": ("INSERT INTO t REPLACE USING (x) SELECT p, x + 2 FROM t", [1, 2, 3, 4, 5, 6]),
    "on": ("INSERT INTO t REPLACE ON t.x = s.x (SELECT p, max(x) AS x FROM t GROUP BY p) AS s", [1, 2, 3, 4]),
    "values": ("INSERT INTO t VALUES ('a', (SELECT max(x) FROM t))", [1, 2, 3, 4, 4]),
    "path": ("INSERT INTO t SELECT p, o.x * 5 FROM delta.`{}` o WHERE x > 2", [1, 2, 3, 4, 15, 20]),
    "create": ("CREATE OR REPLACE TABLE t PARTITIONED BY (p) AS SELECT p, x + 1 AS x FROM t", [2, 3, 4, 5]),
}
# On Spark, REPLACE WHERE only accepts partitions.
ON_SPARK = [name for name in STATEMENTS if name not in ("rows", "values")]


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    write_deltalake(path, DATA, partition_by=["p"])
    return path


@pytest.fixture
def meanwhile(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[], object]], None]:
    """Lets another writer commit once, between the query and the write of its rows."""

    def set_up(other: Callable[[], object]) -> None:
        left = [other]

        def overtaken(write: Callable[..., Any]) -> Callable[..., Any]:
            def writing(*args: Any, **kwargs: Any) -> Any:
                while left:
                    left.pop()()
                return write(*args, **kwargs)

            return writing

        for module in (insert, create):
            monkeypatch.setattr(module, "write_deltalake", overtaken(write_deltalake))
        if "spark" in request.fixturenames:
            from deltaplane import spark as dp

            monkeypatch.setattr(dp, "write", overtaken(dp.write))

    return set_up


def left(path: str) -> list[Any]:
    verify(path)
    return sorted(DeltaTable(path).to_pyarrow_table()["x"].to_pylist())


def info(path: str) -> dict[str, Any]:
    text = Path(path, "_delta_log", f"{DeltaTable(path).version():020}.json").read_text()
    info_of_commit: dict[str, Any] = json.loads(text.splitlines()[0])["commitInfo"]
    return info_of_commit


def write_serializable(path: str) -> None:
    """Sets the table's isolation level, as other engines do."""
    log = Path(path, "_delta_log", f"{0:020}.json")
    before = log.read_text()
    assert '"configuration":{}' in before
    log.write_text(before.replace('"configuration":{}', '"configuration":{"delta.isolationLevel":"WriteSerializable"}'))


@pytest.mark.parametrize("name", STATEMENTS)
def test_rows_are_those_of_one_version(path: str, name: str) -> None:
    text, expected = STATEMENTS[name]
    sql(text.format(path), tables={"t": path})
    assert left(path) == expected
    assert not info(path)["isBlindAppend"]


@pytest.mark.parametrize("name", STATEMENTS)
def test_rows_that_go_meanwhile_are_a_conflict(path: str, meanwhile: Any, name: str) -> None:
    meanwhile(lambda: DeltaTable(path).delete("p = 'b'"))
    # If whole files are replaced the conflict may also be two removals of one file.
    whole = name in ("overwrite", "create", "rows", "using", "on")
    expected = DeltaConcurrentModificationException if whole else ConcurrentDeleteReadException
    with pytest.raises(expected):
        sql(STATEMENTS[name][0].format(path), tables={"t": path})
    assert left(path) == [1, 2]


@pytest.mark.parametrize("name", STATEMENTS)
def test_rows_that_come_meanwhile_are_a_conflict(path: str, meanwhile: Any, name: str) -> None:
    meanwhile(lambda: write_deltalake(path, MORE, mode="append"))
    with pytest.raises(ConcurrentAppendException):
        sql(STATEMENTS[name][0].format(path), tables={"t": path})
    assert left(path) == [1, 2, 3, 4, 9]


def test_the_isolation_level_is_kept(path: str, meanwhile: Any) -> None:
    write_serializable(path)
    meanwhile(lambda: write_deltalake(path, MORE, mode="append"))
    sql("INSERT INTO t SELECT p, x + 10 FROM t", tables={"t": path})
    assert left(path) == [1, 2, 3, 4, 9, 11, 12, 13, 14]
    # Concurrently added rows conflict, too.
    meanwhile(lambda: sql("INSERT INTO t SELECT p, 0 FROM t WHERE x = 9", tables={"t": path}))
    with pytest.raises(ConcurrentAppendException):
        sql("INSERT INTO t SELECT p, x + 20 FROM t", tables={"t": path})


@pytest.mark.parametrize("table", ["path", "object"])
def test_others_that_move_rows_are_no_conflict(path: str, meanwhile: Any, table: str) -> None:
    write_deltalake(path, MORE, mode="append")
    meanwhile(lambda: DeltaTable(path).optimize.compact())
    target = path if table == "path" else DeltaTable(path, version=0)
    sql("INSERT INTO t SELECT p, x + 10 FROM t WHERE p = 'a'", tables={"t": target})
    assert left(path) == [1, 2, 3, 4, 9, 11, 12]


@pytest.mark.parametrize(
    "query",
    ["SELECT * FROM u", "SELECT * FROM s", "VALUES ('c', 9)", "SELECT p, x FROM t VERSION AS OF 0", "SELECT 'c', 9"],
)
def test_rows_of_others_are_a_blind_append(path: str, tmp_path: Path, meanwhile: Any, query: str) -> None:
    write_deltalake(path, MORE, mode="append")
    write_deltalake(str(tmp_path / "u"), MORE)
    meanwhile(lambda: DeltaTable(path).delete("p = 'b'"))
    sql(f"INSERT INTO t {query}", tables={"t": path, "u": str(tmp_path / "u"), "s": MORE})
    assert info(path)["isBlindAppend"]
    assert set(left(path)) - {3, 4, 9} == {1, 2}


def test_a_dry_run_tells_it(path: str, meanwhile: Any) -> None:
    result = sql("INSERT INTO t SELECT p, x FROM t", tables={"t": path}, dry_run=True)
    assert (result.read_set.reads, result.read_set.isolation) == ("set", "Serializable")
    assert sql("INSERT INTO t SELECT 'a', 1", tables={"t": path}, dry_run=True).read_set.reads == "nothing"
    meanwhile(lambda: DeltaTable(path).delete("p = 'b'"))
    with pytest.raises(ConcurrentDeleteReadException):
        sql("INSERT INTO t SELECT p, x FROM t", tables={"t": path}, dry_run=True)


# --- on Spark ---------------------------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.parametrize("name", ON_SPARK)
def test_sparks_rows_too(spark: SparkSession, path: str, meanwhile: Any, name: str) -> None:
    text, expected = STATEMENTS[name]
    meanwhile(lambda: DeltaTable(path).delete("p = 'b'"))
    with pytest.raises(DeltaConcurrentModificationException):
        sql(text.format(path), spark, tables={"t": path})
    assert left(path) == [1, 2]
    DeltaTable(path).restore(0)
    sql(text.format(path), spark, tables={"t": path})
    assert left(path) == expected
    assert not info(path)["isBlindAppend"]


@pytest.mark.spark
def test_sparks_rows_of_others(spark: SparkSession, path: str, meanwhile: Any) -> None:
    meanwhile(lambda: DeltaTable(path).delete("p = 'b'"))
    sql("INSERT INTO t SELECT * FROM s", spark, tables={"t": path, "s": MORE})
    assert info(path)["isBlindAppend"]
    assert left(path) == [1, 2, 9]
