"""Change data capture: a database's changes in a Delta table, in their order, each once.

A shop's database (SQLite) has triggers that note each change with a number. A job reads the changes
behind the last number, leaves the newest of each key, and merges them. The number is committed with
the rows, as the table's transaction id of the application `shop`. A job that dies before the commit
has done nothing; one that dies after it starts behind the committed number; a batch that is merged
again is skipped.

After each run the table equals the database, and every former version equals the database of that
moment.

With your own data: `changes` is what Debezium or a replication slot delivers, the number its offset
or LSN. The table's own change data feed then tells the next job what changed
(`DeltaTable.load_cdf`).
"""

import random
import sqlite3
import sys
import tempfile
from pathlib import Path

import pyarrow as pa

from deltaplane import CommitProperties, DeltaTable, Transaction

SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string(), "city": pa.string(), "cents": pa.int64()})
COLUMNS = ", ".join(SCHEMA.names)
SHOP = """
    CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, city TEXT, cents INTEGER);
    CREATE TABLE changes (seq INTEGER PRIMARY KEY AUTOINCREMENT, op TEXT,
                          id INTEGER, name TEXT, city TEXT, cents INTEGER);
    CREATE TRIGGER i AFTER INSERT ON customers BEGIN
        INSERT INTO changes VALUES (NULL, 'insert', new.id, new.name, new.city, new.cents); END;
    CREATE TRIGGER u AFTER UPDATE ON customers BEGIN
        INSERT INTO changes VALUES (NULL, 'update', new.id, new.name, new.city, new.cents); END;
    CREATE TRIGGER d AFTER DELETE ON customers BEGIN
        INSERT INTO changes VALUES (NULL, 'delete', old.id, old.name, old.city, old.cents); END;
"""


class Crash(Exception):
    """The job's process dies."""


def trade(shop: sqlite3.Connection, rng: random.Random) -> None:
    """A day in the shop: customers come, change several times, and leave."""
    for _ in range(150):
        ids = [row[0] for row in shop.execute("SELECT id FROM customers")]
        kind, key = rng.random(), rng.choice(ids) if ids else None
        if key is None or kind < 0.4:
            row = (rng.randrange(10**6), f"name {rng.randrange(100)}", "Oslo", 0)
            shop.execute("INSERT OR IGNORE INTO customers VALUES (?, ?, ?, ?)", row)
        elif kind < 0.9:
            values = (rng.choice(["Oslo", "Rome", "Wien"]), rng.randrange(10_000), key)
            shop.execute("UPDATE customers SET city = ?, cents = cents + ? WHERE id = ?", values)
        else:
            shop.execute("DELETE FROM customers WHERE id = ?", (key,))
    shop.commit()


def changes(shop: sqlite3.Connection, behind: int, most: int) -> tuple[int, pa.Table]:
    """The next changes behind a number: the last number, and the newest change of each key."""
    query = f"SELECT seq, op, {COLUMNS} FROM changes WHERE seq > ? ORDER BY seq LIMIT ?"
    rows = shop.execute(query, (behind, most)).fetchall()
    newest = {row[2]: dict(zip(("op", *SCHEMA.names), row[1:], strict=True)) for row in rows}
    table = pa.Table.from_pylist(list(newest.values()), SCHEMA.insert(0, pa.field("op", pa.string())))
    return (rows[-1][0] if rows else behind), table


def apply(table: DeltaTable, last: int, rows: pa.Table) -> dict:
    """Merges a batch of changes, with the number of the last one in the same commit."""
    once = CommitProperties(app_transactions=[Transaction("shop", last)])
    merger = table.merge(rows, "t.id = s.id", source_alias="s", target_alias="t", commit_properties=once)
    new = {name: f"s.{name}" for name in SCHEMA.names}
    merger = merger.when_matched_delete("s.op = 'delete'").when_matched_update(new)
    return merger.when_not_matched_insert(new, "s.op <> 'delete'").execute()


def capture(shop: sqlite3.Connection, location: Path, dies: str | None = None) -> None:
    """The job: batches of changes until there are none."""
    while True:
        table = DeltaTable(location)
        last, rows = changes(shop, table.transaction_version("shop") or 0, most=60)
        if rows.num_rows == 0:
            return
        if dies == "before":
            raise Crash
        apply(table, last, rows)
        if dies == "after":
            raise Crash


def main(folder: Path) -> None:
    shop, location = sqlite3.connect(folder / "shop.db"), folder / "customers"
    shop.executescript(SHOP)
    DeltaTable.create(location, SCHEMA, configuration={"delta.enableChangeDataFeed": "true"})
    rng, days = random.Random(11), {}
    for dies in (None, "before", "after", "after", "before", None):
        trade(shop, rng)
        try:
            capture(shop, location, dies)
        except Crash:
            capture(shop, location)  # the restarted job
        state = shop.execute(f"SELECT {COLUMNS} FROM customers ORDER BY id").fetchall()
        table = DeltaTable(location)
        assert [tuple(row.values()) for row in table.to_pyarrow_table().sort_by("id").to_pylist()] == state
        days[table.version()] = state
    made = shop.execute("SELECT count(*), max(seq) FROM changes").fetchone()
    assert table.transaction_version("shop") == made[1]
    print(f"{made[0]} changes of {len(days)} days and 4 crashes: {len(state)} customers, as in the database")

    again = apply(table, *changes(shop, 0, most=60))
    assert again["num_target_rows_inserted"] == again["num_target_rows_updated"] == 0
    assert DeltaTable(location).version() == table.version()
    print("the first batch again: skipped")
    for version, state in days.items():
        rows = DeltaTable(location, version=version).to_pyarrow_table().sort_by("id").to_pylist()
        assert [tuple(row.values()) for row in rows] == state
    print(f"each of the {len(days)} days is a version that equals the database of that day")


if __name__ == "__main__":
    main(Path(sys.argv[1] if sys.argv[1:] else tempfile.mkdtemp()))
