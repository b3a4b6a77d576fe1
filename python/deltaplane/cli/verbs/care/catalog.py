"""`deltaplane catalog`: a catalog's names, its server, and checks of its tables.

Uses the public API only.
"""

from __future__ import annotations

import signal
import sys
import threading
from typing import Annotated

import typer

from deltaplane.catalogs import Catalog
from deltaplane.catalogs.table_checks import Finding, backfill_tables, check_tables, repair_tables
from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, StoreOptions, store_options
from deltaplane.exceptions import InvalidArgumentError

__all__ = ["app"]

EXAMPLES = (
    "deltaplane catalog list sqlite:///lake.db main.sales",
    "deltaplane catalog serve sqlite:///lake.db --address 127.0.0.1:8080",
    "deltaplane catalog check sqlite:///lake.db",
)

app = typer.Typer(
    name="catalog",
    help="Names of tables: lists and changes them, serves a catalog in a database, checks its tables.",
    pretty_exceptions_enable=False,
)

Uri = Annotated[
    str,
    typer.Argument(
        metavar="CATALOG", help="https://host, http://host:port, sqlite:///path or postgresql://host/database."
    ),
]
Name = Annotated[str, typer.Argument(help="A name: catalog, catalog.schema or catalog.schema.table.")]
Within = Annotated[
    str | None, typer.Argument(help="A catalog or a schema; only its tables.", show_default="all", metavar="NAME")
]
Comment = Annotated[str | None, typer.Option(help="A comment.", show_default=False)]
Root = Annotated[
    str | None,
    typer.Option("--storage-root", help="Where the files of managed tables are.", show_default=False),
]


def _catalog(uri: str, options: list[str] | None, storage_root: str | None = None) -> Catalog:
    return Catalog(uri, storage_options=store_options(options), storage_root=storage_root)


@app.command("list")
def list_names(uri: Uri, name: Within = None, option: StoreOptions = None, json: AsJson = False) -> None:
    """Lists catalogs; with a name the schemas of a catalog, or the tables of a schema."""
    catalog = _catalog(uri, option)
    match len(name.split(".")) if name else 0:
        case 0:
            rows = [{"name": each} for each in catalog.catalogs()]
        case 1:
            rows = [{"name": each} for each in catalog.schemas(name)]
        case 2:
            shown = ("full_name", "table_type", "format", "location")
            rows = [{k: catalog.info(each)[k] for k in shown} for each in catalog.tables(str(name))]
        case _:
            rows = [catalog.info(str(name))]
    render.records(rows, as_json=json)


@app.command()
def create(
    uri: Uri,
    name: Name,
    comment: Comment = None,
    storage_root: Root = None,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Creates a catalog or a schema."""
    catalog = _catalog(uri, option)
    match len(name.split(".")):
        case 1:
            catalog.create_catalog(name, comment, storage_root)
        case 2:
            catalog.create_schema(name, comment, storage_root)
        case _:
            raise InvalidArgumentError(
                f"{name} isn't the name of a catalog or a schema: SQL's CREATE TABLE creates tables"
            )
    render.facts({"created": name}, as_json=json)


@app.command()
def register(
    uri: Uri,
    name: Name,
    location: Annotated[str, typer.Argument(help="The table's path or URL.")],
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Gives an existing table a name, as an external table."""
    table = _catalog(uri, option).register(name, location)
    render.facts({"registered": name, "location": table.table_uri}, as_json=json)


@app.command()
def rename(
    uri: Uri,
    name: Name,
    new_name: Annotated[str, typer.Argument(help="The new name, of one part.")],
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Renames a table within its schema."""
    _catalog(uri, option).rename(name, new_name)
    render.facts({"renamed": name, "name": new_name}, as_json=json)


@app.command()
def drop(
    uri: Uri,
    name: Name,
    force: Annotated[bool, typer.Option("--force", help="Drop all that is in a catalog or schema, too.")] = False,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Drops a table, a schema or a catalog; files of tables stay."""
    _catalog(uri, option).drop(name, force=force)
    render.facts({"dropped": name}, as_json=json)


@app.command()
def token(
    uri: Uri,
    principal: Annotated[str, typer.Argument(help="Whose token it is.")],
    grant: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ACCESS[:NAME]",
            help="READ, WRITE or MANAGE, on everything or on a catalog or schema; may be repeated.",
            show_default=False,
        ),
    ] = None,
    revoke: Annotated[bool, typer.Option("--revoke", help="Revoke the principal's tokens instead.")] = False,
    option: StoreOptions = None,
) -> None:
    """Prints a new token for servers of a catalog in a database, which stores its digest only."""
    catalog = _catalog(uri, option)
    if revoke:
        print(catalog.revoke_tokens(principal))
        return
    for text in grant or []:
        right, _, name = text.partition(":")
        catalog.grant(principal, right.upper(), name or None)
    print(catalog.create_token(principal))


@app.command()
def serve(
    uri: Uri,
    address: Annotated[str, typer.Option(help="Host and port to listen at; port 0 for a free one.")] = "127.0.0.1:8080",
    anonymous: Annotated[
        bool, typer.Option("--anonymous", help="No tokens: everybody has all rights. For loopback addresses only.")
    ] = False,
    storage_root: Root = None,
    option: StoreOptions = None,
) -> None:
    """Serves a catalog in a database by Unity Catalog's open APIs until SIGTERM or SIGINT, then
    waits for running requests. Prints its URL; /health and /metrics need no token."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    server = _catalog(uri, option, storage_root).serve(address, tokens=not anonymous)
    print(f"http://{server.address}", flush=True)
    # A wait without a time limit would not be interrupted by signals on all platforms.
    while not stopping.wait(1.0):
        pass
    server.stop()


@app.command()
def check(uri: Uri, name: Within = None, option: StoreOptions = None, json: AsJson = False) -> None:
    """Compares the catalog with the tables' files; exits with 1 if they disagree."""
    _report(check_tables(_catalog(uri, option), name), json)


@app.command()
def repair(uri: Uri, name: Within = None, option: StoreOptions = None, json: AsJson = False) -> None:
    """Checks, publishes what is unpublished, and tells the catalog; exits with 1 if something is
    left."""
    _report(repair_tables(_catalog(uri, option), name), json)


@app.command()
def backfill(uri: Uri, name: Within = None, option: StoreOptions = None, json: AsJson = False) -> None:
    """Publishes the commits that only the catalog has, so that all engines see them in the log."""
    rows = [{"table": table, "published": version} for table, version in backfill_tables(_catalog(uri, option), name)]
    render.records(rows, as_json=json)


def _report(findings: list[Finding], json: bool) -> None:
    render.records([{"table": f.table, "problem": f.problem, "advice": f.advice} for f in findings], as_json=json)
    if any(finding.is_wrong for finding in findings):
        sys.stdout.flush()
        raise typer.Exit(1)
