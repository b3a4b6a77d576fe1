"""Prints the demo's progress: files, loads, reads, and whether all totals agree.

Keeps a ledger of the expected content of each version, computed from the CSV text, and compares
every read with it.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from deltaplane import DeltaTable
from deltaplane.demo.feed import EXTRA_COLUMN, Delivery, Totals, deliver, totals
from deltaplane.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaplane.demo.load import Loaded

__all__ = ["show"]

ByDay = dict[date, Totals]

# With a few thousand rows per file, more partitions than processors would only cost scheduling
# time.
SETTINGS: dict[str, Any] = {"spark__sql__shuffle__partitions": 2, "spark__ui__showConsoleProgress": "false"}


@dataclass
class Ledger:
    """The expected totals per day of each version, and all comparisons."""

    now: ByDay = field(default_factory=dict)
    deliveries: set[tuple[date, int]] = field(default_factory=set)
    versions: dict[int, ByDay] = field(default_factory=dict)
    checks: list[tuple[str, bool, str]] = field(default_factory=list)

    def loaded(self, delivery: Delivery, loaded: Loaded) -> None:
        """Records a delivery; a repeated delivery must not have made a version."""
        known = (delivery.day, delivery.revision) in self.deliveries
        self.deliveries.add((delivery.day, delivery.revision))
        if known:
            self.check(
                "The same file again is skipped", loaded.version is None, f"{delivery.path.name}, no new version"
            )
        if known or loaded.version is None:
            return
        self.now = {**self.now, delivery.day: totals(delivery.path)}
        self.versions[loaded.version] = self.now

    def compare(self, what: str, actual: ByDay, expected: ByDay) -> None:
        """Compares totals of every day."""
        wrong = sorted(day for day in {*actual, *expected} if actual.get(day) != expected.get(day))
        rows, amount = sum(t.rows for t in actual.values()), sum((t.amount for t in actual.values()), Decimal(0))
        text = f"{rows:,} rows, {amount:,} in {len(actual)} days"
        self.check(what, not wrong, text + (f"; wrong: {', '.join(map(str, wrong))}" if wrong else ""))

    def check(self, what: str, holds: bool, detail: str) -> None:
        """Records one comparison."""
        self.checks.append((what, holds, detail))

    @property
    def holds(self) -> bool:
        """Whether all comparisons agreed."""
        return bool(self.checks) and all(holds for _, holds, _ in self.checks)


def show(directory: Path, *, days: int, rows: int, keep: bool) -> bool:
    """Runs the whole demo in `directory`; returns whether the ledger holds."""
    console = Console()
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        raise InvalidArgumentError("the demo runs Spark, which needs Java 17: install it or set JAVA_HOME")
    if directory.exists() and any(directory.iterdir()):
        raise InvalidArgumentError(f"{directory} isn't empty: give the demo a new directory")
    started = time.perf_counter()
    ledger, table = Ledger(), directory / "transactions"

    console.rule("[bold]1 · A bank delivers its files")
    deliveries = deliver(directory / "inbox", days=days, rows=rows)
    files = {delivery.path for delivery in deliveries}
    size = sum(path.stat().st_size for path in files)
    console.print(
        f"{len(deliveries)} deliveries of {len(files)} CSV files, {size / 2**20:.1f} MiB, in {directory / 'inbox'}"
    )

    from deltaplane import spark as deltaspark

    with console.status("Starting Spark (local mode) …"):
        session = deltaspark.session("deltaplane demo", **SETTINGS)
        session.sparkContext.setLogLevel("ERROR")
    try:
        console.rule("[bold]2 · Spark loads them, each in one transaction")
        yesterday = _load_all(console, session, deliveries, table, ledger)
        console.rule("[bold]3 · The same table without Spark")
        _read_with_arrow(console, table, ledger, yesterday)
        console.rule("[bold]4 · The same table by Spark SQL")
        _read_with_spark(console, session, table, ledger, yesterday)
    finally:
        session.stop()

    console.rule("[bold]5 · Its history")
    _print_history(console, table)
    console.rule("[bold]6 · Does it add up?")
    _print_checks(console, ledger)
    verdict = "[bold green]Everything reconciles" if ledger.holds else "[bold red]Something doesn't reconcile"
    console.print(f"{verdict}[/] · {len(ledger.checks)} checks · {time.perf_counter() - started:.0f} s")
    if keep:
        console.print(f"Look around: deltaplane info {table} · deltaplane head {table} · deltaplane history {table}")
    return ledger.holds


def _load_all(console: Console, session: Any, deliveries: list[Delivery], table: Path, ledger: Ledger) -> int:
    """Loads every delivery; returns the last version before the late and the corrected file
    arrived."""
    from deltaplane.demo.load import load

    listed = Table("day", "delivery", "what happened", "version", "seconds", show_edge=False)
    yesterday = 0
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("loading", total=len(deliveries))
        for delivery in deliveries:
            progress.update(task, description=delivery.path.name)
            loaded = load(session, delivery, table)
            ledger.loaded(delivery, loaded)
            version = "" if loaded.version is None else str(loaded.version)
            listed.add_row(str(delivery.day), delivery.note, loaded.how, version, f"{loaded.seconds:.1f}")
            if delivery.revision == 1 and not delivery.has_extra_column and loaded.version is not None:
                yesterday = loaded.version
            progress.advance(task)
    console.print(listed)
    expected = list(range(len(ledger.deliveries)))
    detail = f"{len(ledger.versions)} versions of {len(deliveries)} deliveries"
    ledger.check("Each other delivery makes one version", sorted(ledger.versions) == expected, detail)
    return yesterday


def _read_with_arrow(console: Console, path: Path, ledger: Ledger, yesterday: int) -> None:
    # Imports the library before the measurement, so that the import isn't measured.
    import pyarrow.compute

    table, opened = _timed(lambda: DeltaTable(path))
    rows, read = _timed(table.to_pyarrow_table)
    day = max(ledger.now)
    condition = f"day = DATE '{day.isoformat()}' AND amount > 1000"
    some, filtered = _timed(lambda: table.scan(["transaction_id", "amount"], condition).to_arrow())
    old, travelled = _timed(lambda: DeltaTable(path, version=yesterday).to_pyarrow_table())

    timings = Table("read", "rows", "milliseconds", show_edge=False)
    timings.add_row(f"open version {table.version()}", "", f"{opened:.1f}")
    timings.add_row(f"all of it as Arrow ({rows.nbytes / 2**20:.1f} MiB)", f"{rows.num_rows:,}", f"{read:.1f}")
    timings.add_row(f"two columns where {condition}", f"{some.num_rows:,}", f"{filtered:.1f}")
    timings.add_row(f"all of yesterday's version {yesterday}", f"{old.num_rows:,}", f"{travelled:.1f}")
    console.print(timings)

    large = pyarrow.compute.and_(
        pyarrow.compute.equal(rows["day"], day), pyarrow.compute.greater(rows["amount"], Decimal("1000.00"))
    )
    expected = rows.filter(large).num_rows
    ledger.check("Arrow with a condition gives the rows that match", some.num_rows == expected, f"{expected:,} rows")
    ledger.compare("Arrow, newest version", _arrow_totals(rows), ledger.now)
    ledger.compare(f"Arrow, yesterday's version {yesterday}", _arrow_totals(old), ledger.versions[yesterday])
    ledger.check("yesterday's version has yesterday's columns", EXTRA_COLUMN not in old.column_names, EXTRA_COLUMN)


def _arrow_totals(rows: pa.Table) -> ByDay:
    import pyarrow as pa
    import pyarrow.compute as pc

    late = rows[EXTRA_COLUMN] if EXTRA_COLUMN in rows.column_names else pa.nulls(rows.num_rows)
    midnight = pc.multiply(pc.cast(pc.cast(rows["day"], pa.int32()), pa.int64()), 86_400_000_000)
    flat = pa.table(
        {
            "day": rows["day"],
            "amount": rows["amount"],
            "clock": pc.subtract(pc.cast(rows["booked_at"], pa.int64()), midnight),
            "tags": pc.list_value_length(rows["metadata"]),
            "categories": pc.cast(pc.is_valid(late), pa.int64()),
        }
    )
    sums = ("amount", "clock", "tags", "categories")
    by_day = flat.group_by("day").aggregate([("day", "count"), *((name, "sum") for name in sums)])
    return {row["day"]: Totals(row["day_count"], *(row[f"{name}_sum"] for name in sums)) for row in by_day.to_pylist()}


def _read_with_spark(console: Console, session: Any, path: Path, ledger: Ledger, yesterday: int) -> None:
    from deltaplane import spark as deltaspark
    from deltaplane.demo.load import totals_by_day

    deltaspark.create_or_replace_temp_view(session, "transactions", str(path))
    live, seconds = _timed(lambda: totals_by_day(session, "transactions", categories=True))
    deltaspark.read(session, str(path), version=yesterday).createOrReplaceTempView("transactions_yesterday")
    old = totals_by_day(session, "transactions_yesterday", categories=False)

    shown = Table("day", "bookings", "amount", "tags", "categories", "yesterday", show_edge=False)
    before = {row["day"]: row["amount"] for row in old}
    for row in sorted(live, key=lambda row: row["day"]):
        was = before.get(row["day"])
        changed = "" if was is None else f"{was:,}"
        cells = (f"{row['rows']:,}", f"{row['amount']:,}", f"{row['tags']:,}", f"{row['categories']:,}", changed)
        shown.add_row(str(row["day"]), *cells)
    for column in shown.columns[1:]:
        column.justify, column.no_wrap = "right", True
    console.print(shown)
    console.print(f"SELECT … FROM transactions GROUP BY day, on the live view: {seconds / 1000:.1f} s", style="dim")
    ledger.compare("Spark SQL, live view", _spark_totals(live), ledger.now)
    ledger.compare(f"Spark SQL, yesterday's version {yesterday}", _spark_totals(old), ledger.versions[yesterday])


def _spark_totals(rows: Iterable[Any]) -> ByDay:
    return {row["day"]: Totals(*(row[f.name] for f in fields(Totals))) for row in rows}


def _print_history(console: Console, path: Path) -> None:
    listed = Table("version", "operation", "rows", "files", "removed", show_edge=False)
    for entry in DeltaTable(path).history():
        metrics = entry.get("operationMetrics") or {}
        parameters = entry.get("operationParameters") or {}
        operation = f"{entry.get('operation', '')} {parameters.get('mode', '')} {parameters.get('predicate', '')}"
        counts = (metrics.get(name, "") for name in ("numOutputRows", "numFiles", "numRemovedFiles"))
        listed.add_row(str(entry["version"]), operation.rstrip(), *map(str, counts))
    console.print(listed)


def _print_checks(console: Console, ledger: Ledger) -> None:
    listed = Table("", "check", "found", show_edge=False)
    for what, holds, detail in ledger.checks:
        listed.add_row("[green]✓" if holds else "[red]✗", what, detail)
    console.print(listed)


def _timed(call: Callable[[], Any]) -> tuple[Any, float]:
    started = time.perf_counter()
    result = call()
    return result, (time.perf_counter() - started) * 1000
