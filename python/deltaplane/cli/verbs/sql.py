"""`deltaplane sql`: runs one statement.

Uses the public API only.
"""

from __future__ import annotations

from typing import Annotated

import typer

from deltaplane.cli import progress, render
from deltaplane.cli.arguments import AsJson, StoreOptions, store_options

__all__ = ["sql"]


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
            result = run_sql(statement, tables=tables, storage_options=options)
        render.rows(result, as_json=json)
