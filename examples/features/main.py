"""Feature store: join each event with the features as they were known at its time.

The table of features is changed every night. A training joins events of the past with features;
joined with today's, the model learns from values that nobody knew at the time. Each night's commit
carries its day, and each night is a version: events are joined with the version that was the newest
when they happened.

The script does this in two ways, which must agree: by time travel, a version at a time, and by one
query over the change data feed, for all events together. It also counts what the join with the
newest version gets wrong.

With your own data: few versions and many events are best joined by time travel; many versions by
the feed. `version="2026-05-03T23:00:00Z"` opens the version of a time, where the commits' own times
are the ones that count.
"""

import datetime as dt
import random
import sys
import tempfile
from pathlib import Path

import pyarrow as pa

import deltaplane
from deltaplane import CommitProperties, DeltaTable, write_deltalake

CUSTOMERS, NIGHTS, EVENTS = 80, 6, 500
FIRST = dt.date(2026, 5, 1)
AT_VERSION = """
    SELECT e.event, e.customer, f.orders, f.cents FROM events e JOIN features f ON f.customer = e.customer
    WHERE e.day = DATE '{day}'
"""
# Of each customer's changes up to the event's version the last one counts.
BY_FEED = """
    SELECT event, customer, orders, cents FROM (
        SELECT e.event, e.customer, f.orders, f.cents, f._change_type AS change,
               row_number() OVER (PARTITION BY e.event ORDER BY f._commit_version DESC) AS place
        FROM events e JOIN feed f ON f.customer = e.customer AND f._commit_version <= e.version
        WHERE f._change_type IN ('insert', 'update_postimage', 'delete'))
    WHERE place = 1 AND change <> 'delete' ORDER BY event
"""


def night(rng: random.Random, features: dict[int, tuple[int, int]]) -> pa.Table:
    """A night's new values: of some customers, and of new ones."""
    for customer in rng.sample(range(CUSTOMERS), 30):
        orders, cents = features.get(customer, (0, 0))
        features[customer] = (orders + 1, cents + rng.randint(100, 9999))
    names = ("customer", "orders", "cents")
    return pa.Table.from_pylist([dict(zip(names, (n, *v), strict=True)) for n, v in sorted(features.items())])


def rows(table: pa.Table) -> list[tuple]:
    """The rows in the order of the events."""
    return [tuple(row.values()) for row in table.sort_by("event").to_pylist()]


def main(folder: Path) -> None:
    location, rng = folder / "features", random.Random(17)
    features: dict[int, tuple[int, int]] = {}
    known: dict[dt.date, dict[int, tuple[int, int]]] = {}
    for number in range(NIGHTS):
        values, day = night(rng, features), FIRST + dt.timedelta(days=number)
        about = CommitProperties(custom_metadata={"asOf": day.isoformat()})
        if number == 0:
            feed = {"delta.enableChangeDataFeed": "true"}
            write_deltalake(location, values, configuration=feed, commit_properties=about)
        else:
            merger = DeltaTable(location).merge(
                values, "t.customer = s.customer", source_alias="s", target_alias="t", commit_properties=about
            )
            merger.when_matched_update_all("t.orders <> s.orders").when_not_matched_insert_all().execute()
        known[day] = dict(features)
    versions = {dt.date.fromisoformat(entry["asOf"]): entry["version"] for entry in DeltaTable(location).history()}
    assert sorted(versions) == sorted(known)
    print(f"{NIGHTS} nights: {len(features)} customers with features")

    days = [rng.choice(sorted(known)) for _ in range(EVENTS)]
    customers = [rng.randrange(CUSTOMERS) for _ in range(EVENTS)]
    numbers = [versions[day] for day in days]
    events = pa.table({"event": range(EVENTS), "day": days, "customer": customers, "version": numbers})
    right = [(n, c, *known[day][c]) for n, (day, c) in enumerate(zip(days, customers, strict=True)) if c in known[day]]

    parts = [
        deltaplane.sql(
            AT_VERSION.format(day=day), tables={"events": events, "features": DeltaTable(location, version=version)}
        ).to_arrow()
        for day, version in versions.items()
    ]
    assert rows(pa.concat_tables(parts)) == right
    print(f"by time travel: {len(right)} of {EVENTS} events have features of their own day")

    feed = DeltaTable(location).load_cdf(0).to_arrow()
    assert rows(deltaplane.sql(BY_FEED, tables={"events": events, "feed": feed}).to_arrow()) == right
    print("by the change data feed, in one query: the same rows")

    naive = [(n, c, *features[c]) for n, c in enumerate(customers) if c in features]
    newest = "SELECT e.event, e.customer, f.orders, f.cents FROM events e JOIN features f ON f.customer = e.customer"
    joined = rows(deltaplane.sql(newest, tables={"events": events, "features": location}).to_arrow())
    assert joined == naive
    leaked = len(set(joined) - set(right))
    assert leaked > 0
    print(f"the newest version would have leaked the future into {leaked} events")


if __name__ == "__main__":
    main(Path(sys.argv[1] if sys.argv[1:] else tempfile.mkdtemp()))
