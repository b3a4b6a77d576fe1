"""The arguments that several commands share, and functions that open the named table.

Uses the public API only.
"""

from __future__ import annotations

import sys
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
    "Yes",
    "asks",
    "confirm",
    "open_table",
    "pairs",
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

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking on a terminal.")]


def asks(yes: bool) -> bool:
    """Whether a command asks before it deletes: on a terminal, unless --yes is given. Without a
    terminal nobody can answer."""
    return not yes and sys.stdin.isatty()


def confirm(question: str, yes: bool) -> None:
    """Asks where a command asks, and ends the command unless the answer is yes."""
    if asks(yes):
        typer.confirm(question, abort=True, err=True)


def version_of(text: str) -> int | str:
    """Parses a version number; other text is passed on as a timestamp."""
    return int(text) if text.strip().isdecimal() else text


def open_table(location: str, version: str | None, options: list[str] | None) -> DeltaTable:
    """Opens the table at the requested version."""
    wanted = None if version is None else version_of(version)
    return DeltaTable(location, version=wanted, storage_options=store_options(options))


def store_options(options: list[str] | None) -> dict[str, str] | None:
    """Parses the storage options to a dict; None without any."""
    return pairs(options, "storage options", "-o key=value") or None


def pairs(texts: list[str] | None, what: str, form: str) -> dict[str, str]:
    """Parses texts of a name and a value to a dict.

    Raises:
        typer.BadParameter: a text without a name or the sign; it isn't shown, since it may contain
            a part of a secret.
    """
    split = [text.partition("=") for text in texts or []]
    if any(not (name and equals) for name, equals, _ in split):
        raise typer.BadParameter(f"give {what} as {form}")
    return {name: value for name, _, value in split}
