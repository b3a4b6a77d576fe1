"""Slowly changing dimensions: every state of a customer with its dates, by one MERGE.

The dimension of type 2 has a row for each state of a customer, valid from one day to another. A
day's changes end the current rows and begin new ones, in one commit, so that no reader ever sees a
customer twice or not at all.

The same statement runs on DuckDB inside the process and on Spark. The script runs it on both, over
three days, and compares the tables row by row after each.

With your own data: the text of MERGE stays as it is; list your columns in it. On a laptop and for
thousands of changes run it without Spark, for millions on the cluster: the table is the same.
"""

import datetime as dt
import random
import sys
import tempfile
from pathlib import Path

import pyarrow as pa

import deltaplane
from deltaplane import DeltaTable
from deltaplane import spark as dp

CUSTOMERS, DAYS = 60, 3
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "city": pa.string(),
        "plan": pa.string(),
        "valid_from": pa.date32(),
        "valid_to": pa.date32(),
        "is_current": pa.bool_(),
    }
)
# A changed customer comes twice: with its key, to end the current row, and without, to be inserted.
MERGE = """
    MERGE INTO customers d USING (
        SELECT c.id AS merge_key, c.* FROM changes c
        UNION ALL
        SELECT NULL AS merge_key, c.* FROM changes c JOIN customers o ON o.id = c.id
        WHERE o.is_current AND (o.city <> c.city OR o.plan <> c.plan)
    ) s ON d.id = s.merge_key AND d.is_current
    WHEN MATCHED AND (d.city <> s.city OR d.plan <> s.plan) THEN
        UPDATE SET is_current = false, valid_to = s.day
    WHEN NOT MATCHED THEN
        INSERT (id, city, plan, valid_from, valid_to, is_current)
        VALUES (s.id, s.city, s.plan, s.day, NULL, true)
"""
# The state of each customer on a day.
ON_DAY = """
    SELECT id, city, plan FROM customers
    WHERE valid_from <= DATE '{day}' AND (valid_to IS NULL OR valid_to > DATE '{day}') ORDER BY id
"""


def day(number: int) -> dt.date:
    """The date of a day of the example."""
    return dt.date(2026, 5, 1) + dt.timedelta(days=number)


def states() -> list[dict[int, tuple[str, str]]]:
    """All customers on each day; some change, some don't, some come later."""
    rng, current, history = random.Random(3), {}, []
    for _ in range(DAYS):
        for customer in rng.sample(range(CUSTOMERS), 25):
            current[customer] = (rng.choice(["Oslo", "Rome", "Wien"]), rng.choice(["free", "pro"]))
        history.append(dict(current))
    return history


def main(folder: Path) -> None:
    small = {"spark__sql__shuffle__partitions": 1, "spark__ui__enabled": "false"}
    spark = dp.session("scd2", master="local[2]", **small)
    tables = {name: DeltaTable.create(folder / name, SCHEMA).location for name in ("duckdb", "spark")}
    order = [(name, "ascending") for name in ("id", "valid_from")]
    history = states()
    for number, customers in enumerate(history):
        rows = [{"id": n, "city": city, "plan": plan} for n, (city, plan) in sorted(customers.items())]
        changes = pa.Table.from_pylist([row | {"day": day(number)} for row in rows])
        for engine, location in tables.items():
            session = spark if engine == "spark" else None
            deltaplane.sql(MERGE, session, tables={"customers": location, "changes": changes})
        by_engine = [DeltaTable(location).to_pyarrow_table().sort_by(order) for location in tables.values()]
        assert by_engine[0].equals(by_engine[1]), f"the engines differ on day {number}"
        current = sum(by_engine[0]["is_current"].to_pylist())
        assert current == len(customers)
        print(f"{day(number)}: {by_engine[0].num_rows} rows, {current} current, the same on both engines")

    for number, customers in enumerate(history):
        expected = [(n, *customers[n]) for n in sorted(customers)]
        text = ON_DAY.format(day=day(number))
        for engine, location in tables.items():
            session = spark if engine == "spark" else None
            assert deltaplane.sql(text, session, tables={"customers": location}).fetchall() == expected
    print(f"the customers of each of the {DAYS} days come back, from both engines")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1] if sys.argv[1:] else tempfile.mkdtemp()))
