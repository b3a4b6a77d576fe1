"""Transactions over several tables of a catalog: all changes are committed, or none."""

from __future__ import annotations

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaplane
from catalog.conftest import ALL_BACKENDS, SCHEMA, Lake, ids, rows
from deltaplane import DeltaTable, transaction
from deltaplane.exceptions import (
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    InvalidArgumentError,
    SqlSyntaxError,
    TableNotFoundError,
    UnsupportedFeatureError,
)

BACKENDS = ALL_BACKENDS
A, B, C = (f"{SCHEMA}.{name}" for name in "abc")


@pytest.fixture
def two(lake: Lake) -> Lake:
    """A catalog with the tables `a` and `b` of one row each."""
    lake.write("a", rows(1))
    lake.write("b", rows(2))
    return lake


def _files(lake: Lake) -> int:
    return sum(len(list(lake.folder(name).rglob("*.parquet"))) for name in "ab")


def _versions(lake: Lake) -> tuple[int, int]:
    return lake.open("a").version(), lake.open("b").version()


def test_all_changes_are_committed_together(two: Lake) -> None:
    with transaction(two.catalog, [A]) as tx:
        assert tx.write(A, rows(3)).version == 1
        held = tx.table(A)
        assert (ids(held), ids(two.open("a"))) == ([1, 3], [1])
        assert held.delete("id = 1")["num_deleted_rows"] == 1
        held.merge(rows(3, 4), "t.id = s.id", "s", "t").when_not_matched_insert_all().execute()
        assert tx.sql(f"INSERT INTO {B} SELECT * FROM {A}").to_pylist()[0]["num_inserted_rows"] == 2
        assert tx.sql(f"SELECT count(*) AS n FROM {B} WHERE id > ?", args=[2]).to_pylist() == [{"n": 2}]
        assert _versions(two) == (0, 0)
    assert tx.versions == {A: 1, B: 1}
    assert (ids(two.open("a")), ids(two.open("b"))) == ([3, 4], [2, 3, 4])
    group = two.open("a").history(1)[0]["transactionGroup"]
    assert group["transactionId"] == two.open("b").history(1)[0]["transactionGroup"]["transactionId"]
    assert [part["proposedVersion"] for part in group["participants"]] == [1, 1]


def test_a_rolled_back_transaction_leaves_nothing(two: Lake) -> None:
    files = _files(two)

    def failing() -> None:
        with transaction(two.catalog) as tx:
            tx.write(A, rows(3))
            tx.table(B).delete("id = 2")
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert (_versions(two), _files(two)) == ((0, 0), files)
    with transaction(two.catalog) as tx:
        tx.write(A, rows(3))
        assert tx.rollback() == 1
    assert (_versions(two), _files(two)) == ((0, 0), files)
    forgotten = transaction(two.catalog)
    forgotten.write(A, rows(3))
    del forgotten
    assert (_versions(two), _files(two)) == ((0, 0), files)


def test_after_its_end_a_transaction_is_refused(two: Lake) -> None:
    with transaction(two.catalog) as tx:
        held = tx.table(A)
    assert tx.versions == {}
    for call in (
        tx.commit,
        tx.rollback,
        lambda: tx.table(A),
        lambda: tx.write(A, rows(1)),
        lambda: held.delete("id = 1"),
    ):
        with pytest.raises(InvalidArgumentError, match="has ended"):
            call()


@pytest.mark.parametrize("isolation", ["serializable", "snapshot"])
def test_what_was_only_read_is_checked_by_the_isolation(isolation: Any, two: Lake) -> None:
    """Write skew: each of two transactions reads the table that the other one writes."""
    first, second = (transaction(two.catalog, [A, B], isolation=isolation) for _ in range(2))
    first.write(A, rows(*(10 * n for n in ids(first.table(B)))))
    second.write(B, rows(*(10 * n for n in ids(second.table(A)))))
    assert first.commit() == {A: 1}
    if isolation == "snapshot":
        assert second.commit() == {B: 1}
        return
    with pytest.raises(DeltaConcurrentModificationException):
        second.commit()
    assert _versions(two) == (1, 0)


def test_a_conflict_in_one_table_commits_nothing(two: Lake) -> None:
    files = _files(two)
    tx = transaction(two.catalog)
    tx.write(A, rows(3))
    tx.table(B).update(updates={"text": "'mine'"})
    two.open("b").update(updates={"text": "'theirs'"})
    with pytest.raises(DeltaConcurrentModificationException, match="nothing of this transaction was committed"):
        tx.commit()
    assert ids(two.open("a")) == [1]
    assert two.open("b").to_pyarrow_table()["text"].to_pylist() == ["theirs"]
    assert _files(two) == files + 1


def test_appends_of_others_are_no_conflict(two: Lake) -> None:
    with transaction(two.catalog, isolation="snapshot") as tx:
        tx.write(A, rows(3))
        tx.write(B, rows(3))
        two.write("a", rows(7))
    assert tx.versions == {A: 2, B: 1}
    assert ids(two.open("a")) == [1, 3, 7]


def test_tables_are_read_at_one_instant(two: Lake) -> None:
    with transaction(two.catalog, [A, B]) as tx:
        assert ids(tx.table(A)) == [1]
        two.write("b", rows(9))
        assert ids(tx.table(B)) == [2]
    tx = transaction(two.catalog)
    assert ids(tx.table(A)) == [1]
    two.write("a", rows(9))
    with pytest.raises(ConcurrentWriteException, match="name all of its tables when it begins"):
        tx.table(B)
    tx.rollback()


