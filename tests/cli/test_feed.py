"""The demo's files: the same each time, and with the surprises that the demo is about."""

from __future__ import annotations

import csv
from decimal import Decimal
from pathlib import Path

from deltaplane.demo.feed import BASE_COLUMNS, EXTRA_COLUMN, deliver, totals


def test_files_are_the_same_each_time(tmp_path: Path) -> None:
    first, second = (deliver(tmp_path / name, days=8, rows=100) for name in ("a", "b"))
    assert [d.path.read_bytes() for d in first] == [d.path.read_bytes() for d in second]
    assert [d.path.name for d in first] == [d.path.name for d in second]


def test_one_day_comes_twice_one_late_and_one_corrected(tmp_path: Path) -> None:
    deliveries = deliver(tmp_path, days=10, rows=100)
    assert len(deliveries) == 12
    assert len({d.path for d in deliveries}) == 11
    assert len({d.day for d in deliveries}) == 10
    (late,) = [d for d in deliveries if d.has_extra_column]
    assert deliveries.index(late) > max(n for n, d in enumerate(deliveries) if d.day > late.day)
    (corrected,) = [d for d in deliveries if d.revision == 2]
    original = next(d for d in deliveries if d.day == corrected.day)
    assert totals(corrected.path).rows < totals(original.path).rows


def test_totals_are_those_of_the_text(tmp_path: Path) -> None:
    late = next(d for d in deliver(tmp_path, days=8, rows=200) if d.has_extra_column)
    with late.path.open(newline="") as file:
        rows = list(csv.reader(file))
    sums = totals(late.path)
    assert tuple(rows[0]) == (*BASE_COLUMNS, EXTRA_COLUMN)
    assert (sums.rows, sums.categories) == (len(rows) - 1, len(rows) - 1)
    assert sums.amount == sum(Decimal(row[5]) for row in rows[1:])
