"""Bronze, silver, gold: constraints stop wrong rows, RESTORE undoes a wrong load, to the cent.

A bank's daily files are loaded as they are (bronze), cleaned (silver) and summed by account (gold).
The silver table has constraints: a day with an unknown currency or an amount of zero is refused
completely, and no row of it is visible.

Constraints can't know everything. One day's file has euros where cents belong, and loads well. The
control total of the bank shows it: RESTORE brings silver and gold back to the versions before this
load, the corrected file is loaded, and the totals are right to the cent.

With your own data: write the constraints as SQL over a row. `restore` takes a timestamp, too; the
history says which load made which version. Restoring commits a new version: nothing is lost, and
the wrong version can still be looked at.
"""

import random
import sys
import tempfile
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
from pyarrow import csv

import deltaplane
from deltaplane import CommitProperties, DeltaTable, copy_into, write_deltalake
from deltaplane.exceptions import ConstraintViolationError

ACCOUNTS, ROWS = 20, 500
BRONZE = pa.schema([(name, pa.string()) for name in ("day", "id", "account", "currency", "amount")])
SILVER = pa.schema(
    {
        "day": pa.date32(),
        "id": pa.int64(),
        "account": pa.string(),
        "currency": pa.string(),
        "amount": pa.decimal128(12, 2),
    }
)
CLEAN = """
    SELECT CAST(day AS DATE) AS day, CAST(id AS BIGINT) AS id, upper(trim(account)) AS account, currency,
           CAST(amount AS DECIMAL(12, 2)) AS amount
    FROM bronze WHERE day = '{day}'
"""
SUM = "SELECT account, sum(amount) AS balance, count(*) AS bookings FROM silver GROUP BY account ORDER BY account"


def file_of(folder: Path, day: str, fault: str = "") -> Decimal:
    """Writes a day's file, and returns the bank's control total of the day."""
    rng, rows, total = random.Random(day), [], Decimal(0)
    for number in range(ROWS):
        amount = Decimal(rng.randint(-50_000, 100_000) or 1) / 100
        total += amount
        row = [day, str(number), f" acc{rng.randrange(ACCOUNTS):02} ", "EUR", f"{amount:.2f}"]
        if fault == "cents":
            row[4] = f"{amount * 100:.2f}"
        if fault == "currency" and number == 77:
            row[3] = "???"
        rows.append(dict(zip(BRONZE.names, row, strict=True)))
    folder.mkdir(exist_ok=True)
    csv.write_csv(pa.Table.from_pylist(rows, BRONZE), folder / f"{day}{fault}.csv")
    return total


def load(folder: Path, day: str, name: str) -> None:
    """Bronze, silver, gold of a day; each step notes the file in the history."""
    about = CommitProperties(custom_metadata={"file": name})
    DeltaTable(folder / "bronze").delete(f"day = '{day}'")
    options = {"header": "true"}
    copy_into(folder / "bronze", folder / "files", "csv", files=[name], format_options=options, commit_properties=about)
    rows = deltaplane.sql(CLEAN.format(day=day), tables={"bronze": folder / "bronze"})
    write_deltalake(folder / "silver", rows, mode="overwrite", predicate=f"day = DATE '{day}'", commit_properties=about)
    balances = deltaplane.sql(SUM, tables={"silver": folder / "silver"})
    write_deltalake(folder / "gold", balances, mode="overwrite", commit_properties=about)


def total(folder: Path) -> Decimal:
    """The sum of all balances."""
    return sum(DeltaTable(folder / "gold").to_pyarrow_table()["balance"].to_pylist(), Decimal(0))


def main(folder: Path) -> None:
    DeltaTable.create(folder / "bronze", BRONZE)
    silver = DeltaTable.create(folder / "silver", SILVER)
    silver.alter.add_constraint({"known_currency": "currency IN ('EUR', 'SEK', 'CHF')"})
    silver.alter.add_constraint({"some_amount": "amount <> 0"})

    expected = Decimal(0)
    for day in ("2026-05-04", "2026-05-05"):
        expected += file_of(folder / "files", day)
        load(folder, day, f"{day}.csv")
    assert total(folder) == expected
    print(f"two days loaded: {2 * ROWS} bookings, {expected} EUR")

    file_of(folder / "files", "2026-05-06", fault="currency")
    before = DeltaTable(folder / "silver").version()
    refusal = ""
    try:
        load(folder, "2026-05-06", "2026-05-06currency.csv")
    except ConstraintViolationError as error:
        refusal = str(error)
    assert "known_currency" in refusal
    assert DeltaTable(folder / "silver").version() == before
    assert total(folder) == expected
    print("a day with an unknown currency: refused by known_currency, nothing of it is visible")

    versions = {name: DeltaTable(folder / name).version() for name in ("silver", "gold")}
    control = file_of(folder / "files", "2026-05-06", fault="cents")
    load(folder, "2026-05-06", "2026-05-06cents.csv")
    wrong = total(folder)
    assert wrong == expected + 100 * control
    print(f"a day in cents: {wrong} EUR, but the bank says {expected + control}")
    for name, version in versions.items():
        DeltaTable(folder / name).restore(version)
    assert total(folder) == expected
    file_of(folder / "files", "2026-05-06")
    load(folder, "2026-05-06", "2026-05-06.csv")
    assert total(folder) == expected + control
    assert DeltaTable(folder / "silver").count() == 3 * ROWS
    print(f"restored, and the right file loaded: {total(folder)} EUR, to the cent")
    print("gold:", " ← ".join(str(entry["operation"]) for entry in DeltaTable(folder / "gold").history()))


if __name__ == "__main__":
    main(Path(sys.argv[1] if sys.argv[1:] else tempfile.mkdtemp()))
