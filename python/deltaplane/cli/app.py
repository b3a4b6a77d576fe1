"""The commands: each reads its arguments, queries one table, and prints the answer as rich text or as JSON.

Uses the public API only. An expected failure is one line on stderr and exit code 1.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from deltaplane import DeltaError, DeltaTable, __version__
from deltaplane.cli import cache, progress, render
from deltaplane.cli.advise import advise, maintain
from deltaplane.cli.arguments import AsJson, Limit, Location, StoreOptions, Version, Where, open_table, store_options
from deltaplane.cli.check import check, repair
from deltaplane.cli.clone import clone
from deltaplane.cli.convert import convert
from deltaplane.cli.diff import diff
from deltaplane.cli.optimize import optimize
from deltaplane.cli.report import report
from deltaplane.cli.restore import restore
from deltaplane.cli.vacuum import vacuum

__all__ = ["app", "run"]

app = typer.Typer(
    name="deltaplane",
    help="Inspects and maintains Delta tables. Every command except cache and demo takes a path or a URL such as s3://bucket/table.",
    add_completion=False,
    pretty_exceptions_enable=False,
)

app.add_typer(cache.app)

for command in (advise, maintain, report, optimize, vacuum, restore, clone, convert, diff, check, repair):
    app.command()(command)


def run(arguments: Sequence[str]) -> int:
    """Runs one command and returns its exit code."""
    try:
        code = app(args=list(arguments) or ["--help"], standalone_mode=False, prog_name="deltaplane")
    except typer.Abort:
        return 130
    except BrokenPipeError:
        # The reader of our output has seen enough.
        return 0
    except typer.Exit as e:
        return e.exit_code
    except (DeltaError, TypeError, ImportError) as e:
        return _fail(str(e))
    except Exception as e:
        # typer's own click may be a private copy, so its usage errors are known by their shape.
        message = getattr(e, "format_message", None)
        if message is None:
            raise
        return _fail(f"{message()} (try --help)")
    return code if isinstance(code, int) else 0


def _fail(message: str) -> int:
    print(f"deltaplane: {' '.join(message.split())}", file=sys.stderr)
    return 1


def _show_version(value: bool) -> None:
    if value:
        print(__version__)
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", help="Print deltaplane's version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Inspects and maintains Delta tables."""


@app.command()
def info(location: Location, version: Version = None, option: StoreOptions = None, json: AsJson = False) -> None:
    """Prints the table's version, size, columns, partitions, properties and protocol."""
    table = open_table(location, version, option)
    render.info(_facts(table), as_json=json)


def _facts(table: DeltaTable) -> dict[str, Any]:
    metadata, protocol = table.metadata(), table.protocol()
    files = table._files()
    records = files["num_records"]
    return {
        "table": table.table_uri,
        "version": table.version(),
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "created_time": metadata.created_time,
        "columns": len(table.schema().fields),
        "partition_columns": metadata.partition_columns,
        "files": files.num_rows,
        "size_bytes": sum(files["size_bytes"].to_pylist()),
        "rows": None if records.null_count else sum(records.to_pylist()),
        "configuration": metadata.configuration,
        "protocol": protocol._asdict(),
    }


@app.command()
def detail(location: Location, version: Version = None, option: StoreOptions = None, json: AsJson = False) -> None:
    """Prints the row of DESCRIBE DETAIL."""
    (row,) = open_table(location, version, option).detail().to_pylist(maps_as_pydicts="strict")
    render.facts(row, as_json=json)


@app.command()
def history(
    location: Location,
    version: Version = None,
    option: StoreOptions = None,
    limit: Limit = None,
    json: AsJson = False,
) -> None:
    """Lists the commits and their operations, newest first."""
    if version is None:
        entries = DeltaTable.history_of(location, limit, store_options(option))
    else:
        entries = open_table(location, version, option).history(limit)
    render.history(entries, as_json=json)


@app.command()
def files(
    location: Location,
    version: Version = None,
    option: StoreOptions = None,
    where: Where = None,
    limit: Limit = None,
    json: AsJson = False,
) -> None:
    """Lists the data files, or those that can have rows that match a condition."""
    table = open_table(location, version, option)
    actions = table._files()
    shown = [name for name in ("path", "size_bytes", "num_records", "partition") if name in actions.column_names]
    rows = actions.select(shown).to_pylist()
    if where is not None:
        kept = set(table.files(where))
        rows = [row for row in rows if row["path"] in kept]
    render.files(rows[:limit], len(rows), as_json=json)


