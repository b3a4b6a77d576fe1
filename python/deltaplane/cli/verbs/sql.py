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
    catalog: Annotated[
        str | None,
        typer.Option(help="A catalog, such as sqlite:///lake.db, with further tables.", show_default=False),
    ] = None,
    option: StoreOptions = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Write nothing; report what INSERT, UPDATE, DELETE, MERGE or REORG would do."),
    ] = False,
    json: AsJson = False,
) -> None:
    """Runs a Spark SQL statement; a table is delta.`location`, or named by --table or --catalog."""
    from deltaplane.statements import sql as run_sql

    pairs = [text.partition("=") for text in table or []]
    if any(not (name and equals) for name, equals, _ in pairs):
        raise typer.BadParameter("give tables as -t name=location")
    tables = {name: location for name, _, location in pairs}
    options = store_options(option)
    if dry_run:
        planned = run_sql(statement, tables=tables, storage_options=options, catalog=catalog, dry_run=True)
        render.dry_run(planned, as_json=json)
    else:
        with progress.shown():
            result = run_sql(statement, tables=tables, storage_options=options, catalog=catalog)
        render.rows(result, as_json=json)
