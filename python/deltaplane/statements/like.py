"""CREATE TABLE [IF NOT EXISTS] table LIKE source [USING delta] [TBLPROPERTIES (…)] [LOCATION …]: a table without rows that is
defined as another one. `create` reads what comes before LIKE.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from deltaplane.described import clustering_columns
from deltaplane.properties import ToldAs
from deltaplane.queries.grammar import Grammar
from deltaplane.queries.sources import Catalog
from deltaplane.queries.syntax import TableName
from deltaplane.schema import Schema
from deltaplane.shown_schema import without_notes
from deltaplane.statements.columns import properties, refuse_reserved
from deltaplane.statements.statement import Session, one_row
from deltaplane.table import DeltaTable

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["OWN_PROPERTIES", "CreateLike", "read_like"]

# What writers keep about one table's own columns and versions.
OWN_PROPERTIES = (
    "delta.columnMapping.maxColumnId",
    "delta.requireCheckpointProtectionBeforeVersion",
    "delta.rowTracking.materialized",
)


@dataclass
class CreateLike:
    """The new table's place, and the table that it is to be like."""

    source: TableName
    mode: Literal["error", "ignore"]
    place: Callable[[Catalog], str]
    properties: dict[str, str] = field(default_factory=dict)
    location: str | None = None
    # Whether a catalog chose the place.
    managed: bool = False

    def run(self, session: Session) -> pa.Table:
        """Makes the table in one commit, with the source's columns, partitions, clustering, comment and properties."""
        location, options = self.location or self.place(session.catalog), session.catalog.storage_options
        source = session.catalog.table(self.source)
        if self.mode == "ignore" and DeltaTable.is_deltatable(location, options):
            return one_row(operation="CREATE TABLE", version=None)
        metadata = source.metadata()
        kept = {k: v for k, v in metadata.configuration.items() if not k.startswith(OWN_PROPERTIES)}
        made = DeltaTable.create(
            location,
            Schema.from_json(json.dumps(without_notes(json.loads(source.schema().to_json())))),
            self.mode,
            metadata.partition_columns or None,
            description=metadata.description,
            configuration={**kept, **self.properties},
            storage_options=options,
            cluster_by=clustering_columns(source) or None,
            told_as=ToldAs.definition("CREATE TABLE", fills=False, managed=self.managed),
        )
        return one_row(operation="CREATE TABLE", version=made.version())


def read_like(cursor: Grammar, mode: Any, place: Callable[[Catalog], str]) -> CreateLike:
    """What comes from LIKE on."""
    token = cursor.at
    cursor.expect("like")
    if mode == "overwrite":
        cursor.wrong(
            "expected another statement: a table that is there isn't replaced by LIKE", cursor.tokens[token].start
        )
    made = CreateLike(cursor.table(alias=False), mode, place)
    while True:
        if cursor.take("using"):
            if cursor.peek() not in ("delta", "deltaplane"):
                cursor.expected("DELTA")
            cursor.at += 1
        elif cursor.take("tblproperties"):
            token, made.properties = cursor.at, properties(cursor)
            refuse_reserved(cursor, token, made.properties)
        elif cursor.take("location"):
            made.location = cursor.text("a location")
        else:
            return made
