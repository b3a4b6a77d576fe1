"""The demo of catalogs: loads two tables of a bank in one transaction, through a catalog in a
SQLite database, and reads them with DuckDB.

Compares every result with the rows that were made; needs neither Spark nor a server.
"""

from __future__ import annotations

import random
import time
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from deltaplane import Catalog, DeltaTable, transaction
from deltaplane.exceptions import InvalidArgumentError

__all__ = ["show"]

ACCOUNTS, BOOKINGS = "bank.ledger.accounts", "bank.ledger.bookings"
COUNT = 100
FIRST_DAY = date(2026, 3, 2)
OPENING = Decimal("1000.00")
MONEY = pa.decimal128(12, 2)
ROW_SCHEMA = pa.schema([("day", pa.date32()), ("account", pa.int64()), ("amount", MONEY)])
# A day's bookings into one table, and their sums into the other one.
BOOK = f"""
    MERGE INTO {ACCOUNTS} AS a
    USING (SELECT account, sum(amount) AS amount FROM {BOOKINGS} WHERE day = :day GROUP BY account) AS b
    ON a.account = b.account
    WHEN MATCHED THEN UPDATE SET balance = a.balance + b.amount
"""
# What must hold at each version: a balance is the opening one and all bookings.
RECONCILED = """
    SELECT count(*) AS accounts, sum(balance) AS balance, count_if(balance <> 1000 + coalesce(b.amount, 0)) AS wrong
    FROM accounts LEFT JOIN (SELECT account, sum(amount) AS amount FROM bookings GROUP BY account) AS b USING (account)
"""


def show(directory: Path, *, days: int, rows: int, keep: bool) -> bool:
    """Runs the demo in `directory`; returns whether both tables agree with the bookings."""
    console = Console()
    if directory.exists() and any(directory.iterdir()):
        raise InvalidArgumentError(f"{directory} isn't empty: give the demo a new directory")
    directory.mkdir(parents=True, exist_ok=True)
    uri = f"sqlite:///{directory.absolute() / 'lake.db'}"
    catalog = Catalog(uri)

    console.rule("[bold]1 · A catalog with two tables, loaded in one transaction")
    _create(catalog)
    total = _load(console, catalog, days, rows)

    console.rule("[bold]2 · A load that fails leaves both as they were")
    before = _versions(catalog)
    failed = _fail(console, catalog)
    checks = [("A failed load changes neither table", failed and _versions(catalog) == before, f"versions {before}")]

    console.rule("[bold]3 · Both tables by DuckDB")
    accounts, balance, wrong = _read(catalog)
    expected = OPENING * COUNT + total
    checks.append(("Every version of one table has its version of the other", _agree(catalog), f"{days} loads"))
    checks.append(("DuckDB reads all accounts", accounts == COUNT, f"{accounts}"))
    checks.append(("Balances are the bookings' sums", (balance, wrong) == (expected, 0), f"{balance:,}"))

    console.rule("[bold]4 · Does it add up?")
    listed = Table("", "check", "found", show_edge=False)
    for what, holds, detail in checks:
        listed.add_row("[green]✓" if holds else "[red]✗", what, detail)
    console.print(listed)
    if keep:
        console.print(f"Look around: deltaplane catalog list {uri} bank.ledger", soft_wrap=True)
        console.print(f"             deltaplane history uc://{ACCOUNTS} -o catalog={uri}", soft_wrap=True)
    return all(holds for _, holds, _ in checks)


def _create(catalog: Catalog) -> None:
    catalog.create_catalog("bank")
    catalog.create_schema("bank.ledger")
    catalog.create_table(ACCOUNTS, pa.schema([("account", pa.int64()), ("balance", MONEY)]))
    catalog.create_table(BOOKINGS, ROW_SCHEMA)


def _load(console: Console, catalog: Catalog, days: int, rows: int) -> Decimal:
    """Loads every day in a transaction of its own; the sum of all amounts."""
    choose, total = random.Random(20260302), Decimal(0)
    listed = Table("day", "bookings", "versions", "milliseconds", show_edge=False)
    for number in range(days):
        day = FIRST_DAY + timedelta(days=number)
        bookings = _bookings(choose, day, rows)
        total += sum(bookings["amount"].to_pylist(), Decimal(0))
        began = time.perf_counter()
        with transaction(catalog, [ACCOUNTS, BOOKINGS]) as tx:
            if number == 0:
                tx.write(ACCOUNTS, _accounts())
            tx.write(BOOKINGS, bookings)
            tx.sql(BOOK, args={"day": day})
        took = (time.perf_counter() - began) * 1000
        versions = ", ".join(f"{name.rpartition('.')[2]} {version}" for name, version in (tx.versions or {}).items())
        listed.add_row(str(day), f"{bookings.num_rows:,}", versions, f"{took:.0f}")
    console.print(listed)
    return total


def _accounts() -> pa.Table:
    numbers = pa.array(range(COUNT), pa.int64())
    return pa.table({"account": numbers, "balance": pa.array([OPENING] * COUNT, MONEY)})


def _bookings(choose: random.Random, day: date, rows: int) -> pa.Table:
    columns = {
        "day": [day] * rows,
        "account": [choose.randrange(COUNT) for _ in range(rows)],
        "amount": [Decimal(choose.randint(-50_000, 50_000)) / 100 for _ in range(rows)],
    }
    return pa.table(columns, ROW_SCHEMA)


def _versions(catalog: Catalog) -> tuple[int, int]:
    return catalog.table(ACCOUNTS).version(), catalog.table(BOOKINGS).version()


class _FeedError(Exception):
    """The demo's feed breaks off."""


def _fail(console: Console, catalog: Catalog) -> bool:
    """A load whose feed breaks off after both tables were written."""
    try:
        with transaction(catalog, [ACCOUNTS, BOOKINGS]) as tx:
            tx.write(BOOKINGS, _bookings(random.Random(1), FIRST_DAY, 10))
            tx.table(ACCOUNTS).update(updates={"balance": "balance - 1"})
            raise _FeedError("the feed broke off")
    except _FeedError as e:
        console.print(f"{e}: nothing of it is in a table")
        return True


def _read(catalog: Catalog) -> tuple[Any, ...]:
    """Joins both tables by DuckDB, which gets their rows as Arrow streams."""
    with duckdb.connect() as connection:
        for name in (ACCOUNTS, BOOKINGS):
            connection.register(name.rpartition(".")[2], catalog.table(name).to_pyarrow_table())
        row = connection.execute(RECONCILED).fetchone()
    assert row is not None
    return row


def _agree(catalog: Catalog) -> bool:
    """Whether each version of the bookings names the same transaction as that of the accounts."""

    def transactions(table: DeltaTable) -> list[str]:
        groups = (entry.get("transactionGroup") for entry in table.history())
        return [group["transactionId"] for group in groups if group]

    made = transactions(catalog.table(ACCOUNTS))
    return bool(made) and made == transactions(catalog.table(BOOKINGS))
