"""`deltaplane demo catalog`: two tables in one transaction, and checks that notice a wrong
result."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from deltaplane import Catalog, transaction
from deltaplane.demo import catalog as demo

COMMAND = [sys.executable, "-c", "from deltaplane.cli import main; main()"]


def test_the_demo_of_catalogs(tmp_path: Path) -> None:
    arguments = ["demo", "catalog", "--days", "7", "--rows", "200", "--path", str(tmp_path / "demo")]
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("✓") == 4
    catalog = Catalog(f"sqlite:///{tmp_path}/demo/lake.db")
    assert [catalog.table(name).version() for name in (demo.ACCOUNTS, demo.BOOKINGS)] == [7, 7]
    assert catalog.table(demo.BOOKINGS).to_pyarrow_table().num_rows == 7 * 200
    again = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert (again.returncode, "isn't empty" in again.stderr) == (2, True)


def test_a_wrong_balance_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = demo.BOOK.replace("a.balance + b.amount", "a.balance + b.amount + 1")
    monkeypatch.setattr(demo, "BOOK", lost)
    assert not demo.show(tmp_path, days=1, rows=20, keep=False)


def test_a_second_transaction_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = demo._read

    def meanwhile(catalog: Catalog) -> tuple[object, ...]:
        with transaction(catalog) as tx:
            tx.table(demo.ACCOUNTS).update(updates={"balance": "balance"})
            tx.sql(f"DELETE FROM {demo.BOOKINGS} WHERE account = 1")
        catalog.table(demo.ACCOUNTS).delete("account = 1")
        return read(catalog)

    monkeypatch.setattr(demo, "_read", meanwhile)
    assert not demo.show(tmp_path, days=1, rows=20, keep=False)
