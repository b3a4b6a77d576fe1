"""`deltaplane optimize`: rewrites files so that queries read less."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, Location, StoreOptions, Where, open_table

__all__ = ["optimize"]

EXAMPLES = ("deltaplane optimize /data/orders -z customer -z day",)


def optimize(
    location: Location,
    option: StoreOptions = None,
    where: Where = None,
    zorder: Annotated[
        list[str] | None,
        typer.Option("--zorder", "-z", help="A column to order rows by; may be repeated.", show_default=False),
    ] = None,
    curve: Annotated[str, typer.Option(help="Order of the rows: zorder, hilbert or kdtree.")] = "zorder",
    full: Annotated[bool, typer.Option("--full", help="Also rewrite files that are already ordered.")] = False,
    target_size: Annotated[
        int | None,
        typer.Option(
            min=1, help="Target size of files, in bytes.", show_default="the table's property, or by the table's size"
        ),
    ] = None,
    memory_limit: Annotated[
        str | None, typer.Option(help="Maximum memory for sorting, such as 500MB.", show_default="256MiB")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Report what would be done, without doing it.")] = False,
    json: AsJson = False,
) -> None:
    """Rewrites files so that queries read less: joins small files, or orders rows."""
    optimizer = open_table(location, None, option).optimize
    with render.progress("optimize", shown=not (json or dry_run)) as advance:
        named: dict[str, Any] = {
            "target_size": target_size,
            "memory_limit": memory_limit,
            "full": full,
            "dry_run": dry_run,
            "progress": lambda p: advance(p.bytes_done, p.bytes),
        }
        if zorder:
            done = optimizer.z_order(zorder, where, curve=curve, **named)  # type: ignore[arg-type]
        else:
            done = optimizer.compact(where, **named)
    shown = ["numFilesToRewrite", "numBytesToRewrite", "totalConsideredFiles", "targetFileSize"]
    if not dry_run:
        shown = ["numFilesRemoved", "numFilesAdded", "partitionsOptimized", "totalFilesSkipped", "versions"]
    facts: Mapping[str, Any] = done
    render.facts(facts if json else {name: facts[name] for name in shown}, as_json=json)
