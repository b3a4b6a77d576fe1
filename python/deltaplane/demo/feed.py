"""A bank's daily transaction files, generated deterministically, and their totals.

Plain Python only: the totals are computed from the CSV text with `Decimal`, so that they check the
tables and engines from outside.
"""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

__all__ = ["Delivery", "Totals", "deliver", "totals"]

FIRST_DAY = date(2026, 3, 2)
BASE_COLUMNS = ("transaction_id", "day", "booked_at", "account", "kind", "amount", "currency", "text", "metadata")
EXTRA_COLUMN = "merchant_category"

_KINDS = ("card", "transfer", "salary", "fee", "cash")
_CURRENCIES = ("EUR", "EUR", "EUR", "CHF", "USD")
_TEXTS = ("Café «Zur Post»", 'Rent, "March"', "groceries", "Ålborg ferry", "東京 metro", "", "invoice 7/2026")
_CATEGORIES = ("5411 grocery", "4111 transport", "5812 restaurant")


@dataclass(frozen=True)
class Delivery:
    """One file that the bank sent: `revision` counts the deliveries of a day that differ."""

    path: Path
    day: date
    revision: int
    note: str
    has_extra_column: bool = False

    @property
    def app_id(self) -> str:
        """The application id of this day's load; `revision` is its version."""
        return f"bank-transactions/{self.day.isoformat()}"


@dataclass(frozen=True)
class Totals:
    """Totals of rows: number, amounts, microseconds after midnight UTC, tags, and number of rows
    with the late column."""

    rows: int
    amount: Decimal
    clock: int
    tags: int
    categories: int

    def __add__(self, other: Totals) -> Totals:
        return Totals(
            self.rows + other.rows,
            self.amount + other.amount,
            self.clock + other.clock,
            self.tags + other.tags,
            self.categories + other.categories,
        )


def deliver(directory: Path, days: int = 10, rows: int = 4_000, seed: int = 20260302) -> list[Delivery]:
    """Writes the files in the order of their arrival: some thousand rows a day; one day arrives
    twice, one arrives late with an additional column, one is corrected.
    """
    directory.mkdir(parents=True, exist_ok=True)
    calendar = [FIRST_DAY + timedelta(days=n) for n in range(days)]
    twice, late, corrected = calendar[days // 2 - 1], calendar[-4], calendar[2]
    arrivals: list[Delivery] = []
    for day in calendar:
        if day == late:
            continue
        first = _write(directory, day, 1, rows, seed, note="on time")
        arrivals.append(first)
        if day == twice:
            arrivals.append(Delivery(first.path, day, 1, "the same file again"))
    arrivals.append(_write(directory, late, 1, rows, seed, note="late, with a new column", extra=True))
    arrivals.append(_write(directory, corrected, 2, rows, seed, note="corrected by the bank"))
    return arrivals


def totals(path: Path) -> Totals:
    """The totals of a file, computed from its text."""
    result = Totals(0, Decimal(0), 0, 0, 0)
    microsecond = timedelta(microseconds=1)
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            midnight = datetime.fromisoformat(row["day"] + "T00:00:00+00:00")
            clock = (datetime.fromisoformat(row["booked_at"].replace("Z", "+00:00")) - midnight) // microsecond
            tags = len(json.loads(row["metadata"]))
            result += Totals(1, Decimal(row["amount"]), clock, tags, 1 if row.get(EXTRA_COLUMN) else 0)
    return result


def _write(
    directory: Path, day: date, revision: int, rows: int, seed: int, *, note: str, extra: bool = False
) -> Delivery:
    path = directory / f"transactions-{day.isoformat()}-r{revision}.csv"
    columns = (*BASE_COLUMNS, EXTRA_COLUMN) if extra else BASE_COLUMNS
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(_rows(day, revision, rows, seed, extra))
    return Delivery(path, day, revision, note, extra)


def _rows(day: date, revision: int, rows: int, seed: int, extra: bool) -> Iterator[list[str]]:
    # One generator per day, so that a correction repeats the day it corrects.
    rng = random.Random(f"{seed}/{day.isoformat()}")
    midnight = datetime(day.year, day.month, day.day, tzinfo=timezone.utc)
    for n in range(rows + rng.randrange(rows // 4 + 1)):
        cents = rng.randrange(-250_000, 400_000) if rng.random() < 0.999 else 9_999_999_999
        booked_at = midnight + timedelta(microseconds=rng.randrange(86_400_000_000))
        tags = [
            {"key": k, "value": str(rng.randrange(1000))} for k in ("channel", "device", "risk")[: rng.randrange(4)]
        ]
        row = [
            f"{day:%Y%m%d}-{n:06d}",
            day.isoformat(),
            booked_at.isoformat(timespec="microseconds").replace("+00:00", "Z"),
            f"DE{rng.randrange(10**6):06d}",
            rng.choice(_KINDS),
            str(Decimal(cents).scaleb(-2)),
            rng.choice(_CURRENCIES),
            rng.choice(_TEXTS),
            json.dumps(tags),
        ]
        if extra:
            row.append(rng.choice(_CATEGORIES))
        if revision > 1 and n % 50 == 0:
            continue  # The correction omits every fiftieth booking …
        if revision > 1 and n % 50 == 1:
            row[5] = "0.00"  # … and cancels the next one.
        yield row