def test_tables_outside_of_the_catalog_are_refused(two: Lake, tmp_path: Path) -> None:
    place = str(tmp_path / "outside")
    deltaplane.write_deltalake(place, rows(1))
    two.catalog.register(C, place)
    with transaction(two.catalog) as tx:
        with pytest.raises(UnsupportedFeatureError, match="outside"):
            tx.sql(f"DELETE FROM delta.`{place}`")
        with pytest.raises(UnsupportedFeatureError, match="external table"):
            tx.write(C, rows(2))
        with pytest.raises(TableNotFoundError, match="absent"):
            tx.write(f"{SCHEMA}.absent", rows(2))
        with pytest.raises(InvalidArgumentError):
            tx.table("two.parts")
        tx.write(A, rows(5))
    assert (tx.versions, DeltaTable(place).version()) == ({A: 1}, 0)


def test_another_process_does_not_have_the_transaction(two: Lake, tmp_path: Path) -> None:
    with transaction(two.catalog) as tx:
        pickled = tmp_path / "table"
        pickled.write_bytes(pickle.dumps((tx.table(A)._location, tx.table(A)._options)))
        program = (
            "import pickle, sys\nfrom deltaplane import DeltaTable\n"
            f"location, options = pickle.load(open({str(pickled)!r}, 'rb'))\n"
            "try:\n    DeltaTable(location, storage_options=options)\n"
            "except Exception as e:\n    print(type(e).__name__, e)\n"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
        assert "InvalidArgumentError" in done.stdout
        assert "another process has it" in done.stdout


def test_racing_transfers_keep_the_sum(two: Lake) -> None:
    """Eight threads move amounts between two tables; each retries until it has committed."""
    for name in "xy":
        two.write(name, pa.table({"amount": pa.array([100], pa.int64())}))
    x, y = f"{SCHEMA}.x", f"{SCHEMA}.y"

    def move(amount: int) -> int:
        for attempt in range(200):
            try:
                with transaction(two.catalog, [x, y]) as tx:
                    tx.sql(f"UPDATE {x} SET amount = amount - ?", args=[amount])
                    tx.sql(f"UPDATE {y} SET amount = amount + ?", args=[amount])
            except DeltaConcurrentModificationException:
                continue
            return attempt
        raise AssertionError("never committed")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(move, range(1, 9)))
    amounts = [two.open(name).to_pyarrow_table()["amount"].to_pylist()[0] for name in "xy"]
    assert amounts == [100 - 36, 100 + 36]
    assert [two.open(name).version() for name in "xy"] == [8, 8]


def test_statements_between_begin_and_end_are_one_transaction(two: Lake) -> None:
    script = f"""BEGIN ATOMIC
      INSERT INTO {A} VALUES (:id, CASE WHEN :id = 3 THEN 'three; END' END);
      INSERT INTO {B} SELECT * FROM {A};
      SELECT * FROM {B};
    END;"""
    made = deltaplane.sql(script, catalog=two.catalog, args={"id": 3}).to_pylist()
    assert made == [{"table": A, "version": 1}, {"table": B, "version": 1}]
    assert ids(two.open("b")) == [1, 2, 3]
    data = {"new": rows(8)}
    script = f"BEGIN TRANSACTION ISOLATION LEVEL SNAPSHOT; INSERT INTO {A} SELECT * FROM new; COMMIT"
    assert deltaplane.sql(script, catalog=two.catalog, tables=data).to_pylist() == [{"table": A, "version": 2}]
    script = f"BEGIN TRANSACTION; DELETE FROM {A}; DELETE FROM {B}; ROLLBACK"
    assert deltaplane.sql(script, catalog=two.catalog).to_pylist() == []
    assert _versions(two) == (2, 1)


@pytest.mark.parametrize(
    ("script", "error", "words"),
    [
        (
            "BEGIN ATOMIC INSERT INTO {a} VALUES (5, 'x'); INSERT INTO {b} VALUES ('x', 1); END",
            InvalidArgumentError,
            "'x'",
        ),
        ("BEGIN ATOMIC\n DELETE FORM {a}; END", SqlSyntaxError, "line 2, column 9: expected FROM"),
        ("BEGIN ATOMIC DELETE FROM {a}", SqlSyntaxError, "expected `;`"),
        ("BEGIN TRANSACTION; DELETE FROM {a};", SqlSyntaxError, "expected COMMIT or ROLLBACK"),
        ("BEGIN DELETE FROM {a}; END", SqlSyntaxError, "expected TRANSACTION"),
        ("BEGIN TRANSACTION ISOLATION LEVEL DIRTY; COMMIT", SqlSyntaxError, "SERIALIZABLE or SNAPSHOT"),
        ("BEGIN ATOMIC DELETE FROM {a}; VACUUM {b}; END", UnsupportedFeatureError, r"(?i)vacuum"),
    ],
)
def test_a_script_with_a_fault_changes_nothing(script: str, error: type[Exception], words: str, two: Lake) -> None:
    files = _files(two)
    with pytest.raises(error, match=words):
        deltaplane.sql(script.format(a=A, b=B), catalog=two.catalog)
    assert (_versions(two), _files(two)) == ((0, 0), files)


def test_begin_needs_a_catalog_with_transactions() -> None:
    with pytest.raises(UnsupportedFeatureError, match="catalog"):
        deltaplane.sql("BEGIN ATOMIC DELETE FROM t; END")
