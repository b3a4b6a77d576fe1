"""`deltaplane convert`: turns a directory of Parquet files into a table.

Uses the public API only.
"""

from __future__ import annotations

from typing import Annotated

import typer

from deltaplane import DeltaTable, convert_to_deltalake
from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, DryRun, Location, StoreOptions, store_options
from deltaplane.schema import Field, PrimitiveType, Schema

__all__ = ["convert"]

EXAMPLES = ("deltaplane convert /data/parquet -p day:date",)


def convert(
    location: Location,
    partition: Annotated[
        list[str] | None,
        typer.Option(
            "--partition",
            "-p",
            metavar="COLUMN:TYPE",
            help="A partition column; may be repeated.",
            show_default=False,
        ),
    ] = None,
    no_statistics: Annotated[
        bool, typer.Option("--no-statistics", help="Read footers only, and write no statistics.")
    ] = False,
    dry_run: DryRun = False,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Turns a directory of Parquet files into a table, without moving them."""
    pairs = [text.rpartition(":") for text in partition or []]
    if any(not (column and kind) for column, _, kind in pairs):
        raise typer.BadParameter("give partition columns as -p column:type")
    options = store_options(option)
    columns = Schema([Field(column, PrimitiveType(kind)) for column, _, kind in pairs]) if pairs else None
    with render.counts("convert", shown=not json) as advance:
        would = convert_to_deltalake(
            location,
            partition_by=columns,
            partition_strategy="hive" if pairs else None,
            storage_options=options,
            collect_stats=not no_statistics,
            dry_run=dry_run,
            progress=lambda p: advance("reading", p.files_done, p.files),
        )
    if would is not None:
        names = [field.name for field in would.schema.fields]
        counts = {
            "table": location,
            "files": would.files,
            "columns": names,
            "partition_columns": list(would.partition_columns),
        }
        render.facts(counts, as_json=json)
        return
    table = DeltaTable(location, storage_options=options)
    files = table.history(1)[0]["operationParameters"]["numFiles"]
    render.facts({"table": table.table_uri, "version": table.version(), "files": int(files)}, as_json=json)
