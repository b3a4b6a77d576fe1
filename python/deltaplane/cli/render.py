"""Formats results: rich tables for people, one JSON value for programs.

Takes plain values; doesn't access a table.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from deltaplane.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from deltaplane.advisor.advice import AdviceReport, MaintenanceReport
    from deltaplane.commands.dry_run import DryRun
    from deltaplane.commands.erasure import ErasureReport
    from deltaplane.compat import Compatibility
    from deltaplane.report import HealthReport
    from deltaplane.schema import Schema

__all__ = [
    "bytes_text",
    "cache",
    "compat",
    "counts",
    "doctor",
    "dry_run",
    "erasure",
    "facts",
    "files",
    "findings",
    "head",
    "health",
    "history",
    "info",
    "names",
    "progress",
    "records",
    "report",
    "rows",
    "schema",
    "steps",
    "stream",
]

_CELL = 60
# The most columns of a single row that is printed across.
_ACROSS = 6


def print_json(value: object) -> None:
    """Prints one JSON value; decimals, timestamps and dates become text, bytes become base64."""
    print(json.dumps(value, ensure_ascii=False, default=_plain, indent=2))


def _plain(value: object) -> object:
    if isinstance(value, (date, datetime, time)):
        return value.isoformat()
    if isinstance(value, (Decimal, timedelta)):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"can't print a {type(value).__name__} as JSON")


def bytes_text(size: int) -> str:
    """A size in the largest fitting unit.

    >>> bytes_text(0), bytes_text(1536), bytes_text(5 * 2**30)
    ('0 B', '1.5 KiB', '5.0 GiB')
    """
    amount = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{size} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def _moment(epoch_ms: int | None) -> str:
    if epoch_ms is None:
        return ""
    return datetime.fromtimestamp(epoch_ms / 1000, tz=timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def _cell(value: object) -> Text:
    if value is None:
        return Text("null", style="dim")
    text = value if isinstance(value, str) else json.dumps(value, default=_plain, ensure_ascii=False)
    text = text.strip('"') if isinstance(value, (date, datetime, Decimal)) else text
    return Text(text if len(text) <= _CELL else text[: _CELL - 1] + "…")


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]], numbers: Sequence[str] = ()) -> None:
    table = Table(show_edge=False, header_style="bold")
    for name in columns:
        table.add_column(Text(name), justify="right" if name in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    Console().print(table)


def facts(values: Mapping[str, object], *, as_json: bool) -> None:
    """Prints names and values, one pair a line."""
    if as_json:
        print_json(values)
        return
    grid = Table.grid(padding=(0, 2))
    for name, value in values.items():
        grid.add_row(Text(name.replace("_", " "), style="bold"), _cell("" if value is None else value))
    Console().print(grid)


@contextmanager
def progress(what: str, *, shown: bool) -> Iterator[Callable[[int, int], None]]:
    """Shows a bar on stderr if it is a terminal; the yielded function takes the bytes done and the
    total."""
    with _bar(what, DownloadColumn(binary_units=True), shown=shown) as update:
        yield lambda done, total: update(completed=done, total=total)


@contextmanager
def counts(what: str, *, shown: bool) -> Iterator[Callable[[str, int, int | None], None]]:
    """Shows progress in files as `progress` does; the yielded function takes the command's phase,
    the files done, and the total if it is known."""
    with _bar(what, MofNCompleteColumn(), shown=shown) as update:
        yield lambda part, done, total: update(
            description=f"{what}: {part}", completed=done, total=total, refresh=done == total
        )


@contextmanager
def _bar(what: str, done: ProgressColumn, *, shown: bool) -> Iterator[Callable[..., None]]:
    """A bar; the yielded function takes what changes. Without a terminal there is none: rich before
    15 ends a disabled one with an empty line."""
    if not (shown and sys.stderr.isatty()):
        yield lambda **changes: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), done, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield partial(bar.update, bar.add_task(what, total=None))


@contextmanager
def steps(what: str, *, shown: bool) -> Iterator[Callable[[str], None]]:
    """Shows the running step on stderr if it is a terminal; the yielded function takes the name of
    the last completed step."""
    with Console(stderr=True).status(what) if shown and sys.stderr.isatty() else nullcontext() as status:
        yield lambda done: None if status is None else status.update(f"{what}: {done}")


def report(result: AdviceReport | MaintenanceReport, *, as_json: bool) -> None:
    """Prints advice or the steps of maintenance."""
    if as_json:
        print_json(result.to_dict())
    else:
        print(result)


def stream(
    reader: pa.RecordBatchReader, limit: int | None, *, as_json: bool, when_empty: str | None = "no rows differ"
) -> None:
    """Prints rows as they arrive: one line of JSON each, or tables of a batch; memory holds one
    batch. `when_empty` is what people read when there are none."""
    shown = 0
    for batch in reader:
        rows = batch.slice(0, None if limit is None else limit - shown).to_pylist(maps_as_pydicts="strict")
        if as_json:
            for row in rows:
                print(json.dumps(row, ensure_ascii=False, default=_plain))
        elif rows:
            _table(reader.schema.names, [list(row.values()) for row in rows])
        shown += len(rows)
        if limit is not None and shown >= limit:
            break
    if not shown and not as_json and when_empty is not None:
        Console().print(Text(when_empty))


def info(values: dict[str, Any], *, as_json: bool) -> None:
    """Prints a summary of the table."""
    if as_json:
        print_json(values)
        return
    protocol = values["protocol"]
    features = sorted({*(protocol["reader_features"] or ()), *(protocol["writer_features"] or ())})
    shown = {
        **values,
        "created_time": _moment(values["created_time"]),
        "partition_columns": ", ".join(values["partition_columns"]),
        "size_bytes": bytes_text(values["size_bytes"]),
        "rows": "not in the statistics" if values["rows"] is None else f"{values['rows']:,}",
        "files": f"{values['files']:,}",
        "configuration": ", ".join(f"{k}={v}" for k, v in values["configuration"].items()),
        "protocol": f"reader {protocol['min_reader_version']}, writer {protocol['min_writer_version']}"
        + (f" ({', '.join(features)})" if features else ""),
    }
    renamed = {"size_bytes": "size", "created_time": "created", "partition_columns": "partitioned by"}
    facts({renamed.get(k, k): v for k, v in shown.items() if v not in (None, "")}, as_json=False)


def cache(values: dict[str, Any], *, as_json: bool) -> None:
    """Prints the contents of the cache."""
    if as_json:
        print_json(values)
        return
    shown = {
        "path": values["path"],
        "size": bytes_text(values["size_bytes"]),
        "entries": f"{values['entries']:,}",
        "oldest use": _moment(values["oldest_use_ms"]),
    }
    facts(shown, as_json=False)
    if values["tables"]:
        rows = [(name, bytes_text(t["size_bytes"]), t["entries"]) for name, t in values["tables"].items()]
        _table(("table", "size", "entries"), rows, numbers=("size", "entries"))


def history(entries: list[dict[str, Any]], *, as_json: bool) -> None:
    """Prints commits, newest first."""
    if as_json:
        print_json(entries)
        return
    rows = [
        (
            entry["version"],
            _moment(entry.get("timestamp")),
            entry.get("operation", ""),
            ", ".join(f"{k}={v}" for k, v in (entry.get("operationMetrics") or {}).items() if str(v) != "0"),
            entry.get("userMetadata") or "",
        )
        for entry in entries
    ]
    _table(("version", "time", "operation", "metrics", "user metadata"), rows, numbers=("version",))


def records(values: Sequence[Mapping[str, object]], *, as_json: bool) -> None:
    """Prints rows with the same keys as a table, or as a JSON list."""
    if as_json:
        print_json([dict(row) for row in values])
    elif values:
        _table(list(values[0]), [list(row.values()) for row in values])


def names(title: str, values: Sequence[str]) -> None:
    """Prints a titled list of names, or nothing if it is empty."""
    if values:
        _table((title,), [(value,) for value in values])


def findings(problems: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    """Prints the problems that a check found."""
    if as_json:
        print_json(problems)
        return
    if not problems:
        Console().print(Text("nothing found: log and files agree"))
        return
    _table(
        ("kind", "file", "what"), [(problem["kind"], problem["path"] or "", problem["message"]) for problem in problems]
    )


def health(health_report: HealthReport, output: Path | None, *, as_json: bool) -> None:
    """Prints the advice of a health report, the part that fits on a terminal."""
    if as_json:
        print_json(health_report.to_dict())
        return
    files = health_report.facts.files
    shown = {
        "table": health_report.facts.table,
        "version": health_report.facts.version,
        "files": f"{files.count:,}",
        "size": bytes_text(files.size_bytes),
        "page": "" if output is None else str(output),
    }
    facts({name: value for name, value in shown.items() if value != ""}, as_json=False)
    pressing = [advice for advice in health_report.facts.advice if advice.level != "fine"]
    if not pressing:
        Console().print(Text("nothing to do"))
        return
    _table(("", "what", "command"), [(item.level, item.title, item.command or "") for item in pressing])


def compat(result: Compatibility, *, as_json: bool) -> None:
    """Prints the engines that can read and write a table."""
    if as_json:
        print_json(result.to_dict())
        return
    rows = [
        (
            verdict.engine,
            verdict.versions,
            "yes" if verdict.reads else "no",
            "yes" if verdict.writes else "no",
            ", ".join(verdict.missing_to_write),
        )
        for verdict in result.engines
    ]
    _table(("engine", "versions", "reads", "writes", "lacks"), rows)
    if result.after is not None:
        changes = {
            "protocol now": str(result.protocol),
            "protocol after": str(result.after),
            "unreadable for": ", ".join(result.unreadable_for) or "nobody more",
            "unwritable for": ", ".join(result.unwritable_for) or "nobody more",
        }
        facts(changes, as_json=False)


def files(rows: list[dict[str, Any]], total: int, *, as_json: bool) -> None:
    """Prints a list of data files."""
    if as_json:
        print_json(rows)
        return
    _table(
        ("path", "size", "rows"),
        [(row["path"], bytes_text(row["size_bytes"]), row["num_records"]) for row in rows],
        numbers=("size", "rows"),
    )
    Console().print(
        f"{total:,} files, {bytes_text(sum(row['size_bytes'] for row in rows))} in those shown", style="dim"
    )


def schema(columns: Schema, partition_columns: list[str], *, as_json: bool) -> None:
    """Prints columns with their types and nullability."""
    if as_json:
        print_json(json.loads(columns.to_json()))
        return
    rows = [
        (
            field.name,
            field.type.to_json().strip('"'),
            "" if field.nullable else "not null",
            "partition" if field.name in partition_columns else "",
        )
        for field in columns.fields
    ]
    _table(("column", "type", "null", ""), rows)


def doctor(values: dict[str, Any], *, as_json: bool) -> None:
    """Prints what is installed and configured."""
    if as_json:
        print_json(values)
        return
    java, table = values["java"], values["table"]
    shown = {
        **{name: values[name] for name in ("deltaplane", "python", "platform")},
        "java": f"{java['version'] or 'none'} ({java['program']})" if java["program"] else "none",
        "cache": values["cache"] or "none (DELTAPLANE_CACHE_DIR)",
        **{f"variables of {what}": ", ".join(set_names) for what, set_names in values["variables"].items()},
        **{f"credentials of {what}": path for what, path in values["credential_files"].items()},
        **({} if table is None else {"opened": f"{table['table']}, version {table['version']}"}),
    }
    facts(shown, as_json=False)
    packages = [(name, p["version"] or "", p["bounds"], p["extra"]) for name, p in sorted(values["packages"].items())]
    _table(("package", "installed", "needs", "extra"), packages)
    names("problems", values["problems"])


def erasure(result: ErasureReport, *, as_json: bool) -> None:
    """Prints where erased values still stand."""
    if as_json:
        print_json(result.to_dict())
        return
    if result.is_erased:
        Console().print(Text(f"nothing found in {result.objects:,} objects"))
        return
    traces = [(t.place, t.path, t.what, _moment(t.until_ms), t.next) for t in result.traces]
    _table(("place", "path", "what", "from", "ended by"), traces)
    names("not searched", result.not_searched)


def rows(table: pa.Table, *, as_json: bool, more: bool = False) -> None:
    """Prints a statement's result; one wide row vertically. `more` says that rows are left out."""
    names = table.column_names
    if as_json:
        if len(set(names)) < len(names):
            raise InvalidArgumentError("two columns have one name, which JSON can't show: give them names with AS")
        print_json(table.to_pylist(maps_as_pydicts="strict"))
        return
    # By position, since column names may occur twice.
    columns = [column.to_pylist(maps_as_pydicts="strict") for column in table.columns]
    console = Console()
    if table.num_rows == 1 and len(names) > _ACROSS:
        grid = Table.grid(padding=(0, 2))
        for name, column in zip(names, columns, strict=True):
            grid.add_row(Text(name, style="bold"), _cell(column[0]))
        console.print(grid)
    else:
        _table(names, list(zip(*columns, strict=True)))
    if more:
        console.print(f"the first {table.num_rows:,} rows; --limit 0 prints all", style="dim")


def dry_run(result: DryRun, *, as_json: bool) -> None:
    """Prints the planned changes of a statement."""
    if as_json:
        print_json(result.to_dict())
    else:
        print(result)


def head(columns: pa.Schema, rows: list[dict[str, Any]], *, as_json: bool) -> None:
    """Prints rows."""
    if as_json:
        print_json(rows)
        return
    _table(columns.names, [[row[name] for name in columns.names] for row in rows])
