"""`deltaplane create`: creates a table without rows.

Uses the public API only.
"""

from __future__ import annotations

from typing import Annotated

import typer

from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, Location, StoreOptions, pairs, store_options

__all__ = ["create"]

EXAMPLES = ('deltaplane create /data/orders "id BIGINT NOT NULL, day DATE, amount DECIMAL(10,2)" -p day',)


def create(
    location: Location,
    columns: Annotated[str, typer.Argument(help="The columns in Spark SQL, such as 'id BIGINT NOT NULL, day DATE'.")],
    partition_by: Annotated[
        list[str] | None,
        typer.Option("--partition-by", "-p", metavar="COLUMN", help="A partition column; may be repeated."),
    ] = None,
    cluster_by: Annotated[
        list[str] | None,
        typer.Option("--cluster-by", "-c", metavar="COLUMN", help="A clustering column; may be repeated."),
    ] = None,
    property: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="KEY=VALUE", help="A table property; may be repeated."),
    ] = None,
    comment: Annotated[str | None, typer.Option(help="The table's comment.", show_default=False)] = None,
    if_missing: Annotated[bool, typer.Option("--if-not-exists", help="Leave an existing table as it is.")] = False,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Creates a table without rows."""
    from deltaplane.cli.statement_texts import name, table
    from deltaplane.expr.values import text_literal
    from deltaplane.statements import sql

    clauses = [f"CREATE TABLE{' IF NOT EXISTS' if if_missing else ''} {table(location)} ({columns}) USING DELTA"]
    for words, names in (("PARTITIONED BY", partition_by), ("CLUSTER BY", cluster_by)):
        if names:
            clauses.append(f"{words} ({', '.join(map(name, names))})")
    if comment is not None:
        clauses.append(f"COMMENT {text_literal(comment)}")
    if properties := pairs(property, "properties", "--property key=value"):
        clauses.append(
            f"TBLPROPERTIES ({', '.join(f'{text_literal(k)} = {text_literal(v)}' for k, v in properties.items())})"
        )
    render.rows(sql(" ".join(clauses), storage_options=store_options(option)).to_arrow(), as_json=json)
