"""`deltaplane sql`: runs one statement.

Uses the public API only.
"""

from __future__ import annotations

import json as json_values
import sys
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

from deltaplane.cli import progress, render
from deltaplane.cli.arguments import AsJson, StoreOptions, pairs, store_options

__all__ = ["sql"]

EXAMPLES = (
    'deltaplane sql "SELECT * FROM t WHERE id = :id" -t t=/data/orders -a id=7',
    "deltaplane sql -f nightly.sql -t t=/data/orders",
)
_ROWS_ON_A_TERMINAL = 1000


def sql(
    statement: Annotated[
        str | None, typer.Argument(help="One statement in Spark SQL, such as SELECT or MERGE.", show_default=False)
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", "-f", metavar="FILE", help="Read the statement from a file; - is stdin.", show_default=False
        ),
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table", "-t", metavar="NAME=LOCATION", help="A name for a table; may be repeated.", show_default=False
        ),
    ] = None,
    catalog: Annotated[
        str | None,
        typer.Option(help="A catalog, such as sqlite:///lake.db, with further tables.", show_default=False),
    ] = None,
    arg: Annotated[
        list[str] | None,
        typer.Option(
            "--arg",
            "-a",
            metavar="NAME=VALUE",
            help="The value of the parameter :NAME, as JSON, else as text; may be repeated.",
            show_default=False,
        ),
    ] = None,
    option: StoreOptions = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            "-n",
            min=0,
            help="Maximum number of printed rows; 0 prints all.",
            show_default="1000 on a terminal",
        ),
    ] = None,
    memory_limit: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Memory, such as 2GB, beyond which rows go to disk.", show_default=False),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Write nothing; report what INSERT, UPDATE, DELETE, MERGE or REORG would do."),
    ] = False,
    json: AsJson = False,
) -> None:
    """Runs a Spark SQL statement; a table is delta.`location`, or named by --table or --catalog."""
    from deltaplane.statements import sql as run_sql

    text, tables = _text(statement, file), pairs(table, "tables", "-t name=location")
    args = {name: _value(value) for name, value in pairs(arg, "parameters", "-a name=value").items()} or None
    options = store_options(option)
    if dry_run:
        done = run_sql(text, args=args, tables=tables, storage_options=options, catalog=catalog, dry_run=True)
        render.dry_run(done, as_json=json)
        return
    with progress.shown():
        result = run_sql(
            text, args=args, tables=tables, storage_options=options, catalog=catalog, memory_limit=memory_limit
        )
    most = limit if limit is not None else _ROWS_ON_A_TERMINAL if sys.stdout.isatty() and not json else 0
    shown, more = _first(result.to_reader(), most)
    render.rows(shown, as_json=json, more=more)


def _text(statement: str | None, file: Path | None) -> str:
    if (statement is None) == (file is None):
        raise typer.BadParameter("give one statement, as an argument or by --file")
    if file is None:
        return statement or ""
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise typer.BadParameter(f"the file of the statement can't be read: {e}") from e


def _value(text: str) -> Any:
    """A JSON value, with all digits of its numbers; other text as it is."""
    from decimal import Decimal

    try:
        return json_values.loads(text, parse_float=Decimal)
    except ValueError:
        return text


def _first(reader: pa.RecordBatchReader, most: int) -> tuple[pa.Table, bool]:
    """The first rows of a result, all for 0, and whether there are more."""
    batches, left = [], most
    for batch in reader:
        if most and batch.num_rows > left:
            batches.append(batch.slice(0, left))
            return pa.Table.from_batches(batches, reader.schema), True
        batches.append(batch)
        left -= batch.num_rows
    return pa.Table.from_batches(batches, reader.schema), False
