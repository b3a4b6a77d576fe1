"""`deltaplane copy-into`: loads files of a directory into a table, each of them once.

Uses the public API only.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, Location, StoreOptions, pairs, store_options

__all__ = ["copy_into"]

EXAMPLES = (
    "deltaplane copy-into /data/orders s3://drop/orders csv --pattern '2024-*.csv' --format-option header=true",
)


def copy_into(
    location: Location,
    source: Annotated[str, typer.Argument(help="The directory of the files, a path or URL.", show_default=False)],
    file_format: Annotated[str, typer.Argument(metavar="FORMAT", help="parquet, csv or json.", show_default=False)],
    pattern: Annotated[
        str | None, typer.Option(metavar="GLOB", help="Load only files whose paths match.", show_default=False)
    ] = None,
    format_option: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="An option of the format, such as header=true; may be repeated."),
    ] = None,
    merge_schema: Annotated[bool, typer.Option("--merge-schema", help="Add columns that the table lacks.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Load files again that were loaded before.")] = False,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Loads the files of a directory that weren't loaded before, in one commit."""
    from deltaplane import copy_into as load

    chosen = {name: True for name, on in (("mergeSchema", merge_schema), ("force", force)) if on}
    options = store_options(option)
    done = load(
        location,
        source,
        file_format,
        pattern=pattern,
        format_options=pairs(format_option, "options of the format", "--format-option key=value"),
        copy_options=chosen,
        storage_options=options,
        source_storage_options=options,
    )
    render.facts(asdict(done), as_json=json)