@app.command()
def schema(location: Location, version: Version = None, option: StoreOptions = None, json: AsJson = False) -> None:
    """Prints the columns with their types."""
    table = open_table(location, version, option)
    render.schema(table.schema(), table.metadata().partition_columns, as_json=json)


@app.command()
def head(
    location: Location,
    version: Version = None,
    option: StoreOptions = None,
    rows: Annotated[int, typer.Option("--rows", "-n", min=1, help="Number of rows.")] = 10,
    column: Annotated[
        list[str] | None, typer.Option("--column", "-c", help="A column; may be repeated.", show_default="all")
    ] = None,
    where: Where = None,
    json: AsJson = False,
) -> None:
    """Prints the first rows of a scan."""
    scan = open_table(location, version, option).scan(column, where)
    found: list[dict[str, Any]] = []
    for batch in scan.batches():
        found += batch.slice(0, rows - len(found)).to_pylist()
        if len(found) >= rows:
            break
    render.head(scan.schema, found, as_json=json)


@app.command()
def compat(
    location: Location,
    version: Version = None,
    option: StoreOptions = None,
    property: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Show which engines setting this property would exclude; may be repeated.",
            show_default=False,
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Lists which engines, in which versions, can read and write the table."""
    pairs = [text.partition("=") for text in property or []]
    if any(not (key and equals) for key, equals, _ in pairs):
        raise typer.BadParameter("give properties as --set key=value")
    properties = {key: value for key, _, value in pairs} or None
    render.compat(open_table(location, version, option).compatibility(properties), as_json=json)


@app.command()
def sql(
    statement: Annotated[str, typer.Argument(help="One statement in Spark SQL, such as SELECT or MERGE.")],
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table", "-t", metavar="NAME=LOCATION", help="A name for a table; may be repeated.", show_default=False
        ),
    ] = None,
    option: StoreOptions = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Write nothing; report what INSERT, UPDATE, DELETE, MERGE or REORG would do."),
    ] = False,
    json: AsJson = False,
) -> None:
    """Runs a Spark SQL statement; a table is delta.`location` or a name defined by --table."""
    from deltaplane.statements import sql as run_sql

    pairs = [text.partition("=") for text in table or []]
    if any(not (name and equals) for name, equals, _ in pairs):
        raise typer.BadParameter("give tables as -t name=location")
    tables = {name: location for name, _, location in pairs}
    options = store_options(option)
    if dry_run:
        render.dry_run(run_sql(statement, tables=tables, storage_options=options, dry_run=True), as_json=json)
    else:
        with progress.shown():
            found = run_sql(statement, tables=tables, storage_options=options)
        render.rows(found, as_json=json)


@app.command()
def checkpoint(location: Location, version: Version = None, option: StoreOptions = None, json: AsJson = False) -> None:
    """Writes a checkpoint of the version, so that opening the table reads no older commits."""
    table = open_table(location, version, option)
    report = table._checkpoint()
    shown = {"table": table.table_uri, "checkpoint": report["version"]}
    shown |= {name: report[name] for name in ("kind", "actions", "size_bytes")}
    if report["sidecars"]:
        shown |= {name: report[name] for name in ("sidecars", "kept_sidecars")}
    render.facts(shown, as_json=json)


@app.command()
def demo(
    path: Annotated[
        Path | None,
        typer.Option(help="An empty or new directory, which is not deleted afterwards.", show_default="temporary"),
    ] = None,
    days: Annotated[int, typer.Option(min=7, max=60, help="Number of daily deliveries.")] = 10,
    rows: Annotated[int, typer.Option(min=100, max=1_000_000, help="Approximate number of bookings a day.")] = 4_000,
) -> None:
    """Loads a bank's daily files into a Delta table through Spark, and reads them with and without Spark."""
    from deltaplane.demo import run as run_demo

    if not run_demo(path, days=days, rows=rows):
        raise typer.Exit(1)
