"""`deltaplane cache`: prints the contents of the local cache, and empties it.

Uses the public API only.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from deltaplane.cli import render
from deltaplane.io import cache

__all__ = ["app"]

EXAMPLES = ("deltaplane cache info",)

app = typer.Typer(name="cache", help="The local cache of log and data files.", pretty_exceptions_enable=False)

Directory = Annotated[
    Path | None, typer.Option(help="The cache's directory.", show_default="the environment's DELTAPLANE_CACHE_DIR")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def info(path: Directory = None, json: AsJson = False) -> None:
    """Prints the cache's entries and bytes, by table."""
    usage = cache.cache_info(path)
    render.cache({**asdict(usage), "path": str(usage.path)}, as_json=json)


@app.command()
def clear(path: Directory = None, json: AsJson = False) -> None:
    """Deletes all entries of the cache; programs that use it fill it again."""
    freed = cache.clear_cache(path)
    render.facts({"freed_bytes": freed} if json else {"freed": render.bytes_text(freed)}, as_json=json)
