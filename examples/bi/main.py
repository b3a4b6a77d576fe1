"""Business intelligence: a star schema, figures from metadata, and a page.

Sales with their stores, products and days are four tables, and reports are joins over them, in SQL
without a database server. How many sales there are, and from when to when, is in the log: such a
query opens no data file. The script proves this by hiding the data files while it asks.

The result is a page, `sales.html`, with the revenue by month and region.

With your own data: give the tables' locations in `tables=`. Reports that run while the tables are
written see one version of each table. Partition the sales by month, or cluster them by the day and
store, when they have more than some gigabytes.
"""

import datetime as dt
import html
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

import deltaplane
from deltaplane import write_deltalake

DAYS = [dt.date(2026, 1, 1) + dt.timedelta(days=n) for n in range(181)]
REGIONS = ("north", "south", "west")
STORES = pa.table({"store": range(12), "region": [REGIONS[n % 3] for n in range(12)]})
PRODUCTS = pa.table({"product": range(40), "category": [("food", "home", "toys")[n % 3] for n in range(40)]})
CALENDAR = pa.table({"day": DAYS, "month": [f"{day:%Y-%m}" for day in DAYS]})
FACTS = "SELECT count(*), min(day), max(day) FROM sales"
BY_MONTH = """
    SELECT c.month, s.region, sum(f.cents * f.pieces) AS revenue
    FROM sales f JOIN calendar c ON c.day = f.day JOIN stores s ON s.store = f.store
    GROUP BY c.month, s.region ORDER BY c.month, s.region
"""
TOP = """
    SELECT month, category, revenue FROM (
        SELECT c.month, p.category, sum(f.cents * f.pieces) AS revenue,
               row_number() OVER (PARTITION BY c.month ORDER BY sum(f.cents * f.pieces) DESC, p.category) AS place
        FROM sales f JOIN calendar c ON c.day = f.day JOIN products p ON p.product = f.product
        GROUP BY c.month, p.category)
    WHERE place = 1 ORDER BY month
"""


def sales(month: str) -> pa.Table:
    """The sales of a month."""
    rng, days = random.Random(month), [day for day in DAYS if f"{day:%Y-%m}" == month]
    names = ("day", "store", "product", "pieces", "cents")
    rows = [
        (rng.choice(days), rng.randrange(12), rng.randrange(40), rng.randint(1, 5), rng.randint(99, 9999))
        for _ in range(5000)
    ]
    table = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])
    return table.append_column("month", pa.array([month] * len(rows)))


@contextmanager
def without_data_files(table: Path) -> Iterator[None]:
    """Renames the data files meanwhile: whatever opens one of them fails."""
    files = list(table.rglob("*.parquet"))
    files = [file for file in files if "_delta_log" not in file.parts]
    assert files
    for file in files:
        file.rename(file.with_suffix(".hidden"))
    yield
    for file in files:
        file.with_suffix(".hidden").rename(file)


def page(facts: tuple, rows: list[tuple[str, str, int]]) -> str:
    """A page with a bar for each month and region."""
    most = max(revenue for _, _, revenue in rows)
    bars = "".join(
        f"<tr><td>{html.escape(month)}</td><td>{html.escape(region)}</td><td align='right'>{revenue / 100:,.2f}</td>"
        f"<td><div style='background:#37c;height:1em;width:{20 * revenue / most:.1f}em'></div></td></tr>\n"
        for month, region, revenue in rows
    )
    title = f"{facts[0]:,} sales from {facts[1]} to {facts[2]}"
    head = f"<!doctype html><html lang='en'><meta charset='utf-8'><title>Sales</title><h1>{title}</h1>\n"
    return f"{head}<table><tr><th>month<th>region<th>revenue<th></tr>\n{bars}</table></html>\n"


def main(folder: Path) -> None:
    months = sorted({f"{day:%Y-%m}" for day in DAYS})
    tables = {name: str(folder / name) for name in ("sales", "stores", "products", "calendar")}
    for name, rows in (("stores", STORES), ("products", PRODUCTS), ("calendar", CALENDAR)):
        write_deltalake(tables[name], rows)
    expected: Counter[tuple[str, str]] = Counter()
    for month in months:
        rows = sales(month)
        write_deltalake(tables["sales"], rows, mode="append", partition_by=["month"])
        for row in rows.to_pylist():
            expected[month, REGIONS[row["store"] % 3]] += row["cents"] * row["pieces"]

    with without_data_files(folder / "sales"):
        facts = deltaplane.sql(FACTS, tables=tables).fetchall()[0]
        by_month = deltaplane.sql("SELECT month, count(*) FROM sales GROUP BY month ORDER BY month", tables=tables)
        assert by_month.fetchall() == [(month, 5000) for month in months]
    assert facts == (5000 * len(months), DAYS[0], DAYS[-1])
    print(f"from the log alone: {facts[0]:,} sales from {facts[1]} to {facts[2]}, {len(months)} months")

    rows = deltaplane.sql(BY_MONTH, tables=tables).fetchall()
    assert {(month, region): revenue for month, region, revenue in rows} == dict(expected)
    (folder / "sales.html").write_text(page(facts, rows), encoding="utf-8")
    for month, category, revenue in deltaplane.sql(TOP, tables=tables).fetchall():
        print(f"{month}: {category} sold best, {revenue / 100:,.2f}")
    print(f"sales.html: {len(rows)} bars, {sum(expected.values()) / 100:,.2f} in all")


if __name__ == "__main__":
    main(Path(sys.argv[1] if sys.argv[1:] else tempfile.mkdtemp()))
