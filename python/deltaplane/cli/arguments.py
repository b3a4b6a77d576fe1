"""The arguments that several commands share, and functions that open the named table.

Uses the public API only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deltaplane import DeltaTable

__all__ = [
    "AsJson",
    "DryRun",
    "Limit",
    "Location",
    "LongStoreOptions",
    "PredicatesFile",
    "StoreOptions",
    "Version",
    "Where",
    "open_table",
    "store_options",
    "version_of",
]

Location = Annotated[str, typer.Argument(help="The table's path or URL.", show_default=False)]
Version = Annotated[
    str | None,
    typer.Option("--version", "-v", help="A version number, or an ISO 8601 timestamp (UTC).", show_default="newest"),
]
StoreOptions = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", metavar="KEY=VALUE", help="A storage option; may be repeated.", show_default=False),
]
# For commands in which `-o` names an output file.
LongStoreOptions = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="KEY=VALUE", help="A storage option; may be repeated.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Report what would be done, without doing it.")]
Limit = Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Maximum number.", show_default="all")]
Where = Annotated[
    str | None, typer.Option("--where", "-w", help="A condition in Spark SQL.", show_default=False, metavar="SQL")
]

PredicatesFile = Annotated[
    Path | None,
    typer.Option(
        "--predicates",
        "-p",
        metavar="FILE",
        help='File with the workload, one predicate a line: SQL, or JSON such as {"predicate": "x = 1", "weight": 2}.',
        show_default=False,
    ),
]


def version_of(text: str) -> int | str:
    """Parses a version number; other text is passed on as a timestamp."""
    return int(text) if text.strip().isdecimal() else text


def open_table(location: str, version: str | None, options: list[str] | None) -> DeltaTable:
    """Opens the table at the requested version."""
    wanted = None if version is None else version_of(version)
    return DeltaTable(location, version=wanted, storage_options=store_options(options))


def store_options(options: list[str] | None) -> dict[str, str] | None:
    """Parses the storage options to a dict; None without any."""
    pairs = [option.partition("=") for option in options or []]
    if any(not (key and equals) for key, equals, _ in pairs):
        # The text may contain a part of a secret, so it is not shown.
        raise typer.BadParameter("give storage options as -o key=value")
    return {key: value for key, _, value in pairs} or None
