"""Erasing a person from six tables, and proving it.

DELETE removes a row from the newest version only. Its values remain in files of older versions, in
rows that deletion vectors hide, in the change data feed, in the statistics and commands of the
log, in checkpoints and in indexes. The script makes six tables that together have all of
these, erases one customer, and asks `prove_erased` before, in between and at the end.

The end comes when the retention is over: a week for files, 30 days for the log. The script doesn't
wait: it lets VACUUM delete files at once, and sets the times of the log's files back by 60 days.

With your own data: run DELETE and `purge` at once, then wait. VACUUM and checkpoints as you run
them anyway end the traces on time; `deltaplane prove-erased LOCATION --where …` says what is left
and until when, and exits with 0 once nothing is. See [erasing a person](../../docs/erasing.md).
"""

import os
import random
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

from deltaplane import DeltaTable, prove_erased, write_deltalake

CUSTOMERS, ERASED = 200, 199
EMAIL = f"customer{ERASED}@example.org"
# Whichever of the two columns a table has identifies the person.
WHERE = {
    "customers": f"customer = {ERASED} OR email = '{EMAIL}'",
    "orders": f"customer = {ERASED}",
    "logins": f"customer = {ERASED} OR email = '{EMAIL}'",
    "tickets": f"email = '{EMAIL}'",
    "newsletter": f"email = '{EMAIL}'",
    "searches": f"customer = {ERASED}",
}


def rows(*columns: str, per_customer: int = 1) -> pa.Table:
    """Rows of all customers with these columns, in random order."""
    rng = random.Random(per_customer)
    customers = [n for n in range(CUSTOMERS) for _ in range(per_customer)]
    rng.shuffle(customers)
    makers = {
        "customer": lambda n: n,
        "email": lambda n: f"customer{n}@example.org",
        "city": lambda n: f"city {n % 7}",
        "cents": lambda n: rng.randint(100, 9999),
        "text": lambda n: f"text {rng.random()}",
    }
    return pa.table({column: [makers[column](n) for n in customers] for column in columns})


def make(folder: Path) -> dict[str, DeltaTable]:
    """The six tables, each with traces in other places."""
    vectors, feed = {"delta.enableDeletionVectors": "true"}, {"delta.enableChangeDataFeed": "true"}
    write_deltalake(folder / "customers", rows("customer", "email", "city"), configuration=vectors)
    for _ in range(3):
        write_deltalake(folder / "orders", rows("customer", "cents", per_customer=3), mode="append")
    write_deltalake(folder / "logins", rows("customer", "email", "city"), configuration=feed | vectors)
    DeltaTable(folder / "logins").update({"city": "upper(city)"}, predicate="customer % 2 = 1")
    write_deltalake(folder / "tickets", rows("email", "text"), configuration=feed)
    DeltaTable(folder / "tickets").update({"text": "'closed'"}, predicate="email < 'customer2'")
    write_deltalake(folder / "newsletter", rows("email", "city").slice(0, 150), partition_by=["city"])
    write_deltalake(folder / "newsletter", rows("email", "city").slice(150), mode="append")
    write_deltalake(folder / "searches", rows("customer", "text", per_customer=5))
    DeltaTable(folder / "searches").index.create(["customer"])
    DeltaTable(folder / "searches").create_checkpoint()
    return {name: DeltaTable(folder / name) for name in WHERE}


def places(tables: dict[str, DeltaTable]) -> dict[str, list[str]]:
    """Table → kinds of places that still have the person's values."""
    reports = {name: prove_erased(table, WHERE[name]) for name, table in tables.items()}
    assert not any(report.not_searched for report in reports.values())
    return {name: sorted({trace.place for trace in report.traces}) for name, report in reports.items()}


def show(title: str, left: dict[str, list[str]]) -> None:
    """Prints what is left."""
    print(title)
    for name, kinds in left.items():
        print(f"  {name}: {', '.join(kinds) or 'nothing'}")


def set_back(table: DeltaTable, days: int) -> None:
    """Lets the time pass: the files of the log and of the indexes become older."""
    moment = time.time() - days * 86_400
    for file in Path(table.location).glob("_delta*/*"):
        os.utime(file, (moment, moment))


def main(folder: Path) -> None:
    tables = make(folder)
    before = {name: table.count() for name, table in tables.items()}
    first = places(tables)
    assert all("rows" in kinds for kinds in first.values())

    for name, table in tables.items():
        assert table.delete(WHERE[name])["num_deleted_rows"] > 0
        table.purge()
    deleted = places(tables)
    assert not any({"rows", "deleted rows"} & set(kinds) for kinds in deleted.values())
    show("after DELETE and purge", deleted)

    for table in tables.values():
        table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    tables["searches"].index.build(rebuild=True)
    vacuumed = places(tables)
    assert all(set(kinds) <= {"statistics", "commands", "partition values", "index"} for kinds in vacuumed.values())
    show("after VACUUM", vacuumed)

    for table in tables.values():
        table.create_checkpoint()
        set_back(table, days=60)
        table.cleanup_metadata()
        table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    left = places({name: DeltaTable(table.location) for name, table in tables.items()})
    show("after a checkpoint and the clean-up of the log", left)
    assert not any(left.values())
    lost = {name: before[name] - DeltaTable(table.location).count() for name, table in tables.items()}
    print(f"rows erased: {lost}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if sys.argv[1:] else tempfile.mkdtemp()))
